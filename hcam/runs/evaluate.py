"""How good is an agent: fixed seeds, one episode per environment, greedy and sampled, with 95 % intervals."""

from collections.abc import Callable, Mapping
from functools import partial
from math import sqrt
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hcam.agent import Agent
from hcam.envs.environment import Environment
from hcam.learning.rollout import reset_actor, rollout
from hcam.memory import checks
from hcam.runs import rewards
from hcam.types import ActorState, Array, EnvParams, Params

AT_ONCE = {"cpu": 128, "accelerator": 512}  # episodes
EVAL_CHUNK = 64  # steps between two checks whether all episodes have ended, at most
MAX_STEPS = 1_000_000  # after which an episode is taken to have no end

OnProgress = Callable[[int, int], None]  # episodes done, episodes in all


class Score(NamedTuple):
    episodes: int
    success: float  # share of episodes
    low: float  # 95 % interval of it
    high: float
    episode_return: float  # mean
    length: float  # mean, in steps
    deviation: float = 0.0  # of the returns, over the episodes

    @property
    def return_interval(self) -> tuple[float, float]:
        """95 % interval of the mean return."""
        half = 1.96 * self.deviation / sqrt(max(1, self.episodes - 1))
        return self.episode_return - half, self.episode_return + half


class FirstEpisodes(NamedTuple):
    """What is known of each environment's first episode."""

    done: Array
    success: Array
    episode_return: Array
    length: Array


def evaluate(
    agent: Agent,
    env: Environment,
    params: Params,
    env_params: EnvParams,
    *,
    episodes: int,
    seed: int = 0,
    greedy: bool = True,
    at_once: int | None = None,
    longest: int | None = None,
    on_progress: OnProgress = lambda done, total: None,
) -> Score:
    """Every episode counts once, however long it is: an environment whose episode has ended waits for the others.

    `longest` is the number of steps of the longest episode, if that is known: an answer to a question is a single one.
    The same seed plays the same episodes where as many are played at once, which is decided by the backend unless told.
    """
    at_once = most_at_once() if at_once is None else at_once
    checks.positive(episodes=episodes, at_once=at_once)
    at_once, steps = min(at_once, episodes), min(EVAL_CHUNK, longest or EVAL_CHUNK)
    ended: list[FirstEpisodes] = []
    for start in range(0, episodes, at_once):
        count = min(at_once, episodes - start)
        key = jax.random.fold_in(jax.random.key(seed), start)
        ended.append(_first_episodes(agent, env, params, env_params, greedy, steps, key, at_once, count))
        on_progress(start + count, episodes)
    names = FirstEpisodes._fields[1:]
    success, episode_return, length = (np.concatenate([getattr(part, name) for part in ended]) for name in names)
    low, high = interval(int(success.sum()), episodes)
    means = float(success.mean()), low, high, float(episode_return.mean()), float(length.mean())
    return Score(episodes, *means, float(episode_return.std()))


def most_at_once() -> int:
    """How many episodes are played at once on this machine, at most."""
    return AT_ONCE["cpu" if jax.default_backend() == "cpu" else "accelerator"]


