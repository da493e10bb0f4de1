"""Rooms, cameras and pictures for the tests of the ray caster."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from hcam.envs.render.raycast import Camera, Room, Scene, render
from hcam.envs.render.solids import Solids
from hcam.envs.render.things import place

picture = jax.jit(render, static_argnums=(2, 3))


@partial(jax.jit, static_argnums=(2, 3))
def pictures(scene_b, camera_b, height=72, width=96):
    return jax.vmap(partial(render, height=height, width=width))(scene_b, camera_b)


def array(*numbers):
    return jnp.array(numbers, jnp.float32)


def camera(x=0.0, y=0.0, z=1.0, yaw=0.0, pitch=0.0):
    return Camera(array(x, y, z), jnp.float32(yaw), jnp.float32(pitch))


def room(half=(5.0, 5.0), height=3.0, theme=0):
    return Room(array(*half), jnp.float32(height), jnp.int32(theme))


def solid(quadric, bounds, center, half, rotation=None, color=(1.0, 0.0, 0.0), present=True):
    rotation = np.eye(3) if rotation is None else rotation
    frame_33 = np.asarray(rotation).T / np.asarray(half)[:, None]
    rest = (array(*quadric)[None], array(*bounds)[None], array(*color)[None], jnp.zeros((1, 3)), jnp.array([present]))
    return Solids(array(*center)[None], jnp.asarray(frame_33, jnp.float32)[None], *rest)


def empty():
    return place(0, jnp.zeros(3), 0.0, 1.0, 0, present=False)


def at(solids, camera, theme=0):
    """What the camera sees of some solids in a room, and where it differs from the room alone."""
    shown = np.asarray(picture(Scene(room(theme=theme), solids), camera))
    absent = solids._replace(present_p=jnp.zeros_like(solids.present_p))
    bare = np.asarray(picture(Scene(room(theme=theme), absent), camera))
    return shown, (shown != bare).any(-1)
