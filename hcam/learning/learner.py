"""One update: act for an unroll, then learn from it in minibatches, all in one compiled program."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from hcam.agent import Agent
from hcam.envs.environment import Environment
from hcam.learning import curriculum, layout, metrics, objectives
from hcam.learning.devices import ONE, Devices
from hcam.learning.metrics import UpdateMetrics
from hcam.learning.objectives import Objective
from hcam.learning.rollout import bootstrap_value, reset_actor, rollout
from hcam.memory import checks
from hcam.types import ActorState, Array, EnvParams, Minibatch, Params, TrainState

OF_THE_FIRST = ("ratio", "ratio_deviation")  # logged of the first minibatch as well, where nothing was learned yet


@dataclass(frozen=True, kw_only=True)
class LearnerConfig:
    environments: int = 32  # "batch size", appendix A.2
    unroll: int = 64  # "training unroll length", same table
    minibatches: int = 1  # gradient steps per unroll, each on its own environments; V-trace corrects for the difference
    epochs: int = 1  # how often each unroll is learned from
    curriculum: bool = False  # sample levels in proportion to the variance of their outcome; else by their weights

    def __post_init__(self) -> None:
        checks.typed(self)
        checks.positive(
            environments=self.environments, unroll=self.unroll, minibatches=self.minibatches, epochs=self.epochs
        )
        if self.environments % self.minibatches:
            raise ValueError(
                f"{self.environments} environments cannot be split evenly into {self.minibatches} minibatches."
            )

    @property
    def gradient_steps(self) -> int:
        """Per unroll."""
        return self.minibatches * self.epochs


class Learner(NamedTuple):
    agent: Agent
    env: Environment
    env_params: EnvParams
    levels: int  # in the mixture
    optimiser: optax.GradientTransformation
    objective: Objective
    config: LearnerConfig
    full_return_l: Array | None = None  # for the curriculum of a task that is scored by its return
    devices: Devices = ONE  # which share the environments; then B is the number of this one's in all that follows

    def init(self, key: Array) -> TrainState:
        key_params, key_env, key_run = jax.random.split(key, 3)
        params = self.agent.init_params(key_params)
        reset = partial(reset_actor, self.agent, self.env, env_params=self.env_params)
        key_b = self.devices.split(key_env, self.config.environments, self.config.minibatches)
        actors_b = jax.vmap(reset)(key_b)
        record, optimiser = curriculum.init(self.levels), self.optimiser.init(params)
        return TrainState(params, optimiser, actors_b, record, key_run, jnp.int32(0))

    def update(self, state: TrainState) -> tuple[TrainState, UpdateMetrics]:
        actors_b, minibatch_n = self.act(state)
        params, optimiser, means = self.learn(state, minibatch_n)
        episodes = self.devices.sum(metrics.count(minibatch_n.transitions_tb.end, self.levels))
        record = curriculum.update(state.curriculum, episodes, self.full_return_l)
        state = TrainState(params, optimiser, actors_b, record, state.key, state.updates + 1)
        return state, UpdateMetrics(means, episodes)

    @jax.named_scope("acting")
    def act(self, state: TrainState) -> tuple[ActorState, Minibatch]:
        """An unroll of all environments: the actors after it, and minibatches to learn from, their axis N in front."""
        config, key = self.config, jax.random.fold_in(state.key, state.updates)
        params = self.agent.prepare(state.params)
        memory_b, state = layout.snapshot_memory(state)
        env_params = curriculum.reweigh(self.env_params, state.curriculum) if config.curriculum else self.env_params
        actors_b, transitions_ntb = rollout(
            self.agent,
            self.env,
            params,
            env_params,
            key,
            state.actors_b,
            config.unroll,
            labelled=self.objective.labelled,
            minibatches=config.minibatches,
            devices=self.devices,
        )
        actors_b, value_b = bootstrap_value(self.agent, params, actors_b)
        memory_nb, value_nb = layout.split_minibatches((memory_b, value_b), config.minibatches)
        return actors_b, Minibatch(memory_nb, transitions_ntb, value_nb)

    @jax.named_scope("learning")
    def learn(self, state: TrainState, minibatch_n: Minibatch) -> tuple[Params, Any, dict[str, Array]]:
        """One gradient step per minibatch: parameters, optimiser state, and means over the steps for the log."""
        minibatches, epochs = self.config.minibatches, self.config.epochs
        params_p, optimiser, unflatten = layout.flatten(state.params, state.optimiser)
        gradient_step = partial(self.gradient_step, unflatten)

        def epoch(carry: tuple[Array, Any], done: Array) -> tuple[tuple[Array, Any], dict[str, Array]]:
            count_n = state.updates + done + jnp.arange(minibatches)
            # Minibatches are scanned over, not looked up: then XLA copies the next one while it computes.
            return jax.lax.scan(gradient_step, carry, (minibatch_n, count_n))

        done_e = minibatches * jnp.arange(epochs)
        (params_p, optimiser), means_en = jax.lax.scan(epoch, (params_p, optimiser), done_e)
        means = {name: mean_en.mean() for name, mean_en in means_en.items()}
        first = {f"{name}_first": means_en[name][0, 0] for name in OF_THE_FIRST if name in means_en}
        means = self.devices.mean(means | first)
        return unflatten(params_p), layout.unflatten_state(state.params, optimiser, state.optimiser), means

    def gradient_step(
        self, unflatten: Callable[[Array], Params], carry: tuple[Array, Any], given: tuple[Minibatch, Array]
    ) -> tuple[tuple[Array, Any], dict[str, Array]]:
        """Of flat parameters and the optimiser's state; `given` is a minibatch and the number of the step."""
        params_p, optimiser = carry
        gradient_p, means = jax.grad(self._loss, has_aux=True)(params_p, unflatten, *given)
        gradient_p = self.devices.mean(gradient_p)
        # optax mixes Python numbers and int32 counters.
        with jax.named_scope("optimiser"), jax.numpy_dtype_promotion("standard"):
            change_p, optimiser = self.optimiser.update(gradient_p, optimiser, params_p)
        return (params_p + change_p, optimiser), {**means, "gradient_norm": optax.tree.norm(gradient_p)}

    def _loss(
        self, params_p: Array, unflatten: Callable[[Array], Params], minibatch: Minibatch, count: Array
    ) -> tuple[Array, dict[str, Array]]:
        terms = self.objective.terms(self.agent, unflatten(params_p), minibatch, count)
        return objectives.total(self.objective, terms)
