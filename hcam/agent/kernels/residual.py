"""A residual pair of 3 x 3 convolutions of few channels: x + conv(relu(conv(relu(x)))), and the gradient of that.

Matrix units want 16 numbers and more on each side of a product, and memory wants wide loads. A program handles pairs of
pixels that are neighbours in a row: the four pixels around a pair lie together in memory, three such windows are all
that its convolution reads, and a product with them gives both pixels. A quarter of the weights are zeros, for the
pixel that only the other one of the pair sees. In the backward pass a window of the cotangent serves both gradients,
and each program sums that of the weights over all its tiles.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from hcam.agent.convolutions import conv, flat
from hcam.memory.kernels import common
from hcam.memory.kernels.common import call, product
from hcam.memory.layers import to_float32
from hcam.types import Array, Params

from . import pairs
from .pairs import SIZE


class Tiling(NamedTuple):
    """How the work is cut."""

    pairs: int  # of pixels that a program handles at a time
    warps: int
    pull_warps: int  # of the backward pass, whose programs hold a sum of 24 C * C numbers
    pull_stages: int
    programs: int  # of the backward pass, at most: each writes its sum


TILINGS = {  # by the number of channels
    16: Tiling(pairs=64, warps=4, pull_warps=4, pull_stages=2, programs=1056),  # the best of five on an H200
    32: Tiling(pairs=64, warps=4, pull_warps=8, pull_stages=1, programs=264),  # so that the sum fits into registers
}


def add(first: Params, second: Params, x_hwc: Array, size: int) -> Array:
    """x + conv(relu(conv(relu(x)))) of images [..., H, W, C]; by the kernels where they fit."""
    if not supported(x_hwc.shape, size, x_hwc.dtype):
        return plain_add(first, second, x_hwc, size)
    return fused_add(first, second, flat(x_hwc)).reshape(x_hwc.shape)


def supported(shape: tuple[int, ...], size: int, dtype: Any) -> bool:
    """True on a GPU, in bfloat16, for 3 x 3 convolutions of 16 or 32 channels and an even width."""
    fits = size == SIZE and shape[-1] in TILINGS and shape[-2] % 2 == 0 and math.prod(shape) <= pairs.MAX_ELEMENTS
    return fits and common.supported(common.MIN_SIZE, shape[-1], dtype)


def plain_add(first: Params, second: Params, x_hwc: Array, size: int) -> Array:
    """`add` in plain JAX."""
    inner_hwc = conv(first, jax.nn.relu(x_hwc), size, 1)
    return x_hwc + conv(second, jax.nn.relu(inner_hwc), size, 1)


@jax.custom_vjp
def fused_add(first: Params, second: Params, x_nhwc: Array) -> Array:
    """`add` by the kernels. The gradient of the weights is summed over the images; under `vmap`, each has its own."""
    return _forward(first, second, x_nhwc)[0]


def _forward(first: Params, second: Params, x_nhwc: Array) -> tuple[Array, tuple[Any, ...]]:
    inner_nhwc = convolve(first, x_nhwc)
    return convolve(second, inner_nhwc, x_nhwc), (first, second, x_nhwc, inner_nhwc)


def _backward(kept: tuple[Any, ...], dy_nhwc: Array) -> tuple[Params, Params, Array]:
    first, second, x_nhwc, inner_nhwc = kept
    second_slope, d_inner_nhwc = pull(second, inner_nhwc, dy_nhwc)
    first_slope, dx_nhwc = pull(first, x_nhwc, d_inner_nhwc, dy_nhwc)
    return first_slope, second_slope, dx_nhwc


fused_add.defvjp(_forward, _backward)


# One convolution ------------------------------------------------------------------------------------------------------


def convolve(params: Params, x_nhwc: Array, *added: Array) -> Array:
    """conv(relu(x)), plus `added` where it is given."""
    channels, tiling = x_nhwc.shape[-1], TILINGS[x_nhwc.shape[-1]]
    weight = for_pairs(taps_of(params, channels)).astype(x_nhwc.dtype)
    out: Array = call(
        partial(_kernel, x_nhwc.shape, tiling.pairs),
        "residual",
        2 * SIZE * SIZE * channels * x_nhwc.size,
        warps=tiling.warps,
        stages=1,
        grid=(_tiles(x_nhwc, tiling),),
        out_shape=pairs.outputs(x_nhwc.dtype, (x_nhwc.size,))[0],
    )(x_nhwc.ravel(), weight, jnp.tile(to_float32(params["b"]), 2), *(more.ravel() for more in added))
    return out.reshape(x_nhwc.shape)


def pull(params: Params, x_nhwc: Array, dy_nhwc: Array, *added: Array) -> tuple[Params, Array]:
    """The gradients of `convolve` with respect to the parameters and to x, the latter plus `added`."""
    channels, tiling = x_nhwc.shape[-1], TILINGS[x_nhwc.shape[-1]]
    tiles = _tiles(x_nhwc, tiling)
    programs = min(tiling.programs, tiles)
    weight = for_pairs(taps_of(params, channels)[::-1, ::-1].swapaxes(2, 3)).astype(x_nhwc.dtype)
    sums = (programs, SIZE, 4 * channels, 2 * channels), (programs, 4 * channels)
    dx, dw, db = call(
        _pull_kernel(x_nhwc.shape, tiling.pairs, -(-tiles // programs)),
        "residual_pull",
        4 * SIZE * SIZE * channels * x_nhwc.size,
        warps=tiling.pull_warps,
        stages=tiling.pull_stages,
        grid=(programs,),
        out_shape=pairs.outputs(x_nhwc.dtype, (x_nhwc.size,)) + pairs.outputs(jnp.float32, *sums),
    )(x_nhwc.ravel(), dy_nhwc.ravel(), weight, *(more.ravel() for more in added))
    return _slopes(params, dw.sum(0), db.sum(0)), dx.reshape(x_nhwc.shape)


def _slopes(params: Params, dw_kjc: Array, db_j: Array) -> Params:
    """The gradients of the parameters, from those of what `for_pairs` made of them."""
    channels = params["b"].size
    parts = dw_kjc.reshape(SIZE, 4, channels, 2, channels)  # row, place in the window, O, pixel of the pair, I
    taps = jnp.stack([parts[:, place, :, 0] + parts[:, place + 1, :, 1] for place in range(SIZE)], 1)
    w = taps[::-1, ::-1].swapaxes(2, 3).reshape(params["w"].shape)
    b = db_j[channels:-channels].reshape(2, channels).sum(0)
    return {"w": w.astype(params["w"].dtype), "b": b.astype(params["b"].dtype)}


def _tiles(x_nhwc: Array, tiling: Tiling) -> int:
    return -(-x_nhwc.size // (2 * x_nhwc.shape[-1] * tiling.pairs))


def taps_of(params: Params, channels: int) -> Array:
    taps: Array = params["w"].reshape(SIZE, SIZE, channels, -1)
    return taps


def for_pairs(taps: Array) -> Array:
    """[3, 3, I, O] -> [3, 4 I, 2 O]: for each row, from the four pixels around a pair to both of its pixels."""
    pair = [jnp.pad(taps, ((0, 0), (n, 1 - n), (0, 0), (0, 0))) for n in (0, 1)]
    return jnp.stack(pair, 3).reshape(SIZE, 4 * taps.shape[2], 2 * taps.shape[3])


# Kernels, for images laid out flat ------------------------------------------------------------------------------------


def _kernel(shape: tuple[int, ...], tile: int, x: Any, weight: Any, bias: Any, *refs: Any) -> None:
    from jax.experimental import pallas as pl

    *added, out = refs
    width, total = 2 * shape[-1], math.prod(shape[:-1]) // 2
    pair_p = pairs.numbers(pl.program_id(0), tile)
    sum_pc = jnp.zeros((tile, width), jnp.float32) + bias[...][None, :]
    for k in range(SIZE):
        sum_pc += product(jnp.maximum(window(x, shape, pair_p, k), 0), weight[k])
    for ref in added:
        sum_pc += to_float32(pairs.load(ref, pair_p, width, total))
    pairs.store(out, pair_p, sum_pc, total)


def _pull_kernel(shape: tuple[int, ...], tile: int, loops: int) -> Callable[..., None]:
    """Each program does `loops` tiles and writes the sums of their gradients of weights and bias."""
    width, total = 2 * shape[-1], math.prod(shape[:-1]) // 2

    def kernel(x: Any, dy: Any, weight: Any, *refs: Any) -> None:
        from jax.experimental import pallas as pl

        *added, dx_out, dw_out, db_out = refs
        me = pl.program_id(0)

        def body(n: Array, sums: tuple[Array, ...]) -> tuple[Array, ...]:
            *dw_kjc, db_j = sums
            pair_p = pairs.numbers(me * loops + n, tile)
            x_pc, dx_pc = pairs.load(x, pair_p, width, total), jnp.zeros((tile, width), jnp.float32)
            for k in range(SIZE):
                dy_pj = window(dy, shape, pair_p, k)
                dx_pc += product(dy_pj, weight[k])
                dw_kjc[k] += product(dy_pj.T, jnp.maximum(x_pc, 0))
                db_j += to_float32(dy_pj).sum(0) if k == SIZE // 2 else 0.0
            dx_pc = jnp.where(x_pc > 0, dx_pc, 0.0)
            for ref in added:
                dx_pc += to_float32(pairs.load(ref, pair_p, width, total))
            pairs.store(dx_out, pair_p, dx_pc, total)
            return *dw_kjc, db_j

        zeros = [jnp.zeros((2 * width, width), jnp.float32)] * SIZE
        *dw_kjc, db_j = jax.lax.fori_loop(0, loops, body, (*zeros, jnp.zeros(2 * width, jnp.float32)))
        for k in range(SIZE):
            dw_out[me, k] = dw_kjc[k]
        db_out[me] = db_j

    return kernel


def window(ref: Any, shape: tuple[int, ...], pair_p: Array, k: int) -> Array:
    """[P, 4 C]: the pixels left of, in and right of each pair, k - 1 rows further down; zero outside its image."""
    from jax.experimental.pallas import triton

    _, height, width, channels = shape
    half = jnp.int32(width // 2)
    row_p = jax.lax.rem(jax.lax.div(pair_p, half), jnp.int32(height)) + (k - 1)
    j = jax.lax.broadcasted_iota(jnp.int32, (1, 4 * channels), 1)
    column_pj = 2 * jax.lax.rem(pair_p, half) + (jax.lax.div(j, jnp.int32(channels)) - 1)
    real_p = pair_p < math.prod(shape[:-1]) // 2
    inside_pj = (column_pj >= 0) & (column_pj < width) & ((row_p >= 0) & (row_p < height) & real_p)
    place_pj = (pair_p * (2 * channels) + ((k - 1) * width - 1) * channels) + j
    pixel_pj: Array = triton.load(ref.at[place_pj], mask=inside_pj, other=0.0)
    return pixel_pj
