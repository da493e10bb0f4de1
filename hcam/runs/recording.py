"""Whole episodes as an agent lived them, with what its memory attended to: for pictures, the viewer and analyses.

They are the episodes of an evaluation: `record(..., episodes=n, seed=s)` plays what `evaluate` does with these numbers.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hcam.agent import Agent
from hcam.envs.environment import Environment
from hcam.envs.levels import level_of
from hcam.learning.rollout import first_actor, proceed
from hcam.memory import checks
from hcam.memory.types import Recall
from hcam.runs.evaluate import EVAL_CHUNK, MAX_STEPS
from hcam.types import ActorState, Array, EnvParams, Observation, Params


class Attention(NamedTuple):
    """A step's `Recall`, averaged over heads, one entry per layer. None: the memory has no such part."""

    window_w: tuple[Array, ...] | None  # over the last W steps by age; age 0 is the step itself
    chunk_k: tuple[Array, ...] | None  # numbers of the recalled chunks in their episode; -1: nothing to recall
    relevance_k: tuple[Array, ...] | None  # their weights, best first
    within_kc: tuple[Array, ...] | None  # over the C steps inside each recalled chunk
    relevance_m: tuple[Array, ...] | None  # of every chunk before the top k, newest first; 0: no such chunk


class Step(NamedTuple):
    """What an agent did at a step, and what came of it."""

    action: Array  # int32
    policy_a: Array  # float32, the probability of each action
    value: Array  # float32
    attention: Attention
    reward: Array  # float32
    terminated: Array  # bool
    truncated: Array  # bool
    success: Array  # bool; false before the last step


class Moment(NamedTuple):
    """An environment between two steps."""

    state: Any
    observation: Observation  # None: not kept


class Episode(NamedTuple):
    """T steps, and the T + 1 moments before, between and after them; leaves are numpy arrays."""

    level: int  # its number in the mixture
    steps_t: Step
    moments_t: Moment | None  # None: not kept

    @property
    def length(self) -> int:
        return len(self.steps_t.action)


def record(
    agent: Agent,
    env: Environment,
    params: Params,
    env_params: EnvParams,
    *,
    episodes: int = 1,
    seed: int = 0,
    start: int = 0,
    greedy: bool = True,
    moments: bool | Literal["states"] = True,
) -> list[Episode]:
    """Plays one episode in each of as many environments.

    Without `moments`, what the environments were and showed is not kept, with "states" what they were alone: then many
    episodes fit in memory. `start` is the number of the first episode where they are played in several calls.
    """
    checks.positive(episodes=episodes)
    key_reset, key_play = jax.random.split(jax.random.fold_in(jax.random.key(seed), start))
    actors_b, begun_b = _begin(agent, env, episodes, key_reset, env_params)
    level_b = np.broadcast_to(np.asarray(getattr(actors_b.env, "level", 0)), episodes)
    first_b = jax.device_get(begun_b) if moments else None
    if first_b is not None and moments == "states":
        first_b = first_b._replace(observation=None)
    parts: list[Any] = []
    length_b = np.zeros(episodes, np.int64)
    for number in range(MAX_STEPS // EVAL_CHUNK):
        key = jax.random.fold_in(key_play, number)
        actors_b, part_tb = _play(agent, env, greedy, moments, params, env_params, key, actors_b)
        part_tb = jax.device_get(part_tb)
        parts.append(part_tb)
        done_tb = part_tb[0].terminated | part_tb[0].truncated
        ended_b = (length_b == 0) & done_tb.any(0)
        length_b = np.where(ended_b, number * EVAL_CHUNK + done_tb.argmax(0) + 1, length_b)
        if length_b.all():
            return list(_episodes(parts, first_b, length_b, level_b))
    raise ValueError(f"an episode has not ended after {MAX_STEPS:,} steps: this environment needs a time limit.")


def _episodes(parts: list[Any], first_b: Any, length_b: Any, level_b: Any) -> Iterator[Episode]:
    """Cuts what was played side by side into episodes."""
    for b, length in enumerate(length_b.tolist()):

        def whole(*leaves_tb: Any, b: int = b, length: int = length) -> Any:
            return np.concatenate([leaf_tb[:, b] for leaf_tb in leaves_tb])[:length]

        steps_t, after_t = jax.tree.map(whole, *parts)
        moments_t = None
        if first_b is not None:
            moments_t = jax.tree.map(
                lambda one_b, rest_t, b=b: np.concatenate([one_b[b][None], rest_t]), first_b, after_t
            )
        yield Episode(int(level_b[b]), steps_t, moments_t)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _begin(agent: Agent, env: Environment, batch: int, key: Array, env_params: EnvParams) -> tuple[ActorState, Moment]:
    """As `reset_actors`, with what each environment shows at first: not every one can show its state again."""

    def begin(key: Array) -> tuple[ActorState, Moment]:
        observation, state = env.reset(key, env_params)
        return first_actor(agent, observation, state), Moment(_plain(state), observation)

    return jax.vmap(begin)(jax.random.split(key, batch))


@partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _play(
    agent: Agent,
    env: Environment,
    greedy: bool,
    moments: bool | Literal["states"],
    params: Params,
    env_params: EnvParams,
    key: Array,
    actors_b: ActorState,
) -> tuple[ActorState, tuple[Step, Moment | None]]:
    prepared, batch = agent.prepare(params), actors_b.episode_length.size

    def one(key: Array, actor: ActorState) -> tuple[ActorState, tuple[Step, Moment | None]]:
        memory, output, recall = agent.step_recalling(prepared, actor.memory, actor.inputs)
        before = actor._replace(memory=memory)
        after, taken, info = proceed(agent, env, env_params, key, before, output, greedy=greedy)
        shown = info["final_observation"] if moments is True else None
        last = Moment(_plain(_last(env, key, actor.env, taken.action, env_params, after)), shown)
        step = Step(
            taken.action,
            jax.nn.softmax(output.logits),
            output.value,
            over_heads(recall),
            taken.reward,
            taken.terminated,
            taken.truncated,
            taken.end.success,
        )
        return after, (step, last if moments else None)

    def body(actors_b: ActorState, t: Array) -> tuple[ActorState, tuple[Step, Moment | None]]:
        return jax.vmap(one)(jax.random.split(jax.random.fold_in(key, t), batch), actors_b)

    return jax.lax.scan(body, actors_b, jnp.arange(EVAL_CHUNK))


def _last(env: Environment, key: Array, state: Any, action: Array, env_params: EnvParams, after: ActorState) -> Any:
    """The state after a step, also where that ended the episode and `step` has begun another one."""
    if not env.is_saved or type(env).advance is Environment.advance:
        return after.env  # of an adapted environment, whose steps cannot be taken apart, and which draws no pictures
    clone: Any = jax.random.clone  # the same keys as in `proceed` and `env.step`, on purpose
    key_advance = jax.random.split(jax.random.split(clone(key))[1])[0]
    return env.advance(key_advance, state, action, level_of(env_params, state))[0]


def over_heads(recall: Recall) -> Attention:
    def mean(layers: tuple[Array, ...] | None, axis: int) -> tuple[Array, ...] | None:
        return None if layers is None else tuple(layer.mean(axis) for layer in layers)

    return Attention(
        mean(recall.window_hw, 0), recall.chunk_k, recall.relevance_k, mean(recall.within_khc, 1), recall.relevance_m
    )


def _plain(state: Any) -> Any:
    """Random keys as numbers, which numpy can hold."""

    def plain(leaf: Array) -> Array:
        return jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf

    return jax.tree.map(plain, state)
