"""The Ballet stage as the agent sees it, drawn in two forms that agree byte for byte.

Pixels are nearly all of Ballet's work, and what draws them fast differs. A CPU wants long runs of contiguous bytes to
combine, so it draws in *strips*, one row of tiles at a time: what can stand in a strip is the AND of three runs of
bytes looked up whole (a shape repeated under every column, a colour likewise, and a column that is all ones). A GPU
wants few loads per byte, so it draws in *tiles*: one word says what stands on a tile, and each byte comes from its
tile's word and one look at a shape. docs/log/2026-11-15-drawing-ballet.md has the numbers.
"""

from functools import lru_cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from hcam.envs.render import sprites
from hcam.envs.tasks.ballet.choreography import BOARD, CENTRE

NOTHING = len(sprites.SHAPES)  # the shape of what is not there
SOLID = NOTHING + 1  # the shape of walls and of the agent
WALL, AGENT = (40, 40, 40), (255, 255, 255)
SIDES = 3  # places next to each other

Bytes = NDArray[np.uint8]


class Scene(NamedTuple):
    """Who stands where, in tiles of the board. A dancer keeps to the 3 x 3 tiles around its place (axis P)."""

    agent: jax.Array  # int32 [2], row and column
    dancer_p: jax.Array  # int32 [P, 2]
    shape_p: jax.Array  # int32, NOTHING where there is no dancer
    color_p: jax.Array  # int32


def draw(scene: Scene, tile: int) -> jax.Array:
    """The board around the agent: uint8 [11 tile, 11 tile, 3]."""
    forms = {"cpu": partial(in_strips, tile=tile), "default": partial(in_tiles, tile=tile)}
    image: jax.Array = jax.lax.platform_dependent(scene, **forms)
    return image


def covered(scene: Scene) -> jax.Array:
    """Which dancer stands on the agent's tile, and hides it: bool [P]."""
    return (scene.dancer_p == scene.agent[None]).all(-1) & (scene.shape_p != NOTHING)


# In strips. R is a row of the view, X a byte of its strip. ------------------------------------------------------------


class Strips(NamedTuple):
    shape_sx: Bytes  # NOTHING included
    color_cx: Bytes
    column_kx: Bytes
    wall_nx: Bytes  # by what the row is (outside, between the side walls, all wall), and by the agent's column
    agent_rx: Bytes