def _first_episodes(
    agent: Agent,
    env: Environment,
    params: Params,
    env_params: EnvParams,
    greedy: bool,
    steps: int,
    key: Array,
    at_once: int,
    count: int,
) -> FirstEpisodes:
    key_reset, key_play = jax.random.split(key)
    actors_b = reset_actors(agent, env, at_once, key_reset, env_params)
    no_b, zero_b = jnp.zeros(at_once, bool), jnp.zeros(at_once, jnp.float32)
    ended = FirstEpisodes(no_b, no_b, zero_b, jnp.zeros(at_once, jnp.int32))
    for chunk in range(MAX_STEPS // steps):
        key_chunk = jax.random.fold_in(key_play, chunk)
        actors_b, ended = _play(agent, env, greedy, steps, params, env_params, key_chunk, actors_b, ended)
        if ended.done[:count].all():
            return FirstEpisodes(*(leaf[:count] for leaf in jax.device_get(ended)))
    raise ValueError(f"an episode has not ended after {MAX_STEPS:,} steps: this environment needs a time limit.")


@partial(jax.jit, static_argnums=(0, 1, 2))
def reset_actors(agent: Agent, env: Environment, at_once: int, key: Array, env_params: EnvParams) -> ActorState:
    """Many actors, each at the start of an episode of its own."""
    return jax.vmap(lambda key: reset_actor(agent, env, key, env_params))(jax.random.split(key, at_once))


@partial(jax.jit, static_argnums=(0, 1, 2, 3), donate_argnums=7)
def _play(
    agent: Agent,
    env: Environment,
    greedy: bool,
    steps: int,
    params: Params,
    env_params: EnvParams,
    key: Array,
    actors_b: ActorState,
    ended: FirstEpisodes,
) -> tuple[ActorState, FirstEpisodes]:
    prepared = agent.prepare(params)
    actors_b, transitions_ntb = rollout(agent, env, prepared, env_params, key, actors_b, steps, greedy=greedy)
    end_tb = jax.tree.map(lambda leaf_ntb: leaf_ntb[0], transitions_ntb.end)
    first_end = jnp.argmax(end_tb.done, axis=0)[None]
    new_b = ~ended.done & end_tb.done.any(axis=0)

    def take(old_b: Array, new_tb: Array) -> Array:
        return jnp.where(new_b, jnp.take_along_axis(new_tb, first_end, axis=0)[0], old_b)

    taken = map(take, ended[1:], (end_tb.success, end_tb.episode_return, end_tb.length))
    return actors_b, FirstEpisodes(ended.done | new_b, *taken)


def evaluate_all(
    agent: Agent,
    env: Environment,
    params_s: Params,
    levels: Mapping[str, EnvParams],
    episodes: int,
    *,
    seed: int = 0,
    on_progress: OnProgress = lambda done, total: None,
) -> dict[str, dict[str, dict[str, float]]]:
    """The content of eval.json: by way of acting and by level. Several seeds share the episodes among them.

    Where the task is scored by its return and has an expert, each level also has `oracle`, the expert's mean return.
    """
    seeds = len(jax.tree.leaves(params_s)[0])
    share = -(-episodes // seeds)
    total, before = 2 * len(levels) * seeds * share, 0
    lengths = [env.max_steps_in_episode(level) for level in levels]
    longest = None if None in lengths else max(filter(None, lengths), default=None)
    results: dict[str, dict[str, dict[str, float]]] = {"greedy": {}, "sampled": {}}
    for way in results:
        for level, env_params in levels.items():
            scores = []
            for s in range(seeds):
                params = jax.tree.map(lambda leaf, s=s: leaf[s], params_s)
                play = partial(
                    evaluate, agent, env, params, env_params, seed=seed + s, greedy=way == "greedy", longest=longest
                )
                scores.append(play(episodes=share, on_progress=_shifted(on_progress, before, total)))
                before += share
            results[way][level] = _joined(scores)
    for level, full in oracles(env, levels).items():
        for way in results:
            results[way][level]["oracle"] = full
    return results


def oracles(env: Environment, levels: Mapping[str, EnvParams]) -> dict[str, float]:
    """The mean return of the task's expert, by level; empty unless the task is scored by its return and has one."""
    known: dict[str, Any] = {}
    if env.scored_by == "return":
        known = {level: rewards.expert_return(env, env_params) for level, env_params in levels.items()}
    return {level: full for level, full in known.items() if full is not None}


def _shifted(on_progress: OnProgress, before: int, total: int) -> OnProgress:
    return lambda done, _: on_progress(before + done, total)


def _joined(scores: list[Score]) -> dict[str, float]:
    count = sum(score.episodes for score in scores)
    success, episode_return, length = (
        sum(getattr(score, name) * score.episodes for score in scores) / count
        for name in ("success", "episode_return", "length")
    )
    low, high = interval(round(success * count), count)
    square = sum(score.episodes * (score.deviation**2 + score.episode_return**2) for score in scores) / count
    deviation = sqrt(max(0.0, square - episode_return**2))  # within the seeds and between them
    whole = Score(count, success, low, high, episode_return, length, deviation)
    return_low, return_high = whole.return_interval
    found = {"episodes": count, "success": success, "low": low, "high": high, "return": episode_return}
    return found | {"return_low": return_low, "return_high": return_high, "length": length}


def interval(successes: int, episodes: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share: right also near 0 and 1, where the usual one is too narrow."""
    z = 1.96
    share = successes / episodes
    centre = (share + z * z / (2 * episodes)) / (1 + z * z / episodes)
    half = z * sqrt(share * (1 - share) / episodes + z * z / (4 * episodes**2)) / (1 + z * z / episodes)
    return max(0.0, centre - half), min(1.0, centre + half)
