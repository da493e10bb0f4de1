"""Pixels: tile sprites, and the first-person ray caster."""
