"""The one primitive that every object is made of, as data, and where the rays of a camera meet it.

A solid is the part of a quadric between two pairs of planes, in a frame of its own:

    x² + k y² + c z² + b z + a <= 0,   y in [y0, y1],   z in [z0, z1]        with k = 0 or 1

k = 1 gives ellipsoids, domes, cylinders, cones and frustums; k = 0 gives boxes and wedges. What a solid is stands in
its numbers, so that one compiled program draws every scene.

All rays of a frame start at the camera's eye and have a direction F + u R + v U, which is linear in the place (u, v)
on the screen. So everything about a solid that a pixel needs is a polynomial in u and v whose coefficients are computed
once a frame (`rows`): the square root's argument and the leading term of the quadratic equation have degree two, all
else degree one. A pixel then needs some 50 operations per solid, three of them divisions and one a root.
"""

from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

MAX_SOLIDS = 255  # in a scene; the nearest surface's number has ten bits, and two of them say which face
FACES = 4  # numbers per solid: the quadric, the planes of y, the planes of z, one unused
SURFACE_BITS = 10
NO_SURFACE = (1 << SURFACE_BITS) - 1
MARGIN = 1e-3  # on the screen, against rounding
FAR = 1e4  # metres; also where the planes are that bound nothing

ELLIPSOID = (1.0, 1.0, 0.0, -1.0)  # k, c, b, a of the solids that fill -1 .. 1 in all axes
CYLINDER = (1.0, 0.0, 0.0, -1.0)
BOX = (0.0, 0.0, 0.0, -1.0)

Vector = tuple[jax.Array, jax.Array, jax.Array]


class Solids(NamedTuple):
    """P solids. An absent solid costs time but is never seen.

    The rows of a frame must be orthogonal, and a solid must lie within -1 .. 1 along all axes of its frame.
    """

    center_p3: jax.Array  # float32: metres, the origin of the solid's own frame
    frame_p33: jax.Array  # float32: its frame is frame @ (world - center)
    quadric_p4: jax.Array  # float32: k, c, b, a
    bounds_p4: jax.Array  # float32: y0, y1, z0, z1
    color_p3: jax.Array  # float32, 0 .. 1
    shadow_p3: jax.Array  # float32: x, y and radius of the soft shadow on the floor; radius 0 for none
    present_p: jax.Array  # bool


class Row(NamedTuple):
    """Which columns of `rows` hold what. The terms of polynomials are 1, u, v (and u², uv, v²)."""

    root: Any = slice(0, 6)  # the square root's argument, without the term of x²; negative where the ray misses
    lead: Any = slice(6, 12)  # the quadratic equation's leading term, likewise
    half: Any = slice(12, 15)  # half of its linear term, negated, without the term of x
    x: Any = slice(15, 18)  # the direction in the solid's frame
    y: Any = slice(18, 21)
    z: Any = slice(21, 24)
    along: Any = slice(24, 26)  # the factors of the terms in x² and x that `root` and `half` lack
    planes: Any = slice(26, 30)  # where the four planes are, seen from the eye
    least: Any = 30  # of the leading term, for rays along a cylinder; cones have none
    nappe: Any = 31  # +1 or -1: the side of a cone's apex on which the solid is; 0 for others
    shadow: Any = slice(32, 35)  # scale, x, y of the map that takes a shadow's rim to the unit circle
    window: Any = slice(35, 39)  # left, right, low, high: the part of the screen outside which nothing is seen


ROW = Row()
Numbers = Sequence[jax.Array] | jax.Array


def join(*solids: Solids) -> Solids:
    """All of them in one, in this order."""
    together: Solids = jax.tree.map(lambda *x_p: jnp.concatenate(x_p), *solids)
    return together


def cone(top: float) -> tuple[float, float, float, float]:
    """The quadric of a frustum with radius 1 at z = -1 and `top` at z = 1; with k = 0 instead, of a wedge."""
    middle, slope = (1 + top) / 2, (1 - top) / 2
    return 1.0, -slope * slope, 2 * middle * slope, -middle * middle


