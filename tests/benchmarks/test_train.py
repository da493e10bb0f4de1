import pytest
from rich.console import Console

from hcam.benchmarks import train
from hcam.cli.train import parse


def results():
    def cost(seconds):
        return {"seconds": seconds, "spread": 0.0, "scratch": 3_000_000}

    parts = {"update": cost(0.2), "act": cost(0.05), "learn": {"reason": "out of memory"}}
    about = {"device": "abacus", "jax": "0", "hcam": "0", "task": "echo", "memory": "lstm", "parameters": 1234}
    return about | {"steps": 100, "rounds": 1, "parts": parts}


def shown(numbers):
    console = Console(record=True, width=120)
    console.print(train.show(numbers))
    return console.export_text()


def test_the_parts_are_measured_and_less_than_the_whole():
    words = "echo --memory lstm --environments 2 --unroll 4 --minibatches 1 --width 8 --layers 1 --hidden 8".split()
    found = train.run(parse(words).config, rounds=1)
    assert set(found["parts"]) == set(train.PARTS)
    for cost in found["parts"].values():
        assert cost["seconds"] > 0
        assert cost["scratch"] >= 0
    assert found["steps"] == 2 * 4
    assert found["parameters"] > 100
    assert (found["task"], found["memory"]) == ("echo", "lstm")
    assert "learning alone" in shown(found)


def test_table_has_rates_and_shares():
    text = shown(results())
    rows = {line.split("  ")[0].strip(): line.split() for line in text.splitlines() if line.strip()}
    assert rows["whole update"][2:] == ["500", "200.0", "ms", "100%", "3", "MB"]
    assert rows["acting alone"][2:] == ["2,000", "50.0", "ms", "25%", "3", "MB"]
    assert rows["learning alone"][2:] == ["out", "of", "memory"]
    assert "echo, lstm, 1,234 parameters, 100 steps an update" in text


def test_without_the_whole_there_are_no_shares():
    numbers = results()
    numbers["parts"]["update"] = {"reason": "out of memory"}
    assert "%" not in shown(numbers)


def test_no_rounds_are_refused():
    with pytest.raises(ValueError, match="rounds must be"):
        train.run(parse(["echo"]).config, rounds=0)
