"""`hcam report` and `hcam reproduce` as they are typed; nothing is trained."""

import os

import pytest

from hcam import recipes
from hcam.cli import main
from tests.report.folders import made, make
from tests.report.test_delays import numbers


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def refusal(words, capsys):
    assert main(words) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    return err


# report


def test_runs_are_compared_and_drawn(tmp_path, capsys):
    for memory in ("hcam", "lstm"):
        make(tmp_path / memory, memory, evaluated=True)
    assert main(["report", "hcam", "lstm", "--out", "new/folder"]) == 0
    out = capsys.readouterr().out
    assert "93.0-97.0" in out
    assert "16,667" in out
    assert "learning curves: new/folder/curves.png, new/folder/curves.svg" in out
    assert "report: new/folder/report.md, new/folder/report.html" in out
    assert (tmp_path / "new" / "folder" / "curves.png").stat().st_size > 10_000
    assert "<td>95.0<br>(93.0 to 97.0)</td>" in (tmp_path / "new" / "folder" / "report.html").read_text()


def test_one_command_writes_the_page_of_all_tasks(tmp_path, capsys):
    made(tmp_path / "mine" / "ballet", "lstm", 0, 0.5)
    assert main(["report", "--all", "--results", "mine"]) == 0
    assert capsys.readouterr().out.split() == ["docs/results.md", "docs/images/ballet-memories.png"]
    text = (tmp_path / "docs" / "results.md").read_text()
    assert "Made by `hcam report --all` from run folders" in text
    assert [text.count(f"\n## {task.capitalize()}\n") for task in recipes.every()] == [1] * len(recipes.every())
    assert "leave out ballet" in refusal(["report", "--all", "ballet"], capsys)


def test_somebody_elses_report_is_kept(tmp_path, capsys):
    make(tmp_path / "run")
    (tmp_path / "report.md").write_text("my notes")
    assert "report.md exists already and was not made by `hcam report`" in refusal(["report", "run"], capsys)
    assert (tmp_path / "report.md").read_text() == "my notes"
    assert not (tmp_path / "curves.png").exists()


def test_the_page_of_a_task(tmp_path, capsys):
    made(tmp_path / "results" / "ballet", "lstm", 0, 0.5)
    assert main(["report", "ballet"]) == 0
    assert capsys.readouterr().out.split() == ["docs/results.md", "docs/images/ballet-memories.png"]
    assert "`results/ballet/lstm-0` | done" in (tmp_path / "docs" / "results.md").read_text()
    assert main(["report", "ballet", "--results", "nowhere", "--out", "other"]) == 0
    assert "Nothing has been run yet" in (tmp_path / "other" / "results.md").read_text()


def test_a_folder_of_a_tasks_name_is_a_run(tmp_path, capsys):
    make(tmp_path / "ballet")
    assert main(["report", "ballet"]) == 0
    assert "curves.png" in capsys.readouterr().out
    assert not (tmp_path / "docs").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "give run folders"),
        (["empty"], "empty has no metrics.jsonl: give a folder in which `hcam train` has run."),
        (["waltz"], "there is no run folder waltz"),
        (["ballet", "run"], "there is no run folder ballet"),
        (["run", "--results", "x"], f"--results goes with tasks ({', '.join(recipes.every())})"),
        (["torn"], "eval.json is damaged"),
    ],
)
def test_report_refuses_in_one_sentence(words, sentence, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    make(tmp_path / "run")
    (make(tmp_path / "torn") / "eval.json").write_text("{")
    err = refusal(["report", *words], capsys)
    assert err.startswith("hcam report: ")
    assert sentence in err
    assert not (tmp_path / "curves.png").exists()


def test_a_folder_of_runs_gets_an_index(tmp_path, capsys):
    make(tmp_path / "mine" / "a" / "hcam", evaluated=True)
    make(tmp_path / "mine" / "b" / "lstm", "lstm")
    assert main(["report", "mine"]) == 0
    assert capsys.readouterr().out == "mine/README.md\n"
    text = (tmp_path / "mine" / "README.md").read_text()
    assert "## a\n" in text
    assert "| `lstm` | lstm |" in text


def test_every_name_in_a_folder_of_runs_may_be_given(tmp_path, capsys):
    """`hcam report runs/*`, after `hcam report runs` has left its index there."""
    make(tmp_path / "mine" / "hcam", evaluated=True)
    assert main(["report", "mine"]) == 0
    assert main(["report", "mine/README.md", "mine/hcam"]) == 0
    assert capsys.readouterr().err == "hcam report: mine/README.md is no folder and left out.\n"
    assert "there is no run folder mine/README.md" in refusal(["report", "mine/README.md"], capsys)


def test_files_of_evaluations_are_drawn_over_delay(tmp_path, capsys):
    numbers(tmp_path / "x.json")
    numbers(tmp_path / "y.json", "runs/y", 0.6)
    assert main(["report", "x.json", "y.json", "--out", "new"]) == 0
    assert capsys.readouterr().out == "scores over delay: new/delays.png\n"
    assert (tmp_path / "new" / "delays.png").stat().st_size > 10_000
    numbers(tmp_path / "z.json", delays={})
    assert "z.json holds no levels with a delay: play some" in refusal(["report", "x.json", "z.json"], capsys)


# What lies in a folder may come from somebody else


@pytest.mark.parametrize(
    ("words", "link"),
    [
        (["hcam"], "curves.png"),
        (["."], "README.md"),
        (["ballet"], "docs/results.md"),
        (["ballet"], "docs/images/ballet-memories.png"),
    ],
)
def test_nothing_is_written_through_a_link(words, link, tmp_path, capsys):
    make(tmp_path / "hcam", evaluated=True)
    made(tmp_path / "results" / "ballet", "lstm", 0, 0.5)
    (tmp_path / "docs" / "images").mkdir(parents=True)
    (tmp_path / "precious").write_text("precious")
    (tmp_path / link).symlink_to(tmp_path / "precious")
    assert main(["report", *words]) == 0
    assert (tmp_path / "precious").read_text() == "precious"
    assert (tmp_path / link).is_file()
    assert not (tmp_path / link).is_symlink()


def test_an_index_shows_nothing_of_what_is_linked_and_waits_for_no_pipe(tmp_path, capsys):
    make(tmp_path / "mine" / "a" / "hcam", evaluated=True)
    (tmp_path / "secret").write_text("the key is 1234")
    (tmp_path / "mine" / "a" / "question.txt").symlink_to(tmp_path / "secret")
    (tmp_path / "mine" / "b" / "bench").mkdir(parents=True)
    os.mkfifo(tmp_path / "mine" / "b" / "bench" / "bench.json")
    assert main(["report", "mine"]) == 0
    text = (tmp_path / "mine" / "README.md").read_text()
    assert "1234" not in text
    assert text.count("cannot be read") == 2
