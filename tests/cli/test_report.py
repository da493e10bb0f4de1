"""`hcam report` and `hcam reproduce` as they are typed; nothing is trained."""

from pathlib import Path

import pytest

from hcam.cli import main, train
from hcam.experiments import BALLET
from tests.report.folders import judge, made, make


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def typed(monkeypatch):
    """What would have been trained and evaluated, and what then lies there."""
    calls: list = []

    def fake_train(words):
        calls.append(["train", *words])
        return 0

    def fake_evaluate(agent, level=(), out=None):
        calls.append(["eval", agent, *level])
        judge(out, dict.fromkeys(level, 0.5))
        return 0

    monkeypatch.setattr(train, "train", fake_train)
    monkeypatch.setattr(train, "evaluate", fake_evaluate)
    return calls


def with_checkpoint(folder):
    (folder / "checkpoints").mkdir()
    (folder / "checkpoints" / "000000000009.safetensors").touch()


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
    assert "learning curves: new/folder/curves.png" in out
    assert (tmp_path / "new" / "folder" / "curves.png").stat().st_size > 10_000


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
        (["run", "--results", "x"], "--results goes with a task (ballet)"),
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


# reproduce


def test_the_experiments_are_listed(tmp_path, capsys):
    made(tmp_path / "results" / "ballet", "hcam", 1)
    (tmp_path / "results" / "ballet" / "trxl-0").mkdir()
    assert main(["reproduce", "ballet"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(f"{experiment.name}: {experiment.title}" in lines for experiment in BALLET)
    at = lines.index("hcam: HCAM")
    assert lines[at + 1 : at + 4 : 2] == ["  seed 0: not run", "  seed 1: done"]
    assert lines[at + 2] == "    hcam train --preset fast --seed 0 --run results/ballet/hcam-0"
    assert any(line.startswith("  seed 0: unfinished: it has no metrics.jsonl") for line in lines)


def test_one_is_run_as_hcam_train_would(typed, capsys):
    assert main(["reproduce", "ballet", "hcam-k1"]) == 0
    assert main(["reproduce", "ballet", "trxl", "--seed", "3", "--steps", "9", "--runs", "mine"]) == 0
    assert typed == [
        ["train", "--preset", "fast", "--top-k", "1", "--seed", "0", "--run", "results/ballet/hcam-k1-0"],
        ["train", "--preset", "fast", "--memory", "trxl", "--steps", "9", "--seed", "3", "--run", "mine/trxl-3"],
    ]


def test_other_levels_are_played_after_training(typed, monkeypatch, tmp_path):
    def whole(words):
        made(tmp_path / "mine", "hcam-246", 0)
        (tmp_path / "mine" / "hcam-246-0" / "eval-8.json").unlink()
        typed.append(["train"])
        return 0

    monkeypatch.setattr(train, "train", whole)
    words = ["reproduce", "ballet", "hcam-246", "--runs", "mine"]
    assert main(words) == 0
    assert typed == [["train"], ["eval", "mine/hcam-246-0", "8_delay16", "8_delay48"]]
    assert Path("mine/hcam-246-0/eval-other-levels.json").exists()
    assert main(words) == 0  # and then there is nothing left to do
    assert len(typed) == 2


def test_what_was_stopped_goes_on(typed, tmp_path, capsys):
    folder = made(tmp_path / "results" / "ballet", "hcam-gated")
    rows = (folder / "metrics.jsonl").read_text().splitlines()
    (folder / "metrics.jsonl").write_text("\n".join(rows[:9]) + "\n")
    with_checkpoint(folder)
    assert main(["reproduce", "ballet", "hcam-gated"]) == 0
    assert typed == [["train", "--resume", "results/ballet/hcam-gated-0"]]


def test_what_cannot_go_on_is_not_begun_anew(tmp_path, capsys):
    """As all of results/: the folder keeps what a run reported, without its checkpoints."""
    folder = made(tmp_path / "results" / "ballet", "hcam-gated")
    rows = (folder / "metrics.jsonl").read_text().splitlines()
    (folder / "metrics.jsonl").write_text("\n".join(rows[:9]) + "\n")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for words in ([], ["--steps", "500000000"]):
        err = refusal(["reproduce", "ballet", "hcam-gated", *words], capsys)
        assert "has metrics but no checkpoint to go on from" in err
        assert "--runs" in err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_what_is_done_is_left_alone_unless_it_shall_be_longer(typed, tmp_path, capsys):
    with_checkpoint(made(tmp_path / "results" / "ballet", "lstm"))
    assert main(["reproduce", "ballet", "lstm"]) == 0
    assert capsys.readouterr().out == "results/ballet/lstm-0: done\n"
    assert typed == []
    assert main(["reproduce", "ballet", "lstm", "--steps", "500000000"]) == 0
    assert typed == [["train", "--resume", "results/ballet/lstm-0", "--steps", "500000000"]]


def test_a_run_that_fails_ends_it(typed, monkeypatch):
    monkeypatch.setattr(train, "train", lambda words: 130)
    assert main(["reproduce", "ballet", "hcam-246"]) == 130
    assert typed == []


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["waltz"], "there are no experiments for 'waltz': there are some for ballet."),
        (["waltz", "hcam"], "there are no experiments for 'waltz': there are some for ballet."),
        (["ballet", "k1"], "there is no experiment 'k1' for ballet: there are hcam, trxl, lstm, hcam-246, hcam-k1,"),
        (["ballet", "hcam-k1"], "hcam-k1-0 is not hcam-k1, top_k is 8: move it away, or choose another --runs."),
    ],
)
def test_reproduce_refuses_in_one_sentence(words, sentence, typed, tmp_path, capsys):
    made(tmp_path / "results" / "ballet", "hcam").rename(tmp_path / "results" / "ballet" / "hcam-k1-0")
    err = refusal(["reproduce", *words], capsys)
    assert err.startswith("hcam reproduce: ")
    assert sentence in err
    assert typed == []
