import json
import math

import numpy as np
import pytest

from hcam.report import runs
from tests.report.folders import judge, make


def test_torn_last_line_does_not_count(tmp_path):
    folder = make(tmp_path / "run", count=3)
    with open(folder / "metrics.jsonl", "a") as file:
        file.write('{"update": 4, "ste')
    assert runs.read(folder).steps == 300_000


def test_running_mean_counts_episodes():
    steps, values = runs.series([(1, 1.0, 1), (2, 0.0, 3), (3, 0.0, 1)], 2)
    assert steps.tolist() == [2, 3]  # whole windows only
    assert values.tolist() == [0.25, 0.0]


def test_running_mean_skips_what_is_not_known():
    steps, values = runs.series([(1, None, 0), (2, 0.5, 4), (3, math.nan, 4), (4, 1.0, 0), (5, 0.7, 4)], 1)
    assert steps.tolist() == [2, 5]
    assert values.tolist() == [0.5, 0.7]
    assert len(runs.series([(1, None, 0)], 3)[0]) == 0
    assert runs.series([(1, 0.2, 1), (2, 0.4, 1)], 9)[1].tolist() == pytest.approx([0.3])


def test_several_curves_merge_where_all_are_known():
    first = np.array([0.0, 10, 20]), np.array([0.0, 1, 2])
    second = np.array([10.0, 15]), np.array([3.0, 3])
    steps, mean, low, high = runs.merged([first, second])
    assert steps.tolist() == [10, 15]
    assert mean.tolist() == [2, 2.25]
    assert low.tolist() == [1, 1.5]
    assert high.tolist() == [3, 3]
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
    with pytest.raises(ValueError, match="wait for the run's first"):
        runs.read(tmp_path)
    (tmp_path / "metrics.jsonl").write_text('{"update": 1}\n')
    with pytest.raises(ValueError, match="its last row has no steps"):
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
