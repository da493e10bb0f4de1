"""First-person pictures of rooms with objects in them: a ray caster in pure JAX.

Metres and radians; x is east, y is north, z is up, and the floor is z = 0. A scene is data: one compiled program
renders every scene with as many solids, whatever they are. Equal scenes give equal bytes, and an absent solid does not
change a byte.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from hcam.envs.render import textures
from hcam.envs.render.solids import (
    FACES,
    MAX_SOLIDS,
    NO_SURFACE,
    Coefficients,
    Solids,
    Vector,
    coefficients,
    dot,
    join,
    larger,
    nearest,
    pack,
    smaller,
    unpack,
)

__all__ = ["Camera", "Room", "Scene", "Solids", "join", "render"]

FIELD_OF_VIEW = math.radians(80)  # horizontal
LIGHT = (0.42, -0.33, 0.845)  # the direction towards the light: above, east and a little south
AMBIENT, DIFFUSE = 0.66, 0.34  # brightness is AMBIENT + DIFFUSE * cosine, from 0.32 on the far side to 1
BLOCK = 4  # solids per iteration


class Camera(NamedTuple):
    position: jax.Array  # float32 [3]
    yaw: jax.Array  # float32: 0 looks north (+y), grows clockwise
    pitch: jax.Array  # float32: positive looks up


class Room(NamedTuple):
    """The box |x| <= half[0], |y| <= half[1], 0 <= z <= height. The camera must be inside."""

    half: jax.Array  # float32 [2]
    height: jax.Array  # float32
    theme: jax.Array  # int32, the number of one of textures.THEMES


class Scene(NamedTuple):
    room: Room
    solids: Solids


def render(scene: Scene, camera: Camera, height: int = 72, width: int = 96) -> jax.Array:
    """What the camera sees: uint8 [height, width, 3]. Pixels are square."""
    count = len(scene.solids.present_p)
    if count > MAX_SOLIDS:
        raise ValueError(f"A scene can have {MAX_SOLIDS} solids, but this one has {count}: leave some out.")
    basis = view(camera)
    eye = (camera.position[0], camera.position[1], camera.position[2])
    u_hw, v_hw = screen(height, width)
    ray = (
        basis[0][0] + u_hw * basis[1][0] + v_hw * basis[2][0],
        basis[0][1] + u_hw * basis[1][1] + v_hw * basis[2][1],
        basis[0][2] + v_hw * basis[2][2],
    )
    wall_hw, side_hw = enclose(scene.room, eye, ray)
    key_hw = cast(coefficients(scene.solids, eye, basis), u_hw, v_hw, pack(wall_hw))
    distance_hw, surface_hw = unpack(key_hw)
    solid = shade_solids(scene.solids, surface_hw, point(eye, ray, distance_hw), ray)
    back = shade_room(scene, side_hw, point(eye, ray, wall_hw), wall_hw * (2 * math.tan(FIELD_OF_VIEW / 2) / width))
    rgb = [jnp.where(surface_hw == NO_SURFACE, b, s) for b, s in zip(back, solid, strict=True)]
    return jnp.stack([(smaller(c, 1.0) * 255.0 + 0.5).astype(jnp.uint8) for c in rgb], -1)


def view(camera: Camera) -> tuple[Vector, Vector, Vector]:
    """The directions forward, right and up of the camera's picture."""
    sin, cos = jnp.sin(camera.yaw), jnp.cos(camera.yaw)
    rise, run = jnp.sin(camera.pitch), jnp.cos(camera.pitch)
    return (sin * run, cos * run, rise), (cos, -sin, jnp.zeros_like(sin)), (-sin * rise, -cos * rise, run)


def screen(height: int, width: int) -> tuple[jax.Array, jax.Array]:
    """Where the pixels' centres are, 1 in front of the eye: to the right [1, W], up [H, 1]."""
    pixel = 2 * math.tan(FIELD_OF_VIEW / 2) / width
    u_1w = (jnp.arange(width, dtype=jnp.float32) - (width - 1) / 2) * pixel
    v_h1 = ((height - 1) / 2 - jnp.arange(height, dtype=jnp.float32)) * pixel
    return u_1w[None, :], v_h1[:, None]


def point(eye: Vector, ray: Vector, distance: jax.Array) -> Vector:
    x, y, z = (start + step * distance for start, step in zip(eye, ray, strict=True))
    return x, y, z


def enclose(room: Room, eye: Vector, ray: Vector) -> tuple[jax.Array, jax.Array]:
    """The distance to the room's inside, and the side that is hit: 0 east or west, 1 north or south, 2 floor, 3 top."""
    x = _leave(ray[0], room.half[0], eye[0])
    y = _leave(ray[1], room.half[1], eye[1])
    down = ray[2] < 0.0
    z = jnp.where(down, -eye[2], room.height - eye[2]) / ray[2]
    distance, side = smaller(x, y), jnp.where(x < y, 0, 1)
    side = jnp.where(z < distance, jnp.where(down, 2, 3), side)
    return smaller(z, distance), side


def _leave(step: jax.Array, half: jax.Array, start: jax.Array) -> jax.Array:
    return (jnp.where(step > 0.0, half, -half) - start) / step


