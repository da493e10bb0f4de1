"""One update: act for an unroll, then learn from it in minibatches, all in one compiled program."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree

from hcam.agent import Agent
from hcam.envs.environment import Environment
from hcam.envs.environment import Params as Level
from hcam.learning import curriculum, loss, rollout
from hcam.learning.loss import LossConfig
from hcam.learning.metrics import UpdateMetrics, count
from hcam.learning.rollout import ActorState, Transition
from hcam.memory import checks
from hcam.memory.types import Array, Params


@dataclass(frozen=True, kw_only=True)
class LearnerConfig:
    environments: int = 32  # "batch size", appendix A.2
    unroll: int = 64  # "training unroll length", same table
    minibatches: int = 1  # gradient steps per unroll, each on its share of the environments; V-trace corrects the drift
    epochs: int = 1  # how often each unroll is learned from
    curriculum: bool = False  # levels share the steps by how uncertain their outcome is; else episodes, by weights

    def __post_init__(self) -> None:
        checks.positive(
            environments=self.environments, unroll=self.unroll, minibatches=self.minibatches, epochs=self.epochs
        )
        checks.switch(curriculum=self.curriculum)
        if self.environments % self.minibatches:
            raise ValueError(
                f"{self.environments} environments cannot be shared out evenly among {self.minibatches} minibatches."
            )

    @property
    def gradient_steps(self) -> int:
        """Per unroll."""
        return self.minibatches * self.epochs


class TrainState(NamedTuple):
    """All that a run is made of; saving it and going on from it gives the same run."""

    params: Params
    optimiser: Any
    actors_b: ActorState
    record: curriculum.Record
    key: Array  # the run's one key; update u uses fold_in(key, u)
    updates: Array  # int32, unrolls so far


class Learner(NamedTuple):
    agent: Agent
    env: Environment
    level: Level
    levels: int  # how many it is a mixture of
    optimiser: optax.GradientTransformation
    config: LearnerConfig
    loss: LossConfig

    def init(self, key: Array) -> TrainState:
        key_params, key_env, key_run = jax.random.split(key, 3)
        params = self.agent.init_params(key_params)
        begin = partial(rollout.begin, self.agent, self.env, params=self.level)
        actors_b = jax.vmap(begin)(jax.random.split(key_env, self.config.environments))
        record, optimiser = curriculum.begin(self.levels), self.optimiser.init(ravel_pytree(params)[0])
        return TrainState(params, optimiser, actors_b, record, key_run, jnp.int32(0))

    def update(self, state: TrainState) -> tuple[TrainState, UpdateMetrics]:
        actors_b, batch = self.act(state)
        params, optimiser, learned = self.learn(state, batch)
        tally = count(batch.transitions_mtb.episode, self.levels)
        record = curriculum.note(state.record, tally)
        return TrainState(params, optimiser, actors_b, record, state.key, state.updates + 1), UpdateMetrics(
            learned, tally
        )

    @jax.named_scope("acting")
    def act(self, state: TrainState) -> tuple[ActorState, "Batch"]:
        """An unroll of all environments: the lives that go on, and what there is to learn from."""
        key = jax.random.fold_in(state.key, state.updates)
        weights = self.agent.prepare(state.params)
        memory_b, actors_b = snapshot_memory(state.actors_b, state.updates)
        level = curriculum.choose(self.level, state.record) if self.config.curriculum else self.level
        steps, shares = self.config.unroll, self.config.minibatches
        actors_b, transitions_mtb = rollout.rollout(
            self.agent, self.env, weights, level, key, actors_b, steps, shares=shares
        )
        actors_b, value_b = rollout.expected(self.agent, weights, actors_b)
        memory_mb, value_mb = rollout.split_minibatches((memory_b, value_b), shares)
        return actors_b, Batch(memory_mb, transitions_mtb, value_mb)

    @jax.named_scope("learning")
    def learn(self, state: TrainState, batch: "Batch") -> tuple[Params, Any, dict[str, Array]]:
        """A gradient step per minibatch. Values for the log are means over them.

        All parameters lie in one vector here, so that clipping and Adam are a few kernels and not a few per array.
        """
        params_p, unflatten = ravel_pytree(state.params)
        shares, epochs = self.config.minibatches, self.config.epochs

        def total(params_p: Array, share: Batch, offset: Array) -> tuple[Array, dict[str, Array]]:
            return loss.total(self.loss, *loss.per_step(self.agent, self.loss, unflatten(params_p), *share, offset))

        def body(carry: tuple[Array, Any], given: tuple[Batch, Array]) -> tuple[tuple[Array, Any], dict[str, Array]]:
            params_p, optimiser = carry
            gradient_p, seen = jax.grad(total, has_aux=True)(params_p, *given)
            # optax mixes Python numbers and int32 counters.
            with jax.named_scope("optimiser"), jax.numpy_dtype_promotion("standard"):
                change_p, optimiser = self.optimiser.update(gradient_p, optimiser, params_p)
            return (params_p + change_p, optimiser), {**seen, "gradient": optax.tree.norm(gradient_p)}

        def epoch(carry: tuple[Array, Any], done: Array) -> tuple[tuple[Array, Any], dict[str, Array]]:
            # Which steps to reconstruct: others in every update, whichever the share.
            offset_m = state.updates + done + jnp.arange(shares)
            # Shares are what is scanned over, and not looked up: then XLA has the next thing it needs copied meanwhile.
            return jax.lax.scan(body, carry, (batch, offset_m))

        (params_p, optimiser), seen_em = jax.lax.scan(epoch, (params_p, state.optimiser), shares * jnp.arange(epochs))
        means = {name: value_em.mean() for name, value_em in seen_em.items()}
        first = {f"{name}_first": seen_em[name][0, 0] for name in ("rho", "drift")}
        return unflatten(params_p), optimiser, means | first


def vmap_seeds(run: Callable[[TrainState], tuple[TrainState, Any]], seeds: int) -> Callable[[TrainState], Any]:
    """The same for several states at once, their axis first.

    Of one alone the axis is taken away: with it XLA would lay out all frames anew for a gradient.
    """
    if seeds > 1:
        return jax.vmap(run)
    return lambda state_s: jax.tree.map(lambda leaf: leaf[None], run(jax.tree.map(lambda leaf: leaf[0], state_s)))


class Batch(NamedTuple):
    """What an unroll gives to learn from, in shares of the environments: a minibatch each."""

    memory_mb: Any  # at its first step
    transitions_mtb: Transition
    value_mb: Array  # what the agent expected after its last step


def snapshot_memory(actors_b: ActorState, updates: Array) -> tuple[Any, ActorState]:
    """A copy of the memories, for learning, made before acting goes on with the lives and writes into them.

    Left to itself the compiler copies them twice: for acting to write into, and back to where the caller wants them.
    """
    always = updates >= 0  # which the compiler does not know: it would see through a plain copy
    memory_b = jax.tree.map(lambda leaf: jnp.where(always, leaf, jnp.zeros((), leaf.dtype)), actors_b.memory)
    in_turn: Any = jax.lax.optimization_barrier
    found: tuple[Any, ActorState] = in_turn((memory_b, actors_b))
    return found
