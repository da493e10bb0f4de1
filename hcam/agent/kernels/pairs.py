"""What the kernels share: pairs of pixels that are neighbours in a row, counted through all images laid out flat."""

from typing import Any

import jax
import jax.numpy as jnp

from hcam.types import Array

SIZE = 3  # of the convolutions, in rows and columns
MAX_ELEMENTS = 2**31 - 1  # of an array: places in it are counted in 32 bits


def numbers(tile: Array, pairs: int) -> Array:
    """The numbers of the pairs of a tile: [P, 1]."""
    return tile * pairs + jax.lax.broadcasted_iota(jnp.int32, (pairs, 1), 0)


def load(ref: Any, pair_p: Array, width: int, total: int) -> Array:
    """[P, width]: `width` numbers of each pair; zeros for pairs after the last one, of `total`."""
    from jax.experimental.pallas import triton

    place_pc, real_pc = _places(pair_p, width, total)
    value_pc: Array = triton.load(ref.at[place_pc], mask=real_pc, other=0.0)
    return value_pc


def store(ref: Any, pair_p: Array, value_pc: Array, total: int) -> None:
    """The reverse of `load`."""
    from jax.experimental.pallas import triton

    place_pc, real_pc = _places(pair_p, value_pc.shape[1], total)
    triton.store(ref.at[place_pc], value_pc.astype(ref.dtype), mask=real_pc)


def _places(pair_p: Array, width: int, total: int) -> tuple[Array, Array]:
    place_pc = pair_p * width + jax.lax.broadcasted_iota(jnp.int32, (1, width), 1)
    return place_pc, jnp.broadcast_to(pair_p < total, place_pc.shape)


def outputs(dtype: Any, *shapes: tuple[int, ...]) -> list[Any]:
    """What a kernel writes, for `pallas_call`."""
    struct: Any = jax.ShapeDtypeStruct
    return [struct(shape, dtype) for shape in shapes]
