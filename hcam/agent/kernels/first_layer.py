"""The first layer of a ResNet: a 3 x 3 convolution of stride 2 of an image's bytes, and the gradient of its weights.

XLA writes the image in the dtype of computation, and its convolution uses three of the sixteen numbers that matrix
units take. Here a program reads bytes. Two neighbours of the result see five pixels of each of three rows: up to 15
bytes that lie together, and one more to fill up. The scale of pixels is applied to the result.
"""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from hcam.agent.convolutions import conv, flat
from hcam.memory.kernels import common
from hcam.memory.kernels.common import call, product
from hcam.memory.layers import to_float32
from hcam.types import Array, Params

from . import pairs
from .pairs import SIZE

STRIDE = 2
BYTES = 16  # of a row, read for two neighbours
MAX_CHANNELS = 3  # five pixels must fit
OUTS = (16, 32)
PAIRS, WARPS, PROGRAMS = 128, 4, 528  # the better of two on an H200


def embed(params: Params, high: float, seen: Array, size: int, stride: int, dtype: str) -> Array:
    """The convolution of pixels [..., H, W, C], divided by `high`; by the kernels where they fit."""
    if not supported(seen.shape, seen.dtype, params["b"].size, size, stride, dtype):
        return plain_embed(params, high, seen, size, stride, dtype)
    y_nhwc = fused_embed(high, dtype, params, flat(seen))
    return y_nhwc.reshape(*seen.shape[:-3], *y_nhwc.shape[1:])


