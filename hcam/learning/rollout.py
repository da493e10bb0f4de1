"""Agent x environment -> transitions: the one scan over time, the one vmap over environments."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from hcam.agent import Agent
from hcam.envs.environment import Environment, Info
from hcam.envs.levels import Mixture
from hcam.learning import layout
from hcam.learning.devices import ONE, Devices
from hcam.types import ActorState, Array, EnvParams, EpisodeEnd, Inputs, Observation, Output, Params, Transition


class Outcome(NamedTuple):
    """What a step of an environment came to, besides an observation."""

    reward: Array  # float32
    terminated: Array  # bool
    truncated: Array  # bool


def reset_actor(agent: Agent, env: Environment, key: Array, env_params: EnvParams) -> ActorState:
    return first_actor(agent, *env.reset(key, env_params))


def first_actor(agent: Agent, observation: Observation, state: Any) -> ActorState:
    """An actor at the first observation of an episode."""
    inputs = Inputs(agent.preprocess(observation), jnp.bool_(True), jnp.int32(0), jnp.float32(0))
    return ActorState(state, inputs, agent.init_state(), jnp.float32(0), jnp.int32(0))


def act(
    agent: Agent,
    env: Environment,
    params: Params,
    env_params: EnvParams,
    key: Array,
    actor: ActorState,
    *,
    greedy: bool = False,
    labelled: bool = False,
) -> tuple[ActorState, Transition]:
    """One step of one environment."""
    memory, output = agent.step(params, actor.memory, actor.inputs)
    actor, transition, _ = proceed(
        agent, env, env_params, key, actor._replace(memory=memory), output, greedy=greedy, labelled=labelled
    )
    return actor, transition


def proceed(
    agent: Agent,
    env: Environment,
    env_params: EnvParams,
    key: Array,
    actor: ActorState,
    output: Output,
    *,
    greedy: bool = False,
    labelled: bool = False,
) -> tuple[ActorState, Transition, Info]:
    """The environment's part of `act`, of an actor whose memory has taken its step and returned `output`."""
    key_action, key_step = jax.random.split(key)
    action = choose(key_action, output.logits, greedy=greedy)
    with jax.named_scope("environment"):
        label = env.label(actor.env).astype(jnp.int32) if labelled else None
        observation, state, *outcome, info = env.step(key_step, actor.env, action, env_params)
    # Without a mixture, an environment may call by the name of level whatever it likes.
    level = info.get("level", jnp.int32(0)) if isinstance(env_params, Mixture) else jnp.int32(0)
    actor, transition = settle(
        agent, env, actor._replace(env=state), action, output.logits, label, observation, Outcome(*outcome), info, level
    )
    return actor, transition, info


def choose(key: Array, logits: Array, *, greedy: bool = False) -> Array:
    """An action, sampled or the likeliest."""
    sampled = jax.random.categorical(key, logits)
    return (jnp.argmax(logits) if greedy else sampled).astype(jnp.int32)


def settle(
    agent: Agent,
    env: Environment,
    actor: ActorState,
    action: Array,
    logits: Array,
    label: Array | None,
    observation: Observation,
    outcome: Outcome,
    info: Info,
    level: Array,
) -> tuple[ActorState, Transition]:
    """What a step was, once the environment has taken it: the actor before the next step, and the transition."""
    reward, terminated, truncated = outcome
    done = terminated | truncated
    episode_return, length = actor.episode_return + reward, actor.episode_length + 1
    counted = done & ~info["cut"] if "cut" in info else done  # an episode that was lost with its process is none
    end = EpisodeEnd(
        counted,
        jnp.where(counted, episode_return, 0.0),
        jnp.where(counted, length, 0),
        jnp.where(counted, level, 0),
        counted & env.success(episode_return, info),
    )
    transition = Transition(actor.inputs, action, logits, reward, terminated, truncated, label, end)
    inputs = Inputs(agent.preprocess(observation), done, action, reward)
    kept = jnp.where(done, 0.0, episode_return), jnp.where(done, 0, length)
    return ActorState(actor.env, inputs, actor.memory, *kept), transition


def rollout(
    agent: Agent,
    env: Environment,
    params: Params,
    env_params: EnvParams,
    key: Array,
    actors_b: ActorState,
    steps: int,
    *,
    greedy: bool = False,
    labelled: bool = False,
    minibatches: int = 1,
    devices: Devices = ONE,
) -> tuple[ActorState, Transition]:
    """T steps of B environments: the actors after them, and transitions [N, T, B/N], split for learning.

    Where several devices share the environments, B are those of this one.
    """
    batch = actors_b.episode_length.size * devices.count
    one = partial(act, agent, env, params, env_params, greedy=greedy, labelled=labelled)

    def step(actors_b: ActorState, t: Array) -> tuple[ActorState, Transition]:
        key_b = devices.split(jax.random.fold_in(key, t), batch, minibatches)
        return jax.vmap(one)(key_b, actors_b)

    return layout.scan_minibatches(step, actors_b, steps, minibatches)


def bootstrap_value(agent: Agent, params: Params, actors_b: ActorState) -> tuple[ActorState, Array]:
    """The value [B] of what the actors see next, and the actors to continue with: that step is still to come.

    Continue with the returned actors and drop the given ones: then no memory is copied.
    """

    def one(actor: ActorState) -> tuple[ActorState, Array]:
        memory, output = agent.step(params, actor.memory, actor.inputs)
        return actor._replace(memory=agent.undo(actor.memory, memory)), output.value

    return jax.vmap(one)(actors_b)
