from typing import Any

import pytest
from rich.console import Console

from hcam.agent import AgentConfig
from hcam.agent.heads import HeadsConfig
from hcam.benchmarks import train
from hcam.config import Config, TaskConfig
from hcam.learning.learner import LearnerConfig
from hcam.memory import LSTM, Local

MEMORIES: dict[str, Any] = {"lstm": LSTM(width=8, layers=1), "none": Local(width=8, layers=1, heads=2, window=4)}
SMALL = {
    name: Config(
        task=TaskConfig(task="echo"),
        agent=AgentConfig(memory=memory, heads=HeadsConfig(hidden=8)),
        learner=LearnerConfig(environments=2, unroll=4),
    )
    for name, memory in MEMORIES.items()
}


def one(seconds, act):
    about = {"task": "echo", "memory": "lstm", "width": 8, "environments": 4, "minibatches": 1, "steps": 100}
    parts = {"update": {"seconds": seconds, "spread": 0.0}, "act": {"seconds": act, "spread": 0.0}}
    return about | {"parameters": 1234, "operations": {"update": 2e9, "act": 1e9}, "bytes": 3e9, "parts": parts}


def results():
    about = {"device": "abacus", "jax": "0", "hcam": "0", "rounds": 1, "device_peak_bytes": 7e9}
    return about | {"possible_operations": None, "runs": {"hcam": one(0.2, 0.05), "trxl": one(0.4, 0.2)}}


def shown(numbers):
    console = Console(record=True, width=80)
    console.print(train.show(numbers))
    return {line.split()[0]: line.split()[1:] for line in console.export_text().splitlines() if line.strip()}


def test_updates_and_their_acting_are_measured(monkeypatch):
    monkeypatch.setattr(train, "SECONDS", 0.01)
    found, watched = train.run(SMALL, rounds=2, watched=True)
    assert set(found["runs"]) == set(watched) == {"lstm", "none"}
    for name, run in found["runs"].items():
        assert run["memory"] == name
        assert run["steps"] == 2 * 4
        assert run["parameters"] > 100
        assert run["bytes"] > 4 * run["parameters"]
        assert run["operations"]["update"] > run["operations"]["act"] > 0
        assert all(part["seconds"] > 0 for part in run["parts"].values())
        assert watched[name][0]["seconds"] > 0
    lstm, none = (found["runs"][name]["parts"]["update"]["seconds"] for name in ("lstm", "none"))
    assert lstm != none  # each its own, however alike two small agents are to the hundredth
    assert shown(found)["none"][1] == f"{lstm / none:.2f}"


@pytest.mark.slow
def test_acting_alone_goes_on_like_training():
    """Its actors change, its parameters do not: it can be timed again and again."""
    contender = train.prepare(SMALL["lstm"])
    assert isinstance(contender, train.Contender)
    state, _ = contender.programs["act"](contender.state)
    again, batch = contender.programs["act"](state)
    assert again.updates.tolist() == [2]
    assert batch.transitions_tb.action.shape == (1, 1, 4, 2)


def test_table_has_rates_shares_and_ratios():
    rows = shown(results())
    assert rows["hcam"] == ["500", "1.00", "200.0", "ms", "25%", "75%", "10.0", "GFLOP/s", "3.00", "GB"]
    assert rows["trxl"] == ["250", "0.50", "400.0", "ms", "50%", "50%", "5.0", "GFLOP/s", "3.00", "GB"]
    rows = shown(results() | {"possible_operations": 1e11})
    assert rows["hcam"][6:] == ["10.0%", "of", "peak", "3.00", "GB"]
    assert train.sizes(one(1, 1)).startswith("echo, width 8, 1,234 parameters; 4 environments, 100 steps an update")


def test_what_could_not_be_measured_says_why(monkeypatch):
    def full(*args):
        raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory")

    monkeypatch.setattr(train, "acting", lambda learner: full)
    found, watched = train.run({"lstm": SMALL["lstm"]}, rounds=1, watched=True)
    assert found["runs"] == {"lstm": {"reason": "out of memory"}}
    assert not watched
    numbers = results()
    numbers["runs"]["hcam"] = {"reason": "out of memory"}
    rows = shown(numbers)
    assert rows["hcam"] == ["out", "of", "memory"]
    assert rows["trxl"][1] == "1.00"


def test_no_rounds_are_refused():
    with pytest.raises(ValueError, match="rounds must be"):
        train.run(SMALL, rounds=0)
