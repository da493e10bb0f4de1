"""Images of a tile board, a strip at a time.

A strip is one row of tiles: `tile` pixel rows, each `columns` tiles wide, as one run of bytes (axis X). What can stand
in a strip is the AND of three runs, looked up whole: a shape (repeated under every column), a colour (likewise) and a
column (all ones there, zero elsewhere). Looking up long runs of bytes instead of tiles or pixels leaves XLA a loop over
contiguous memory that it can vectorise: 3 times faster than gathering tiles on a CPU, one fused kernel on a GPU.
"""

from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from hcam.envs.render import sprites

WALL = 40
NOTHING = len(sprites.SHAPES)  # the shape of what is not there


class Strips(NamedTuple):
    """Runs of bytes to combine; X = tile * columns * tile * 3."""

    shape_sx: NDArray[np.uint8]  # the last one is empty
    color_cx: NDArray[np.uint8]
    column_kx: NDArray[np.uint8]


@lru_cache
def strips(tile: int, columns: int) -> Strips:
    strip = (tile, columns, tile, 3)

    def runs(pattern: NDArray[np.uint8]) -> NDArray[np.uint8]:
        return np.broadcast_to(pattern, (len(pattern), *strip)).reshape(len(pattern), -1)

    shape = np.concatenate([sprites.masks(tile), np.zeros((1, tile, tile), np.uint8)])
    column = np.eye(columns, dtype=np.uint8) * np.uint8(255)
    return Strips(
        shape_sx=runs(shape[:, :, None, :, None]),
        color_cx=runs(sprites.colors()[:, None, None, None]),
        column_kx=runs(column[:, None, :, None, None]),
    )


def sprite(tables: Strips, shape_r: jax.Array, color_r: jax.Array, column_r: jax.Array) -> jax.Array:
    """Strips [R, X], each with one thing in it, or nothing where the shape says so."""
    return lookup(tables.shape_sx, shape_r) & lookup(tables.color_cx, color_r) & lookup(tables.column_kx, column_r)


def lookup(table_nx: NDArray[np.uint8], index_r: jax.Array) -> jax.Array:
    return jnp.asarray(table_nx).at[index_r].get(mode="promise_in_bounds")


def image(strip_rx: jax.Array, tile: int, columns: int) -> jax.Array:
    return strip_rx.reshape(strip_rx.shape[0] * tile, columns * tile, 3)
