"""One update where environments run in worker processes: the same as the learner's, as programs that the host calls.

While half of the environments step, the agent acts for the other half. While the environments take unroll k + 1, the
learner learns from unroll k, one gradient step after another between the steps of acting, so that a device that runs
one program at a time never keeps the environments waiting for longer than one gradient step. Unroll k + 1 is therefore
acted with the parameters from before unroll k was learned from: V-trace corrects for that, as it does within an update.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hcam.host.environment import WorkerEnvironment, raising_errors
from hcam.host.pool import Pool
from hcam.learning import curriculum, layout, metrics
from hcam.learning.host_rollout import Acting, Decided, Programs, Received, join
from hcam.learning.learner import OF_THE_FIRST, Learner
from hcam.learning.metrics import EpisodeStats, UpdateMetrics
from hcam.learning.rollout import Outcome
from hcam.types import ActorState, Array, Minibatch, Params, TrainState

NONE: Any = ()  # in place of actors, in states whose environments nobody can save


class HostUpdate:
    """`update(state_s)`, which returns the state and the metrics of a whole unroll, like that of environments in JAX.

    It keeps the actors and what their environments are doing, which no state holds: after the first call, which begins
    with the actors of the state that it is given, the state has none.
    """

    def __init__(self, learner: Learner, seeds: int, updates: int, overlap: bool = True) -> None:
        assert isinstance(learner.env, WorkerEnvironment)
        config, env = learner.config, learner.env
        self.learner, self.seeds, self.updates, self.overlap = learner, seeds, updates, overlap
        self.pool: Pool = env.workers.start((seeds, config.environments))
        self.halves, self.whole = self.pool.groups, env.workers.whole
        programs = Programs(learner.agent, env, config.environments, self.halves, config.unroll)
        each = partial(each_seed, seeds)
        self.prepare = jax.jit(each(learner.agent.prepare))
        self.begin = jax.jit(each(programs.begin), donate_argnums=3)
        self.act = jax.jit(each(programs.act), donate_argnums=5)
        self.finish = jax.jit(each(programs.finish), donate_argnums=2)
        self.join = jax.jit(each(partial(collect, learner)))
        self.learn = jax.jit(each(partial(learn, learner)), donate_argnums=3)
        self.key = jax.jit(each(jax.random.fold_in))
        self.actors_hb: list[ActorState] = []
        self.ahead: tuple[Minibatch, EpisodeStats] | None = None  # acted already, and not yet learned from

    def __call__(self, state_s: TrainState) -> tuple[TrainState, UpdateMetrics]:
        done = int(state_s.updates[0])
        if jax.tree.leaves(state_s.actors_b):
            self.actors_hb = [cut(state_s.actors_b, self.halves, half) for half in range(self.halves)]
            self.ahead, state_s = None, state_s._replace(actors_b=NONE)
        minibatch_n, episodes = self.ahead or self.unrolled(state_s, done)
        steps = GradientSteps(self, state_s, minibatch_n)
        self.ahead = None
        if self.overlap and done + 1 < self.updates:
            self.ahead = self.unrolled(state_s, done + 1, steps)
        params, optimiser, means = steps.rest()
        record = each_seed(self.seeds, self._curriculum)(state_s.curriculum, episodes)
        updates = state_s.updates + 1
        state_s = state_s._replace(params=params, optimiser=optimiser, curriculum=record, updates=updates)
        return state_s, UpdateMetrics(means, episodes)

    def unrolled(
        self, state_s: TrainState, number: int, between: "GradientSteps | None" = None
    ) -> tuple[Minibatch, EpisodeStats]:
        """An unroll of all environments; after each step of a half, some gradient steps `between` are begun."""
        params, halves = self.prepare(state_s.params), range(self.halves)
        key = self.key(state_s.key, self._number(number))
        now: list[tuple[Decided, Acting]] = []
        for half in halves:
            now.append(self.begin(params, key, self._number(half), self.actors_hb[half]))
            self._send(half, now[half][0])
        steps = self.learner.config.unroll
        for t in range(1, steps):
            for half in halves:
                received = self._receive(half)
                now[half] = self.act(params, key, self._number(t), self._number(half), *now[half], received)
                self._send(half, now[half][0])
                if between:
                    between.until((t * self.halves + half) / (steps * self.halves))
        finished = [self.finish(params, *now[half], self._receive(half)) for half in halves]
        self.actors_hb = [actors_b for actors_b, _ in finished]
        joined: tuple[Minibatch, EpisodeStats] = self.join([unroll for _, unroll in finished])
        return joined

    def _send(self, half: int, decided: Decided) -> None:
        with raising_errors():
            self.pool.send(half, np.asarray(decided.action_b).ravel())

    def _receive(self, half: int) -> Received:
        with raising_errors():
            step = self.pool.receive(half)
        seen = jax.tree.map(self._by_seed, self.whole(step.observation))
        flags = map(self._by_seed, (step.reward, step.terminated, step.truncated, step.cut))
        reward, terminated, truncated, cut_b = flags
        return Received(seen, Outcome(reward, terminated, truncated), cut_b)

    def _by_seed(self, array: Any) -> Any:
        return array.reshape(self.seeds, -1, *array.shape[1:])

    def _number(self, number: int) -> Any:
        return np.full(self.seeds, number, np.int32)

    def _curriculum(self, record: Any, episodes: EpisodeStats) -> Any:
        return curriculum.update(record, episodes, self.learner.full_return_l)


class GradientSteps:
    """The gradient steps of an update, to be begun one after another; the device takes them in its own time."""

    def __init__(self, update: HostUpdate, state_s: TrainState, minibatch_n: Minibatch) -> None:
        config = update.learner.config
        self.update, self.minibatch_n, self.updates = update, minibatch_n, state_s.updates
        self.carry: Any = state_s.params, state_s.optimiser
        self.means: Any = None
        self.total, self.begun = config.gradient_steps, 0

    def until(self, share: float) -> None:
        """Begins so many that this share of all have been."""
        while self.begun < int(share * self.total):
            number = self.update._number(self.begun)
            *self.carry, self.means = self.update.learn(*self.carry, self.minibatch_n, self.means, self.updates, number)
            self.begun += 1

    def rest(self) -> tuple[Params, Any, dict[str, Array]]:
        """Begins all others: parameters, optimiser's state, and means for the log."""
        self.until(1.0)
        params, optimiser = self.carry
        return params, optimiser, self.means