def rows(solids: Solids, eye: Vector, basis: tuple[Vector, Vector, Vector]) -> jax.Array:
    """What pixels need of each solid, [P, 39], if the eye's ray directions are basis[0] + u basis[1] + v basis[2]."""
    k_p, c_p, b_p, a_p = _columns(solids.quadric_p4)
    center, axes = _columns(solids.center_p3), [_columns(solids.frame_p33[:, axis]) for axis in range(3)]
    x_p, y_p, z_p = (dot(axis, [e - c for e, c in zip(eye, center, strict=True)]) for axis in axes)  # the eye
    seen = [[dot(axis, world) for world in basis] for axis in axes]  # the basis: [axis][term]
    slope_p, level_p = c_p * z_p + b_p / 2, c_p * z_p * z_p + b_p * z_p + a_p
    zero_p, cone_p = jnp.zeros_like(k_p), c_p < 0
    # Discriminant of the equation along a ray, as a quadratic form of the direction. Written out, what would cancel
    # is left out. The term of x² is apart: a box has no other, and keeps it free of rounding where it is near zero,
    # that is where a ray runs along its sides.
    root = (
        zero_p,
        -k_p * (x_p * x_p + level_p),
        b_p * b_p / 4 - c_p * (x_p * x_p + k_p * y_p * y_p + a_p),
        k_p * x_p * y_p,
        x_p * slope_p,
        k_p * y_p * slope_p,
    )
    y0_p, y1_p, z0_p, z1_p = _columns(solids.bounds_p4)
    never = [zero_p - 1.0] + [zero_p] * 5
    columns = [
        *(jnp.where(solids.present_p, *pair) for pair in zip(_quadratic(root, seen), never, strict=True)),
        *_quadratic((zero_p, k_p, c_p, zero_p, zero_p, zero_p), seen),
        *(-(k_p * y_p * y + slope_p * z) for y, z in zip(*seen[1:], strict=True)),
        seen[0][0]
        + 1e-7 * jnp.sqrt(dot(axes[0], axes[0])),  # never 0: a ray straight along a box must not divide by it
        *seen[0][1:],
        *seen[1],
        *seen[2],
        jnp.where(solids.present_p, -(k_p * y_p * y_p + level_p), 0.0),
        -x_p,
        *(y0_p - y_p, y1_p - y_p, z0_p - z_p, z1_p - z_p),
        jnp.where(cone_p, -FAR * FAR, jnp.where(k_p > 0.0, 1e-7, 0.0)),
        jnp.where(cone_p, -jnp.sign((z0_p + z1_p) * c_p + b_p), 0.0),
        *_shadow(solids),
        *_window(solids, axes, eye, basis),
    ]
    return jnp.stack(columns, -1)


def _shadow(solids: Solids) -> list[jax.Array]:
    x_p, y_p, radius_p = _columns(solids.shadow_p3)
    there_p = solids.present_p & (radius_p > 0.0)
    scale_p = jnp.where(there_p, 1.0 / larger(radius_p, jnp.float32(1e-6)), 0.0)
    return [scale_p, *(jnp.where(there_p, -at_p * scale_p, 2.0) for at_p in (x_p, y_p))]


def _window(solids: Solids, axes: list[Vector], eye: Vector, basis: tuple[Vector, Vector, Vector]) -> list[jax.Array]:
    """Around the corners of the solid's box; all of the screen if a corner is beside or behind the eye."""
    center = _columns(solids.center_p3)
    middle = [dot([c - e for c, e in zip(center, eye, strict=True)], world) for world in basis]
    spans = [[dot(axis, world) / dot(axis, axis) for world in basis] for axis in axes]  # half a box, in the view
    signs = [(sx, sy, sz) for sx in (-1.0, 1.0) for sy in (-1.0, 1.0) for sz in (-1.0, 1.0)]
    corners = [[m + sum(s * span[t] for s, span in zip(sign, spans, strict=True)) for t, m in enumerate(middle)]
               for sign in signs]  # fmt: skip
    near_p, far_p = (_fold(pick, [corner[0] for corner in corners]) for pick in (smaller, larger))
    bounds = []
    for term in (1, 2):
        places = [corner[term] / larger(corner[0], jnp.float32(0.05)) for corner in corners]
        bounds += [_fold(smaller, places) - MARGIN, _fold(larger, places) + MARGIN]
    hidden_p = (far_p <= 0.0) | ~solids.present_p
    wide = (-FAR, FAR, -FAR, FAR)
    shown = [jnp.where(near_p < 0.05, w, x_p) for w, x_p in zip(wide, bounds, strict=True)]
    return [jnp.where(hidden_p, -w, x_p) for w, x_p in zip(wide, shown, strict=True)]


def _fold(pick: Any, values: list[jax.Array]) -> jax.Array:
    result: jax.Array = reduce(pick, values)
    return result


