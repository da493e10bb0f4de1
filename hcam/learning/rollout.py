"""Agent x environment -> experience: the one scan over steps, the one vmap over environments."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from hcam.agent import Agent, Inputs
from hcam.envs.environment import Environment, Params
from hcam.memory.types import Array
from hcam.memory.types import Params as Weights


class ActorState(NamedTuple):
    """Where one environment and its agent stand: all that goes on from unroll to unroll."""

    env: Any  # the environment's state
    inputs: Inputs  # what the agent sees next
    memory: Any
    ret: Array  # float32, the episode's return so far
    length: Array  # int32, its steps so far


class Transition(NamedTuple):
    """What happened, a step at a time: [T] for one environment, [T, B] for many."""

    inputs: Inputs
    action: Array  # int32
    logits: Array  # [A], of the policy that acted
    reward: Array
    terminated: Array
    truncated: Array
    episode: "Episode"


class Episode(NamedTuple):
    """Told by the step that ends an episode; zeros otherwise."""

    done: Array  # bool
    ret: Array  # float32
    length: Array  # int32
    level: Array  # int32, which of the levels it was
    success: Array  # bool


def begin(agent: Agent, env: Environment, key: Array, params: Params) -> ActorState:
    observation, state = env.reset(key, params)
    inputs = Inputs(agent.preprocess(observation), jnp.bool_(True), jnp.int32(0), jnp.float32(0))
    return ActorState(state, inputs, agent.init_state(), jnp.float32(0), jnp.int32(0))


def act(
    agent: Agent, env: Environment, weights: Weights, params: Params, greedy: bool, key: Array, actor: ActorState
) -> tuple[ActorState, Transition]:
    """One step of one environment."""
    key_action, key_step = jax.random.split(key)
    memory, output = agent.step(weights, actor.memory, actor.inputs)
    sampled = jax.random.categorical(key_action, output.logits)
    action = jnp.argmax(output.logits) if greedy else sampled
    with jax.named_scope("environment"):
        observation, state, reward, terminated, truncated, info = env.step(key_step, actor.env, action, params)
    done, ret, length = terminated | truncated, actor.ret + reward, actor.length + 1
    episode = Episode(
        done,
        jnp.where(done, ret, 0.0),
        jnp.where(done, length, 0),
        jnp.where(done, info.get("level", jnp.int32(0)), 0),
        done & info.get("success", ret > 0),
    )
    steps = Transition(actor.inputs, action, output.logits, reward, terminated, truncated, episode)
    inputs = Inputs(agent.preprocess(observation), done, action, reward)
    return ActorState(state, inputs, memory, jnp.where(done, 0.0, ret), jnp.where(done, 0, length)), steps


def rollout(
    agent: Agent,
    env: Environment,
    weights: Weights,
    params: Params,
    key: Array,
    actors_b: ActorState,
    steps: int,
    *,
    greedy: bool = False,
    shares: int | None = None,
) -> tuple[ActorState, Transition]:
    """T steps of B environments: the lives that go on, and Transition [T, B].

    With `shares`, for learning from one share of the environments after another, [M, T, B/M]: each share is in
    one piece then, which a GPU fetches while it computes. Cut out of [T, B] it would be waited for.
    """
    batch = actors_b.length.size
    one = partial(act, agent, env, weights, params, greedy)

    def step(actors_b: ActorState, t: Array | int) -> tuple[ActorState, Transition]:
        actors_b, transitions_b = jax.vmap(one)(jax.random.split(jax.random.fold_in(key, t), batch), actors_b)
        return actors_b, split_minibatches(transitions_b, shares or 1)

    def body(carry: tuple[ActorState, Transition], t: Array) -> tuple[tuple[ActorState, Transition], None]:
        actors_b, words_mtb = carry
        actors_b, transitions_mb = step(actors_b, t)
        put = partial(jax.lax.dynamic_update_index_in_dim, index=t, axis=1)
        return (actors_b, jax.tree.map(put, words_mtb, jax.tree.map(pack_words, transitions_mb))), None

    # Where the steps will be: scan would fill it with zeros first, gigabytes of them where there are images.
    kinds = jax.eval_shape(step, actors_b, 0)[1]
    words = jax.eval_shape(partial(jax.tree.map, pack_words), kinds)
    empty: Any = jax.lax.empty
    room = jax.tree.map(lambda leaf: empty((leaf.shape[0], steps, *leaf.shape[1:]), leaf.dtype), words)
    actors_b, words_mtb = jax.lax.scan(body, (actors_b, room), jnp.arange(steps))[0]
    transitions_mtb = jax.tree.map(lambda kind, leaf: unpack_words(leaf, kind.dtype), kinds, words_mtb)
    return actors_b, transitions_mtb if shares else jax.tree.map(lambda leaf_mtb: leaf_mtb[0], transitions_mtb)


def pack_words(x: Array) -> Array:
    """Bytes as words of four, where they fill such: to XLA a copy of words is a quarter of the work."""
    if x.dtype.itemsize > 1 or x.dtype == bool or x.ndim == 0 or x.shape[-1] % 4:
        return x
    return jax.lax.bitcast_convert_type(x.reshape(*x.shape[:-1], -1, 4), jnp.int32)


def unpack_words(x: Array, dtype: Any) -> Array:
    """Undo `pack_words`."""
    if x.dtype == dtype:
        return x
    return jax.lax.bitcast_convert_type(x, dtype).reshape(*x.shape[:-1], -1)


def split_minibatches(tree_b: Any, shares: int) -> Any:
    """[B] -> [M, B/M]."""
    return jax.tree.map(lambda leaf_b: leaf_b.reshape(shares, -1, *leaf_b.shape[1:]), tree_b)


def expected(agent: Agent, weights: Weights, actors_b: ActorState) -> tuple[ActorState, Array]:
    """What the agent expects of what it sees next, [B], and the lives as they are to go on: that step is still to come.

    Take these and leave those that came in, and no memory is copied.
    """

    def tried(actor: ActorState) -> tuple[ActorState, Array]:
        memory, output = agent.step(weights, actor.memory, actor.inputs)
        return actor._replace(memory=agent.memory.undo(actor.memory, memory)), output.value

    return jax.vmap(tried)(actors_b)
