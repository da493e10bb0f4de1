"""Episodes for the eye."""
