"""Levels share the steps by how uncertain their outcome is."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.config import Config, TaskConfig
from hcam.envs.levels import Mixture
from hcam.learning import curriculum, learner
from hcam.learning.learner import LearnerConfig
from hcam.learning.metrics import EpisodeStats
from hcam.training import make_learner
from tests.learning.test_learner import make


def played(success_l, length_l, updates=400, episodes=1000.0):
    """The record after so many updates of always the same."""
    success_l, length_l = jnp.array(success_l, jnp.float32), jnp.array(length_l, jnp.float32)
    each_l = jnp.full(len(success_l), episodes, jnp.float32)
    stats = EpisodeStats(each_l, success_l * each_l, success_l * each_l, length_l * each_l)
    record = curriculum.init(len(success_l))
    return jax.lax.fori_loop(0, updates, lambda _, record: curriculum.update(record, stats), record)


def shares(record, weights=None):
    """How often each level is drawn."""
    weight_l = jnp.ones(len(record.episodes_l)) if weights is None else jnp.array(weights, jnp.float32)
    levels = Mixture(weight_l, {"size": jnp.arange(len(weight_l))})
    found = curriculum.reweigh(levels, record)
    assert found.level_l is levels.level_l  # the levels themselves stay
    drawn_l = np.asarray(found.weight_l)
    return drawn_l / drawn_l.sum()


def test_at_first_all_levels_are_alike():
    np.testing.assert_allclose(shares(curriculum.init(4)), 0.25, rtol=1e-6)


def test_steps_go_where_the_outcome_is_uncertain():
    """Half won, mostly won, always won, never won; with the same length, and with lengths that differ."""
    success_l, expected_l = [0.5, 0.9, 1.0, 0.0], np.array([0.25, 0.09, 0.0, 0.0]) + curriculum.MIN_VARIANCE
    expected_l /= expected_l.sum()
    np.testing.assert_allclose(shares(played(success_l, [50.0] * 4)), expected_l, rtol=0.02)
    length_l = np.array([50.0, 400.0, 100.0, 25.0])
    steps_l = shares(played(success_l, length_l)) * length_l
    np.testing.assert_allclose(steps_l / steps_l.sum(), expected_l, rtol=0.02)


def test_only_the_last_updates_count():
    stats = EpisodeStats(*(jnp.array(x, jnp.float32) for x in ([1000, 1000], [1000, 500], [1000, 500], [50000, 50000])))
    record = played([0.5, 1.0], [50.0, 50.0])
    before = shares(record)
    for _ in range(400):
        record = curriculum.update(record, stats)
    np.testing.assert_allclose(shares(record), before[::-1], rtol=0.1)


def test_a_level_that_was_not_played_yet_is_neither_sure_nor_short():
    """Long episodes end late: until they do, they must not count as short ones, and be drawn all the time."""
    stats = EpisodeStats(*(jnp.array(x, jnp.float32) for x in ([500, 0], [250, 0], [250, 0], [33000, 0])))
    np.testing.assert_allclose(shares(curriculum.update(curriculum.init(2), stats)), 0.5, atol=0.01)


def test_weights_of_one_s_own_still_count():
    record = played([0.5, 0.5, 0.9], [50.0] * 3)
    np.testing.assert_allclose(shares(record, [0, 1, 2])[0], 0)
    np.testing.assert_allclose(shares(record, [3, 1, 2])[:2] @ np.array([1, -3]), 0, atol=1e-6)


class PlayedError(Exception):
    """Raised with the mixture that a rollout was asked to play."""


def test_a_learner_plays_what_the_curriculum_says(monkeypatch):
    """If there is one; else the mixture that it was given."""

    def throw(agent, env, params, env_params, *rest, **options):
        raise PlayedError(env_params)

    monkeypatch.setattr(learner, "rollout", throw)
    one = make("first_symbol", ("blanks0", "blanks2"))
    one = one._replace(config=LearnerConfig(environments=1))
    state = jax.jit(one.init)(jax.random.key(0))._replace(curriculum=played([1.0, 0.5], [60.0, 60.0]))
    for wanted in (False, True):
        with pytest.raises(PlayedError) as thrown:
            one._replace(config=LearnerConfig(environments=1, curriculum=wanted)).act(state)
        expected = curriculum.reweigh(one.env_params, state.curriculum) if wanted else one.env_params
        np.testing.assert_array_equal(thrown.value.args[0].weight_l, expected.weight_l)
    assert float(expected.weight_l[1] / expected.weight_l[0]) > 10


def test_a_task_without_levels_is_refused():
    config = Config(task=TaskConfig(task="echo"), learner=LearnerConfig(curriculum=True))
    with pytest.raises(ValueError, match=r"^a curriculum chooses among levels, but echo has none: leave it out\.$"):
        make_learner(config)


def test_returns_count_as_parts_of_the_experts():
    """Half of what the expert earns is as uncertain as a success of one half; nobody earns less than nothing."""
    counts, full_l = jnp.full(3, 100.0), jnp.array([10.0, 30.0, 10.0])
    stats = EpisodeStats(counts, jnp.ones(3), jnp.array([500.0, 1500.0, -50.0]), 10 * counts)
    record = curriculum.update(curriculum.init(3), stats, full_l)
    np.testing.assert_allclose(record.success_l, [50, 50, 0])
    better = stats._replace(return_l=jnp.full(3, 1e6))
    np.testing.assert_allclose(curriculum.update(curriculum.init(3), better, full_l).success_l, counts)
