"""One update: act for an unroll, then learn from it in minibatches, all in one compiled program."""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from hcam import loss, rollout
from hcam.agent import Agent, Inputs
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

    def __post_init__(self) -> None:
        checks.positive(
            environments=self.environments, unroll=self.unroll, minibatches=self.minibatches, epochs=self.epochs
        )
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
        return TrainState(params, self.optimiser.init(params), lives_b, key_run, jnp.int32(0))

    def update(self, state: TrainState) -> tuple[TrainState, Seen]:
        key = jax.random.fold_in(state.key, state.updates)
        lives_b, steps_tb = rollout.rollout(
            self.agent, self.env, state.params, self.level, key, state.lives_b, self.config.unroll
        )
        batch = Batch(state.lives_b.memory, steps_tb, lives_b.inputs)
        params, optimiser, learned = self.learn(state.params, state.optimiser, batch)
        state = TrainState(params, optimiser, lives_b, state.key, state.updates + 1)
        return state, Seen(learned, count(steps_tb.episode, self.levels))

    def learn(self, params: Params, optimiser: Any, batch: "Batch") -> tuple[Params, Any, dict[str, Array]]:
        """A gradient step per minibatch. Values for the log are means over them."""

        def body(carry: tuple[Params, Any], m: Array) -> tuple[tuple[Params, Any], dict[str, Array]]:
            params, optimiser = carry
            share = share_of(batch, m % self.config.minibatches, self.config.environments // self.config.minibatches)
            gradient, seen = jax.grad(partial(loss.total, self.agent, self.loss), has_aux=True)(params, *share)
            with jax.numpy_dtype_promotion("standard"):  # optax mixes Python numbers and int32 counters
                change, optimiser = self.optimiser.update(gradient, optimiser, params)
                params = optax.apply_updates(params, change)
            return (params, optimiser), {**seen, "gradient": optax.tree.norm(gradient)}

        (params, optimiser), seen_m = jax.lax.scan(body, (params, optimiser), jnp.arange(self.config.gradient_steps))
        means = {name: value_m.mean() for name, value_m in seen_m.items()}
        return params, optimiser, means | {"rho_first": seen_m["rho"][0]}


class Batch(NamedTuple):
    """What an unroll gives to learn from."""

    memory_b: Any  # at its first step
    steps_tb: Steps
    after_b: Inputs  # what is seen after its last step


def share_of(batch: Batch, m: Array, size: int) -> Batch:
    """The m-th share of the environments."""

    def cut(tree: Any, axis: int) -> Any:
        return jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, m * size, size, axis), tree)

    return Batch(cut(batch.memory_b, 0), cut(batch.steps_tb, 1), cut(batch.after_b, 0))
