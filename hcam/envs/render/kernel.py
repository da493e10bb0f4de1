"""The ray caster's form for GPUs: one kernel (Pallas on Triton), in which a tile of pixels stays in registers.

A program handles one tile. It skips solids that no pixel of the tile can see, which is most of them, and only the
finished pixels are written to memory. `raycast.words` is the plain form and the oracle in the tests.
"""

from typing import Any

import jax
import jax.numpy as jnp

from hcam.envs.render import pixels
from hcam.envs.render.pixels import Frame
from hcam.envs.render.solids import FACES, ROW, darken, nearest, pack

TILE = (8, 32)  # rows and columns: powers of two; 96 x 72 pixels are 27 of them
WARPS = 2  # four pixels per thread


def words(frame: Frame, u_w: jax.Array, v_h: jax.Array, interpret: bool = False) -> jax.Array:
    """The picture, one int32 per pixel. With `interpret` it runs anywhere, slowly."""
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    (rows, columns), height, width = TILE, len(v_h), len(u_w)
    grid = -(-height // rows), -(-width // columns)
    whole = [pl.BlockSpec(x.shape, lambda r, c, n=x.ndim: (0,) * n) for x in frame]
    # Lines beyond the picture repeat the last one, and are cut off.
    u_w = jnp.pad(u_w, (0, grid[1] * columns - width), mode="edge")
    v_h = jnp.pad(v_h, (0, grid[0] * rows - height), mode="edge")
    word_hw: jax.Array = pl.pallas_call(
        _tile,
        name="raycast",
        grid=grid,
        in_specs=[*whole, pl.BlockSpec((columns,), lambda r, c: (c,)), pl.BlockSpec((rows,), lambda r, c: (r,))],
        out_specs=pl.BlockSpec(TILE, lambda r, c: (r, c)),
        out_shape=jax.ShapeDtypeStruct((len(v_h), len(u_w)), jnp.int32),  # type: ignore[no-untyped-call]
        compiler_params=triton.CompilerParams(num_warps=WARPS, num_stages=1),
        interpret=interpret,
    )(*frame, u_w, v_h)
    return word_hw[:height, :width]


def _tile(view: Any, solid: Any, surface: Any, u: Any, v: Any, out: Any) -> None:
    view_n = [view[n] for n in range(view.shape[0])]
    u_w, v_h = u[:], v[:]
    left, right, low, high = u_w.min(), u_w.max(), v_h.min(), v_h.max()
    u_hw, v_hw = jnp.broadcast_to(u_w[None, :], TILE), jnp.broadcast_to(v_h[:, None], TILE)
    back = pixels.background(view_n, u_hw, v_hw)

    def meet(p: jax.Array, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        row: Any = _Row(solid, p)
        x0, x1, y0, y1 = row[ROW.window]
        seen = (x0 <= right) & (x1 >= left) & (y0 <= high) & (y1 >= low)
        shaded = row[ROW.shadow][0] > 0.0
        key_hw, light_hw = state
        key_hw = jax.lax.cond(seen, lambda key: nearest(row, p * FACES, u_hw, v_hw, key), lambda key: key, key_hw)
        light_hw = jax.lax.cond(
            shaded, lambda light: darken(row, back.point[0], back.point[1], light), lambda light: light, light_hw
        )
        return key_hw, light_hw

    start = pack(back.distance), jnp.ones(TILE, jnp.float32)
    key_hw, light_hw = jax.lax.fori_loop(0, solid.shape[0], meet, start)
    out[:, :] = pixels.color(view_n, lambda at, n: surface[at, n], u_hw, v_hw, key_hw, back, light_hw)


class _Row:
    """One row of a reference, read number by number when asked for."""

    def __init__(self, solid: Any, p: jax.Array):
        self.solid, self.p = solid, p

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self.solid[self.p, n] for n in range(at.start, at.stop)]
        return self.solid[self.p, at]