def cast(solid_p: Coefficients, u_1w: jax.Array, v_h1: jax.Array, key_hw: jax.Array) -> jax.Array:
    """The keys of the nearest hits."""
    count = len(solid_p.least_p)
    blocks = -(-count // BLOCK)
    pad = blocks * BLOCK - count
    absent_p = jnp.arange(blocks * BLOCK) >= count
    padded_p = jax.tree.map(lambda x_p: jnp.pad(x_p, ((0, pad),) + ((0, 0),) * (x_p.ndim - 1)), solid_p)
    root_p6 = jnp.where(absent_p[:, None], -1.0, padded_p.root_p6)
    block_np = jax.tree.map(lambda x_p: x_p.reshape(blocks, BLOCK, *x_p.shape[1:]), padded_p._replace(root_p6=root_p6))

    def add(key_hw: jax.Array, block: tuple[jax.Array, Coefficients]) -> tuple[jax.Array, None]:
        first, some = block
        for p in range(BLOCK):
            one = jax.tree.map(lambda x_p: x_p[p], some)  # noqa: B023
            key_hw = nearest(one, (first + p) * FACES, u_1w, v_h1, key_hw)
        return key_hw, None

    key_hw, _ = jax.lax.scan(add, key_hw, (jnp.arange(blocks, dtype=jnp.int32) * BLOCK, block_np))
    return key_hw


def surfaces(solids: Solids) -> jax.Array:
    """By surface: the normal as a linear function of the point (xx, yy, zz, xy, xz, yz, x, y, z): [4 P, 9]."""
    k_p, c_p, b_p, _ = (solids.quadric_p4[:, n] for n in range(4))
    rows = [tuple(solids.frame_p33[:, axis, n] for n in range(3)) for axis in range(3)]
    center = tuple(solids.center_p3[:, n] for n in range(3))
    weight = (jnp.ones_like(k_p), k_p, c_p)

    def product(m: int, n: int) -> jax.Array:
        return dot(weight, tuple(row[m] * row[n] for row in rows))

    matrix = {(m, n): product(m, n) for m in range(3) for n in range(m, 3)}
    shift = [
        rows[2][m] * b_p / 2 - dot(tuple(matrix[min(m, n), max(m, n)] for n in range(3)), center) for m in range(3)
    ]
    order = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
    curved_p9 = jnp.stack([*(matrix[pair] for pair in order), *shift], -1)
    flat_p9 = [jnp.stack([jnp.zeros_like(k_p)] * 6 + list(rows[axis]), -1) for axis in (1, 2)]
    return jnp.stack([curved_p9, *flat_p9, flat_p9[0]], 1).reshape(-1, 9)


def shade_solids(solids: Solids, surface_hw: jax.Array, place: Vector, ray: Vector) -> list[jax.Array]:
    table_s9, color_p3 = surfaces(solids), solids.color_p3
    index_hw = smaller(surface_hw, jnp.int32(len(table_s9) - 1))

    def look(x_n: jax.Array, index_hw: jax.Array) -> jax.Array:
        return x_n.at[index_hw].get(mode="promise_in_bounds")

    xx, yy, zz, xy, xz, yz, x, y, z = (look(table_s9[:, n], index_hw) for n in range(9))
    normal = (
        xx * place[0] + xy * place[1] + xz * place[2] + x,
        xy * place[0] + yy * place[1] + yz * place[2] + y,
        xz * place[0] + yz * place[1] + zz * place[2] + z,
    )
    inwards = dot(normal, ray) > 0.0
    cosine = (LIGHT[0] * normal[0] + LIGHT[1] * normal[1] + LIGHT[2] * normal[2]) * jax.lax.rsqrt(dot(normal, normal))
    light = AMBIENT + DIFFUSE * jnp.where(inwards, -cosine, cosine)
    return [light * look(color_p3[:, c], index_hw // FACES) for c in range(3)]


def shade_room(scene: Scene, side_hw: jax.Array, place: Vector, blur_hw: jax.Array) -> list[jax.Array]:
    """The colour of walls, floor with shadows, and ceiling where the rays leave the room."""
    number_wn = jnp.asarray(textures.table())[scene.room.theme]
    floor = side_hw >= 2
    number = [jnp.where(floor, number_wn[1, n], number_wn[0, n]) for n in range(17)]
    along = jnp.where(side_hw == 0, place[1], place[0])
    across = jnp.where(floor, place[1], place[2])
    rgb = textures.paint(along, across, blur_hw, number)
    east, north = place[0] > 0.0, place[1] > 0.0
    wall = jnp.where(side_hw == 0, jnp.where(east, 0.72, 0.94), jnp.where(north, 0.98, 0.82))
    light = jnp.where(floor, shadow(scene.solids, place), wall)
    far = smaller((jnp.abs(place[0]) + jnp.abs(place[1])) / (scene.room.half[0] + scene.room.half[1]), 1.0)
    top = 1.0 - 0.25 * far
    return [jnp.where(side_hw == 3, number_wn[1, 17 + c] * top, rgb[c] * light) for c in range(3)]


def shadow(solids: Solids, place: Vector) -> jax.Array:
    """The brightness of the floor: darker under solids."""
    radius_p = solids.shadow_p3[:, 2]
    scale_p = jnp.where(solids.present_p & (radius_p > 0.0), 1.0 / larger(radius_p, jnp.float32(1e-6)), 0.0)
    shift_p = [jnp.where(scale_p > 0.0, -solids.shadow_p3[:, n] * scale_p, 2.0) for n in range(2)]
    nearest = jnp.ones_like(place[0])
    for p in range(len(radius_p)):
        x, y = place[0] * scale_p[p] + shift_p[0][p], place[1] * scale_p[p] + shift_p[1][p]
        nearest = smaller(nearest, x * x + y * y)
    return 0.55 + 0.4 * nearest
