import io
import json
import math
from typing import Any

import matplotlib
import matplotlib.image
import numpy as np
import pytest
from rich.console import Console

from hcam import report

LEVELS = ("2_delay16", "4_delay16")


def make(folder, memory="hcam", seed=0, count=10, levels=LEVELS, evaluated=False, success=0.5, **changed):
    """A run folder whose levels all have the same success."""
    folder.mkdir(parents=True)
    config = {"task": {"task": "ballet"}, "agent": {"memory": {"memory": memory}}, "run": {"seed": seed}}
    (folder / "config.json").write_text(json.dumps({"config": config | changed.pop("config", {}), "made_by": {}}))
    part = {"episodes": 10, "success": success, "return": success, "length": 44.0}
    row = {
        "seconds": 60.0,
        "losses": {"policy": -0.01, "image": 0.08},
        "health": {"rho": 1.0},
        "success": success,
        "return": success,
    }
    row |= {"levels": dict.fromkeys(levels, part)} | changed
    rows = [row | {"update": n, "steps": 100_000 * n} for n in range(1, count + 1)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    if evaluated:
        score = {"episodes": 500, "success": 0.95, "low": 0.93, "high": 0.97, "return": 0.95}
        result = {"greedy": {levels[0]: score, "8_delay48": score | {"success": 0.4}}, "sampled": {levels[0]: score}}
        (folder / "eval.json").write_text(json.dumps(result))
    return folder


def text_of(table, width=120):
    console = Console(record=True, width=width, file=io.StringIO())
    console.print(table)
    return console.export_text()


@pytest.fixture
def drawn(monkeypatch):
    """The figures that `curve` makes, kept for looking at."""
    import matplotlib.pyplot as plt

    kept: list[Any] = []
    monkeypatch.setattr(plt, "close", kept.append)
    yield kept
    monkeypatch.undo()
    plt.close("all")


def panels(figure):
    return figure.subfigs[0].axes


def labels(figure):
    return [text.get_text() for text in figure.subfigs[0].legends[0].get_texts()]


def test_refusals_say_what_to_do(tmp_path):
    with pytest.raises(ValueError, match="there is no run folder"):
        report.read(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"has no metrics\.jsonl"):
        report.final_table(tmp_path)
    (tmp_path / "metrics.jsonl").write_text("")
    with pytest.raises(ValueError, match="wait for the run's first"):
        report.curve([tmp_path], tmp_path / "out.png")
    with pytest.raises(ValueError, match="at least one run folder"):
        report.curve([], tmp_path / "out.png")
    with pytest.raises(ValueError, match="at least 1, but is 0"):
        report.curve([make(tmp_path / "run")], tmp_path / "out.png", smooth=0)


def test_torn_last_line_does_not_count(tmp_path):
    folder = make(tmp_path / "run", count=3)
    with open(folder / "metrics.jsonl", "a") as file:
        file.write('{"update": 4, "ste')
    assert report.read(folder).steps == 300_000


def test_running_mean_counts_episodes():
    steps, values = report.series([(1, 1.0, 1), (2, 0.0, 3), (3, 0.0, 1)], 2)
    assert steps.tolist() == [2, 3]  # whole windows only
    assert values.tolist() == [0.25, 0.0]


def test_running_mean_skips_what_is_not_known():
    steps, values = report.series([(1, None, 0), (2, 0.5, 4), (3, math.nan, 4), (4, 1.0, 0), (5, 0.7, 4)], 1)
    assert steps.tolist() == [2, 5]
    assert values.tolist() == [0.5, 0.7]
    assert len(report.series([(1, None, 0)], 3)[0]) == 0
    assert report.series([(1, 0.2, 1), (2, 0.4, 1)], 9)[1].tolist() == pytest.approx([0.3])


def test_several_curves_merge_where_all_are_known():
    first = np.array([0.0, 10, 20]), np.array([0.0, 1, 2])
    second = np.array([10.0, 15]), np.array([3.0, 3])
    steps, mean, low, high = report.merged([first, second])
    assert steps.tolist() == [10, 15]
    assert mean.tolist() == [2, 2.25]
    assert low.tolist() == [1, 1.5]
    assert high.tolist() == [3, 3]
    assert all(len(part) == 0 for part in report.merged([]))


def test_numbers_of_steps():
    assert [report.short(steps) for steps in (0, 500, 20_000, 1e6, 1_500_000, 12_288_000, 1.5e9)] == [
        "0", "500", "20 k", "1 M", "1.5 M", "12.29 M", "1,500 M"
    ]  # fmt: skip


def test_final_table(tmp_path):
    text = text_of(report.final_table(make(tmp_path / "run", evaluated=True)))
    for shown in (
        "run (hcam): 1,000,000 steps in 1:00, 16,667 steps/s, one seed",
        "95 % interval, 500",
        "the last row",
    ):
        assert shown in text
    trained = next(line for line in text.splitlines() if "2_delay16" in line)
    assert trained.count("95.0 %  (93.0 to 97.0)") == 2
    assert "50.0 %" in trained
    untrained = next(line for line in text.splitlines() if "8_delay48" in line)
    assert "50.0 %" not in untrained
    assert "40.0 %" in untrained


def test_final_table_without_evaluation_or_values(tmp_path):
    folder = make(tmp_path / "run", levels=("a",), success=None, seconds=None, seeds=[{}, {}])
    text = text_of(report.final_table(folder))
    assert "2 seeds" in text
    assert "greedy" not in text
    assert [line.split() for line in text.splitlines() if line.strip().startswith("a ")] == [["a", "-"]]


def test_final_value_is_a_mean_of_the_last_rows(tmp_path):
    folder = make(tmp_path / "run", count=100)
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    rows[-1]["levels"]["2_delay16"] |= {"success": 1.0, "episodes": 30}
    (folder / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert report.last(report.read(folder), "2_delay16") == pytest.approx((0.5 * 10 + 1.0 * 30) / 40)
    assert "mean of the last 2 rows" in text_of(report.final_table(folder))


def test_compare_table_measures_all_runs_alike(tmp_path):
    one, other = make(tmp_path / "one", evaluated=True), make(tmp_path / "other", "lstm", evaluated=True)
    text = text_of(report.compare_table([one, other]))
    assert "greedy evaluation" in text
    assert [line.split() for line in text.splitlines() if "lstm" in line] == [
        ["other", "lstm", "1", "M", "95.0", "40.0"]
    ]
    third = make(tmp_path / "third", "trxl", levels=("x",))
    text = text_of(report.compare_table([one, other, third]))
    assert "at the end of training" in text
    assert "95.0" not in text
    assert [line.split() for line in text.splitlines() if "trxl" in line] == [
        ["third", "trxl", "1", "M", "-", "-", "50.0"]
    ]


def test_runs_that_differ_in_their_seed_alone_belong_together(tmp_path):
    folders = [make(tmp_path / f"h{seed}", seed=seed) for seed in range(2)] + [make(tmp_path / "l", "lstm")]
    kinds = report.kinds([report.read(folder) for folder in folders])
    assert {label: len(runs) for label, runs in kinds.items()} == {"hcam": 2, "lstm": 1}


def test_kinds_that_share_a_memory_are_called_by_their_runs(tmp_path):
    folders = [make(tmp_path / "wide"), make(tmp_path / "narrow", config={"width": 8})]
    folders += [make(tmp_path / "elsewhere" / "wide", config={"width": 9})]
    kinds = report.kinds([report.read(folder) for folder in folders])
    assert list(kinds) == ["wide (1)", "narrow", "wide (3)"]


def test_curve_of_one_run(tmp_path, drawn):
    chance = {"2_delay16": 0.5, "4_delay16": 0.25}
    folder = make(tmp_path / "run", count=115, evaluated=True, config={"chance": chance})
    report.curve([folder], tmp_path / "out.png")
    assert matplotlib.image.imread(tmp_path / "out.png").shape[:2] == (900, 1500)
    (figure,) = drawn
    (axes,) = panels(figure)
    assert labels(figure) == ["2_delay16", "4_delay16", "8_delay48", "chance"]
    assert "one seed" in figure.subfigs[0].get_suptitle()
    assert axes.get_ylim() == (-2, 102)
    assert max(axes.get_xticks()) <= 11_500_000  # no steps are marked where the evaluation stands
    dashed = {line.get_ydata()[0] for line in axes.lines if line.get_label() == "chance"}
    assert dashed == {50, 25}
    assert len(axes.containers) == 3  # greedy on two levels, sampled on one
    caption = figure.get_supxlabel()
    assert "running mean over 2 rows of the log, about 200 k steps" in caption
    assert "95 % interval" in caption
    assert [mini.get_title() for mini in figure.subfigs[1].axes] == ["return", "policy loss", "image loss"]


def test_curve_of_repeats_has_a_band(tmp_path, drawn):
    folders = [make(tmp_path / f"r{seed}", seed=seed, success=seed / 10) for seed in range(3)]
    report.curve(folders, tmp_path / "out.png", title="my title")
    (axes,) = panels(drawn[0])
    assert labels(drawn[0]) == list(LEVELS)
    band = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert (band.min(), band.max()) == (0, 20)
    assert axes.lines[0].get_ydata() == pytest.approx(10)
    assert drawn[0].subfigs[0].get_suptitle() == "my title"
    assert "lowest to highest" in drawn[0].get_supxlabel()
    assert "as logged" in drawn[0].get_supxlabel()
    assert "Circles" not in drawn[0].get_supxlabel()


def test_curve_of_seeds_trained_at_once(tmp_path, drawn):
    seeds = [{"success": 0.4, "return": 0.4}, {"success": 0.6, "return": 0.6}]
    report.curve([make(tmp_path / "run", levels=("a",), seeds=seeds)], tmp_path / "out.png")
    band = panels(drawn[0])[0].collections[0].get_paths()[0].vertices[:, 1]
    assert (band.min(), band.max()) == pytest.approx((40, 60))
    assert "2 seeds" in drawn[0].subfigs[0].get_suptitle()


def test_curve_of_kinds_has_a_panel_for_each_level(tmp_path, drawn):
    folders = [make(tmp_path / f"h{seed}", seed=seed) for seed in range(2)] + [make(tmp_path / "l", "lstm", count=5)]
    report.curve(folders, tmp_path / "out.png")
    assert [axes.get_title() for axes in panels(drawn[0])] == list(LEVELS)
    assert labels(drawn[0]) == ["hcam, 2 seeds", "lstm, one seed"]


def test_curve_of_kinds_with_many_levels_shows_their_mean(tmp_path, drawn):
    many = tuple(f"a level with a long name, number {n}" for n in range(9))
    folders = [make(tmp_path / memory, memory, levels=many, evaluated=True) for memory in ("hcam", "lstm")]
    report.curve(folders, tmp_path / "out.png")
    assert [axes.get_title() for axes in panels(drawn[0])] == ["all levels"]
    assert "Circles" not in drawn[0].get_supxlabel()  # there are none


@pytest.mark.parametrize("changed", [{"count": 1}, {"levels": ()}, {"success": None}, {"losses": None}])
def test_curve_of_next_to_nothing(tmp_path, changed):
    report.curve([make(tmp_path / "run", **changed)], tmp_path / "out.png")
    assert (tmp_path / "out.png").stat().st_size > 1000
