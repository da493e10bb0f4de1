"""Our environments for gymnax's users, and gymnax's for ours: `to_gymnax(env)` and `from_gymnax(env)`.

The two contracts have the same `reset` and `step`, so both directions hand the calls on, keys included: the same keys
give the same episodes on either side.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hcam.envs.environment import Environment, EnvParams, Info, Observation, State
from hcam.envs.levels import level_of
from hcam.envs.spaces import Box, Discrete, Space, Spaces, Tokens

try:
    from gymnax.environments import environment, spaces  # type: ignore[import-untyped]
except ImportError as error:
    raise ImportError('hcam.adapters.gymnax needs gymnax, which `pip install "hcam[gymnax]"` brings.') from error


def to_gymnax(env: Environment) -> "GymnaxEnv":
    """One of our environments as gymnax's wrappers and learners take it; its levels are `env.params("...")`."""
    return GymnaxEnv(env)


def from_gymnax(env: Any, params: Any = None) -> "FromGymnax":
    """An environment of gymnax 1.0, or one inside its wrappers, under our contract. `params` replaces its defaults."""
    params = env.default_params if params is None else params
    action_space = env.action_space(params)
    if not isinstance(action_space, spaces.Discrete):
        raise ValueError(f"{env.name} takes actions from {action_space!r}, but only Discrete actions are supported.")
    return FromGymnax(env, params, Discrete(int(action_space.n)), _to_ours(env.observation_space(params)))


class GymnaxEnv(environment.Environment):  # type: ignore[misc]
    """The environment is `env`, and a state is its own: `env.describe(state)` works on it."""

    def __init__(self, env: Environment) -> None:
        super().__init__()
        self.env = env

    # gymnax compiles with `self` static: by value, the copies that its wrappers make share one program.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, GymnaxEnv) and self.env == other.env

    def __hash__(self) -> int:
        return hash((GymnaxEnv, self.env))

    @property
    def name(self) -> str:
        return type(self.env).__name__

    @property
    def default_params(self) -> EnvParams:
        return self.env.params()

    @property
    def num_actions(self) -> int:
        return self.env.action_space.n

    def action_space(self, params: EnvParams = None) -> Any:
        return _to_gymnax(self.env.action_space)

    def observation_space(self, params: EnvParams = None) -> Any:
        space = self.env.observation_space
        if isinstance(space, dict):
            return spaces.Dict({name: _to_gymnax(part) for name, part in space.items()})
        return _to_gymnax(space)

    @partial(jax.jit, static_argnames=("self",))
    def reset(self, key: jax.Array, params: EnvParams = None) -> tuple[Observation, State]:
        return self.env.reset(key, params)

    @partial(jax.jit, static_argnames=("self",))
    def step(
        self, key: jax.Array, state: State, action: Any, params: EnvParams = None
    ) -> tuple[Observation, State, jax.Array, jax.Array, jax.Array, Info]:
        return self.env.step(key, state, jnp.asarray(action, jnp.int32), params)

    # One step without a new episode at the end, for those who compose their own.

    def reset_env(self, key: jax.Array, params: EnvParams) -> tuple[Observation, State]:
        return self.env.reset(key, params)

    def step_env(
        self, key: jax.Array, state: State, action: Any, params: EnvParams
    ) -> tuple[Observation, State, jax.Array, jax.Array, Info]:
        """`info["truncated"]` says whether time is up."""
        action = jnp.asarray(action, jnp.int32)
        level = level_of(params, state)
        state, reward, terminated, truncated, info = self.env.advance(key, state, action, level)
        info = info | {"terminated": terminated, "truncated": truncated}
        return self.env.observe(state, level), state, reward, terminated, info

    def observe(self, key: jax.Array, state: State, action: Any, params: EnvParams) -> Observation:
        return self.env.observe(state, level_of(params, state))

    def is_terminated(self, state: State, params: EnvParams) -> jax.Array:
        raise NotImplementedError(f"a state of {self.name} does not say how it was reached: take it from step's flags.")

    is_truncated = is_terminated


@dataclass(frozen=True, eq=False)  # compared by identity, as gymnax's environments are, and params may hold arrays
class FromGymnax(Environment):
    env: Any
    default_params: Any
    actions: Discrete
    observations: Spaces  # kept, because gymnax computes bounds with jnp: inside jit they would have no value

    @property
    def action_space(self) -> Discrete:
        return self.actions

    @property
    def observation_space(self) -> Spaces:
        return self.observations

    def params(self, *levels: str, weights: Sequence[float] | None = None) -> EnvParams:
        return self.default_params if not levels and not weights else super().params(*levels, weights=weights)

    def reset(self, key: jax.Array, params: EnvParams | None = None) -> tuple[Observation, State]:
        observation, state = self.env.reset(key, self.default_params if params is None else params)
        return self._declared(observation), _settled(state)

    def step(
        self, key: jax.Array, state: State, action: jax.Array, params: EnvParams | None = None
    ) -> tuple[Observation, State, jax.Array, jax.Array, jax.Array, Info]:
        params = self.default_params if params is None else params
        observation, state, reward, terminated, truncated, info = self.env.step(key, state, action, params)
        truncated &= ~terminated  # gymnax may say both; an episode that came to its end was not cut off
        info = info | {"truncated": truncated, "final_observation": self._declared(info["final_observation"])}
        reward = jnp.asarray(reward).astype(jnp.float32)
        return self._declared(observation), _settled(state), reward, terminated, truncated, info

    def _declared(self, observation: Any) -> Observation:
        """In the dtype that the space declares: some of gymnax's environments show another one."""
        space = self.observations
        if isinstance(space, dict):
            return {name: jnp.asarray(observation[name]).astype(part.dtype) for name, part in space.items()}
        return jnp.asarray(observation).astype(space.dtype)


def _settled(state: State) -> State:
    """Arrays of one type at every step: a clock that starts as Python's 0 is a weak integer, and jit would notice."""
    return jax.tree.map(lambda leaf: jax.lax.convert_element_type(leaf, jnp.result_type(leaf)), state)


def _to_gymnax(space: Space) -> Any:
    match space:
        case Discrete():
            return spaces.Discrete(space.n)
        case Box():
            return spaces.Box(space.low, space.high, space.shape, np.dtype(space.dtype))
        case Tokens():
            return spaces.Box(0, len(space.vocabulary) - 1, space.shape, np.dtype(space.dtype))


def _to_ours(space: Any) -> Spaces:
    if isinstance(space, spaces.Dict):
        return {name: _part(part) for name, part in space.spaces.items()}
    return _part(space)


def _part(space: Any) -> Space:
    """A box with a bound for each number gets the widest of them."""
    if isinstance(space, spaces.Discrete):
        return Discrete(int(space.n))
    if isinstance(space, spaces.Box):
        low, high = float(np.min(space.low)), float(np.max(space.high))
        return Box(tuple(space.shape), low, high, jnp.dtype(space.dtype).name)
    raise ValueError(f"an observation is a Box, a Discrete or a Dict of these, but {space!r} is not.")
