"""How scripted agents find objects: one that knows where they are, and one that only has its present view."""

import jax
import jax.numpy as jnp

from hcam.envs.body import (
    FORWARD,
    HEADINGS,
    LIFT,
    RADIUS,
    STAY,
    STRIDE,
    TURN,
    TURN_RIGHT,
    Body,
    direction,
    heading_to,
    turn_to,
)
from hcam.envs.tasks.words import room
from hcam.envs.tasks.words.levels import OBJECTS, Rules

CLEARANCE = 0.01  # metres between a walking body and an object
BERTH = 0.9  # metres that a path leaves beside an object, where it can
DETOUR = 2.0  # metres that an agent walks to leave a metre more

PATIENCE = 16  # steps for which an agent without memory keeps to what it picked


def approach(body: Body, place_o2: jax.Array, rules: Rules, goal: jax.Array) -> jax.Array:
    """The next action that brings object `goal` in front: walk around the others, turn to it; LIFT once it is there."""
    facing = heading_to(body, place_o2[goal])
    front, ahead = (room.in_front(one, place_o2, rules.near) for one in (body, body._replace(heading=facing)))
    # Another object may be in front of it, which turning would not change.
    action = jnp.where(ahead == goal, turn_to(body, facing), walk_around(body, place_o2, rules, goal))
    return jnp.where(front == goal, LIFT, action).astype(jnp.int32)


def way(body: Body, place_o2: jax.Array, rules: Rules) -> jax.Array:
    """About how many steps it takes to bring each object in front, were the others not there: float32 [O]."""
    offset_o2 = place_o2 - body.position[None]
    away_o = jnp.linalg.norm(offset_o2, axis=-1)
    cos_o = (offset_o2 * direction(body.heading)[None]).sum(-1) / jnp.maximum(away_o, 1e-3)
    turns_o = jnp.maximum(jnp.arccos(jnp.clip(cos_o, -1, 1)) - room.FACING, 0) / TURN
    return turns_o + jnp.maximum(away_o - rules.near, 0) / STRIDE


def least_way(body: Body, place_o2: jax.Array, rules: Rules, wanted_o: jax.Array) -> jax.Array:
    """The way to the nearest of the wanted objects, float32; 0 where none is wanted."""
    return jnp.where(wanted_o.any(), jnp.where(wanted_o, way(body, place_o2, rules), 1e6).min(), 0.0)


def walk_around(body: Body, place_o2: jax.Array, rules: Rules, goal: jax.Array) -> jax.Array:
    """The next action on the way to an object: a turn, or a step forward.

    Of the 16 headings it takes the one with the shortest way after the next step; ways that pass close to other objects
    count as longer, so that no two objects side by side are a trap.
    """
    step_h2 = STRIDE * direction(jnp.arange(HEADINGS))
    next_h2 = body.position[None] + step_h2
    way_h2 = place_o2[goal][None] - next_h2
    other_1o = (jnp.arange(OBJECTS) != goal)[None]
    beside_ho = _passed(next_h2, way_h2, place_o2)[0]
    close_h = jnp.where(other_1o, jnp.maximum(BERTH - beside_ho, 0), 0).sum(-1)
    reach_ho, along_ho = _passed(jnp.broadcast_to(body.position, step_h2.shape), step_h2, place_o2)
    stops_ho = (reach_ho < (room.radius(rules) + (RADIUS + CLEARANCE))[None]) & (along_ho > 0)
    outside_h = (jnp.abs(next_h2) > rules.half - RADIUS).any(-1)
    cost_h = jnp.linalg.norm(way_h2, axis=-1) + DETOUR * close_h
    cost_h += jnp.where((other_1o & stops_ho).any(-1) | outside_h, 1e3, 0.0)
    turn = turn_to(body, jnp.argmin(cost_h).astype(jnp.int32))
    return jnp.where(turn == STAY, FORWARD, turn).astype(jnp.int32)


def _passed(from_n2: jax.Array, way_n2: jax.Array, place_o2: jax.Array) -> tuple[jax.Array, jax.Array]:
    """How close straight ways come to objects, and where on the way, 0 to 1: float32 [N, O] each."""
    offset_no2 = place_o2[None] - from_n2[:, None]
    square_n1 = jnp.maximum((way_n2 * way_n2).sum(-1), 1e-6)[:, None]
    along_no = jnp.clip((offset_no2 * way_n2[:, None]).sum(-1) / square_n1, 0, 1)
    return jnp.linalg.norm(offset_no2 - along_no[..., None] * way_n2[:, None], axis=-1), along_no


def nearest(body: Body, place_o2: jax.Array, wanted_o: jax.Array) -> jax.Array:
    """The nearest of the wanted objects, int32."""
    away_o = jnp.linalg.norm(place_o2 - body.position[None], axis=-1)
    return jnp.argmin(jnp.where(wanted_o, away_o, jnp.inf)).astype(jnp.int32)


def wander(body: Body, place_o2: jax.Array, rules: Rules, bits: jax.Array) -> jax.Array:
    """Looks for objects without knowing which have been found: goes to those in view that chance picks, or turns.

    `bits` (uint32) are the chance. The object in front has been found; another one is then looked for.
    """
    front = room.in_front(body, place_o2, rules.near)
    picked_o = (bits >> jnp.arange(OBJECTS, dtype=jnp.uint32)) & jnp.uint32(1)
    return look_for(body, place_o2, rules, (picked_o > 0) & (jnp.arange(OBJECTS) != front))


def look_for(body: Body, place_o2: jax.Array, rules: Rules, wanted_o: jax.Array) -> jax.Array:
    """Goes to the nearest wanted object in view, and lifts it; turns where none is in view."""
    seen_o = room.in_view(body, place_o2) & wanted_o
    found = approach(body, place_o2, rules, nearest(body, place_o2, seen_o))
    return jnp.where(seen_o.any(), found, TURN_RIGHT).astype(jnp.int32)
