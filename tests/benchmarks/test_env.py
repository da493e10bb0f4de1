import pytest
from rich.console import Console

from hcam.benchmarks import env
from hcam.config import TaskConfig


def results():
    def rate(value):
        return {"seconds": 1.0, "spread": 0.0, "scratch": 0, "rate": value}

    rates = [
        {"batch": 4, "rendered": rate(1e5), "unrendered": rate(1e6), "written": rate(4e5)},
        {"batch": 8, "rendered": rate(2e5), "unrendered": rate(2e6), "written": {"reason": "out of memory"}},
    ]
    return {"device": "abacus", "jax": "0", "task": "ballet", "levels": ["2_delay16"], "bytes": 29407, "rates": rates}


@pytest.mark.slow
def test_measures_every_batch_in_all_variants():
    found = env.run(TaskConfig(task="ballet"), ["2_delay1"], [1, 2], steps=3, rounds=1)
    assert [entry["batch"] for entry in found["rates"]] == [1, 2]
    assert found["bytes"] == 99 * 99 * 3 + 4
    assert found["levels"] == ["2_delay1"]
    for entry in found["rates"]:
        for name in env.VARIANTS:
            assert entry[name]["rate"] == pytest.approx(entry["batch"] * 3 / entry[name]["seconds"])


def test_a_task_with_options_and_without_levels():
    """A small one: the bytes are those of what its options make it show."""
    found = env.run(TaskConfig(task="echo", options={"symbols": 6}), [], [2], steps=3, rounds=1)
    assert (found["task"], found["levels"], found["bytes"]) == ("echo", [], 6 * 4)
    assert all(found["rates"][0][name]["rate"] > 0 for name in env.VARIANTS)


def test_table_and_figure(tmp_path):
    console = Console(record=True, width=100)
    console.print(env.show(results()))
    text = console.export_text()
    assert "25%" in text
    assert "100,000" in text
    assert "out of memory" in text
    env.draw(results(), tmp_path / "bench.png")
    assert (tmp_path / "bench.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"task": TaskConfig(task="waltz")}, "no task 'waltz'"),
        ({"task": TaskConfig(task="ballet", options={"size": 1})}, "ballet has no option size: choose from tile"),
        ({"levels": ["9_delay1"]}, "no Ballet level"),
        ({"batches": [0]}, "batch 0 must be a whole number of at least 1"),
        ({"rounds": 0}, "rounds must be"),
    ],
)
def test_bad_input_is_one_sentence(change, sentence):
    with pytest.raises(ValueError, match=sentence):
        env.run(**({"task": TaskConfig(task="ballet"), "levels": [], "batches": [1], "steps": 1, "rounds": 1} | change))
