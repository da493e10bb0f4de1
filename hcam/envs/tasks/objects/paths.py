"""How a scripted agent walks to a box without touching the others."""

import jax
import jax.numpy as jnp

from hcam.envs.body import FORWARD, HEADINGS, RADIUS, STAY, STRIDE, TOUCH, Body, direction, turn_to

CLEARANCE = 0.02  # metres beyond a touch
DETOUR = 3.0  # how much a metre of another box in the way counts, by a metre of the way
BLOCKED = 1e3


def around(body: Body, place_b2: jax.Array, radius_b: jax.Array, half: jax.Array, target: jax.Array) -> jax.Array:
    """The next action on the way to a box: a turn, or a step forward.

    It takes the heading whose next step leaves the shortest way, where other boxes in the way make a way longer.
    """
    next_h2 = body.position[None] + STRIDE * direction(jnp.arange(HEADINGS))
    keep_b = jnp.where(jnp.arange(len(place_b2)) == target, 0.0, radius_b + (RADIUS + TOUCH + CLEARANCE))
    away_hb = jnp.linalg.norm(next_h2[:, None] - place_b2[None], axis=-1)
    goal = place_b2[target]
    depth_h = jnp.maximum(keep_b[None] - _passing(next_h2, goal, place_b2), 0.0).sum(-1)
    refused_h = (away_hb < keep_b[None]).any(-1) | (jnp.abs(next_h2) > half - RADIUS).any(-1)
    cost_h = jnp.linalg.norm(next_h2 - goal[None], axis=-1) + DETOUR * depth_h + jnp.where(refused_h, BLOCKED, 0.0)
    turn = turn_to(body, jnp.argmin(cost_h).astype(jnp.int32))
    return jnp.where(turn == STAY, FORWARD, turn).astype(jnp.int32)


def _passing(from_h2: jax.Array, goal: jax.Array, place_b2: jax.Array) -> jax.Array:
    """How near the straight ways to a goal pass by each place: float32 [H, B]."""
    way_h2 = goal[None] - from_h2
    offset_hb2 = place_b2[None] - from_h2[:, None]
    length_h = jnp.maximum((way_h2 * way_h2).sum(-1), 1e-6)
    share_hb = jnp.clip((offset_hb2 * way_h2[:, None]).sum(-1) / length_h[:, None], 0.0, 1.0)
    passing_hb: jax.Array = jnp.linalg.norm(offset_hb2 - share_hb[..., None] * way_h2[:, None], axis=-1)
    return passing_hb