def nearest(row: Numbers, number: jax.Array | int, u: jax.Array, v: jax.Array, key: jax.Array) -> jax.Array:
    """The smaller of `key` and the key of one solid's hit (`number` is 4 times the solid's place in the scene).

    A key is an int32 that holds the distance in its upper bits and the surface in its lower ones, so that the nearest
    hit is a minimum. `row` is one solid's of `rows`; u and v are places on the screen.
    """
    x, y, z = (_at3(row[which], u, v) for which in (ROW.x, ROW.y, ROW.z))
    factor = row[ROW.along]
    root, lead = x * x * factor[0] + _at6(row[ROW.root], u, v), x * x + _at6(row[ROW.lead], u, v)
    lead = larger(lead, row[ROW.least])
    inverse = 1.0 / lead
    middle = (x * factor[1] + _at3(row[ROW.half], u, v)) * inverse
    reach = jnp.sqrt(root) * inverse  # not a number where the ray misses
    # A ray along a cone's inside meets both of its nappes: the stretch inside is open to one end.
    open_, ahead = lead < 0.0, z * row[ROW.nappe] > 0.0
    enter = jnp.where(open_ & ~ahead, -FAR, middle - reach)
    leave = jnp.where(open_ & ahead, FAR, middle + reach)
    face = jnp.int32(0)
    planes = row[ROW.planes]
    for axis, direction in ((1, y), (2, z)):
        inverse = 1.0 / direction
        first, second = planes[2 * axis - 2] * inverse, planes[2 * axis - 1] * inverse
        begin, end = smaller(first, second), larger(first, second)
        face = jnp.where(begin > enter, jnp.int32(axis), face)
        enter, leave = larger(begin, enter), smaller(end, leave)
    hit = (enter < leave) & (enter > 0.0)  # false where it is not a number
    bits = jax.lax.bitcast_convert_type(enter, jnp.int32) & jnp.int32(~NO_SURFACE) | (face + number)
    return jnp.minimum(key, jnp.where(hit, bits, jnp.int32(2**31 - 1)))


def darken(row: Numbers, x: jax.Array, y: jax.Array, light: jax.Array) -> jax.Array:
    """The smaller of `light` and the squared distance from a shadow's middle, where its rim is at 1."""
    scale, shift_x, shift_y = row[ROW.shadow]
    x, y = x * scale + shift_x, y * scale + shift_y
    return smaller(x * x + y * y, light)


def pack(distance: jax.Array) -> jax.Array:
    """The key of a hit at this distance with no solid's surface."""
    key: jax.Array = jax.lax.bitcast_convert_type(distance, jnp.int32) | jnp.int32(NO_SURFACE)
    return key


def unpack(key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Distance (in lengths of the ray's direction) and surface of a key."""
    return jax.lax.bitcast_convert_type(key & jnp.int32(~NO_SURFACE), jnp.float32), key & jnp.int32(NO_SURFACE)


# jnp.maximum hands on what is not a number, at the price of three instructions on a CPU; these are one.
def larger(x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.where(x > y, x, y)


def smaller(x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.where(x < y, x, y)


def dot(left: Sequence[jax.Array], right: Sequence[jax.Array]) -> jax.Array:
    return left[0] * right[0] + left[1] * right[1] + left[2] * right[2]


def _columns(x_pn: jax.Array) -> Any:
    return tuple(x_pn[:, n] for n in range(x_pn.shape[1]))


def _quadratic(form: tuple[jax.Array, ...], seen: list[list[jax.Array]]) -> list[jax.Array]:
    """The form (xx, yy, zz, xy, xz, yz) of the direction, as the six terms of a polynomial in u and v."""
    xx, yy, zz, xy, xz, yz = form

    def product(m: int, n: int) -> jax.Array:
        (x, y, z), (x_, y_, z_) = ([axis[term] for axis in seen] for term in (m, n))
        mixed = xy * (x * y_ + y * x_) + xz * (x * z_ + z * x_) + yz * (y * z_ + z * y_)
        return xx * x * x_ + yy * y * y_ + zz * z * z_ + mixed

    pairs = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))
    return [product(m, n) if m == n else 2 * product(m, n) for m, n in pairs]


def _at3(term_n: Numbers, u: jax.Array, v: jax.Array) -> jax.Array:
    return (term_n[0] + term_n[2] * v) + term_n[1] * u


def _at6(term_n: Numbers, u: jax.Array, v: jax.Array) -> jax.Array:
    """What depends on v alone stands apart, so that it is computed once a row."""
    return (term_n[0] + v * (term_n[2] + v * term_n[5])) + u * ((term_n[1] + v * term_n[4]) + u * term_n[3])
