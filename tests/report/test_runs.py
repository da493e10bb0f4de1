import json
import time

import numpy as np
import pytest

from hcam.report import runs
from tests.report.folders import judge, make


def test_torn_last_line_does_not_count(tmp_path):
    folder = make(tmp_path / "run", count=3)
    with open(folder / "metrics.jsonl", "a") as file:
        file.write('{"update": 4, "ste')
    assert runs.read(folder).steps == 300_000


def test_smoothing_counts_episodes():
    steps, values = runs.series(np.array([1.0, 2, 3]), np.array([1.0, 0, 0]), np.array([1.0, 3, 1]), 2)
    assert steps.tolist() == [1.5, 2.5]  # whole windows only, each at its middle
    assert values.tolist() == [0.25, 0.0]
    two = np.array([1.0, 2.0]), np.array([0.2, 0.4]), np.ones(2)
    assert runs.series(*two, 9)[1].tolist() == pytest.approx([0.3])
    assert len(runs.series(np.zeros(0), np.zeros(0), np.zeros(0), 3)[0]) == 0


@pytest.mark.parametrize("count", [1, 2, 3, 4, 9, 40])
def test_the_window_is_a_triangle(count):
    random = np.random.default_rng(0)
    steps, values, weights = np.cumsum(random.random(40)), random.normal(size=40), random.random(40)
    rise = np.minimum(np.arange(1, count + 1), np.arange(count, 0, -1.0))
    found = runs.series(steps, values, weights, count)
    for n in range(40 - count + 1):
        inside = slice(n, n + count)
        assert found[1][n] == pytest.approx(np.average(values[inside], weights=rise * weights[inside]))
        assert found[0][n] == pytest.approx(np.median(steps[inside]))
    assert len(found[0]) == 40 - count + 1


@pytest.mark.parametrize("count", [1, 2, 3, 7, 50, 99, 100])
def test_running_sums_are_those_of_every_window(count):
    values = np.random.default_rng(0).normal(size=100)
    wanted = np.convolve(values, np.ones(count), "valid")
    np.testing.assert_allclose(runs.running_sum(values, count), wanted, rtol=0, atol=1e-12)


def test_a_huge_value_leaves_later_sums_alone():
    values = np.ones(100)
    values[10] = 1e38
    assert runs.running_sum(values, 10)[11:].tolist() == [10.0] * 80


def test_running_sums_take_linear_time():
    """By products of window and length this would take minutes."""
    begun = time.process_time()
    runs.running_sum(np.ones(1_000_000), 20_000)
    assert time.process_time() - begun < 5


def test_several_curves_merge_where_all_are_known():
    first = np.array([0.0, 10, 20]), np.array([0.0, 1, 2])
    second = np.array([10.0, 15]), np.array([3.0, 3])
    steps, mean, deviation, low, high = runs.merged([first, second])
    assert steps.tolist() == [10, 15]
    assert mean.tolist() == [2, 2.25]
    assert deviation.tolist() == pytest.approx([2**0.5, 1.5 / 2**0.5])
    assert low.tolist() == [1, 1.5]
    assert high.tolist() == [3, 3]
    long = np.arange(5000.0), np.arange(5000.0)
    assert len(runs.merged([long, long]).steps) == runs.MOST_POINTS
    assert runs.merged([long]).mean[[0, -1]].tolist() == [0, 4999]
    assert runs.merged([first]).deviation.tolist() == [0, 0, 0]
    assert all(len(part) == 0 for part in runs.merged([]))


def test_numbers_of_steps():
    assert [runs.short(steps) for steps in (0, 500, 20_000, 1e6, 1_500_000, 12_288_000, 1.5e9)] == [
        "0", "500", "20 k", "1 M", "1.5 M", "12.29 M", "1,500 M"
    ]  # fmt: skip


def test_final_value_is_a_mean_of_the_last_rows(tmp_path):
    folder = make(tmp_path / "run", count=100)
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    rows[-1]["levels"]["2_delay16"] |= {"success": 1.0, "episodes": 30}
    (folder / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert runs.last(runs.read(folder), "2_delay16") == pytest.approx((0.5 * 10 + 1.0 * 30) / 40)


def test_runs_that_differ_in_their_seed_alone_belong_together(tmp_path):
    folders = [make(tmp_path / f"h{seed}", seed=seed) for seed in range(2)] + [make(tmp_path / "l", "lstm")]
    kinds = runs.kinds([runs.read(folder) for folder in folders])
    assert {label: len(some) for label, some in kinds.items()} == {"hcam": 2, "lstm": 1}


def test_kinds_that_share_a_memory_are_called_by_their_runs(tmp_path):
    folders = [make(tmp_path / "wide"), make(tmp_path / "narrow", config={"width": 8})]
    folders += [make(tmp_path / "elsewhere" / "wide", config={"width": 9})]
    kinds = runs.kinds([runs.read(folder) for folder in folders])
    assert list(kinds) == ["wide (1)", "narrow", "wide (3)"]


def test_refusals_say_what_to_do(tmp_path):
    with pytest.raises(ValueError, match="there is no run folder"):
        runs.read(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"has no metrics\.jsonl"):
        runs.read(tmp_path)
    (tmp_path / "metrics.jsonl").write_text("")
    with pytest.raises(ValueError, match="wait for the first one"):
        runs.read(tmp_path)
    (tmp_path / "metrics.jsonl").write_text('{"update": 1}\n')
    with pytest.raises(ValueError, match="line 1 has no steps, delete it"):
        runs.read(tmp_path)


@pytest.mark.parametrize("text", ["", '{"greedy": {"2_de', "[1]", '{"greedy": [1]}', '{"greedy": {"2_delay16": 0.5}}'])
def test_a_damaged_evaluation_is_named(tmp_path, text):
    folder = make(tmp_path / "run")
    (folder / "eval.json").write_text(text)
    with pytest.raises(ValueError, match=r"eval\.json is damaged: delete it and evaluate again"):
        runs.read(folder)


def test_evaluations_of_other_levels_are_added(tmp_path):
    folder = make(tmp_path / "run")
    judge(folder / "eval.json", {"2_delay16": 0.5})
    judge(folder / "eval-a.json", {"2_delay16": 0.9, "8_delay16": 0.25}, steps=1_000_000)
    judge(folder / "eval-best.json", {"8_delay48": 0.75}, steps=500_000)  # of another checkpoint
    run = runs.read(folder)
    assert {level: part["success"] for level, part in run.evaluation["greedy"].items()} == {
        "2_delay16": 0.5, "8_delay16": 0.25
    }  # fmt: skip
    assert run.levels == ["2_delay16", "4_delay16"]
    assert run.names == ["2_delay16", "4_delay16", "8_delay16"]


def test_what_a_run_took(tmp_path):
    run = runs.read(make(tmp_path / "run", seconds=50.0))
    assert (run.seconds, run.rate) == (50, 20_000)
    unknown = runs.read(make(tmp_path / "unknown", seconds=None))
    assert (unknown.seconds, unknown.rate) == (None, None)