def supported(shape: tuple[int, ...], stored: Any, outs: int, size: int, stride: int, dtype: Any) -> bool:
    """True on a GPU, from bytes to bfloat16, 3 x 3 with stride 2, where height is even and width a multiple of 4."""
    *many, height, width, channels = shape
    whole = height % STRIDE == 0 and width % (2 * STRIDE) == 0 and channels <= MAX_CHANNELS and outs in OUTS
    small = math.prod((*many, height, width)) * max(channels, outs // 4) <= pairs.MAX_ELEMENTS
    fits = (size, stride, jnp.dtype(stored)) == (SIZE, STRIDE, jnp.uint8) and whole and small
    return fits and common.supported(common.MIN_SIZE, outs, dtype)


def plain_embed(params: Params, high: float, seen: Array, size: int, stride: int, dtype: str) -> Array:
    """`embed` in plain JAX."""
    pixels = seen.astype(dtype) * jnp.asarray(1 / high, dtype)
    return conv(params, pixels, size, stride)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def fused_embed(high: float, dtype: str, params: Params, seen_nhwc: Array) -> Array:
    """`embed` by the kernels. The gradient of the weights is summed over the images; under `vmap`, each has its own."""
    (images, height, width, channels), outs = seen_nhwc.shape, params["b"].size
    total = _total(seen_nhwc.shape)
    y: Array = call(
        partial(_kernel, seen_nhwc.shape, high),
        "first_layer",
        4 * SIZE * SIZE * channels * outs * total,
        warps=WARPS,
        stages=1,
        grid=(-(-total // PAIRS),),
        out_shape=pairs.outputs(dtype, (total * 2 * outs,))[0],
    )(
        seen_nhwc.ravel(),
        for_pairs(params["w"].reshape(SIZE, SIZE, channels, outs)).astype(dtype),
        jnp.tile(to_float32(params["b"]), 2),
    )
    return y.reshape(images, height // STRIDE, width // STRIDE, outs)


def _forward(high: float, dtype: str, params: Params, seen_nhwc: Array) -> tuple[Array, tuple[Params, Array]]:
    return fused_embed(high, dtype, params, seen_nhwc), (params, seen_nhwc)


def _backward(high: float, dtype: str, kept: tuple[Params, Array], dy_nhwc: Array) -> tuple[Params, None]:
    (params, seen_nhwc), outs = kept, dy_nhwc.shape[-1]
    total, channels = _total(seen_nhwc.shape), seen_nhwc.shape[-1]
    tiles = -(-total // PAIRS)
    programs = min(PROGRAMS, tiles)
    dw, db = call(
        partial(_pull_kernel, seen_nhwc.shape, -(-tiles // programs)),
        "first_layer_pull",
        4 * SIZE * SIZE * channels * outs * total,
        warps=WARPS,
        stages=1,
        grid=(programs,),
        out_shape=pairs.outputs(jnp.float32, (programs, SIZE, BYTES, 2 * outs), (programs, 2 * outs)),
    )(seen_nhwc.ravel(), dy_nhwc.ravel())
    taps = pairs.outputs(jnp.float32, (SIZE, SIZE, channels, outs))[0]
    (w,), b = jax.linear_transpose(for_pairs, taps)(dw.sum(0) * (1 / high)), db.sum(0).reshape(2, outs).sum(0)
    slopes = {"w": w.reshape(params["w"].shape), "b": b}
    return {name: slope.astype(params[name].dtype) for name, slope in slopes.items()}, None


fused_embed.defvjp(_forward, _backward)


def _total(shape: tuple[int, ...]) -> int:
    """How many pairs of neighbours the result has."""
    return math.prod(shape[:-1]) // (2 * STRIDE * STRIDE)


def for_pairs(taps: Array) -> Array:
    """[3, 3, I, O] -> [3, 16, 2 O]: for each row, from its bytes to both neighbours of the result."""
    pair = [jnp.pad(taps, ((0, 0), (STRIDE * n, STRIDE - STRIDE * n), (0, 0), (0, 0))) for n in (0, 1)]
    rows = jnp.stack(pair, 3).reshape(SIZE, -1, 2 * taps.shape[3])
    return jnp.pad(rows, ((0, 0), (0, BYTES - rows.shape[1]), (0, 0)))


# Kernels, for images laid out flat ------------------------------------------------------------------------------------


def _kernel(shape: tuple[int, ...], high: float, seen: Any, weight: Any, bias: Any, out: Any) -> None:
    from jax.experimental import pallas as pl

    pair_p = pairs.numbers(pl.program_id(0), PAIRS)
    sum_pc = jnp.zeros((PAIRS, bias.shape[0]), jnp.float32)
    for k in range(SIZE):
        sum_pc += product(bytes_of(seen, shape, pair_p, k).astype(weight.dtype), weight[k])
    pairs.store(out, pair_p, sum_pc * (1 / high) + bias[...][None, :], _total(shape))


def _pull_kernel(shape: tuple[int, ...], loops: int, seen: Any, dy: Any, dw_out: Any, db_out: Any) -> None:
    """Each program does `loops` tiles and writes the sums of their gradients of weights and bias."""
    from jax.experimental import pallas as pl

    me, width = pl.program_id(0), db_out.shape[1]

    def body(n: Array, sums: tuple[Array, ...]) -> tuple[Array, ...]:
        *dw_kjc, db_c = sums
        pair_p = pairs.numbers(me * loops + n, PAIRS)
        dy_pc = pairs.load(dy, pair_p, width, _total(shape))
        for k in range(SIZE):
            dw_kjc[k] += product(bytes_of(seen, shape, pair_p, k).astype(dy.dtype).T, dy_pc)
        return *dw_kjc, db_c + to_float32(dy_pc).sum(0)

    zeros = [jnp.zeros((BYTES, width), jnp.float32)] * SIZE
    *dw_kjc, db_c = jax.lax.fori_loop(0, loops, body, (*zeros, jnp.zeros(width, jnp.float32)))
    for k in range(SIZE):
        dw_out[me, k] = dw_kjc[k]
    db_out[me] = db_c


def bytes_of(seen: Any, shape: tuple[int, ...], pair_p: Array, k: int) -> Array:
    """[P, 16], in float32: what each pair sees of row k of three; zero outside its image."""
    from jax.experimental.pallas import triton

    _, height, width, channels = shape
    quarter, row = jnp.int32(width // 4), width * channels
    line_p, begin_p = jax.lax.div(pair_p, quarter), 4 * channels * jax.lax.rem(pair_p, quarter)
    j = jax.lax.broadcasted_iota(jnp.int32, (1, BYTES), 1)
    above_p = STRIDE * jax.lax.rem(line_p, jnp.int32(height // STRIDE)) + k < height
    inside_pj = (begin_p + j < row) & (above_p & (pair_p < _total(shape)))
    place_pj = (STRIDE * row * line_p + k * row + begin_p) + j
    byte_pj: Array = triton.load(seen.at[place_pj], mask=inside_pj, other=0)
    return byte_pj.astype(jnp.int32).astype(jnp.float32)
