"""Stored pixels: no value is lost, and patches have the sizes that matrix units want."""

import jax.numpy as jnp
import numpy as np
import pytest

from hcam.agent import pixels


def test_dequantized_pixels_are_the_pixels():
    """Of bytes with a sign, of bytes without, and of numbers."""
    byte_c = jnp.arange(256).astype(jnp.uint8)
    for kept_c in (byte_c, pixels.to_signed(byte_c), byte_c.astype(jnp.float32)):
        np.testing.assert_allclose(pixels.dequantize(255, kept_c), np.arange(256) / 255, rtol=1e-6)
    assert pixels.to_signed(byte_c).dtype == jnp.int8


@pytest.mark.parametrize(("size", "expected"), [(1, 1), (3, 3), (16, 16), (17, 32), (27, 32), (243, 256), (256, 256)])
def test_patches_are_padded_to_multiples_of_sixteen(size, expected):
    assert pixels.pad_patch(jnp.zeros((2, size)), axis=-1).shape == (2, expected)
