"""How a scripted agent walks to a box without touching the others."""

import jax
import jax.numpy as jnp

from hcam.envs.body import FORWARD, HEADINGS, RADIUS, STAY, STRIDE, TOUCH, Body, direction, turn_to

CLEARANCE = 0.02  # metres beyond a touch


def around(body: Body, place_b2: jax.Array, radius_b: jax.Array, half: jax.Array, target: jax.Array) -> jax.Array:
    """The next action on the way to a box: a turn, or a step forward.

    Of the 16 headings it takes the one whose next step ends nearest to the box, of those that lead past all others.
    """
    next_h2 = body.position[None] + STRIDE * direction(jnp.arange(HEADINGS))
    away_hb = jnp.linalg.norm(next_h2[:, None] - place_b2[None], axis=-1)
    other_b = jnp.arange(len(place_b2)) != target
    blocked_h = (other_b[None] & (away_hb < (radius_b + (RADIUS + TOUCH + CLEARANCE))[None])).any(-1)
    outside_h = (jnp.abs(next_h2) > half - RADIUS).any(-1)
    cost_h = away_hb[:, target] + jnp.where(blocked_h | outside_h, 1e3, 0.0)
    turn = turn_to(body, jnp.argmin(cost_h).astype(jnp.int32))
    return jnp.where(turn == STAY, FORWARD, turn).astype(jnp.int32)
