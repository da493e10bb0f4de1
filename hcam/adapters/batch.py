"""Environments side by side, stepped from the host by compiled programs: what the Gymnasium adapters share."""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from hcam.envs.environment import Environment, EnvParams, Observation, State
from hcam.envs.levels import level_of

FORKED = (
    "this process was forked, and JAX does not survive that: start worker processes by spawn, as in "
    'gymnasium.make_vec(..., vectorization_mode="async", vector_kwargs={"context": "spawn"}), or leave out the mode: '
    "then all environments are one compiled program."
)
_PARENT = os.getpid()


def is_forked() -> bool:
    """Whether this process was forked after this module was imported: then any use of JAX may hang."""
    return os.getpid() != _PARENT


class Batch:
    """Environments side by side, and where they stand."""

    def __init__(self, env: Environment, size: int, level: str | Sequence[str] | None) -> None:
        self.env, self.size, self.state = env, size, None
        self._choose(level)

    def _choose(self, level: str | Sequence[str] | None) -> None:
        names = (level,) if isinstance(level, str) else tuple(level or ())
        self.levels, self.params = np.array(names or self.env.default_levels, object), self.env.params(*names)

    def reset(self, generators: Sequence[np.random.Generator], options: Mapping[str, Any]) -> Observation:
        unknown = sorted(set(options) - {"episode", "level"})
        if unknown:
            raise ValueError(f"reset knows the options episode and level, but was given {', '.join(unknown)}.")
        described = _episodes(self.env, options["episode"], self.size) if "episode" in options else None
        if "level" in options:
            self._choose(options["level"])
        self.time, self.described_b = 0, np.full(self.size, described is not None)
        self.seed_b = np.array([generator.integers(2**32, dtype=np.uint32) for generator in generators])
        if described is None:
            observation, self.state = _begin(self.env, self.seed_b, self.params)
        else:
            observation, self.state = _observe(self.env, described, self.params), described
        return jax.device_get(observation)

    def step(self, action_b: NDArray[np.int32]) -> tuple[Any, ...]:
        """Last observation (on the device), observation, reward, terminated, truncated, info (NumPy)."""
        if self.state is None:
            raise ResetNeeded("no episode has begun: call reset() before step().")
        self.time += 1
        self.state, last, seen = _step(self.env, self.seed_b, np.int32(self.time), self.state, action_b, self.params)
        observation, reward, terminated, truncated, info = jax.device_get(seen)
        if "level" in info and self.levels.size:  # by name; an episode that was described has none
            info["level"] = np.where(self.described_b, None, self.levels[info["level"]])
        self.described_b = self.described_b & ~(terminated | truncated)
        return last, observation, reward, terminated, truncated, info


# The environment is a static argument: all objects of one task share what is compiled.


@partial(jax.jit, static_argnums=0)
def _begin(env: Environment, seed_b: Any, params: EnvParams) -> Any:
    def begin(seed: Any) -> tuple[Observation, State]:
        return env.reset(jax.random.fold_in(jax.random.key(seed), 0), params)

    return jax.vmap(begin)(seed_b)


@partial(jax.jit, static_argnums=0)
def _observe(env: Environment, state: State, params: EnvParams) -> Observation:
    return jax.vmap(lambda one: env.observe(one, level_of(params, one)))(state)


@partial(jax.jit, static_argnums=0)
def _step(env: Environment, seed_b: Any, time: Any, state: State, action_b: Any, params: EnvParams) -> Any:
    def step(seed: Any, state: State, action: Any) -> Any:
        key = jax.random.fold_in(jax.random.key(seed), time)
        observation, state, reward, terminated, truncated, info = env.step(key, state, action, params)
        info = {name: value for name, value in info.items() if name not in ("terminated", "truncated")}
        return state, info.pop("final_observation"), (observation, reward, terminated, truncated, info)

    return jax.vmap(step)(seed_b, state, action_b)


@jax.jit
def row_of(tree: Any, i: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf[i], tree)


def first_row(observation: Observation) -> Observation:
    return jax.tree.map(lambda leaf: leaf[0], observation)


def _episodes(env: Environment, given: Mapping[str, Any] | Sequence[Mapping[str, Any]], size: int) -> State:
    descriptions = [given] * size if isinstance(given, Mapping) else list(given)
    if len(descriptions) != size:
        raise ValueError(f"episode must be one description, or a list of {size}, but is a list of {len(descriptions)}.")
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *map(env.episode, descriptions))
