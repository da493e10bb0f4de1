import pytest
from rich.console import Console

from hcam.benchmarks import train
from hcam.cli.train import parse


def results():
    def cost(seconds):
        return {"seconds": seconds, "spread": 0.0, "scratch": 3_000_000}

    parts = {"update": cost(0.2), "act": cost(0.05)}
    about = {"device": "abacus", "jax": "0", "hcam": "0", "task": "echo", "memory": "lstm", "parameters": 1234}
    return about | {"steps": 100, "rounds": 1, "parts": parts}


def shown(numbers):
    console = Console(record=True, width=120)
    console.print(train.show(numbers))
    return console.export_text()


def test_an_update_and_its_acting_are_measured():
    words = ["--memory", "lstm", "--width", "8", "--layers", "1", "--hidden", "8", "--minibatches", "1"]
    found = train.run(parse(["echo", *words, "--environments", "2", "--unroll", "4"]).config, rounds=1)
    assert set(found["parts"]) == set(train.PARTS)
    for cost in found["parts"].values():
        assert cost["seconds"] > 0
        assert cost["scratch"] >= 0
    assert found["steps"] == 2 * 4
    assert found["parameters"] > 100
    assert (found["task"], found["memory"]) == ("echo", "lstm")
    assert "whole update" in shown(found)


def test_table_has_rates_and_shares():
    text = shown(results())
    rows = {line.split("  ")[0].strip(): line.split() for line in text.splitlines() if line.strip()}
    assert rows["whole update"][2:] == ["500", "200.0", "ms", "100%", "3", "MB"]
    assert rows["acting alone"][2:] == ["2,000", "50.0", "ms", "25%", "3", "MB"]
    assert rows["learning"][1:] == ["150.0", "ms", "75%"]
    assert "echo, lstm, 1,234 parameters, 100 steps an update" in text


@pytest.mark.parametrize("part", ["update", "act"])
def test_what_could_not_be_measured_says_why(part):
    numbers = results()
    numbers["parts"][part] = {"reason": "out of memory"}
    text = shown(numbers)
    assert "out of memory" in text
    assert "learning" not in text
    assert ("%" in text) == (part == "act")


def test_no_rounds_are_refused():
    with pytest.raises(ValueError, match="rounds must be"):
        train.run(parse(["echo"]).config, rounds=0)
