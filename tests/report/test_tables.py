import io

from rich.console import Console

from hcam import report
from tests.report.folders import make


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
