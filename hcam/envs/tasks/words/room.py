"""The room as the agent finds it: what is in front of it, what is in view, and the picture."""

import math

import jax
import jax.numpy as jnp
import numpy as np

from hcam.envs.body import Body, camera, direction
from hcam.envs.render import raycast, things
from hcam.envs.render.raycast import FIELD_OF_VIEW, Room, Scene
from hcam.envs.render.textures import THEMES
from hcam.envs.render.things import COLORS, THINGS, USUAL_COLOR_X
from hcam.envs.tasks.words.levels import DISTRACTORS, GIRTH, OBJECTS, Rules

FACING = math.radians(15)  # an object at most this far off the heading is in front; headings are 22.5 degrees apart
NOTHING = -1  # in front

PITCH = -0.35  # radians: the camera looks down, so that an object within reach is in the picture
WALLS = 3.0  # metres up to the ceiling
THEME = tuple(THEMES).index("stone")  # of pale colours: whatever stands in the room is brighter

# A thing always has the same colour, so that it looks the same whenever it is met.
_painted = dict(zip(DISTRACTORS, ("red", "grey", "white"), strict=True))
COLOR_X = np.array(
    [tuple(COLORS).index(_painted[t]) if t in _painted else USUAL_COLOR_X[x] for x, t in enumerate(THINGS)], np.int32
)


def radius(rules: Rules) -> jax.Array:
    """Objects as round obstacles, float32 [O]."""
    return jnp.broadcast_to(GIRTH * rules.size, (OBJECTS,))


def in_front(body: Body, place_o2: jax.Array, near: jax.Array) -> jax.Array:
    """The object that is at most `near` away and at most FACING off the heading: int32, NOTHING if none is.

    Of several, the nearest, which stands before the others.
    """
    away_o, ahead_o = _seen_from(body, place_o2)
    away_o = jnp.where(ahead_o >= away_o * math.cos(FACING), away_o, jnp.inf)
    return jnp.where(away_o.min() <= near, jnp.argmin(away_o), NOTHING).astype(jnp.int32)


def in_view(body: Body, place_o2: jax.Array) -> jax.Array:
    """Which objects have their middle in the field of view: bool [O]."""
    away_o, ahead_o = _seen_from(body, place_o2)
    return ahead_o >= away_o * math.cos(FIELD_OF_VIEW / 2)


def _seen_from(body: Body, place_o2: jax.Array) -> tuple[jax.Array, jax.Array]:
    """How far objects are away, and how far ahead."""
    offset_o2 = place_o2 - body.position[None]
    return jnp.linalg.norm(offset_o2, axis=-1), (offset_o2 * direction(body.heading)[None]).sum(-1)


def scene(thing_o: jax.Array, place_o2: jax.Array, yaw_o: jax.Array, rules: Rules) -> Scene:
    color_o = jnp.asarray(COLOR_X)[thing_o]
    place_o3 = jnp.concatenate([place_o2, jnp.zeros((OBJECTS, 1), jnp.float32)], axis=1)
    shown = [things.place(thing_o[o], place_o3[o], yaw_o[o], rules.size, color_o[o]) for o in range(OBJECTS)]
    return Scene(Room(jnp.stack([rules.half] * 2), jnp.float32(WALLS), jnp.int32(THEME)), raycast.join(*shown))


def render(shown: Scene, body: Body, height: int, width: int) -> jax.Array:
    """What the body sees: uint8 [height, width, 3]."""
    return raycast.render(shown, camera(body, PITCH), height, width)
