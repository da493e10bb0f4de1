"""A field of apples: one in each of some cells of a square grid, drawn over a picture of an empty room.

A hundred apples as solids would cost more than the rest of the picture. But they all lie on the floor, so a ray can meet
one only on the short stretch on which it is lower than an apple is high: 0.3 m before the floor for each metre that it
has come. A line that passes within 0.2 cells of a cell's middle is in this cell for at least a cell's length, so one
place per cell's length on that stretch finds every apple: SAMPLES places a pixel, some 30 operations each, whatever the
number of apples.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from hcam.envs.render.raycast import AMBIENT, DIFFUSE, LIGHT, Camera, screen, view
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


class Hit(NamedTuple):
    """The nearest apple on a ray: where it is, seen from the eye, and the terms of the ray's equation with it."""

    hit: jax.Array  # bool
    x: jax.Array
    y: jax.Array
    half: jax.Array
    root: jax.Array


def overlay(image_hwc: jax.Array, apples: Apples, camera: Camera) -> jax.Array:
    """The picture (uint8 [height, width, 3]) with the apples in it.

    The room must be empty: apples are drawn before all that is in the picture. The camera must be above them. Without
    apples, not a byte changes.
    """
    height, width, _ = image_hwc.shape
    ahead, right, up = view(camera)
    u_1w, v_h1 = screen(height, width)
    x, y, z = (ahead[axis] + u_1w * right[axis] + v_h1 * up[axis] for axis in range(3))
    ray = (x, y, jnp.where(z < -1e-3, z, -1e-3))  # a ray that rises meets an apple as little as one that hardly falls
    eye = (camera.position[0], camera.position[1], camera.position[2])
    found = nearest(apples, eye, ray)
    light, color = shade(found, eye, ray), shadow(apples, eye, ray)
    channels = [
        jnp.where(found.hit, RGB[c] * 255.0 * light, image_hwc[..., c].astype(jnp.float32) * color) for c in range(3)
    ]
    return jnp.stack([(channel + 0.5).astype(jnp.uint8) for channel in channels], -1)


def nearest(apples: Apples, eye: Vector, ray: Vector) -> Hit:
    """From far to near, so that the nearest apple is the last that is found."""
    squared = dot(ray, ray)
    pace = jax.lax.rsqrt(ray[0] * ray[0] + ray[1] * ray[1])  # of the ray's parameter, for a metre on the floor
    begin = (2 * RADIUS - eye[2]) / ray[2]
    down = RADIUS - eye[2]
    fixed = down * ray[2]
    zero = jnp.zeros_like(squared)
    found = Hit(zero > 0.0, zero, zero, zero, zero)
    for sample in reversed(range(SAMPLES)):
        along = begin + ((sample + 0.5) * CELL) * pace
        there, x, y = look(apples, eye[0] + along * ray[0], eye[1] + along * ray[1])
        x, y = x - eye[0], y - eye[1]
        half = x * ray[0] + y * ray[1] + fixed
        root = half * half - squared * (x * x + y * y + (down * down - RADIUS * RADIUS))
        hit = there & (root > 0.0)
        new = Hit(hit, x, y, half, root)
        found = Hit(found.hit | hit, *(jnp.where(hit, one, two) for one, two in zip(new[1:], found[1:], strict=True)))
    return found


def look(apples: Apples, x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Whether there is an apple in the cell of a place on the floor, and the middle of that cell."""
    side = apples.side
    middle = side.astype(jnp.float32) * (CELL / 2)
    column, row = jnp.floor((x + middle) / CELL), jnp.floor((y + middle) / CELL)
    cell_x, cell_y = column.astype(jnp.int32), row.astype(jnp.int32)
    inside = (cell_x.astype(jnp.uint32) < side.astype(jnp.uint32)) & (
        cell_y.astype(jnp.uint32) < side.astype(jnp.uint32)
    )
    there = inside & has(apples.bits_w, cell_y * GRID + cell_x)
    return there, (column + 0.5) * CELL - middle, (row + 0.5) * CELL - middle


def has(bits_w: jax.Array, index: jax.Array) -> jax.Array:
    """Whether a bit is set, for any shape of `index`. Selects, not a gather: XLA does these for many pixels at once."""
    word = bits_w[0]
    for n in range(1, WORDS):
        word = jnp.where(index >= 32 * n, bits_w[n], word)
    return ((word >> (index & 31).astype(jnp.uint32)) & 1) > 0


def shade(found: Hit, eye: Vector, ray: Vector) -> jax.Array:
    """The brightness of an apple where a ray meets it."""
    distance = (found.half - jnp.sqrt(jnp.maximum(found.root, 0.0))) / dot(ray, ray)
    from_middle = (found.x, found.y, RADIUS - eye[2])
    normal = [(step * distance - middle) / RADIUS for step, middle in zip(ray, from_middle, strict=True)]
    return AMBIENT + DIFFUSE * (LIGHT[0] * normal[0] + LIGHT[1] * normal[1] + LIGHT[2] * normal[2])


def shadow(apples: Apples, eye: Vector, ray: Vector) -> jax.Array:
    """How bright the floor is under and around an apple, 1 elsewhere."""
    along = -eye[2] / ray[2]
    x, y = eye[0] + along * ray[0], eye[1] + along * ray[1]
    there, middle_x, middle_y = look(apples, x, y)
    away = ((x - middle_x) ** 2 + (y - middle_y) ** 2) / SHADOW**2
    return jnp.where(there & (away < 1.0), 0.6 + 0.4 * away, 1.0)
