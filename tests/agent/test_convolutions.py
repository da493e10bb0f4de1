"""Convolutions over blocks of pixels against the library's own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.agent import convolutions


def drawn(shape, size, outs=5):
    rng = np.random.default_rng(0)
    x_hwc, weight = rng.normal(size=shape), rng.normal(size=(size, size, shape[-1], outs))
    return jnp.asarray(x_hwc, jnp.float32), jnp.asarray(weight, jnp.float32)


@pytest.mark.parametrize(
    ("shape", "size", "stride"), [((8, 6, 3), 3, 2), ((2, 2, 4), 3, 2), ((4, 10, 1), 3, 2), ((6, 9, 1), 4, 3)]
)
def test_a_convolution_of_blocks_is_that_of_pixels_and_so_are_its_gradients(shape, size, stride):
    assert convolutions.fits_blocks(shape, size, stride)
    x_hwc, weight = drawn(shape, size)

    def ours(weight, x_hwc):
        return convolutions.conv_of_blocks(weight, x_hwc, stride)

    def plain(weight, x_hwc):
        return convolutions.convolve(x_hwc, weight, stride, "SAME")

    (found, pull), (expected, wanted) = jax.vjp(ours, weight, x_hwc), jax.vjp(plain, weight, x_hwc)
    assert found.shape == expected.shape
    up_hwc = jnp.cos(jnp.arange(found.size, dtype=jnp.float32)).reshape(found.shape)
    for one, two in zip((found, *pull(up_hwc)), (expected, *wanted(up_hwc)), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "size", "stride"),
    [
        ((7, 6, 3), 3, 2),  # a row too many
        ((6, 7, 3), 3, 2),  # a column
        ((8, 6, 5), 3, 2),  # full as it is
        ((8, 6, 3), 3, 1),
        ((8, 6, 3), 5, 2),  # more than two blocks
    ],
)
def test_other_convolutions_are_left_to_the_library(shape, size, stride):
    assert not convolutions.fits_blocks(shape, size, stride)
    x_hwc, weight = drawn(shape, size)
    params = {"w": weight.reshape(-1, 5), "b": jnp.zeros(5)}
    found = convolutions.conv(params, x_hwc, size, stride)
    np.testing.assert_array_equal(found, convolutions.convolve(x_hwc, weight, stride, "SAME"))
