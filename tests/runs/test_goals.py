"""Steps per goal, counted by hand."""

import json

import jax.numpy as jnp
import numpy as np
import pytest

from hcam import envs
from hcam.runs import goals
from hcam.runs.rewards import Episodes


def episodes(*rows):
    return Episodes(np.array(rows, np.float32), np.full(len(rows), len(rows[0])))


def test_each_goal_has_the_steps_since_the_one_before():
    assert goals.intervals(np.array([0, 0, 1, 0, 1, 0]), 6) == ([3, 2, 1], [True, True, False])
    assert goals.intervals(np.array([0, 1, 1]), 3) == ([2, 1], [True, True])  # nothing is left to spend
    assert goals.intervals(np.zeros(4), 4) == ([4], [False])
    assert goals.intervals(np.array([1, 0, 1]), 2) == ([1, 1], [True, False])  # what comes after the end is not its own


def test_where_all_episodes_reach_a_goal_the_number_is_the_mean():
    found = goals.summary([episodes([0, 1, 0, 1]), episodes([0, 0, 0, 1], [1, 0, 0, 0])])
    assert (found["episodes"], found["return"]) == (3, pytest.approx(4 / 3))
    first, second = found["goals"]
    assert (first["goal"], first["started"], first["reached"]) == (1, 3, 3)
    assert first["steps"] == pytest.approx((2 + 4 + 1) / 3)
    assert (second["started"], second["reached"]) == (2, 1)  # one reached its first goal with its last step


def test_steps_for_a_goal_that_was_not_reached_count_as_well():
    """A goal that every step reaches with probability p takes 1 / p steps, however short the episodes are."""
    draw = np.random.default_rng(0)
    found = goals.summary([episodes(*(draw.random((4000, 30)) < 1 / 20))])
    for goal in found["goals"][:2]:
        assert goal["steps"] == pytest.approx(20, rel=0.1)
        assert goal["low"] < 20 < goal["high"]
    lucky = [
        steps[0] for row in draw.random((4000, 30)) < 1 / 20 for steps, done in [goals.intervals(row, 30)] if done[0]
    ]
    assert np.mean(lucky) < 15  # what the mean over those that reached it would say


def test_a_goal_that_nobody_reached_has_no_line():
    assert goals.summary([episodes([0, 0, 0])])["goals"] == []


def test_an_agent_is_counted_beside_the_expert_and_random_actions():
    """Two agents trained at once, of whom one always collects and one never does, on a goal that is where they are."""
    from tests.runs.test_evaluate import PERFECT

    class Repeated(type(envs.make("first_symbol"))):  # type: ignore[misc]
        scored_by = "return"

    env = Repeated(symbols=4)
    found = goals.measure(PERFECT, env, jnp.zeros((2, 4)), {"blanks0": env.params("blanks0")}, 10)
    players = found["blanks0"]
    assert list(players) == ["greedy", "sampled", "oracle", "random"]
    assert players["greedy"]["goals"][0] == {
        "goal": 1,
        "started": 10,
        "reached": 10,
        "steps": 2.0,
        "low": 2.0,
        "high": 2.0,
    }
    assert players["oracle"]["goals"] == players["greedy"]["goals"]
    assert players["random"]["return"] < 1


def test_a_task_that_is_scored_by_success_has_no_goals():
    with pytest.raises(ValueError, match="Echo is scored by success and has no goals to count steps for"):
        goals.refuse_without_goals(envs.make("echo"))


def test_what_was_written_is_read_and_what_is_damaged_refused(tmp_path):
    levels = {"a": {"sampled": goals.summary([episodes([0, 1, 0, 1])])}}
    assert goals.write(tmp_path / "new", {"levels": levels}) == tmp_path / "new" / "goals.json"
    assert goals.read(tmp_path / "new") == levels
    levels["a"]["sampled"]["goals"][0]["steps"] = "many"
    damaged = ["{", "[]", json.dumps({"levels": levels}), json.dumps({"levels": {"a": 3}})]
    for text in damaged:
        (tmp_path / "new" / "goals.json").write_text(text)
        with pytest.raises(ValueError, match=r"goals.json is damaged: delete it and count again"):
            goals.read(tmp_path / "new")
