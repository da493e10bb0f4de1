"""Convolutions of images [H, W, C], as the encoder and the decoders use them."""

from typing import Any

import jax
import jax.numpy as jnp

from hcam.memory.layers import broadcast_like, init_linear, linear
from hcam.types import Array, Params

BLOCK = 16  # numbers in a block of pixels: as many as matrix units take at least


def init_conv(key: Array, size: int, channels_in: int, channels_out: int) -> Params:
    """A linear map of patches [size, size, C] laid out flat."""
    return init_linear(key, size * size * channels_in, channels_out, scale=2.0)


def conv(params: Params, x_hwc: Array, size: int, stride: int) -> Array:
    """Where stride and size are equal, one product with all patches; else the library's convolution, padded.

    Copying overlapping patches for a product of our own takes a GPU twice as long, forward and backward.
    """
    if size == stride:
        return linear(params, patches(x_hwc, size))
    weight = params["w"].reshape(size, size, x_hwc.shape[-1], -1).astype(x_hwc.dtype)
    if fits_blocks(x_hwc.shape, size, stride):
        y_hwc = conv_of_blocks(weight, x_hwc, stride)
    else:
        y_hwc = convolve(x_hwc, weight, stride, "SAME")
    return y_hwc + broadcast_like(params["b"], y_hwc)


def convolve(x_hwc: Array, weight: Array, stride: int, padding: Any) -> Array:
    x_nhwc, layout = x_hwc[None], ("NHWC", "HWIO", "NHWC")
    y_nhwc = jax.lax.conv_general_dilated(x_nhwc, weight, (stride, stride), padding, dimension_numbers=layout)
    return y_nhwc[0]


def fits_blocks(shape: tuple[int, ...], size: int, stride: int) -> bool:
    """Whether `conv_of_blocks` applies and pays: an image of few channels, cut into whole blocks."""
    height, width, channels = shape
    whole = height % stride == 0 and width % stride == 0
    return stride > 1 and size == stride + 1 and whole and stride * stride * channels <= BLOCK


def conv_of_blocks(weight: Array, x_hwc: Array, stride: int) -> Array:
    """A padded convolution of size stride + 1 as one of size 2 over blocks of stride x stride pixels.

    The same products, but of up to 16 numbers at a time where an image has three, so that matrix units are fuller. The
    padding is one row below and one column to the right.
    """
    missing = BLOCK - stride * stride * x_hwc.shape[-1]
    block_hwp = jnp.pad(patches(x_hwc, stride), ((0, 0), (0, 0), (0, missing)))
    kernel = jnp.pad(blocks_of(weight, stride), ((0, 0), (0, 0), (0, missing), (0, 0)))
    return convolve(block_hwp, kernel, 1, ((0, 1), (0, 1)))


def blocks_of(weight: Array, stride: int) -> Array:
    """[stride + 1, stride + 1, I, O] -> [2, 2, stride * stride * I, O], with zeros where a block is not seen."""
    unseen = (0, stride - 1)
    whole = jnp.pad(weight, (unseen, unseen, (0, 0), (0, 0)))
    cut = whole.reshape(2, stride, 2, stride, *weight.shape[2:]).transpose(0, 2, 1, 3, 4, 5)
    return cut.reshape(2, 2, -1, weight.shape[-1])


def patches(x_hwc: Array, size: int) -> Array:
    """[H, W, C] -> [H/size, W/size, size * size * C]."""
    height, width, channels = x_hwc.shape
    cut = x_hwc.reshape(height // size, size, width // size, size, channels)
    return cut.transpose(0, 2, 1, 3, 4).reshape(height // size, width // size, size * size * channels)


def residual(first: Params, second: Params, x_hwc: Array, size: int) -> Array:
    inner_hwc = conv(first, jax.nn.relu(x_hwc), size, 1)
    return x_hwc + conv(second, jax.nn.relu(inner_hwc), size, 1)
