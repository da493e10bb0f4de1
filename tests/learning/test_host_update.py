"""An update of environments in worker processes is the update of the same environments in one program."""

import os
import random
import signal
from functools import partial
from typing import Any

import jax
import numpy as np
import pytest

from hcam import agent, envs
from hcam.adapters.from_gymnasium import from_gymnasium
from hcam.agent import AgentConfig
from hcam.agent.encoder import EncoderConfig
from hcam.agent.heads import HeadsConfig
from hcam.learning import objectives, optimiser
from hcam.learning.host_update import HostUpdate
from hcam.learning.layout import vmap_seeds
from hcam.learning.learner import Learner, LearnerConfig
from hcam.learning.objectives import ObjectiveConfig
from hcam.learning.optimiser import OptimiserConfig
from hcam.memory import HCAM
from tests.host import toys

MEMORY = HCAM(width=8, layers=1, heads=1, chunk=2, slots=2, top_k=1, mlp=1)
CONFIG = LearnerConfig(environments=6, unroll=7, minibatches=3)


def learner_of(env, learning_rate=1e-2, config=CONFIG):
    config_agent = AgentConfig(
        memory=MEMORY, heads=HeadsConfig(hidden=8), encoder=EncoderConfig(last_action=True), dtype="float32"
    )
    return Learner(
        agent=agent.make(config_agent, env),
        env=env,
        env_params=env.params(),
        levels=1,
        # With Adam's usual epsilon, a gradient that is nothing but rounding still moves its parameter by a whole step.
        optimiser=optimiser.make(OptimiserConfig(learning_rate=learning_rate, epsilon=1e-3), 100),
        objective=objectives.make(ObjectiveConfig(policy=1.0, baseline=0.5, entropy=0.01, reconstruction=1.0)),
        config=config,
    )


def began(learner, seeds=1):
    return jax.jit(jax.vmap(lambda seed: learner.init(jax.random.key(seed))))(jax.numpy.arange(seeds))


@pytest.fixture(scope="module")
def clock():
    env: Any = envs.make("gymnasium:tests.host.toys:clock")
    env.workers.count = 2
    yield env
    env.close()


@pytest.fixture(scope="module")
def expected():
    """Three updates of the environments in one program, which calls back to the host for each step."""
    learner = learner_of(from_gymnasium(toys.clock))
    state, update = began(learner), jax.jit(vmap_seeds(learner.update, 1))
    found = []
    for _ in range(3):
        state, metrics = update(state)
        found.append(jax.device_get((state.params, metrics)))
    return found


@pytest.fixture(scope="module")
def update(clock):
    """Compiled once: a state with actors begins anew."""
    return HostUpdate(learner_of(clock), 1, 3)


def close(one, two):
    """To the rounding of other programs."""
    jax.tree.map(partial(np.testing.assert_allclose, rtol=2e-4, atol=2e-5), one, two)


def test_without_overlap_it_is_the_update_in_one_program(update, expected):
    state, update.overlap = began(update.learner), False
    for n, (params, metrics) in enumerate(expected):
        state, found = update(state)
        close(state.params, params)
        close(found.means, metrics.means)
        jax.tree.map(np.testing.assert_array_equal, found.episodes, metrics.episodes)
        assert state.updates == n + 1
        assert state.actors_b == ()
    assert found.means["ratio_deviation_first"] < 1e-5, "the logits that are learned from are those that acted"


def test_with_overlap_the_next_unroll_is_acted_with_the_parameters_from_before(update, expected):
    learner, update.overlap = update.learner, True
    first = began(learner)
    state, _ = update(first)
    close(state.params, expected[0][0])
    minibatch_n, _ = update.ahead
    minibatch = jax.tree.map(lambda leaf: leaf[0, 0], minibatch_n)
    one = jax.tree.map(lambda leaf: leaf[0], first.params)
    output_tb = learner.agent.unroll_batch(one, minibatch.memory_b, minibatch.transitions_tb.inputs)
    np.testing.assert_allclose(output_tb.logits, minibatch.transitions_tb.logits, atol=1e-5)
    state, found = update(state)
    assert found.means["ratio_deviation_first"] > 1e-5
    state, _ = update(state)
    assert update.ahead is None, "after the last update nothing is acted that nobody learns from"
    assert state.updates == 3


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_workers_that_are_killed_cut_their_episodes_and_nothing_else(clock, update, kills):
    chance, updates = random.Random(0), 2 * kills + 2
    said: list[str] = []
    clock.workers.say = said.append
    state, update.overlap, update.updates = began(update.learner), True, updates
    before, length, ended = None, np.zeros(6, int), 0
    for n in range(updates):
        minibatch_n, _ = update.ahead or (None, None)
        if n % 2 and len(said) < kills:
            os.kill(chance.choice(update.pool.workers).process.pid, signal.SIGKILL)
        state, metrics = update(state)
        ended += int(metrics.episodes.episodes_l.sum())
        if minibatch_n is None:
            continue
        steps = jax.tree.map(lambda leaf: np.concatenate(leaf[0], axis=1), jax.device_get(minibatch_n.transitions_tb))
        for t in range(7):
            time_b, first_b = steps.inputs.observation["clock"][t, :, 0], steps.inputs.first[t]
            np.testing.assert_array_equal(time_b == 0, first_b)
            if before is not None:
                np.testing.assert_array_equal(first_b, before.terminated | before.truncated)
                np.testing.assert_array_equal(time_b, np.where(first_b, 0, length + 1))
            length, before = time_b, jax.tree.map(lambda leaf, t=t: leaf[t], steps)
            done_b, lengths_b = before.end.done, before.end.length
            np.testing.assert_array_equal(lengths_b, np.where(done_b, time_b + 1, 0))
            assert set(lengths_b[done_b].tolist()) <= {6, 7, 8}, "an episode that was cut counts as none"
    assert state.updates == updates
    assert len(said) == kills == update.pool.restarts
    assert ended > 0


def test_overlap_changes_nothing_where_nothing_is_learned(clock):
    """Memories, keys and episodes go on from unroll to unroll alike; of seeds side by side."""
    learner = learner_of(clock, 1e-30, LearnerConfig(environments=2, unroll=5))
    first, update, runs = began(learner, 2), HostUpdate(learner, 2, 4), []
    for update.overlap in (False, True):
        state, found = first, []
        for _ in range(4):
            state, metrics = update(state)
            found.append(metrics.episodes)
        runs.append(jax.device_get(found))
        first = began(learner, 2)
    jax.tree.map(np.testing.assert_array_equal, *runs)
    assert all(sum(episodes.episodes_l[seed].sum() for episodes in runs[0]) > 0 for seed in range(2))
