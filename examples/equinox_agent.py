"""An actor-critic in equinox with a memory of your choice, learning by reward alone to remember the first symbol.

The agent is written for one environment, as the memories are, and `jax.vmap` makes the batch. A memory is functions,
which are a static field of the agent, and parameters, which are an ordinary one and trained like the rest.

    python examples/equinox_agent.py --memory hcam    (or trxl, lstm, none; under a minute on two cores)
"""

import argparse
import time
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from first_symbol import FirstSymbol, State  # type: ignore[import-not-found]  # found beside this script

from hcam import memory

ENV = FirstSymbol(symbols=8, blanks=20)
B, T = 64, 32  # environments, and steps per rollout
DISCOUNT, BASELINE_WEIGHT, ENTROPY_WEIGHT = 0.9, 0.5, 0.05
OPTIMISER = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(3e-3))

CONFIGS: dict[str, Any] = {
    # Of an episode's 22 steps, two chunks are complete when the cue comes, and both may be recalled.
    "hcam": memory.HCAM(width=32, layers=1, heads=2, window=4, chunk=8, slots=4, top_k=2),
    "trxl": memory.TrXL(width=32, layers=1, heads=2, window=24),  # reaches back over all of them
    "lstm": memory.LSTM(width=32, layers=1),
    "none": memory.Local(width=32, layers=1, heads=2, window=4),  # what hcam sees without its chunks
}


class Agent(eqx.Module):
    """Encoder, memory, and two heads, for one environment."""

    encoder: eqx.nn.Embedding
    memory: Any  # the memory's parameters
    policy: eqx.nn.Linear
    value: eqx.nn.Linear
    functions: memory.Memory = eqx.field(static=True)

    def __init__(self, functions: memory.Memory, key: jax.Array):
        key_encoder, key_memory, key_policy, key_value = jax.random.split(key, 4)
        width = functions.config.width
        # No gradient flows into a memory, so what it stores has to tell symbols apart from the start: random codes do.
        self.encoder = eqx.nn.Embedding(ENV.observations, width, key=key_encoder)
        self.memory = functions.init_params(key_memory)
        self.policy = eqx.nn.Linear(width, ENV.symbols, key=key_policy)
        self.value = eqx.nn.Linear(width, "scalar", key=key_value)
        self.functions = functions

    def step(self, state: Any, obs: jax.Array, first: jax.Array) -> tuple[Any, jax.Array, jax.Array]:
        state, y_d = self.functions.step(self.memory, state, self.encoder(obs), first)
        return state, self.policy(y_d), self.value(y_d)

    def unroll(self, state: Any, obs_t: jax.Array, first_t: jax.Array) -> tuple[Any, jax.Array, jax.Array]:
        state, y_td = self.functions.unroll(self.memory, state, jax.vmap(self.encoder)(obs_t), first_t)
        return state, jax.vmap(self.policy)(y_td), jax.vmap(self.value)(y_td)


class World(NamedTuple):
    """All that is carried from step to step and from rollout to rollout."""

    env: State
    obs: jax.Array
    first: jax.Array  # whether `obs` opens an episode
    memory: Any


class Transition(NamedTuple):
    """One step, or with a time axis a rollout."""

    obs: jax.Array
    first: jax.Array
    action: jax.Array
    reward: jax.Array
    done: jax.Array


def begin(agent: Agent, key: jax.Array) -> World:
    obs, env = ENV.reset(key)
    return World(env, obs, jnp.array(True), agent.functions.init_state())


def step(agent: Agent, key: jax.Array, world: World, t: jax.Array) -> tuple[World, Transition]:
    key_act, key_env = jax.random.split(jax.random.fold_in(key, t))
    state, logits_a, _ = agent.step(world.memory, world.obs, world.first)
    action = jax.random.categorical(key_act, logits_a)
    obs, env, reward, done = ENV.step(key_env, world.env, action)
    # Where this step ended an episode, the observation that comes back is the first of the next.
    return World(env, obs, done, state), Transition(world.obs, world.first, action, reward, done)


