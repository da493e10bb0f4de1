"""The analysis of many episodes: what a tiny agent attends to, intervals, and what cannot be analysed."""

import json
from functools import cache
from typing import Any

import jax
import numpy as np
import pytest

from hcam import agent, envs
from hcam.agent import AgentConfig
from hcam.agent.heads import HeadsConfig
from hcam.memory import HCAM, LSTM, TrXL
from hcam.runs import attention, recording
from hcam.runs.attention import GROUPS, compared, interval, measure, ratio_interval, read, summary, write
from hcam.runs.relative import Layout, Sample

ENV = envs.make("first_symbol")
PARAMS = ENV.params("blanks8")
MEMORIES: dict[str, Any] = {
    "hcam": HCAM(width=16, layers=2, heads=2, chunk=2, slots=4, top_k=2),
    "trxl": TrXL(width=16, layers=2, heads=2, window=16),
    "lstm": LSTM(width=16),
}


@cache  # an agent is compiled for itself
def made(name, env=ENV):
    built = agent.make(AgentConfig(memory=MEMORIES[name], heads=HeadsConfig(hidden=16)), env)
    return built, built.init_params(jax.random.key(0))


@pytest.fixture(scope="module")
def measured():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention, "AT_ONCE", 8)  # two calls, the second of which is cut
        patch.setattr(attention, "FEWEST", 2)
        done: list[tuple[int, int]] = []
        found = {
            name: measure(
                made(name)[0], ENV, made(name)[1], PARAMS, episodes=12, on_progress=lambda *at: done.append(at)
            )
            for name in ("hcam", "trxl")
        }
    return found, done


@pytest.mark.parametrize("name", ["hcam", "trxl"])
def test_it_is_what_the_recorded_episodes_say(name, measured):
    """The symbol of step 0 is asked for at step 9, the last one. Chunk 0 is the oldest of four, or step 0 of ten."""
    found, built = measured[0][name], made(name)
    options: Any = {"episodes": 8, "moments": "states"}
    played = [recording.record(built[0], ENV, built[1], PARAMS, start=start, **options) for start in (0, 8)]
    episodes = [*played[0], *played[1][:4]]
    assert found["episodes"] == found["counted"] == 12
    assert found["solved"] == sum(bool(one.steps_t.success[-1]) for one in episodes)
    assert (found["question_steps"], found["moment_steps"], found["compared_with"]) == (1, 1, "all else")
    for group in GROUPS:
        some = [one for one in episodes if one.steps_t.success[-1] == GROUPS[group]]
        assert (group in found) == (len(some) >= 2)
        for layer in range(2) if group in found else ():
            weights = [_weights(one, layer, name) for one in some]
            asked = np.mean([one[0] * len(one) for one in weights])
            other = np.mean([one[1:].mean() * len(one) for one in weights])
            line = found[group]["layers"][layer]
            assert line["layer"] == layer + 1
            assert line["asked"]["mean"] == pytest.approx(asked, rel=1e-4)
            assert line["other"]["mean"] == pytest.approx(other, rel=1e-4)
            assert line["ratio"]["mean"] == pytest.approx(asked / other, rel=1e-4)
            assert line["first"]["asked"] == line["asked"]  # the question has one step
            assert line["asked"]["low"] <= line["asked"]["mean"] <= line["asked"]["high"]


def _weights(one, layer, name):
    """Of what could be recalled in the last step, oldest first."""
    shown = one.steps_t.attention
    if name == "hcam":
        return shown.relevance_m[layer][-1][::-1]
    return shown.window_w[layer][-1][: one.length][::-1]


def test_progress_is_told(measured):
    assert measured[1] == [(8, 12), (12, 12)] * 2


def test_a_memory_without_attention_is_refused():
    with pytest.raises(ValueError, match=r"^LSTM does not attend to anything that it remembers, .*\.$"):
        measure(made("lstm")[0], ENV, made("lstm")[1], PARAMS, episodes=4)


