"""The environment contract: gymnax 1.0's `reset` and `step`, made of three pure functions that an environment writes.

An environment is a frozen dataclass (so that it is hashable and may be a static argument of `jax.jit`) whose fields
decide shapes. What may differ from episode to episode is `params`, a pytree of arrays: the level, or a mixture of them.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from hcam.envs.spaces import Discrete, Spaces

State = Any  # a pytree of arrays, the same structure, shapes and dtypes at every step
Params = Any  # a pytree of arrays
Observation = Any  # an array, or a dict of arrays by name, as `observation_space` says
Info = dict[str, Any]


class Environment:
    """Derive from this, write the parts that raise NotImplementedError, and `reset` and `step` follow.

    Everything is written for one environment; `jax.vmap` makes a batch. docs/environments.md has the whole contract.
    """

    # What an environment writes ---------------------------------------------------------------------------------------

    def start(self, key: jax.Array, params: Params) -> State:
        """Draws a new episode, at its first observation."""
        raise NotImplementedError

    def advance(
        self, key: jax.Array, state: State, action: jax.Array, params: Params
    ) -> tuple[State, jax.Array, jax.Array, jax.Array, Info]:
        """One step inside an episode: state, reward (float32), terminated, truncated (bool), info."""
        raise NotImplementedError

    def observe(self, state: State, params: Params) -> Observation:
        """What the agent sees in a state."""
        raise NotImplementedError

    @property
    def action_space(self) -> Discrete:
        raise NotImplementedError

    @property
    def observation_space(self) -> Spaces:
        raise NotImplementedError

    # What an environment with levels writes as well -------------------------------------------------------------------

    @property
    def levels(self) -> tuple[str, ...]:
        """Names that `params` knows, for lists and examples; what it gives without any is the task's own choice."""
        return ()

    def params(self, *levels: str) -> Params:
        """One level, or several of which each episode draws one."""
        if levels:
            raise ValueError(f"{type(self).__name__} has no levels, but was asked for {', '.join(levels)}.")
        return ()

    def episode(self, description: Mapping[str, Any]) -> State:
        """The first state of exactly this episode, from a description in plain words."""
        raise ValueError(f"{type(self).__name__} cannot build an episode from a description.")

    def describe(self, state: State) -> dict[str, Any]:
        """The description of the episode that a state belongs to: what `episode` takes."""
        raise ValueError(f"{type(self).__name__} cannot describe its episodes.")

    def expert(self, state: State) -> jax.Array:
        """The action of one who knows the answer: the yardstick for a task, and the player in its pictures."""
        raise ValueError(f"{type(self).__name__} has no scripted expert.")

    # What follows -----------------------------------------------------------------------------------------------------

    def reset(self, key: jax.Array, params: Params | None = None) -> tuple[Observation, State]:
        params = self.params() if params is None else params
        state = self.start(key, params)
        return self.observe(state, params), state

    def step(
        self, key: jax.Array, state: State, action: jax.Array, params: Params | None = None
    ) -> tuple[Observation, State, jax.Array, jax.Array, jax.Array, Info]:
        """One step. Where the episode ends, the observation and state returned are the first of a new one.

        The last observation of the old episode is `info["final_observation"]`; it equals the observation returned
        where the episode goes on. A program that does not use it does not compute it.
        """
        params = self.params() if params is None else params
        key_advance, key_start = jax.random.split(key)
        last, reward, terminated, truncated, info = self.advance(key_advance, state, action, params)
        fresh, done = self.start(key_start, params), terminated | truncated
        state = jax.tree.map(lambda new, old: jnp.where(done, new, old), fresh, last)
        info = info | {"terminated": terminated, "truncated": truncated}
        info["final_observation"] = self.observe(last, params)
        return self.observe(state, params), state, reward, terminated, truncated, info
