"""First-person pictures of rooms with objects in them: a ray caster in pure JAX.

Metres and radians; x is east, y is north, z is up, and the floor is z = 0. A scene is data: one compiled program
renders every scene with as many solids, whatever they are. Equal scenes give equal bytes, and an absent solid does not
change a byte. docs/log/2026-11-18-ray-caster.md has the numbers.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from hcam.envs.render import kernel, pixels, textures
from hcam.envs.render.pixels import Frame
from hcam.envs.render.solids import FACES, MAX_SOLIDS, Solids, Vector, darken, join, nearest, pack, rows

__all__ = ["Camera", "Room", "Scene", "Solids", "join", "render"]

FIELD_OF_VIEW = math.radians(80)  # horizontal
BLOCK = 4  # solids per iteration of the plain form


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
    if not 1 <= count <= MAX_SOLIDS:
        raise ValueError(f"A scene must have 1 to {MAX_SOLIDS} solids, but this one has {count}.")
    u_w, v_h = screen(height, width)
    forms = {"cuda": kernel.words, "default": words}
    word_hw: jax.Array = jax.lax.platform_dependent(frame(scene, camera, width), u_w, v_h, **forms)
    return pixels.split(word_hw)


def screen(height: int, width: int) -> tuple[jax.Array, jax.Array]:
    """Where the pixels' centres are on a screen at distance 1: to the right [W], up [H]."""
    u_w = (jnp.arange(width, dtype=jnp.float32) - (width - 1) / 2) * _pixel(width)
    v_h = ((height - 1) / 2 - jnp.arange(height, dtype=jnp.float32)) * _pixel(width)
    return u_w, v_h


def _pixel(width: int) -> float:
    return 2 * math.tan(FIELD_OF_VIEW / 2) / width


def frame(scene: Scene, camera: Camera, width: int) -> Frame:
    """What the pixels of a picture need; P is the number of solids, rounded up to whole blocks."""
    eye, basis = (camera.position[0], camera.position[1], camera.position[2]), view(camera)
    room, solids = scene.room, _fill(scene.solids)
    numbers = [*eye, *(x for vector in basis for x in vector), room.half[0], room.half[1], room.height]
    theme_n = jnp.asarray(textures.table())[room.theme]
    return Frame(
        view_n=jnp.concatenate([jnp.stack([*numbers, jnp.float32(_pixel(width))]), theme_n]),
        solid_pn=rows(solids, eye, basis),
        surface_sn=pixels.surfaces(solids.quadric_p4, solids.frame_p33, solids.center_p3, solids.color_p3),
    )


def view(camera: Camera) -> tuple[Vector, Vector, Vector]:
    """The directions forward, right and up of the camera's picture."""
    sin, cos = jnp.sin(camera.yaw), jnp.cos(camera.yaw)
    rise, run = jnp.sin(camera.pitch), jnp.cos(camera.pitch)
    return (sin * run, cos * run, rise), (cos, -sin, jnp.zeros_like(sin)), (-sin * rise, -cos * rise, run)


def words(frame: Frame, u_w: jax.Array, v_h: jax.Array) -> jax.Array:
    """The picture, one int32 per pixel: the plain form, in which all pixels meet one block of solids after the other.

    The colours are computed in a last iteration of the same loop. What leaves a loop is stored, whereas XLA would fuse
    colours computed after it into their consumer, and compute them once for every byte of a pixel.
    """
    u_1w, v_h1 = u_w[None, :], v_h[:, None]
    blocks = len(frame.solid_pn) // BLOCK
    back = pixels.background(frame.view_n, u_1w, v_h1)

    def meet(state: tuple[jax.Array, jax.Array], n: jax.Array) -> tuple[jax.Array, jax.Array]:
        key_hw, light_hw = state
        block_pn = jax.lax.dynamic_slice_in_dim(frame.solid_pn, n * BLOCK, BLOCK)
        for p in range(BLOCK):
            key_hw = nearest(block_pn[p], (n * BLOCK + p) * FACES, u_1w, v_h1, key_hw)
            light_hw = darken(block_pn[p], back.point[0], back.point[1], light_hw)
        return key_hw, light_hw

    def paint(state: tuple[jax.Array, jax.Array], _: jax.Array) -> tuple[jax.Array, jax.Array]:
        key_hw, light_hw = state
        return pixels.color(frame.view_n, look, u_1w, v_h1, key_hw, back, light_hw), light_hw

    def look(surface_hw: jax.Array, column: int) -> jax.Array:
        return frame.surface_sn[:, column].at[surface_hw].get(mode="promise_in_bounds")

    def step(n: jax.Array, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        changed: tuple[jax.Array, jax.Array] = jax.lax.cond(n < blocks, meet, paint, state, n)
        return changed

    start = pack(back.distance), jnp.ones_like(back.distance)
    word_hw: jax.Array = jax.lax.fori_loop(0, blocks + 1, step, start)[0]
    return word_hw


def _fill(solids: Solids) -> Solids:
    """The solids, and absent ones up to whole blocks."""
    count = len(solids.present_p)
    more = jax.tree.map(lambda x_p: jnp.broadcast_to(x_p[:1], (-count % BLOCK, *x_p.shape[1:])), solids)
    return join(solids, more._replace(present_p=jnp.zeros_like(more.present_p)))
