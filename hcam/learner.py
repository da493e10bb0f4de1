"""One update: act for an unroll, then learn from it in minibatches, all in one compiled program."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree

from hcam import curriculum, loss, rollout
from hcam.agent import Agent
from hcam.envs.environment import Environment
from hcam.envs.environment import Params as Level
from hcam.loss import LossConfig
from hcam.memory import checks
from hcam.memory.types import Array, Params
from hcam.metrics import Seen, count
from hcam.rollout import Life, Steps


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
    lives_b: Life
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
        lives_b = jax.vmap(begin)(jax.random.split(key_env, self.config.environments))
        record, optimiser = curriculum.begin(self.levels), self.optimiser.init(ravel_pytree(params)[0])
        return TrainState(params, optimiser, lives_b, record, key_run, jnp.int32(0))

    def update(self, state: TrainState) -> tuple[TrainState, Seen]:
        lives_b, batch = self.act(state)
        params, optimiser, learned = self.learn(state, batch)
        tally = count(batch.steps_mtb.episode, self.levels)
        record = curriculum.note(state.record, tally)
        return TrainState(params, optimiser, lives_b, record, state.key, state.updates + 1), Seen(learned, tally)

    @jax.named_scope("acting")
    def act(self, state: TrainState) -> tuple[Life, "Batch"]:
        """An unroll of all environments: the lives that go on, and what there is to learn from."""
        key = jax.random.fold_in(state.key, state.updates)
        weights = self.agent.prepare(state.params)
        memory_b, lives_b = set_aside(state.lives_b, state.updates)
        level = curriculum.choose(self.level, state.record) if self.config.curriculum else self.level
        steps, shares = self.config.unroll, self.config.minibatches
        lives_b, steps_mtb = rollout.rollout(self.agent, self.env, weights, level, key, lives_b, steps, shares=shares)
        lives_b, value_b = rollout.expected(self.agent, weights, lives_b)
        memory_mb, value_mb = rollout.shared_out((memory_b, value_b), shares)
        return lives_b, Batch(memory_mb, steps_mtb, value_mb)

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


def of_seeds(run: Callable[[TrainState], tuple[TrainState, Any]], seeds: int) -> Callable[[TrainState], Any]:
    """The same for several states at once, their axis first.

    Of one alone the axis is taken away: with it XLA would lay out all frames anew for a gradient.
    """
    if seeds > 1:
        return jax.vmap(run)
    return lambda state_s: jax.tree.map(lambda leaf: leaf[None], run(jax.tree.map(lambda leaf: leaf[0], state_s)))


class Batch(NamedTuple):
    """What an unroll gives to learn from, in shares of the environments: a minibatch each."""

    memory_mb: Any  # at its first step
    steps_mtb: Steps
    value_mb: Array  # what the agent expected after its last step


def set_aside(lives_b: Life, updates: Array) -> tuple[Any, Life]:
    """A copy of the memories, for learning, made before acting goes on with the lives and writes into them.

    Left to itself the compiler copies them twice: for acting to write into, and back to where the caller wants them.
    """
    always = updates >= 0  # which the compiler does not know: it would see through a plain copy
    memory_b = jax.tree.map(lambda leaf: jnp.where(always, leaf, jnp.zeros((), leaf.dtype)), lives_b.memory)
    in_turn: Any = jax.lax.optimization_barrier
    found: tuple[Any, Life] = in_turn((memory_b, lives_b))
    return found
