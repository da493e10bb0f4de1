"""Which lines a picture of steps per goal has, and that it is drawn."""

import pytest

from hcam.report import goals


def player(steps, episodes=10, reached=10):
    lines = [
        {"goal": n + 1, "started": 10, "reached": reached - n, "steps": s, "low": 0.9 * s, "high": 1.1 * s}
        for n, s in enumerate(steps)
    ]
    return {"episodes": episodes, "return": 3.0, "goals": lines}


LEVEL = {"greedy": player([9.0, 6.0]), "sampled": player([8.0, 5.0]), "oracle": player([3.0]), "random": player([])}


def test_one_agent_is_drawn_in_both_ways_of_acting():
    assert list(goals.lines({"run": {"a": LEVEL}}, "a")) == ["agent, sampled", "agent, greedy", "oracle", "random"]


def test_several_agents_are_drawn_sampled_with_the_yardsticks_once():
    found = goals.lines({"one": {"a": LEVEL}, "two": {"a": LEVEL, "b": LEVEL}}, "a")
    assert list(found) == ["one", "two", "oracle", "random"]
    assert found["one"] == ("sampled", LEVEL["sampled"])
    assert list(goals.lines({"one": {"a": LEVEL}, "two": {"b": LEVEL}}, "b")) == ["two", "oracle", "random"]


def test_goals_that_few_episodes_reach_are_left_out():
    assert [one["goal"] for one in goals.points(player([9.0, 8.0, 7.0], reached=6))] == [1, 2]


def test_a_picture_is_drawn(tmp_path):
    goals.draw({"run": {"a": LEVEL, "b": LEVEL}}, tmp_path / "goals.png", {"a": "level a"})
    goals.draw({"one": {"a": LEVEL}, "two": {"a": LEVEL}}, tmp_path / "two.png")
    assert all((tmp_path / name).stat().st_size > 10_000 for name in ("goals.png", "two.png"))


def test_without_goals_there_is_no_picture(tmp_path):
    with pytest.raises(ValueError, match="there are no goals to draw"):
        goals.draw({}, tmp_path / "goals.png")
