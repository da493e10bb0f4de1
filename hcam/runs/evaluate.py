"""How good is an agent: fixed seeds, one episode per environment, greedy and sampled, with 95 % intervals."""

from functools import partial
from math import sqrt
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hcam.agent import Agent
from hcam.envs.environment import Environment, Params
from hcam.learning import rollout
from hcam.learning.rollout import ActorState
from hcam.memory import checks
from hcam.memory.types import Array
from hcam.memory.types import Params as Weights

EVAL_CHUNK = 64  # steps between two looks whether all episodes have ended
MAX_STEPS = 1_000_000  # steps after which an episode is taken to have no end


class Score(NamedTuple):
    episodes: int
    success: float  # share of episodes
    low: float  # 95 % interval of it
    high: float
    ret: float  # mean
    length: float  # mean, in steps


class Ended(NamedTuple):
    """What is known of each environment's first episode."""

    done: Array
    success: Array
    ret: Array
    length: Array


def evaluate(
    agent: Agent,
    env: Environment,
    weights: Weights,
    params: Params,
    *,
    episodes: int,
    seed: int = 0,
    greedy: bool = True,
    at_once: int = 128,
    tell: Any = lambda done, total: None,
) -> Score:
    """Every episode counts once, however long it is: an environment that has ended its own waits for the others."""
    checks.positive(episodes=episodes, at_once=at_once)
    at_once = min(at_once, episodes)
    ended: list[Ended] = []
    for start in range(0, episodes, at_once):
        count = min(at_once, episodes - start)
        ended.append(
            _first_episodes(
                agent, env, weights, params, greedy, jax.random.fold_in(jax.random.key(seed), start), at_once, count
            )
        )
        tell(start + count, episodes)
    success, ret, length = (np.concatenate([getattr(part, name) for part in ended]) for name in Ended._fields[1:])
    low, high = interval(int(success.sum()), episodes)
    return Score(episodes, float(success.mean()), low, high, float(ret.mean()), float(length.mean()))


def _first_episodes(
    agent: Agent, env: Environment, weights: Weights, params: Params, greedy: bool, key: Array, at_once: int, count: int
) -> Ended:
    key_begin, key_play = jax.random.split(key)
    actors_b = _begin(agent, env, at_once, key_begin, params)
    none = jnp.zeros(at_once)
    ended = Ended(none.astype(bool), none.astype(bool), none, none.astype(jnp.int32))
    for stretch in range(MAX_STEPS // EVAL_CHUNK):
        actors_b, ended = _play(
            agent, env, greedy, weights, params, jax.random.fold_in(key_play, stretch), actors_b, ended
        )
        if ended.done[:count].all():
            return Ended(*(leaf[:count] for leaf in jax.device_get(ended)))
    raise ValueError(f"an episode has not ended after {MAX_STEPS:,} steps: this environment needs a time limit.")


@partial(jax.jit, static_argnums=(0, 1, 2))
def _begin(agent: Agent, env: Environment, at_once: int, key: Array, params: Params) -> ActorState:
    return jax.vmap(lambda key: rollout.begin(agent, env, key, params))(jax.random.split(key, at_once))


@partial(jax.jit, static_argnums=(0, 1, 2), donate_argnums=6)
def _play(
    agent: Agent,
    env: Environment,
    greedy: bool,
    weights: Weights,
    params: Params,
    key: Array,
    actors_b: ActorState,
    ended: Ended,
) -> tuple[ActorState, Ended]:
    ready = agent.prepare(weights)
    actors_b, transitions_tb = rollout.rollout(agent, env, ready, params, key, actors_b, EVAL_CHUNK, greedy=greedy)
    episode = transitions_tb.episode
    now = jnp.argmax(episode.done, axis=0)[None]  # the first end of this stretch
    fresh = ~ended.done & episode.done.any(axis=0)

    def note(old_b: Array, new_tb: Array) -> Array:
        return jnp.where(fresh, jnp.take_along_axis(new_tb, now, axis=0)[0], old_b)

    noted = map(note, ended[1:], (episode.success, episode.ret, episode.length))
    return actors_b, Ended(ended.done | fresh, *noted)


def evaluate_all(
    agent: Agent,
    env: Environment,
    weights_s: Weights,
    params: dict[str, Params],
    episodes: int,
    *,
    seed: int = 0,
    tell: Any = lambda done, total: None,
) -> dict[str, dict[str, dict[str, float]]]:
    """What stands in eval.json: by way of acting and by level. Several seeds share the episodes among them."""
    seeds = len(jax.tree.leaves(weights_s)[0])
    share = -(-episodes // seeds)
    total, before = 2 * len(params) * seeds * share, 0
    results: dict[str, dict[str, dict[str, float]]] = {"greedy": {}, "sampled": {}}
    for way in results:
        for level, level_params in params.items():
            scores = []
            for s in range(seeds):
                weights = jax.tree.map(lambda leaf, s=s: leaf[s], weights_s)
                play = partial(evaluate, agent, env, weights, level_params, seed=seed + s, greedy=way == "greedy")
                scores.append(play(episodes=share, tell=lambda done, _, before=before: tell(before + done, total)))
                before += share
            results[way][level] = _joined(scores)
    return results


def _joined(scores: list[Score]) -> dict[str, float]:
    count = sum(score.episodes for score in scores)
    success, ret, length = (
        sum(getattr(score, name) * score.episodes for score in scores) / count for name in ("success", "ret", "length")
    )
    low, high = interval(round(success * count), count)
    return {"episodes": count, "success": success, "low": low, "high": high, "return": ret, "length": length}


def interval(successes: int, episodes: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share: right also near 0 and 1, where the usual one is too narrow."""
    z = 1.96
    share = successes / episodes
    centre = (share + z * z / (2 * episodes)) / (1 + z * z / episodes)
    half = z * sqrt(share * (1 - share) / episodes + z * z / (4 * episodes**2)) / (1 + z * z / episodes)
    return max(0.0, centre - half), min(1.0, centre + half)
