import pytest
from rich.console import Console

from hcam.benchmarks import env


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
    found = env.run("ballet", ["2_delay1"], [1, 2], steps=3, rounds=1)
    assert [entry["batch"] for entry in found["rates"]] == [1, 2]
    assert found["bytes"] == 99 * 99 * 3 + 4
    assert found["levels"] == ["2_delay1"]
    for entry in found["rates"]:
        for name in env.VARIANTS:
            assert entry[name]["rate"] == pytest.approx(entry["batch"] * 3 / entry[name]["seconds"])


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
        ({"task": "waltz"}, "no task 'waltz'"),
        ({"levels": ["9_delay1"]}, "no Ballet level"),
        ({"batches": [0]}, "batch 0 must be a whole number of at least 1"),
        ({"rounds": 0}, "rounds must be"),
    ],
)
def test_bad_input_is_one_sentence(change, sentence):
    with pytest.raises(ValueError, match=sentence):
        env.run(**({"task": "ballet", "levels": [], "batches": [1], "steps": 1, "rounds": 1} | change))
