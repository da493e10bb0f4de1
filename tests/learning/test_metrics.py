"""Counting by hand: episodes by level, sums over updates, rows for one seed and for several."""

import json
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from hcam.learning import metrics
from hcam.learning.metrics import EpisodeStats, UpdateMetrics
from hcam.types import EpisodeEnd


def episodes():
    """[T=2, B=3]: five episodes end, one of level 0 and four of level 2; what did not end does not count."""
    return EpisodeEnd(
        done=jnp.array([[True, False, True], [True, True, True]]),
        episode_return=jnp.array([[0.5, 100.0, 1.0], [2.0, 0.0, 4.0]]),
        length=jnp.array([[10, 100, 20], [30, 40, 50]], jnp.int32),
        level=jnp.array([[0, 0, 2], [2, 2, 2]], jnp.int32),
        success=jnp.array([[True, True, False], [True, False, True]]),
    )


def test_count_by_hand():
    stats = metrics.count(episodes(), levels=4)
    np.testing.assert_array_equal(stats.episodes_l, [1, 0, 4, 0])
    np.testing.assert_array_equal(stats.success_l, [1, 0, 2, 0])
    np.testing.assert_array_equal(stats.return_l, [0.5, 0, 7, 0])
    np.testing.assert_array_equal(stats.length_l, [10, 0, 140, 0])


def seen(episodes_l, success_l, return_l, length_l, **means):
    stats: Any = EpisodeStats(*(jnp.array(part, jnp.float32) for part in (episodes_l, success_l, return_l, length_l)))
    return UpdateMetrics({name: jnp.array(value, jnp.float32) for name, value in means.items()}, stats)


def test_episodes_are_added_and_means_averaged():
    """Two updates of two seeds each; every seed keeps its own numbers."""
    one = seen([[1, 2], [0, 1]], [[1, 0], [0, 1]], [[3, 1], [0, 1]], [[5, 9], [0, 4]], policy=[1.0, 2.0])
    two = seen([[0, 3], [2, 0]], [[0, 2], [1, 0]], [[0, 2], [1, 0]], [[0, 8], [6, 0]], policy=[3.0, 6.0])
    both = metrics.add([one, two])
    np.testing.assert_array_equal(both.episodes.episodes_l, [[1, 5], [2, 1]])
    np.testing.assert_array_equal(both.episodes.success_l, [[1, 2], [1, 1]])
    np.testing.assert_array_equal(both.episodes.return_l, [[3, 3], [1, 1]])
    np.testing.assert_array_equal(both.episodes.length_l, [[5, 17], [6, 4]])
    np.testing.assert_array_equal(both.means["policy"], [2.0, 4.0])
    alone = metrics.add([one])
    np.testing.assert_array_equal(alone.episodes.episodes_l, one.episodes.episodes_l)
    np.testing.assert_array_equal(alone.means["policy"], [1.0, 2.0])


def test_a_row_of_one_seed():
    row = metrics.row(seen([[4, 0, 1]], [[3, 0, 0]], [[2, 0, 1]], [[40, 0, 20]], policy=[0.5]), ("a", "b", "c"), step=7)
    assert row == {
        "step": 7,
        "losses": {"policy": 0.5},
        "diagnostics": {},
        "levels": {
            "a": {"episodes": 4, "success": 0.75, "return": 0.5, "length": 10.0},
            "b": {"episodes": 0, "success": None, "return": None, "length": None},
            "c": {"episodes": 1, "success": 0.0, "return": 1.0, "length": 20.0},
        },
        "success": pytest.approx(3 / 5),
        "return": pytest.approx(3 / 5),
    }
    assert json.loads(json.dumps(row, allow_nan=False)) == row


def test_losses_and_diagnostics_stand_apart():
    """What an objective adds is a loss; only the names in DIAGNOSTICS are none."""
    found = metrics.row(seen(*[[[0]]] * 4, policy=[1.0], image=[2.0], entropy=[0.5], accuracy=[0.25]), ("a",))
    assert found["losses"] == {"policy": 1.0, "image": 2.0}
    assert found["diagnostics"] == {"entropy": 0.5, "accuracy": 0.25}


def test_a_row_of_two_seeds_has_each():
    row = metrics.row(
        seen([[4, 0], [0, 6]], [[1, 0], [0, 3]], [[2, 0], [0, 12]], [[8, 0], [0, 6]], policy=[1.0, 2.0]), ("a", "b")
    )
    assert row["levels"]["a"] == {"episodes": 4, "success": 0.25, "return": 0.5, "length": 2.0}
    assert row["levels"]["b"] == {"episodes": 6, "success": 0.5, "return": 2.0, "length": 1.0}
    assert row["losses"] == {"policy": 1.5}
    assert (row["success"], row["return"]) == (pytest.approx(0.4), pytest.approx(1.4))
    assert row["seeds"] == [{"success": 0.25, "return": 0.5}, {"success": 0.5, "return": 2.0}]


def test_where_nothing_ended_there_is_nothing_to_report():
    row = metrics.row(seen([[0], [0]], [[0], [0]], [[0], [0]], [[0], [0]], policy=[1.0, 1.0]), ("a",))
    assert (row["success"], row["return"]) == (None, None)
    assert row["seeds"] == [{"success": None, "return": None}] * 2


def test_the_first_mean_that_is_not_finite_is_found():
    zeros = [[0]] * 4

    def update(**losses):
        return seen(*zeros, **losses)

    good = update(policy=[1.0, 2.0], value=[1.0, 1.0])
    assert metrics.first_not_finite([good, good]) is None
    second_seed = update(policy=[1.0, 2.0], value=[1.0, float("nan")])
    endless = update(policy=[float("inf"), 2.0], value=[float("nan"), 1.0])
    assert metrics.first_not_finite([good, second_seed, endless]) == (1, "value")
    assert metrics.first_not_finite([endless, good]) == (0, "policy")


def test_the_score_is_the_mean_over_levels_however_often_each_was_played():
    levels = {"easy": {"success": 0.9}, "hard": {"success": 0.3}, "unplayed": {"success": None}}
    assert metrics.score({"levels": levels, "success": 0.88}) == pytest.approx(0.4)


def test_the_score_of_a_return_is_its_mean_and_a_level_that_was_not_played_the_least():
    levels: dict[str, dict[str, float | None]] = {"easy": {"return": -4.0}, "hard": {"return": -8.0}}
    assert metrics.score({"levels": levels}, "return", -100.0) == pytest.approx(-6)
    levels["unplayed"] = {"return": None}
    assert metrics.score({"levels": levels}, "return", -100.0) == pytest.approx(-112 / 3)
