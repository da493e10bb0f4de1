"""How an agent stores pixels: bytes with a sign, in patches of a size that matrix units want."""

import jax
import jax.numpy as jnp

from hcam.types import Array

ZERO_POINT = 128  # subtracted from bytes to make them signed


def to_signed(pixels: Array) -> Array:
    """Bytes minus 128, as int8, which XLA's products read directly; it converts uint8 in a pass of its own."""
    if pixels.dtype != jnp.uint8:
        return pixels
    return jax.lax.bitcast_convert_type(pixels ^ jnp.uint8(ZERO_POINT), jnp.int8)


def dequantize(high: float, seen: Array) -> Array:
    """Stored pixels as they were, from 0 to 1 in float32."""
    pixels: Array = (seen.astype(jnp.float32) + zero_point(seen)) * jnp.float32(1 / high)
    return pixels


def zero_point(seen: Array) -> int:
    """What has to be added to stored pixels so that black is 0."""
    return ZERO_POINT if seen.dtype == jnp.int8 else 0


def pad_patch(x: Array, axis: int) -> Array:
    """Zeros up to a multiple of 16, which matrix units want; patches of up to 16 stay as they are."""
    size = x.shape[axis]
    missing = [(0, 0)] * x.ndim
    missing[axis] = (0, 0 if size <= 16 else -size % 16)
    return jnp.pad(x, missing)
