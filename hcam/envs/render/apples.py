"""A field of apples: one in each of some cells of a square grid, drawn over a picture of an empty room.

A hundred apples as solids would cost more than the rest of the picture. But they all lie on the floor, so a ray can
meet one only on the short stretch on which it is lower than an apple is high: a third of its way to the floor. A line
that passes within 0.2 cells of a cell's middle is in this cell for at least a cell's length, so one place per cell's
length on that stretch finds every apple: SAMPLES places a pixel, 30 operations each, however many apples there are.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from hcam.envs.render.pixels import AMBIENT, DIFFUSE, LIGHT
from hcam.envs.render.raycast import Camera, screen, view
from hcam.envs.render.solids import Vector, dot

GRID = 11  # cells along a side at most; also how far the bits of two neighbouring rows are apart
WORDS = -(-GRID * GRID // 32)
CELL = 1.0  # metres
RADIUS = 0.16  # of an apple, a ball that lies on the floor
SHADOW = 0.26  # radius
RGB = (0.92, 0.10, 0.10)
SAMPLES = 6  # the longest stretch, in a room of 11 x 11 m seen from 1 m above the floor, is 4.8 m


class Apples(NamedTuple):
    """Apples in the cells of a square around the origin. Cell (x, y) is bit y * GRID + x, from the south-west on."""

    bits_w: jax.Array  # uint32 [WORDS]
    side: jax.Array  # int32, cells along a side, GRID at most


def overlay(image_hwc: jax.Array, apples: Apples, camera: Camera) -> jax.Array:
    """The picture (uint8 [height, width, 3]) with the apples in it.

    The room must be empty: apples are drawn before all that is in the picture. The camera must be above them. Without
    apples, not a byte changes.
    """
    height, width, _ = image_hwc.shape
    # What is not stored would be computed again for each of the three colours.
    image_hwc, basis = stored((image_hwc, view(camera)))
    u_w, v_h = screen(height, width)
    u_1w, v_h1 = u_w[None, :], v_h[:, None]
    x, y, z = (basis[0][axis] + u_1w * basis[1][axis] + v_h1 * basis[2][axis] for axis in range(3))
    ray = (x, y, jnp.where(z < -1e-3, z, -1e-3))  # a ray that rises meets an apple as little as one that hardly falls
    eye = (camera.position[0], camera.position[1], camera.position[2])
    distance_hw = stored(nearest(apples, eye, ray))
    hit_hw = distance_hw > 0.0
    light_hw = jnp.where(hit_hw, shade(apples, eye, ray, distance_hw), -shadow(apples, eye, ray))
    light_hw = stored(light_hw)
    rgb = [
        jnp.where(light_hw > 0.0, RGB[c] * 255.0 * light_hw, image_hwc[..., c].astype(jnp.float32) * -light_hw)
        for c in range(3)
    ]
    return jnp.stack([(channel + 0.5).astype(jnp.uint8) for channel in rgb], -1)


def stored(values: Any) -> Any:
    """The same values, computed once: XLA does not fuse what computes them into what uses them."""
    barrier: Any = jax.lax.optimization_barrier
    return barrier(values)


def nearest(apples: Apples, eye: Vector, ray: Vector) -> jax.Array:
    """How far the nearest apple on a ray is, in lengths of the ray's direction; 0 where there is none."""
    squared = dot(ray, ray)
    pace = jax.lax.rsqrt(ray[0] * ray[0] + ray[1] * ray[1])  # of the ray's parameter, for a metre on the floor
    begin, down = (2 * RADIUS - eye[2]) / ray[2], RADIUS - eye[2]
    found = jnp.zeros_like(squared)
    for sample in reversed(range(SAMPLES)):  # the nearest last
        along = begin + ((sample + 0.25) * CELL) * pace
        there, x, y = look(apples, eye[0] + along * ray[0], eye[1] + along * ray[1])
        x, y = x - eye[0], y - eye[1]
        half = x * ray[0] + y * ray[1] + down * ray[2]
        root = half * half - squared * (x * x + y * y + (down * down - RADIUS * RADIUS))
        found = jnp.where(there & (root > 0.0), half - jnp.sqrt(root), found)
    return found / squared


def look(apples: Apples, x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Whether there is an apple in the cell of a place on the floor, and the middle of that cell."""
    reach = apples.side.astype(jnp.float32) * (CELL / 2)
    inside = (jnp.abs(x) < reach) & (jnp.abs(y) < reach)
    column, row = jnp.floor((x + reach) / CELL), jnp.floor((y + reach) / CELL)
    # Beside 2 ** 23, the last bits of a float are a whole number: XLA's own conversion takes ten times as long.
    index = jax.lax.bitcast_convert_type(row * GRID + column + 2.0**23, jnp.int32) & 0xFF
    there = inside & has(apples.bits_w, index)
    return there, (column + 0.5) * CELL - reach, (row + 0.5) * CELL - reach


def has(bits_w: jax.Array, index: jax.Array) -> jax.Array:
    """Whether a bit is set, for any shape of `index`. Selects, not a gather: XLA does these for many pixels at once."""
    word = bits_w[0]
    for n in range(1, WORDS):
        word = jnp.where(index >= 32 * n, bits_w[n], word)
    return ((word >> (index & 31).astype(jnp.uint32)) & 1) > 0


def shade(apples: Apples, eye: Vector, ray: Vector, distance: jax.Array) -> jax.Array:
    """The brightness of an apple where a ray meets it, which is in the apple's own cell."""
    x, y, z = (start + step * distance for start, step in zip(eye, ray, strict=True))
    _, middle_x, middle_y = look(apples, x, y)
    normal = (x - middle_x, y - middle_y, z - RADIUS)
    return AMBIENT + DIFFUSE / RADIUS * (LIGHT[0] * normal[0] + LIGHT[1] * normal[1] + LIGHT[2] * normal[2])


def shadow(apples: Apples, eye: Vector, ray: Vector) -> jax.Array:
    """How bright the floor is under and around an apple, 1 elsewhere."""
    along = -eye[2] / ray[2]
    x, y = eye[0] + along * ray[0], eye[1] + along * ray[1]
    there, middle_x, middle_y = look(apples, x, y)
    away = ((x - middle_x) ** 2 + (y - middle_y) ** 2) / SHADOW**2
    return jnp.where(there & (away < 1.0), 0.6 + 0.4 * away, 1.0)
