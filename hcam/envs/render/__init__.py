"""Pixels: tile sprites, drawn in strips."""
