"""Play an environment with any policy, in one compiled program: for checks, benchmarks, pictures and experts."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from hcam.envs.environment import Environment, EnvParams, Info, Observation, State

Policy = Callable[[jax.Array, State, Observation], jax.Array]  # key, state, observation -> action


class Now(NamedTuple):
    """Where an environment stands: what it shows, and whether that is an episode's first observation."""

    state: State
    observation: Observation
    first: jax.Array


class Step(NamedTuple):
    """One step: what was seen, what was done about it, and what came of that."""

    observation: Observation
    first: jax.Array
    action: jax.Array
    reward: jax.Array
    terminated: jax.Array
    truncated: jax.Array
    info: Info


def begin(env: Environment, key: jax.Array, params: EnvParams) -> Now:
    observation, state = env.reset(key, params)
    return Now(state, observation, jnp.bool_(True))


def one(env: Environment, policy: Policy, key: jax.Array, now: Now, params: EnvParams) -> tuple[Now, Step]:
    key_act, key_step = jax.random.split(key)
    action = policy(key_act, now.state, now.observation)
    observation, state, reward, terminated, truncated, info = env.step(key_step, now.state, action, params)
    step = Step(now.observation, now.first, action, reward, terminated, truncated, info)
    return Now(state, observation, terminated | truncated), step


def play(env: Environment, policy: Policy, key: jax.Array, now: Now, params: EnvParams, steps: int) -> tuple[Now, Step]:
    """Steps of one environment, stacked in time. `jax.vmap` over key and now for a batch."""

    def body(now: Now, t: jax.Array) -> tuple[Now, Step]:
        return one(env, policy, jax.random.fold_in(key, t), now, params)

    return jax.lax.scan(body, now, jnp.arange(steps))


def at_random(env: Environment) -> Policy:
    """Uniform actions."""

    def policy(key: jax.Array, state: State, observation: Observation) -> Any:
        return env.action_space.sample(key)

    return policy


def knowing(act: Callable[[State], jax.Array]) -> Policy:
    """A policy from a function of the state alone, such as a scripted expert."""
    return partial(_knowing, act)


def _knowing(act: Callable[[State], jax.Array], key: jax.Array, state: State, observation: Observation) -> jax.Array:
    return act(state)
