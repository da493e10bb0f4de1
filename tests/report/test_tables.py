import io
import json
import math

import pytest
from rich.cells import cell_len
from rich.console import Console

from hcam import report
from hcam.runs.text import printable
from tests.report.folders import made_by_return, make


def text_of(table, width=120):
    console = Console(record=True, width=width, file=io.StringIO())
    console.print(table)
    return console.export_text()


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


def test_final_table_says_over_what_it_averages(tmp_path):
    assert "mean of the last 2 rows" in text_of(report.final_table(make(tmp_path / "run", count=100)))


def test_runs_are_compared_alike(tmp_path):
    one, other = make(tmp_path / "one", evaluated=True), make(tmp_path / "other", "lstm", evaluated=True)
    good, cost = map(text_of, report.compare_tables([one, other]))
    assert "greedy evaluation, below it the 95 % interval" in good
    lines = [line.split() for line in good.splitlines()]
    (at,) = [number for number, line in enumerate(lines) if line[:1] == ["other"]]
    assert lines[at : at + 2] == [["other", "95.0", "40.0"], ["93.0-97.0", "93.0-97.0"]]
    assert [line.split() for line in cost.splitlines() if "lstm" in line] == [
        ["other", "lstm", "1", "1", "M", "1.0", "16,667"]
    ]


def test_without_evaluation_the_end_of_training_is_compared(tmp_path):
    one, third = make(tmp_path / "one", evaluated=True), make(tmp_path / "third", levels=("x",), seconds=None)
    good, cost = map(text_of, report.compare_tables([one, third]))
    assert "at the end of training" in good
    assert "95.0" not in good
    assert [line.split() for line in good.splitlines() if "third" in line] == [["third", "-", "-", "50.0"]]
    assert [line.split() for line in cost.splitlines() if "third" in line] == [
        ["third", "hcam", "1", "1", "M", "-", "-"]
    ]


def test_six_levels_fit_a_terminal(tmp_path):
    folder = make(tmp_path / "hcam-chunk16-0", levels=[f"{n}_delay{d}" for d in (16, 48) for n in (2, 4, 8)])
    lines = text_of(report.compare_tables([folder])[0], width=80).splitlines()
    assert any(all(f"{n}_delay{d}" in line for d in (16, 48) for n in (2, 4, 8)) for line in lines)


NAMES = [
    "[/x]",
    "run[bold]",
    "[link=http://x]a",
    "x$\\foo$",
    "a_b^c\\",
    "\x1b[31mred",
    "a\nb",
    "日本 😀",
    "\udcff",
    "x" * 200,
]


@pytest.mark.parametrize("name", NAMES)
def test_names_are_shown_as_they_are(tmp_path, name):
    folders = [make(tmp_path / name, name, levels=(name, "b"), evaluated=True), make(tmp_path / "other")]
    for table in (report.final_table(folders[0]), *report.compare_tables(folders)):
        text = text_of(table, width=1000)
        assert printable(name) in text
        assert "\x1b" not in text
        assert not {"\r", "\udcff"} & set(text)


@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 7, 10, 20, 30, 50])
def test_something_is_shown_at_any_width(tmp_path, width):
    folders = [make(tmp_path / "a run of some length", evaluated=True), make(tmp_path / "日本", "lstm")]
    for table in (report.final_table(folders[0]), *report.compare_tables(folders)):
        text = text_of(table, width)
        assert text.strip()
        assert max(cell_len(line) for line in text.splitlines()) <= max(width, 2)  # a wide character has two columns


def test_a_thousand_levels_are_shown(tmp_path):
    folder = make(tmp_path / "run", count=2, levels=tuple(f"level {n}" for n in range(1000)), evaluated=True)
    for table in (report.final_table(folder), *report.compare_tables([folder])):
        assert text_of(table, 80)


ODD = ["x", None, [1], {"a": 1}, True, -1, 10**400, math.nan, math.inf, 1e300]


@pytest.mark.parametrize("odd", ODD)
def test_odd_numbers_of_an_evaluation_are_shown_or_left_out(tmp_path, odd):
    folder = make(tmp_path / "run")
    for name in ("episodes", "success", "low", "high"):
        score = {"episodes": 500, "success": 0.95, "low": 0.93, "high": 0.97} | {name: odd}
        (folder / "eval.json").write_text(json.dumps({"greedy": {"2_delay16": score}, "sampled": {"x": score}}))
        for table in (report.final_table(folder), *report.compare_tables([folder])):
            assert text_of(table)


@pytest.mark.parametrize("odd", [one for one in ODD if not isinstance(one, list | dict)])
def test_odd_numbers_of_training_are_shown_or_left_out(tmp_path, odd):
    part = {"episodes": odd, "success": odd}
    folder = make(tmp_path / "run", seconds=odd, success=odd, **{"return": odd}, losses={"x": odd}, levels={"a": part})
    for table in (report.final_table(folder), *report.compare_tables([folder])):
        assert text_of(table)


# Tasks that are scored by their return


def test_returns_stand_with_their_interval_and_the_part_of_the_oracles(tmp_path):
    folder = made_by_return(tmp_path / "one")
    text = text_of(report.final_table(folder))
    assert "9.00  (8.50 to 9.50)" in text
    assert "28 % of the oracle" in text
    assert "Return. Training" in text
    compared = "".join(
        map(text_of, report.compare_tables([folder, made_by_return(tmp_path / "two", seed=1, ends=15.0)]))
    )
    assert "Return, sampled evaluation" in compared
    assert all(part in compared for part in ("9.00", "8.50-9.50", "16.0", "50 % of the oracle"))
    assert "%," not in compared.splitlines()[0]


def test_runs_that_are_scored_by_different_things_are_not_compared(tmp_path):
    folders = [made_by_return(tmp_path / "one"), make(tmp_path / "two")]
    with pytest.raises(ValueError, match="scored by different things, return and success: compare those"):
        report.compare_tables(folders)
