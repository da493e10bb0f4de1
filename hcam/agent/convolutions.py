"""Convolutions of images [..., H, W, C], one or many, as the encoder and the decoders use them."""

import jax

from hcam.memory.layers import broadcast_like, init_linear, linear
from hcam.types import Array, Params


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
    y_nhwc = jax.lax.conv_general_dilated(
        flat(x_hwc), weight, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    y_hwc = y_nhwc.reshape(*x_hwc.shape[:-3], *y_nhwc.shape[1:])
    return y_hwc + broadcast_like(params["b"], y_hwc)


def flat(x_hwc: Array) -> Array:
    """[..., H, W, C] -> [N, H, W, C]."""
    return x_hwc.reshape(-1, *x_hwc.shape[-3:])


def patches(x_hwc: Array, size: int) -> Array:
    """[..., H, W, C] -> [..., H/size, W/size, size * size * C]."""
    *many, height, width, channels = x_hwc.shape
    cut = x_hwc.reshape(*many, height // size, size, width // size, size, channels)
    return cut.swapaxes(-4, -3).reshape(*many, height // size, width // size, size * size * channels)