def test_a_task_that_does_not_say_what_matters_is_refused():
    env = envs.make("echo")
    built = made("hcam", env)
    with pytest.raises(ValueError, match=r"^Echo does not say which moment of an episode matters: write its .*\.$"):
        measure(built[0], env, built[1], env.params(), episodes=4)


def test_a_task_whose_events_are_never_asked_for_is_refused(monkeypatch, measured):
    monkeypatch.setattr(type(ENV), "events", lambda self, states: [])
    monkeypatch.setattr(attention, "AT_ONCE", 8)
    built = made("hcam")
    with pytest.raises(
        ValueError, match=r"^an episode of FirstSymbol does not say what is asked for at its end: .*\.$"
    ):
        measure(built[0], ENV, built[1], PARAMS, episodes=8)


def test_too_few_episodes_are_refused(monkeypatch, measured):
    monkeypatch.setattr(attention, "FEWEST", 9)
    built = made("hcam")
    with pytest.raises(
        ValueError,
        match=r"^of 8 episodes 8 had in memory what they were asked for: play more, so that at least 9 .*\.$",
    ):
        measure(built[0], ENV, built[1], PARAMS, episodes=8)


def test_intervals_hold_the_truth_in_95_of_100_and_are_paired():
    random = np.random.default_rng(0)
    kept = {"mean": 0, "ratio": 0}
    for _ in range(1000):
        episode = random.gamma(4, size=40)  # what the two numbers of an episode share
        asked, other = 3 * episode * random.uniform(0.8, 1.2, 40), episode * random.uniform(0.8, 1.2, 40)
        one, both = interval(asked), ratio_interval(asked, other)
        assert both is not None
        kept["mean"] += one["low"] <= 12 <= one["high"]
        kept["ratio"] += both["low"] <= 3 <= both["high"]
        assert both["high"] - both["low"] < 0.5  # unpaired it would be 1.3
    assert all(920 <= count <= 970 for count in kept.values()), kept


def test_episodes_without_one_of_two_numbers_do_not_count(monkeypatch):
    monkeypatch.setattr(attention, "FEWEST", 2)
    nan = np.nan
    found = compared(np.array([1, 2, 3, nan]), np.array([1, 1, nan, 1]))
    assert (found["episodes"], found["asked"]["mean"], found["ratio"]["mean"]) == (2, 1.5, 1.5)
    alone = compared(np.array([1, 2, 3.0]), np.array([nan, nan, nan]))
    assert (alone["episodes"], alone["asked"]["mean"], "other" in alone) == (3, 2, False)
    assert compared(np.array([nan, 1]), np.array([nan, nan])) == {"episodes": 1}
    assert ratio_interval(np.array([1.0, 1]), np.array([0.0, 0])) is None
    assert ratio_interval(np.array([1.0, 1]), np.array([0.0, 1e-9])) is None


def test_a_profile_shows_what_enough_episodes_have():
    offsets = Layout(32, 32).offsets
    profile = np.full((30, 1, len(offsets)), np.nan)
    profile[:, 0, 40], profile[:9, 0, 41], profile[:10, 0, 42] = 2.0, 9.0, 4.0
    one = np.ones(1)
    found = summary([Sample(True, one, one, one, one, one * np.nan, line, 3, True) for line in profile], offsets)
    assert found["profile"] == {"steps": [0, 8], "layers": [[2.0, 4.0]]}
    assert "earlier" not in found["layers"][0]


def test_a_file_comes_back_and_a_damaged_one_is_refused(tmp_path, measured):
    content = {"run": "x", "levels": {"blanks8": measured[0]["hcam"]}}
    path = write(tmp_path / "new", content)
    assert read(tmp_path / "new") == json.loads(path.read_text())
    text = path.read_text()
    for broken in ("{", "[]", text.replace('"layers"', '"x"'), text.replace('"mean": ', '"mean": 1e99'), text[:-9]):
        path.write_text(broken)
        with pytest.raises(ValueError, match=r"attention\.json is damaged: delete it and analyse again"):
            read(tmp_path / "new")
