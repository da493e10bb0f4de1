"""A task of somebody's own, in one file and with three levels: a light flashes, and is asked for in the dark."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from hcam.envs import Environment, Moments
from hcam.envs.spaces import Box, Discrete, Tokens

DARK = {"near": 2, "middle": 5, "far": 9}  # steps between the flash and the question


class State(NamedTuple):
    side: jax.Array  # int32, where the light was
    dark: jax.Array  # int32
    time: jax.Array  # int32
    level: jax.Array  # int32, filled in by reset


@dataclass(frozen=True)
class Lights(Environment):
    """Say where the light was."""

    size: int = 6  # pixels along a side

    @property
    def action_space(self):
        return Discrete(2)

    @property
    def observation_space(self):
        return {"image": Box((self.size, self.size, 3), 0, 255, "uint8"), "word": Tokens(("", "wait", "where"))}

    @property
    def levels(self):
        return tuple(DARK)

    def level(self, name):
        if name not in DARK:
            raise ValueError(f"there is no level {name!r}: choose from {', '.join(DARK)}.")
        return jnp.int32(DARK[name])

    def title(self, level):
        return f"{DARK[level]} dark steps"

    def chance(self, level):
        return 0.5

    def max_steps_in_episode(self, level):
        return DARK[level] + 2

    def start(self, key, level):
        return State(jax.random.randint(key, (), 0, 2), level, jnp.int32(0), jnp.int32(0))

    def advance(self, key, state, action, level):
        asked = state.time > state.dark
        right = asked & (action == state.side)
        return state._replace(time=state.time + 1), right.astype(jnp.float32), asked, jnp.bool_(False), {}

    def observe(self, state, level):
        lit = (jnp.arange(self.size) < self.size // 2) == (state.side == 0)
        flash = jnp.where((state.time == 0) & lit, 255, 0).astype(jnp.uint8)
        image = jnp.broadcast_to(flash[None, :, None], (self.size, self.size, 3))
        return {"image": image, "word": jnp.where(state.time > state.dark, 2, 1).astype(jnp.int32)[None]}

    def expert(self, state):
        return state.side

    def moments(self, state):
        return Moments(jnp.int32(0), jnp.int32(1), state.dark + 1)
