"""The room as the agent sees it: three boxes, and the one object that is out of its box."""

import jax
import jax.numpy as jnp

from hcam.envs.body import HEADINGS, TURN, Body, camera
from hcam.envs.render import raycast, things
from hcam.envs.render.raycast import FIELD_OF_VIEW, Room, Scene
from hcam.envs.render.textures import THEMES
from hcam.envs.render.things import USUAL_COLOR_X
from hcam.envs.tasks.objects.episodes import Episode, closing, first_body, jumping
from hcam.envs.tasks.objects.levels import BOXES, reach

PITCH = -0.15  # radians: the camera looks slightly down
WALLS = 3.0  # metres up to the ceiling
THEME = tuple(THEMES).index("planks")  # its walls and floor stand off from the boxes
BOX_RGB = (0.86, 0.88, 0.92)  # unlike the floor, and unlike any object
TOP = 1.2  # of a jump: how far above the floor the object is, by the side of its box
ASIDE = 0.9  # radians that an object looks past the agent: from the front, a boat and a plane are but a stroke
GIRTH = 0.6  # the radius of a box as an obstacle, by its side: between a circle inside it and one around it


def radius(episode: Episode) -> jax.Array:
    """Boxes as round obstacles, float32 [B]."""
    return jnp.broadcast_to(GIRTH * episode.rules.side, (BOXES,))


def in_view(body: Body, episode: Episode) -> jax.Array:
    """Which boxes are in the field of view, if only by a corner: bool [B]."""
    return in_views(body, episode)[body.heading]


def in_views(body: Body, episode: Episode) -> jax.Array:
    """Which boxes a body would see at each heading: bool [16, B]. Nothing ever stands before a wall of the room."""
    offset_b2 = episode.place_b2 - body.position[None]
    away_b = jnp.linalg.norm(offset_b2, axis=-1)
    width_b = jnp.arcsin(jnp.minimum(reach(episode.rules.side) / away_b, 1.0))
    bearing_b = jnp.arctan2(offset_b2[:, 0], offset_b2[:, 1])
    heading_h = jnp.arange(HEADINGS, dtype=jnp.float32) * TURN
    off_hb = jnp.abs((bearing_b[None] - heading_h[:, None] + jnp.pi) % (2 * jnp.pi) - jnp.pi)
    return off_hb - width_b[None] <= FIELD_OF_VIEW / 2


def scene(episode: Episode, time: jax.Array) -> Scene:
    """Lids are open until all objects have been shown. An object is there while it is out of its box, and only then.

    Boxes face the place from which the agent watches.
    """
    side = episode.rules.side
    opening = jnp.where(time < closing(episode.rules), 1.0, 0.0)
    offset_b2 = first_body(episode.rules.half).position[None] - episode.place_b2
    yaw_b = jnp.arctan2(offset_b2[:, 0], offset_b2[:, 1])
    boxes = [things.box(_raised(episode.place_b2[b], 0.0), yaw_b[b], side, opening, BOX_RGB) for b in range(BOXES)]
    box, rise = jumping(episode.rules, time)
    thing, above = episode.thing_b[box], _raised(episode.place_b2[box], rise * TOP * side)
    color = jnp.asarray(USUAL_COLOR_X)[thing]
    shown = things.place(thing, above, yaw_b[box] + ASIDE, episode.rules.size, color, present=rise > 0)
    room = Room(jnp.stack([episode.rules.half] * 2), jnp.float32(WALLS), jnp.int32(THEME))
    return Scene(room, raycast.join(*boxes, shown))


def render(episode: Episode, time: jax.Array, body: Body, height: int, width: int) -> jax.Array:
    """What the body sees in a frame: uint8 [height, width, 3]."""
    return raycast.render(scene(episode, time), camera(body, PITCH), height, width)


def _raised(place_2: jax.Array, height: jax.Array | float) -> jax.Array:
    return jnp.concatenate([place_2, jnp.full(1, height, jnp.float32)])
