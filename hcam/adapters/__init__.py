"""The memories inside other people's frameworks, one small file each."""