def collect(agent: Agent, world: World, key: jax.Array) -> tuple[World, Transition, jax.Array]:
    """T steps of one environment, and the return of each: up to the episode's end, or else up to the next value."""
    # Parameters stay the same until the rollout ends, so keys and values are computed once and kept.
    world = world._replace(memory=agent.functions.cached(agent.memory, world.memory))
    world, rollout = jax.lax.scan(partial(step, agent, key), world, jnp.arange(T))
    *_, value = agent.step(world.memory, world.obs, world.first)

    def back(later: jax.Array, now: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        reward, done = now
        later = reward + DISCOUNT * jnp.where(done, 0.0, later)
        return later, later

    _, return_t = jax.lax.scan(back, value, (rollout.reward, rollout.done), reverse=True)
    return world, rollout, return_t


def loss(agent: Agent, state: Any, rollout: Transition, return_t: jax.Array) -> tuple[jax.Array, Any]:
    """The loss of one environment's rollout, unrolled from the state it began with, and the memory after it."""
    state, logits_ta, value_t = agent.unroll(state, rollout.obs, rollout.first)
    log_policy_ta = jax.nn.log_softmax(logits_ta)
    chosen_t = jnp.take_along_axis(log_policy_ta, rollout.action[:, None], axis=-1)[:, 0]
    advantage_t = return_t - value_t
    policy_t = -chosen_t * jax.lax.stop_gradient(advantage_t)
    entropy_t = -(jnp.exp(log_policy_ta) * log_policy_ta).sum(-1)
    return (policy_t + BASELINE_WEIGHT * advantage_t**2 - ENTROPY_WEIGHT * entropy_t).mean(), state


def batch_loss(agent: Agent, batch: tuple[Any, Transition, jax.Array]) -> tuple[jax.Array, Any]:
    loss_b, state_b = jax.vmap(partial(loss, agent))(*batch)
    return loss_b.mean(), state_b


class Learner(NamedTuple):
    agent: Agent
    optimiser: Any
    world: World  # of B environments


def update(learner: Learner, key: jax.Array) -> tuple[Learner, tuple[jax.Array, jax.Array]]:
    """One rollout and one gradient; the reward won and the answers asked for."""
    agent, optimiser, before = learner
    world, rollout, return_bt = jax.vmap(partial(collect, agent))(before, jax.random.split(key, B))
    learn = eqx.filter_value_and_grad(batch_loss, has_aux=True)
    (_, state), grads = learn(agent, (before.memory, rollout, return_bt))
    changes, optimiser = OPTIMISER.update(grads, optimiser)
    # The memory after the unroll is the one that acting arrived at, without the keys and values, which are now old.
    learner = Learner(eqx.apply_updates(agent, changes), optimiser, world._replace(memory=state))
    return learner, (rollout.reward.sum(), rollout.done.sum())


def main() -> None:
    parser = argparse.ArgumentParser(description="An actor-critic in equinox that has to remember.")
    parser.add_argument("--memory", choices=CONFIGS, default="hcam")
    parser.add_argument("--steps", type=int, default=1000, help="updates (default 1000)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a few updates only, to see that it runs")
    args = parser.parse_args()
    updates = 2 if args.quick else args.steps

    key_agent, key_world, key_updates = jax.random.split(jax.random.key(args.seed), 3)
    agent = eqx.filter_jit(Agent)(memory.make(CONFIGS[args.memory]), key_agent)
    world = jax.jit(jax.vmap(partial(begin, agent)))(jax.random.split(key_world, B))
    learner, some_updates = Learner(agent, OPTIMISER.init(agent), world), jax.jit(partial(jax.lax.scan, update))
    print(f"Training an agent with memory {args.memory}.", flush=True)
    started = time.perf_counter()
    for done in range(0, updates, 50):
        keys = jax.random.split(jax.random.fold_in(key_updates, done), min(50, updates - done))
        learner, (reward_n, asked_n) = some_updates(learner, keys)
        success, elapsed = float(reward_n.sum()) / max(1, int(asked_n.sum())), time.perf_counter() - started
        print(f"update {done + len(keys):4d}   success {success:6.1%}   {elapsed:5.1f} s", flush=True)
    print(f"\nmemory {args.memory}: success {success:.1%}, chance {ENV.chance:.1%}")


if __name__ == "__main__":
    main()
