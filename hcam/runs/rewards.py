"""The rewards of whole episodes, step by step: of an agent, of a task's expert, and of random actions.

Enough for the mean return of an expert, which agents are compared with, and for what happens within an episode.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from hcam.agent import Agent
from hcam.envs import play
from hcam.envs.environment import Environment
from hcam.learning.rollout import reset_actor, rollout
from hcam.memory import checks
from hcam.types import Array, EnvParams, Params

STEPS_AT_ONCE = 64  # between two checks whether all episodes have ended
MAX_STEPS = 100_000  # after which an episode is taken to have no end
YARDSTICK_EPISODES = 512  # for the mean return of an expert or of random actions


class Episodes(NamedTuple):
    """One episode of each environment."""

    reward_bt: NDArray[np.float32]  # zeros after its last step
    length_b: NDArray[np.int64]

    @property
    def returns(self) -> NDArray[np.float32]:
        found: NDArray[np.float32] = self.reward_bt.sum(1)
        return found


Continue = Callable[[Array, Any], tuple[Any, Array, Array]]  # key, actors -> actors, reward_tb, done_tb


def of_agent(
    agent: Agent, env: Environment, params: Params, env_params: EnvParams, *, episodes: int, seed: int, greedy: bool
) -> Episodes:
    """Episodes that an agent plays."""
    actors_b = _reset_agent(agent, env, episodes, jax.random.key(seed), env_params)
    return _whole(partial(_play_agent, agent, env, greedy, params, env_params), actors_b, episodes, seed)


def of_expert(env: Environment, env_params: EnvParams, *, episodes: int = YARDSTICK_EPISODES, seed: int = 0) -> Any:
    """Episodes that the environment's expert plays; None where it has no expert."""
    return _of_policy(env, "expert", env_params, episodes, seed) if has_expert(env, env_params) else None


def of_random(
    env: Environment, env_params: EnvParams, *, episodes: int = YARDSTICK_EPISODES, seed: int = 0
) -> Episodes:
    """Episodes of uniformly random actions."""
    return _of_policy(env, "random", env_params, episodes, seed)


def has_expert(env: Environment, env_params: EnvParams) -> bool:
    state = jax.eval_shape(lambda key: env.reset(key, env_params)[1], jax.random.key(0))
    try:
        jax.eval_shape(env.expert, state)
    except ValueError:
        return False
    return True


def expert_return(env: Environment, env_params: EnvParams) -> float | None:
    """The mean return of the environment's expert, of fixed episodes; None where it has no expert."""
    found = of_expert(env, env_params)
    return None if found is None else float(found.returns.mean())


def random_return(env: Environment, env_params: EnvParams) -> float:
    """The mean return of random actions, of fixed episodes."""
    return float(of_random(env, env_params).returns.mean())


def _of_policy(env: Environment, policy: str, env_params: EnvParams, episodes: int, seed: int) -> Episodes:
    now_b = _reset_policy(env, episodes, jax.random.key(seed), env_params)
    return _whole(partial(_play_policy, env, policy, env_params), now_b, episodes, seed)


def _whole(forward: Continue, actors_b: Any, episodes: int, seed: int) -> Episodes:
    """Plays on until every environment has ended its first episode."""
    checks.positive(episodes=episodes)
    key = jax.random.fold_in(jax.random.key(seed), 1)
    rewards, done_b, length_b = [], np.zeros(episodes, bool), np.zeros(episodes, np.int64)
    for number in range(MAX_STEPS // STEPS_AT_ONCE):
        actors_b, reward_tb, done_tb = forward(jax.random.fold_in(key, number), actors_b)
        over_tb = np.cumsum(np.asarray(done_tb), axis=0) - np.asarray(done_tb) > 0  # before this step
        plays_tb = ~(over_tb | done_b[None])
        rewards.append(np.where(plays_tb, reward_tb, 0.0).astype(np.float32))
        length_b += plays_tb.sum(0)
        done_b |= np.asarray(done_tb).any(0)
        if done_b.all():
            return Episodes(np.concatenate(rewards).T[:, : length_b.max()], length_b)
    raise ValueError(f"an episode has not ended after {MAX_STEPS:,} steps: this environment needs a time limit.")


@partial(jax.jit, static_argnums=(0, 1, 2))
def _reset_agent(agent: Agent, env: Environment, episodes: int, key: Array, env_params: EnvParams) -> Any:
    return jax.vmap(lambda key: reset_actor(agent, env, key, env_params))(jax.random.split(key, episodes))


@partial(jax.jit, static_argnums=(0, 1, 2), donate_argnums=6)
def _play_agent(
    agent: Agent, env: Environment, greedy: bool, params: Params, env_params: EnvParams, key: Array, actors_b: Any
) -> tuple[Any, Array, Array]:
    ready = agent.prepare(params)
    actors_b, played_ntb = rollout(agent, env, ready, env_params, key, actors_b, STEPS_AT_ONCE, greedy=greedy)
    return actors_b, played_ntb.reward[0], played_ntb.end.done[0]


@partial(jax.jit, static_argnums=(0, 1))
def _reset_policy(env: Environment, episodes: int, key: Array, env_params: EnvParams) -> Any:
    return jax.vmap(lambda key: play.begin(env, key, env_params))(jax.random.split(key, episodes))


@partial(jax.jit, static_argnums=(0, 1))
def _play_policy(
    env: Environment, policy: str, env_params: EnvParams, key: Array, now_b: Any
) -> tuple[Any, Array, Array]:
    act = play.knowing(env.expert) if policy == "expert" else play.at_random(env)

    def one(key: Array, now: Any) -> tuple[Any, Array, Array]:
        now, steps = play.play(env, act, key, now, env_params, STEPS_AT_ONCE)
        return now, steps.reward, steps.terminated | steps.truncated

    key_b = jax.random.split(key, jnp.size(now_b.first))
    return jax.vmap(one, out_axes=(0, 1, 1))(key_b, now_b)
