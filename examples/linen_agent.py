"""A recurrent actor-critic in flax with HCAM inside, learning by reward alone to remember the first symbol.

Watch three things that recurrent agents often get wrong. The memory's state is carried from rollout to rollout, so an
episode may be longer than a rollout (it is). Learning unrolls from the state that the rollout *began* with. And the
`first` flag travels with each observation, so one rollout may hold the end of one episode and the start of the next.

    python examples/linen_agent.py    (under a minute on two cores)
"""

import argparse
import time
from functools import partial
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from first_symbol import FirstSymbol, State  # type: ignore[import-not-found]  # found beside this script

from hcam.adapters.flax import Memory
from hcam.memory import HCAM

ENV = FirstSymbol(symbols=8, blanks=20)
B, T = 64, 16  # environments, and steps per rollout: an episode has 22
DISCOUNT, BASELINE_WEIGHT, ENTROPY_WEIGHT = 0.9, 0.5, 0.05
# When the cue comes, two chunks are complete, and the memory may recall both. Only recalled chunks get gradient, and
# those of blanks are all alike: with fewer recalled than there are, an unlucky start might recall blanks for ever.
CONFIG = HCAM(width=32, layers=1, heads=2, window=4, chunk=8, slots=4, top_k=2)


class Agent(nn.Module):
    """Encoder, memory, and two heads."""

    def setup(self):
        # No gradient flows into a memory, so what it stores has to tell symbols apart from the start: random codes do.
        self.encoder = nn.Embed(ENV.observations, CONFIG.width, embedding_init=nn.initializers.normal(1.0))
        self.memory = Memory(CONFIG)
        self.policy = nn.Dense(ENV.symbols)
        self.value = nn.Dense(1)

    def __call__(self, memory: Any, obs_bt: jax.Array, first_bt: jax.Array) -> Any:
        """To learn: [B, T] steps at once."""
        memory, y_btd = self.memory(memory, self.encoder(obs_bt), first_bt)
        return self.policy(y_btd), self.value(y_btd)[..., 0]

    def act(self, memory: Any, obs_b: jax.Array, first_b: jax.Array) -> Any:
        """To act: the next step of each environment."""
        memory, y_bd = self.memory.step(memory, self.encoder(obs_b), first_b)
        return memory, self.policy(y_bd), self.value(y_bd)[..., 0]


AGENT: Any = Agent()  # Any: `apply` cannot know what a method returns
OPTIMISER = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(3e-3))


class World(NamedTuple):
    """All that is carried from step to step and from rollout to rollout."""

    env: State
    obs_b: jax.Array
    first_b: jax.Array  # whether `obs_b` opens an episode
    memory: Any


class Transition(NamedTuple):
    """One step, or with a leading time axis a rollout."""

    obs_b: jax.Array
    first_b: jax.Array
    action_b: jax.Array
    reward_b: jax.Array
    done_b: jax.Array


def begin(key: jax.Array) -> World:
    obs_b, env = jax.vmap(ENV.reset)(jax.random.split(key, B))
    return World(env, obs_b, jnp.ones(B, bool), Memory(CONFIG).initial_state((B,)))


def step(params: Any, world: World, key: jax.Array) -> tuple[World, Transition]:
    key_act, key_env = jax.random.split(key)
    memory, logits_ba, _ = AGENT.apply(params, world.memory, world.obs_b, world.first_b, method="act")
    action_b = jax.random.categorical(key_act, logits_ba)
    obs_b, env, reward_b, done_b = jax.vmap(ENV.step)(jax.random.split(key_env, B), world.env, action_b)
    # Where this step ended an episode, the observation that comes back is the first of the next.
    return World(env, obs_b, done_b, memory), Transition(world.obs_b, world.first_b, action_b, reward_b, done_b)


def returns(reward_tb: jax.Array, done_tb: jax.Array, value_b: jax.Array) -> jax.Array:
    """Discounted rewards up to the episode's end, or to the rollout's, where `value_b` stands in for the rest."""

    def back(return_b: jax.Array, now: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        reward_b, done_b = now
        return_b = reward_b + DISCOUNT * jnp.where(done_b, 0.0, return_b)
        return return_b, return_b

    return jax.lax.scan(back, value_b, (reward_tb, done_tb), reverse=True)[1]


def loss(params: Any, memory: Any, rollout: Transition, return_tb: jax.Array) -> jax.Array:
    # A rollout comes time first out of its scan, and the memory takes time last before features.
    rollout, return_bt = jax.tree.map(lambda x: x.swapaxes(0, 1), (rollout, return_tb))
    logits_bta, value_bt = AGENT.apply(params, memory, rollout.obs_b, rollout.first_b)
    log_policy_bta = jax.nn.log_softmax(logits_bta)
    chosen_bt = jnp.take_along_axis(log_policy_bta, rollout.action_b[..., None], axis=-1)[..., 0]
    advantage_bt = return_bt - value_bt
    policy_bt = -chosen_bt * jax.lax.stop_gradient(advantage_bt)
    entropy_bt = -(jnp.exp(log_policy_bta) * log_policy_bta).sum(-1)
    return (policy_bt + BASELINE_WEIGHT * advantage_bt**2 - ENTROPY_WEIGHT * entropy_bt).mean()


class Learner(NamedTuple):
    params: Any
    optimiser: Any
    world: World


def update(learner: Learner, key: jax.Array) -> tuple[Learner, tuple[jax.Array, jax.Array]]:
    """One rollout and one gradient; the reward won and the answers asked for."""
    before = learner.world
    world, rollout = jax.lax.scan(partial(step, learner.params), before, jax.random.split(key, T))
    *_, value_b = AGENT.apply(learner.params, world.memory, world.obs_b, world.first_b, method="act")
    return_tb = returns(rollout.reward_b, rollout.done_b, value_b)
    grads = jax.grad(loss)(learner.params, before.memory, rollout, return_tb)
    changes, optimiser = OPTIMISER.update(grads, learner.optimiser)
    params = optax.apply_updates(learner.params, changes)
    return Learner(params, optimiser, world), (rollout.reward_b.sum(), rollout.done_b.sum())


def main() -> None:
    parser = argparse.ArgumentParser(description="An actor-critic in flax that has to remember.")
    parser.add_argument("--steps", type=int, default=700, help="updates (default 700)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a few updates only, to see that it runs")
    args = parser.parse_args()
    updates = 2 if args.quick else args.steps

    key_params, key_world, key_updates = jax.random.split(jax.random.key(args.seed), 3)
    world = jax.jit(begin)(key_world)
    init = jax.jit(partial(AGENT.init, method="act"))
    params = init(key_params, world.memory, world.obs_b, world.first_b)
    learner, some_updates = Learner(params, OPTIMISER.init(params), world), jax.jit(partial(jax.lax.scan, update))
    print(f"Training an agent of {sum(leaf.size for leaf in jax.tree.leaves(params)):,} parameters.", flush=True)
    started = time.perf_counter()
    for done in range(0, updates, 50):
        keys = jax.random.split(jax.random.fold_in(key_updates, done), min(50, updates - done))
        learner, (reward_n, asked_n) = some_updates(learner, keys)
        success, elapsed = float(reward_n.sum()) / max(1, int(asked_n.sum())), time.perf_counter() - started
        print(f"update {done + len(keys):4d}   success {success:6.1%}   {elapsed:5.1f} s", flush=True)
    print(f"\nmemory hcam: success {success:.1%}, chance {ENV.chance:.1%}")


if __name__ == "__main__":
    main()