def learn(
    learner: Learner,
    params: Params,
    optimiser: Any,
    minibatch_n: Minibatch,
    means: dict[str, Array] | None,
    updates: Array,
    number: Array,
) -> tuple[Params, Any, dict[str, Array]]:
    """Gradient step `number` of an update, and the means of all so far."""
    minibatches, total = learner.config.minibatches, learner.config.gradient_steps
    params_p, flat, unflatten = layout.flatten(params, optimiser)
    minibatch = jax.tree.map(lambda leaf_n: leaf_n[number % minibatches], minibatch_n)
    (params_p, flat), found = learner.gradient_step(unflatten, (params_p, flat), (minibatch, updates + number))
    shares = {name: value / total for name, value in found.items()}
    if means is None:
        first = {f"{name}_first": found[name] for name in OF_THE_FIRST if name in found}
        means = shares | first
    else:
        means = {name: value + shares.get(name, 0.0) for name, value in means.items()}
    return unflatten(params_p), layout.unflatten_state(params, flat, optimiser), means


def collect(learner: Learner, unrolls: list[Any]) -> tuple[Minibatch, EpisodeStats]:
    """Minibatches, and the episodes that ended in them."""
    minibatch_n = join(unrolls, learner.config.minibatches)
    return minibatch_n, metrics.count(minibatch_n.transitions_tb.end, learner.levels)


def cut(tree_sb: Any, halves: int, half: int) -> Any:
    """The half of the environments [S, B] of a tree: [S, B/2]."""

    def of(leaf: Array) -> Array:
        size = leaf.shape[1] // halves
        return jnp.copy(leaf[:, half * size : (half + 1) * size])

    return jax.tree.map(of, tree_sb)


def each_seed(seeds: int, run: Callable[..., Any]) -> Callable[..., Any]:
    """The same for several seeds at once, their axis first in all arguments."""

    def together(given: Any) -> Any:
        return run(*given)

    every: Any = layout.vmap_seeds(together, seeds)
    return lambda *given: every(given)