def in_strips(scene: Scene, tile: int) -> jax.Array:
    """A row of the board meets one row of places: three candidates per strip, never two of them on one tile."""
    tables = strips(tile)
    row_r = jnp.arange(BOARD) + scene.agent[0] - CENTRE
    band_r = jnp.clip((row_r - 1) // SIDES, 0, SIDES - 1)
    column_p = scene.dancer_p[:, 1] - scene.agent[1] + CENTRE
    shape_p = jnp.where((column_p >= 0) & (column_p < BOARD), scene.shape_p, NOTHING)
    candidate_p = (scene.dancer_p[:, 0], shape_p, scene.color_p, jnp.clip(column_p, 0, BOARD - 1))
    shown = jnp.where(covered(scene).any(), 0, 255).astype(jnp.uint8)
    strip_rx = _run(tables.wall_nx, _wall_kind(row_r) * BOARD + scene.agent[1]) | (jnp.asarray(tables.agent_rx) & shown)
    for side in range(SIDES):
        dancer_row_r, shape_r, color_r, column_r = (one_p.reshape(SIDES, SIDES)[band_r, side] for one_p in candidate_p)
        shape_r = jnp.where(dancer_row_r == row_r, shape_r, NOTHING)
        look_rx = _run(tables.shape_sx, shape_r) & _run(tables.color_cx, color_r)
        strip_rx = strip_rx | (look_rx & _run(tables.column_kx, column_r))
    return strip_rx.reshape(BOARD * tile, BOARD * tile, 3)


def _run(table_nx: Bytes, index_r: jax.Array) -> jax.Array:
    return jnp.asarray(table_nx).at[index_r].get(mode="promise_in_bounds")


def _wall_kind(row_r: jax.Array) -> jax.Array:
    inside_r = (row_r >= 0) & (row_r < BOARD)
    return jnp.where(inside_r, jnp.where((row_r == 0) | (row_r == BOARD - 1), 2, 1), 0)


@lru_cache
def strips(tile: int) -> Strips:
    strip = (tile, BOARD, tile, 3)

    def runs(pattern: Bytes) -> Bytes:
        return np.broadcast_to(pattern, (len(pattern), *strip)).reshape(len(pattern), -1)

    column_kx = runs((np.eye(BOARD, dtype=np.uint8) * np.uint8(255))[:, None, :, None, None])
    wall_nx = np.zeros((3, BOARD, column_kx.shape[1]), np.uint8)
    for agent in range(BOARD):
        on_board = [column for column in range(BOARD) if 0 <= column + agent - CENTRE < BOARD]
        sides = [column for column in on_board if column + agent - CENTRE in (0, BOARD - 1)]
        wall_nx[1, agent] = np.bitwise_or.reduce(column_kx[sides], axis=0) & WALL[0]
        wall_nx[2, agent] = np.bitwise_or.reduce(column_kx[on_board], axis=0) & WALL[0]
    agent_rx = np.zeros((BOARD, column_kx.shape[1]), np.uint8)
    agent_rx[CENTRE] = column_kx[CENTRE]
    shape_sx = runs(_masks(tile)[:SOLID, :, None, :, None])
    return Strips(
        shape_sx, runs(sprites.colors()[:, None, None, None]), column_kx, wall_nx.reshape(-1, len(agent_rx.T)), agent_rx
    )


# In tiles. R and C are a row and a column of the view. ----------------------------------------------------------------


def in_tiles(scene: Scene, tile: int) -> jax.Array:
    word_rc = _words(scene)
    shape_rcuv = jnp.asarray(_masks(tile)).at[(word_rc >> 24).astype(jnp.int32)].get(mode="promise_in_bounds")
    color_rch = (word_rc[..., None] >> jnp.array([16, 8, 0], jnp.uint32)[None, None]).astype(jnp.uint8)
    pixel_rucvh = shape_rcuv.transpose(0, 2, 1, 3)[..., None] & color_rch[:, None, :, None, :]
    return pixel_rucvh.reshape(BOARD * tile, BOARD * tile, 3)


def _words(scene: Scene) -> jax.Array:
    """What stands on each tile of the view: uint32 [R, C], the shape in the highest byte and red, green, blue below."""
    view = jnp.arange(BOARD) - CENTRE
    row_r, column_c = view + scene.agent[0], view + scene.agent[1]
    kind_r, kind_c = _wall_kind(row_r), _wall_kind(column_c)
    wall_rc = (kind_r[:, None] > 0) & (kind_c[None, :] > 0) & ((kind_r[:, None] == 2) | (kind_c[None, :] == 2))
    word_rc = jnp.where(wall_rc, jnp.uint32(_word(SOLID, WALL)), jnp.uint32(_word(NOTHING, (0, 0, 0))))
    word_rc = word_rc.at[CENTRE, CENTRE].set(jnp.uint32(_word(SOLID, AGENT)))
    color_c = jnp.array([_word(0, rgb) for rgb in sprites.COLORS.values()], jnp.uint32)
    word_p = color_c[scene.color_p] | scene.shape_p.astype(jnp.uint32) << 24
    for place in range(len(word_p)):  # selections, not a scatter: they fuse into one small kernel
        there_rc = (row_r == scene.dancer_p[place, 0])[:, None] & (column_c == scene.dancer_p[place, 1])[None, :]
        word_rc = jnp.where(there_rc & (scene.shape_p[place] != NOTHING), word_p[place], word_rc)
    # Made once, not once for each of a tile's bytes.
    held_rc: jax.Array = jax.lax.optimization_barrier(word_rc)  # type: ignore[no-untyped-call]
    return held_rc


def _word(shape: int, rgb: tuple[int, int, int]) -> int:
    return shape << 24 | rgb[0] << 16 | rgb[1] << 8 | rgb[2]


@lru_cache
def _masks(tile: int) -> Bytes:
    """Every shape, then NOTHING, then SOLID: [shape, tile, tile]."""
    blank = np.zeros((1, tile, tile), np.uint8)
    return np.concatenate([sprites.masks(tile), blank, ~blank])
