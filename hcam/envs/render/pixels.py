"""What a pixel needs of its frame and does with it: written once for both forms of the ray caster.

A pixel is at (u, v) on the screen. Arrays of any shape can stand for u and v; all numbers of the frame are scalars.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from hcam.envs.render import textures
from hcam.envs.render.solids import FACES, NO_SURFACE, Numbers, Vector, dot, smaller, unpack

LIGHT = (0.42, -0.33, 0.845)  # the direction towards the light: above, east and a little south
AMBIENT, DIFFUSE = 0.66, 0.34  # brightness is AMBIENT + DIFFUSE * cosine, from 0.32 on the far side to 1
WALLS = (0.72, 0.94, 0.98, 0.82)  # brightness of the walls in the east, west, north and south
FLOOR, SHADE = 0.95, 0.4  # brightness of the floor, and how much darker it is in the middle of a shadow
CEILING_FADE = 0.25

EYE, BASIS, HALF, HEIGHT, PIXEL, WALL = 0, 3, 12, 14, 15, 16  # where things stand in Frame.view_n
SURFACE = 12  # numbers of a surface: the normal's nine and the colour's three


class Frame(NamedTuple):
    """A scene and a camera, as numbers for pixels."""

    view_n: jax.Array  # float32: eye, forward, right, up, room's half extents and height, pixel's size, theme
    solid_pn: jax.Array  # float32 [P, 39]: solids.rows
    surface_sn: jax.Array  # float32 [4 P, 12]: the normal as a linear function of the point, and the colour


class Background(NamedTuple):
    """Where a ray leaves the room."""

    distance: jax.Array
    side: jax.Array  # int32: 0 east or west, 1 north or south, 2 floor, 3 ceiling
    point: Vector


def background(view: Numbers, u: jax.Array, v: jax.Array) -> Background:
    ray = direction(view, u, v)
    x = _leave(ray[0], view[HALF], view[EYE])
    y = _leave(ray[1], view[HALF + 1], view[EYE + 1])
    down = ray[2] < 0.0
    z = jnp.where(down, view[EYE + 2], view[HEIGHT] - view[EYE + 2]) / jnp.abs(ray[2])
    distance, side = smaller(x, y), jnp.where(x < y, 0, 1)
    side = jnp.where(z < distance, jnp.where(down, 2, 3), side)
    distance = smaller(z, distance)
    return Background(distance, side, _point(view, ray, distance))


def direction(view: Numbers, u: jax.Array, v: jax.Array) -> Vector:
    x, y, z = ((view[BASIS + n] + v * view[BASIS + 6 + n]) + u * view[BASIS + 3 + n] for n in range(3))
    return x, y, z


def _leave(step: jax.Array, half: jax.Array, start: jax.Array) -> jax.Array:
    """The distance to the walls at -half and half; infinite for a ray along them."""
    return jnp.where(step > 0.0, half - start, half + start) / jnp.abs(step)


def _point(view: Numbers, ray: Vector, distance: jax.Array) -> Vector:
    x, y, z = (view[EYE + n] + ray[n] * distance for n in range(3))
    return x, y, z


def color(
    view: Numbers,
    look: Callable[[jax.Array, int], jax.Array],
    u: jax.Array,
    v: jax.Array,
    key: jax.Array,
    back: Background,
    light: jax.Array,
) -> jax.Array:
    """The pixel, int32: red in the lowest byte, then green and blue.

    Args:
      view: Frame.view_n.
      look: a surface's number at a place of Frame.surface_sn.
      key: the nearest hit.
      light: the least of `solids.darken`.
    """
    distance, surface = unpack(key)
    empty = surface == NO_SURFACE
    ray = direction(view, u, v)
    solid = _solid(look, jnp.where(empty, 0, surface), _point(view, ray, distance), ray)
    room = _room(view, back, light)
    red, green, blue = (_byte(jnp.where(empty, r, s)) for r, s in zip(room, solid, strict=True))
    return red | green << 8 | blue << 16


def split(word_hw: jax.Array) -> jax.Array:
    """The bytes of `color`: uint8 [H, W, 3]."""
    return (word_hw[..., None] >> jnp.array([0, 8, 16], jnp.int32)[None, None]).astype(jnp.uint8)


def _byte(x: jax.Array) -> jax.Array:
    return (smaller(x, jnp.float32(1)) * 255.0 + 0.5).astype(jnp.int32)


def _solid(look: Callable[[jax.Array, int], jax.Array], surface: jax.Array, at: Vector, ray: Vector) -> list[jax.Array]:
    xx, yy, zz, xy, xz, yz, x, y, z, *rgb = (look(surface, n) for n in range(SURFACE))
    normal = (
        xx * at[0] + xy * at[1] + xz * at[2] + x,
        xy * at[0] + yy * at[1] + yz * at[2] + y,
        xz * at[0] + yz * at[1] + zz * at[2] + z,
    )
    cosine = (LIGHT[0] * normal[0] + LIGHT[1] * normal[1] + LIGHT[2] * normal[2]) * jax.lax.rsqrt(dot(normal, normal))
    inwards = dot(normal, ray) > 0.0
    light = AMBIENT + DIFFUSE * jnp.where(inwards, -cosine, cosine)
    return [light * channel for channel in rgb]


def _room(view: Numbers, back: Background, light: jax.Array) -> list[jax.Array]:
    """Walls, floor with shadows, and ceiling."""
    floor, (x, y, z) = back.side >= 2, back.point
    number = [jnp.where(floor, view[WALL + textures.NUMBERS + n], view[WALL + n]) for n in range(textures.NUMBERS)]
    along, across = jnp.where(back.side == 0, y, x), jnp.where(floor, y, z)
    rgb = textures.paint(along, across, back.distance * view[PIXEL], number)
    east, west, north, south = WALLS
    wall = jnp.where(back.side == 0, jnp.where(x > 0.0, east, west), jnp.where(y > 0.0, north, south))
    light = jnp.where(floor, (FLOOR - SHADE) + SHADE * light, wall)
    far = smaller((jnp.abs(x) + jnp.abs(y)) / (view[HALF] + view[HALF + 1]), jnp.float32(1))
    top = 1.0 - CEILING_FADE * far
    ceiling = WALL + 2 * textures.NUMBERS
    return [jnp.where(back.side == 3, view[ceiling + c] * top, rgb[c] * light) for c in range(3)]


def surfaces(quadric_p4: jax.Array, frame_p33: jax.Array, center_p3: jax.Array, color_p3: jax.Array) -> jax.Array:
    """By surface, [4 P, 12]: the normal at a point (xx, yy, zz, xy, xz, yz, x, y, z), and the colour.

    A quadric's gradient is linear in the point; a plane's normal is constant. Neither has length 1, and a plane's can
    point inwards.
    """
    k_p, c_p, b_p = (quadric_p4[:, n] for n in range(3))
    axes = [[frame_p33[:, axis, n] for n in range(3)] for axis in range(3)]
    center = [center_p3[:, n] for n in range(3)]
    zero_p = jnp.zeros_like(k_p)

    def product(m: int, n: int) -> jax.Array:
        return dot((zero_p + 1.0, k_p, c_p), [axis[m] * axis[n] for axis in axes])

    matrix = {(m, n): product(min(m, n), max(m, n)) for m in range(3) for n in range(3)}
    shift = [axes[2][m] * b_p / 2 - dot([matrix[m, n] for n in range(3)], center) for m in range(3)]
    order = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
    curved = [*(matrix[pair] for pair in order), *shift]
    faces = [curved, [zero_p] * 6 + axes[1], [zero_p] * 6 + axes[2], [zero_p] * 9]
    rgb = [color_p3[:, c] for c in range(3)]
    return jnp.stack([jnp.stack(face + rgb, -1) for face in faces], 1).reshape(len(k_p) * FACES, SURFACE)
