"""A task as a dm_env environment, on the host: `DmEnv("ballet", level="2_delay16")`."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from hcam.envs import Environment, make
from hcam.envs.environment import EnvParams, Observation, State
from hcam.envs.levels import level_of
from hcam.envs.spaces import Box, Discrete, Space, Tokens

try:
    import dm_env  # type: ignore[import-untyped]
    from dm_env import specs
except ImportError as error:
    raise ImportError('hcam.adapters.dm_env needs dm_env, which `pip install "hcam[dm]"` brings.') from error


class DmEnv(dm_env.Environment):  # type: ignore[misc]
    """One environment. An episode that ends is LAST with discount 0, one whose time is up LAST with discount 1.

    Observations are NumPy arrays, and an instruction is a string. `level` is one of the environment's levels, or
    several of which each episode draws one; `options` are the fields of an environment given by name.
    """

    def __init__(
        self,
        env: Environment | str,
        level: str | Sequence[str] | None = None,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        if options and not isinstance(env, str):
            raise ValueError(f"{', '.join(options)}: set this on the {type(env).__name__} itself, or give its name.")
        self._env = make(env, **options) if isinstance(env, str) else env
        self._params = self._env.params(*((level,) if isinstance(level, str) else level or ()))
        self._key = jax.random.key(np.random.SeedSequence().generate_state(1)[0] if seed is None else seed)
        self._state: State | None = None  # None: the next step starts an episode

    def reset(self) -> dm_env.TimeStep:
        self._key, observation, self._state = _reset(self._env, self._key, self._params)
        return dm_env.restart(self._on_host(observation))

    def reset_to(self, description: Mapping[str, Any]) -> dm_env.TimeStep:
        """Starts exactly this episode, described as the environment's `episode` takes it."""
        self._state = self._env.episode(description)
        return dm_env.restart(self._on_host(_observe(self._env, self._state, self._params)))

    def step(self, action: Any) -> dm_env.TimeStep:
        if self._state is None:
            return self.reset()
        action = _checked(action, self._env.action_space.n)
        self._key, self._state, seen = _step(self._env, self._key, self._state, action, self._params)
        observation, reward, terminated, truncated = jax.device_get(seen)
        if terminated or truncated:
            self._state = None
        step_type = dm_env.StepType.LAST if terminated or truncated else dm_env.StepType.MID
        return dm_env.TimeStep(step_type, float(reward), 0.0 if terminated else 1.0, self._on_host(observation))

    def action_spec(self) -> specs.DiscreteArray:
        return specs.DiscreteArray(self._env.action_space.n, dtype=np.int32, name="action")

    def observation_spec(self) -> Any:
        """As the observation: one spec, or a dict of them by name."""
        space = self._env.observation_space
        if isinstance(space, dict):
            return {name: _spec(part, name) for name, part in space.items()}
        return _spec(space, "observation")

    def _on_host(self, observation: Observation) -> Any:
        space, observation = self._env.observation_space, jax.device_get(observation)
        if isinstance(space, dict):
            return {name: _value(part, observation[name]) for name, part in space.items()}
        return _value(space, observation)


# Compiled once for all environments that are equal and all levels of one shape, however many objects use them.


@partial(jax.jit, static_argnums=0)
def _reset(env: Environment, key: jax.Array, params: EnvParams) -> tuple[jax.Array, Observation, State]:
    key, key_reset = jax.random.split(key)
    return key, *env.reset(key_reset, params)


@partial(jax.jit, static_argnums=0)
def _observe(env: Environment, state: State, params: EnvParams) -> Observation:
    return env.observe(state, level_of(params, state))


@partial(jax.jit, static_argnums=0)
def _step(
    env: Environment, key: jax.Array, state: State, action: jax.Array, params: EnvParams
) -> tuple[jax.Array, State, tuple[Observation, jax.Array, jax.Array, jax.Array]]:
    """The observation is the old episode's last where it ends: what dm_env shows with LAST."""
    key, key_step = jax.random.split(key)
    _, state, reward, terminated, truncated, info = env.step(key_step, state, action, params)
    return key, state, (info["final_observation"], reward, terminated, truncated)


def _checked(action: Any, n: int) -> Any:
    array = np.asarray(action)
    if array.shape != () or not np.issubdtype(array.dtype, np.integer) or not 0 <= array < n:
        raise ValueError(f"an action is one integer from 0 to {n - 1}, but is {action!r}.")
    return array.astype(np.int32)


def _spec(space: Space, name: str) -> specs.Array:
    match space:
        case Tokens():
            return specs.StringArray((), name=name)
        case Discrete():
            return specs.DiscreteArray(space.n, dtype=np.int32, name=name)
        case Box():
            return specs.BoundedArray(space.shape, space.dtype, space.low, space.high, name=name)


def _value(space: Space, value: Any) -> Any:
    """An array of the user's own, to write into: JAX's are read-only views."""
    return np.array(space.text(value) if isinstance(space, Tokens) else value)
