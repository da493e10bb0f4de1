"""The one primitive that every object is made of, as data, and where the rays of a camera meet it.

A solid is the part of a quadric between two pairs of planes, in a frame of its own:

    x² + k y² + c z² + b z + a <= 0,   y in [y0, y1],   z in [z0, z1]        with k = 0 or 1

k = 1 gives ellipsoids, domes, cylinders, cones and frustums; k = 0 gives boxes and wedges. What a solid is stands in
its numbers, so that one compiled program draws every scene.

All rays of a frame start at the camera's eye and have a direction F + u R + v U, which is linear in the place (u, v)
on the screen. So everything about a solid that a pixel needs is a polynomial in u and v whose coefficients are computed
once a frame (`coefficients`): the square root's argument and the leading term of the quadratic equation have degree
two, all else degree one. A pixel then needs 41 operations per solid, three of them divisions and one a root.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

MAX_SOLIDS = 255  # in a scene; the nearest surface's number has ten bits, and two of them say which face
FACES = 4  # numbers per solid: the quadric, the planes of y, the planes of z, one unused
SURFACE_BITS = 10
NO_SURFACE = (1 << SURFACE_BITS) - 1
FAR = 1e4  # metres; also where the planes are that bound nothing

ELLIPSOID = (1.0, 1.0, 0.0, -1.0)  # k, c, b, a of the solids that fill -1 .. 1 in all axes
CYLINDER = (1.0, 0.0, 0.0, -1.0)
BOX = (0.0, 0.0, 0.0, -1.0)

Vector = tuple[jax.Array, jax.Array, jax.Array]


class Solids(NamedTuple):
    """P solids. An absent solid costs time but is never seen."""

    center_p3: jax.Array  # float32: metres, the origin of the solid's own frame
    frame_p33: jax.Array  # float32: its frame is frame @ (world - center)
    quadric_p4: jax.Array  # float32: k, c, b, a
    bounds_p4: jax.Array  # float32: y0, y1, z0, z1
    color_p3: jax.Array  # float32, 0 .. 1
    shadow_p3: jax.Array  # float32: x, y and radius of the soft shadow on the floor; radius 0 for none
    present_p: jax.Array  # bool


class Coefficients(NamedTuple):
    """What the pixels of a frame need to know about each solid; the terms are 1, u, v (and u², uv, v²)."""

    root_p6: jax.Array  # the square root's argument, negative where the ray misses
    lead_p6: jax.Array  # the quadratic equation's leading term
    half_p3: jax.Array  # half of its linear term, negated
    y_p3: jax.Array  # the direction's y and z in the solid's frame
    z_p3: jax.Array
    planes_p4: jax.Array  # where the four planes are, seen from the eye
    least_p: jax.Array  # smallest leading term, against rays parallel to a cylinder; cones have none
    nappe_p: jax.Array  # +1 or -1: the side of a cone's apex on which the solid is; 0 for others


def join(*solids: Solids) -> Solids:
    """All of them in one, in this order."""
    return jax.tree.map(lambda *x_p: jnp.concatenate(x_p), *solids)


def cone(top: float) -> tuple[float, float, float, float]:
    """The quadric of a frustum with radius 1 at z = -1 and `top` at z = 1; with k = 0 instead, of a wedge."""
    middle, slope = (1 + top) / 2, (1 - top) / 2
    return 1.0, -slope * slope, 2 * middle * slope, -middle * middle


def coefficients(solids: Solids, eye: Vector, basis: tuple[Vector, Vector, Vector]) -> Coefficients:
    """For a camera at `eye` whose ray directions are basis[0] + u basis[1] + v basis[2]."""
    k_p, c_p, b_p, a_p = _columns(solids.quadric_p4)
    away = tuple(x - x_p for x, x_p in zip(eye, _columns(solids.center_p3), strict=True))
    rows = [_columns(solids.frame_p33[:, axis]) for axis in range(3)]
    x_p, y_p, z_p = (dot(row, away) for row in rows)  # the eye in the solid's frame
    seen = [[dot(row, world) for world in basis] for row in rows]  # the basis in the solid's frame: [axis][term]
    slope_p = c_p * z_p + b_p / 2
    level_p = c_p * z_p * z_p + b_p * z_p + a_p
    # Discriminant of the equation along a ray, as a quadratic form of the direction. Written out, what would cancel
    # is left out: a thin wall far away keeps its thickness.
    root = (
        -(k_p * y_p * y_p + level_p),
        -k_p * (x_p * x_p + level_p),
        b_p * b_p / 4 - c_p * (x_p * x_p + k_p * y_p * y_p + a_p),
        k_p * x_p * y_p,
        x_p * slope_p,
        k_p * y_p * slope_p,
    )
    zero_p = jnp.zeros_like(k_p)
    root_p6 = _quadratic(root, seen)
    never_p6 = jnp.array([-1.0, 0, 0, 0, 0, 0], jnp.float32)[None]
    y0_p, y1_p, z0_p, z1_p = _columns(solids.bounds_p4)
    cone_p = c_p < 0
    return Coefficients(
        root_p6=jnp.where(solids.present_p[:, None], root_p6, never_p6),
        lead_p6=_quadratic((jnp.ones_like(k_p), k_p, c_p, zero_p, zero_p, zero_p), seen),
        half_p3=-jnp.stack([x_p * x + k_p * y_p * y + slope_p * z for x, y, z in zip(*seen, strict=True)], -1),
        y_p3=jnp.stack(seen[1], -1),
        z_p3=jnp.stack(seen[2], -1),
        planes_p4=jnp.stack([y0_p - y_p, y1_p - y_p, z0_p - z_p, z1_p - z_p], -1),
        least_p=jnp.where(cone_p, -FAR, 1e-7),
        nappe_p=jnp.where(cone_p, jnp.sign((z0_p + z1_p) * c_p + b_p) * -1.0, 0.0),
    )


def nearest(one: Coefficients, number: jax.Array | int, u: jax.Array, v: jax.Array, key: jax.Array) -> jax.Array:
    """The smaller of `key` and the key of one solid's hit (`number` is 4 times the solid's place in the scene).

    A key is an int32 that holds the distance in its upper bits and the surface in its lower ones, so that the nearest
    hit is a minimum. `one` holds the coefficients of one solid, u and v are places on the screen.
    """
    root, lead = _at6(one.root_p6, u, v), _at6(one.lead_p6, u, v)
    lead = larger(lead, one.least_p)
    inverse = 1.0 / lead
    middle, reach = _at3(one.half_p3, u, v) * inverse, jnp.sqrt(root) * inverse  # not a number where the ray misses
    y, z = _at3(one.y_p3, u, v), _at3(one.z_p3, u, v)
    # A ray along a cone's inside meets both of its nappes: the stretch inside is open to one end.
    open_, ahead = lead < 0.0, z * one.nappe_p > 0.0
    enter = jnp.where(open_ & ~ahead, -FAR, middle - reach)
    leave = jnp.where(open_ & ahead, FAR, middle + reach)
    face = jnp.int32(0)
    for axis, direction in ((1, y), (2, z)):
        inverse = 1.0 / direction
        first, second = one.planes_p4[2 * axis - 2] * inverse, one.planes_p4[2 * axis - 1] * inverse
        begin, end = smaller(first, second), larger(first, second)
        face = jnp.where(begin > enter, jnp.int32(axis), face)
        enter, leave = larger(begin, enter), smaller(end, leave)
    hit = (enter < leave) & (enter > 0.0)  # false where it is not a number
    bits = jax.lax.bitcast_convert_type(enter, jnp.int32) & jnp.int32(~NO_SURFACE) | (face + number)
    return jnp.minimum(key, jnp.where(hit, bits, jnp.int32(2**31 - 1)))


def pack(distance: jax.Array) -> jax.Array:
    """The key of a hit at this distance with no solid's surface."""
    return jax.lax.bitcast_convert_type(distance, jnp.int32) | jnp.int32(NO_SURFACE)


