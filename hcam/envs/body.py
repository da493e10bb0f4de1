"""The agent's body in a first-person room: where it stands, where it faces, and what its actions do.

Shared by all tasks that are seen through the body's eyes. Metres and radians, float32; x is east, y is north, z is up,
and a room is a box around the origin. A heading is one of 16 whole numbers, 0 for north and clockwise from there, so
that turning never drifts. Everything is written for one body; `jax.vmap` makes a batch.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hcam.envs.render.raycast import Camera

ACTIONS = ("stay", "forward", "backward", "left", "right", "turn_left", "turn_right", "lift")
STAY, FORWARD, BACKWARD, LEFT, RIGHT, TURN_LEFT, TURN_RIGHT, LIFT = range(len(ACTIONS))

RATE = 4  # agent steps per second
HEADINGS = 16
TURN = 2 * math.pi / HEADINGS  # radians between neighbouring headings
STRIDE = 0.5  # metres that one step covers, in any direction
RADIUS = 0.3  # of the body, a disc on the floor
EYE = 1.0  # height of the camera
MARGIN = 1e-3  # the gap that a stopped body keeps to an obstacle: float32 errors stay far below it
TOUCH = 0.05  # a body this near to an obstacle touches it

# By action: whether it moves the body, in which direction relative to the heading, and how it turns.
_MOVES = np.array([0, 1, 1, 1, 1, 0, 0, 0], np.float32)
_ASIDE = np.array([0, 0, HEADINGS // 2, -HEADINGS // 4, HEADINGS // 4, 0, 0, 0], np.int32)
_TURNS = np.array([0, 0, 0, 0, 0, -1, 1, 0], np.int32)
# Exact zeros and ones at the four points of the compass.
_DIRECTIONS = np.array(
    [(round(math.sin(k * TURN), 12), round(math.cos(k * TURN), 12)) for k in range(HEADINGS)], np.float32
)


def steps(seconds: float) -> int:
    """So many agent steps, to the nearest."""
    return round(seconds * RATE)


class Body(NamedTuple):
    position: jax.Array  # float32 [2], x and y
    heading: jax.Array  # int32, 0 to 15


def direction(heading: jax.Array) -> jax.Array:
    """The unit vector of a heading, float32 [2]; any whole number is taken modulo 16."""
    return jnp.asarray(_DIRECTIONS)[heading % HEADINGS]


def move(body: Body, action: jax.Array, half: jax.Array, obstacles_n2: jax.Array, radius_n: jax.Array) -> Body:
    """The body after an action in a room of half extents `half` (float32 [2]), among round obstacles of these radii.

    Walls and obstacles stop the body at first contact; along a wall it slides. An obstacle of radius 0 is not there. A
    body that starts outside all obstacles and walls stays outside.
    """
    heading = (body.heading + jnp.asarray(_TURNS)[action]) % HEADINGS
    stride = direction(body.heading + jnp.asarray(_ASIDE)[action]) * (jnp.asarray(_MOVES)[action] * STRIDE)
    limit = half - RADIUS
    offset = jnp.clip(body.position + stride, -limit, limit) - body.position
    share = _free_share(body.position, offset, obstacles_n2, radius_n)
    return Body(jnp.clip(body.position + share * offset, -limit, limit), heading)


def _free_share(position: jax.Array, offset: jax.Array, obstacles_n2: jax.Array, radius_n: jax.Array) -> jax.Array:
    """The part of a straight way, 0 to 1, that a body can go before it meets an obstacle."""
    from_n2 = position[None] - obstacles_n2
    approach_n = (from_n2 * offset[None]).sum(-1)  # negative: the way leads nearer
    length = jnp.maximum((offset * offset).sum(), 1e-12)
    gap_n = (from_n2 * from_n2).sum(-1) - (radius_n + (RADIUS + MARGIN)) ** 2
    root_n = approach_n**2 - length * gap_n
    meets_n = (radius_n > 0) & (approach_n < 0) & (root_n > 0)
    contact_n = (-approach_n - jnp.sqrt(jnp.maximum(root_n, 0.0))) / length
    return jnp.clip(jnp.where(meets_n, contact_n, 1.0).min(initial=1.0), 0.0, 1.0)


def touched(body: Body, obstacles_n2: jax.Array, radius_n: jax.Array) -> jax.Array:
    """Which obstacles the body touches, bool [N]; one of radius 0 is not there."""
    away_n: jax.Array = jnp.linalg.norm(obstacles_n2 - body.position[None], axis=-1)
    return (radius_n > 0) & (away_n <= radius_n + (RADIUS + TOUCH))


def in_front(body: Body, point: jax.Array, reach: jax.Array | float, angle: jax.Array | float) -> jax.Array:
    """Whether a point (float32 [2]) is at most `reach` away and at most `angle` off the heading, to either side."""
    offset = point - body.position
    away: jax.Array = jnp.linalg.norm(offset)
    return (away <= reach) & ((offset * direction(body.heading)).sum() >= away * jnp.cos(jnp.float32(angle)))


def camera(body: Body, pitch: jax.Array | float) -> Camera:
    """What the body sees with: at eye height, along its heading, `pitch` radians up."""
    position = jnp.concatenate([body.position, jnp.full(1, EYE, jnp.float32)])
    return Camera(position, body.heading.astype(jnp.float32) * TURN, jnp.float32(pitch))


def heading_to(body: Body, point: jax.Array) -> jax.Array:
    """The heading nearest to the direction of a point, int32."""
    offset = point - body.position
    return jnp.round(jnp.arctan2(offset[0], offset[1]) / TURN).astype(jnp.int32) % HEADINGS


def turn_to(body: Body, heading: jax.Array) -> jax.Array:
    """The action that turns the shorter way to a heading: `stay` if the body has it, to the right if both are equal."""
    right = (heading - body.heading) % HEADINGS
    return jnp.where(right == 0, STAY, jnp.where(right <= HEADINGS // 2, TURN_RIGHT, TURN_LEFT)).astype(jnp.int32)


def walk_to(body: Body, point: jax.Array) -> jax.Array:
    """The action that brings a body nearer to a point with nothing in between: turn to it, then walk."""
    turn = turn_to(body, heading_to(body, point))
    return jnp.where(turn == STAY, FORWARD, turn).astype(jnp.int32)