def unpack(key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Distance (in lengths of the ray's direction) and surface of a key."""
    return jax.lax.bitcast_convert_type(key & jnp.int32(~NO_SURFACE), jnp.float32), key & jnp.int32(NO_SURFACE)


# jnp.maximum hands on what is not a number, at the price of three instructions on a CPU; these are one.
def larger(x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.where(x > y, x, y)


def smaller(x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.where(x < y, x, y)


def dot(left: tuple[jax.Array, ...], right: tuple[jax.Array, ...]) -> jax.Array:
    return left[0] * right[0] + left[1] * right[1] + left[2] * right[2]


def _columns(x_pn: jax.Array) -> tuple[jax.Array, ...]:
    return tuple(x_pn[:, n] for n in range(x_pn.shape[1]))


def _quadratic(form: tuple[jax.Array, ...], seen: list[list[jax.Array]]) -> jax.Array:
    """The form (xx, yy, zz, xy, xz, yz) of the direction, as a polynomial in u and v: [P, 6]."""
    xx, yy, zz, xy, xz, yz = form

    def product(m: int, n: int) -> jax.Array:
        (x, y, z), (x_, y_, z_) = ([axis[term] for axis in seen] for term in (m, n))
        mixed = xy * (x * y_ + y * x_) + xz * (x * z_ + z * x_) + yz * (y * z_ + z * y_)
        return xx * x * x_ + yy * y * y_ + zz * z * z_ + mixed

    return jnp.stack(
        [product(0, 0), 2 * product(0, 1), 2 * product(0, 2), product(1, 1), 2 * product(1, 2), product(2, 2)], -1
    )


def _at3(term_n: jax.Array, u: jax.Array, v: jax.Array) -> jax.Array:
    return (term_n[0] + term_n[2] * v) + term_n[1] * u


def _at6(term_n: jax.Array, u: jax.Array, v: jax.Array) -> jax.Array:
    """What depends on v alone stands apart, so that it is computed once a row."""
    return (term_n[0] + v * (term_n[2] + v * term_n[5])) + u * ((term_n[1] + v * term_n[4]) + u * term_n[3])
