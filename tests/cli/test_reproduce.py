"""`hcam reproduce` as it is typed; nothing is trained."""

import hashlib
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from hcam import api, recipes
from hcam.cli import evaluate, main, train
from hcam.recipes.ballet import EXPERIMENTS, RECIPE
from hcam.report.results import collect
from tests.cli.test_report import elsewhere, refusal
from tests.report.folders import judge, made

__all__ = ["elsewhere"]  # a fixture

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture
def calls(monkeypatch):
    """What would have been trained and evaluated."""
    found: list = []

    def fake_train(config, **where):
        found.append(["train", config, {name: str(path) for name, path in where.items()}])

    def fake_evaluate(agent, level=(), out=None):
        found.append(["eval", agent, *level])
        judge(out, dict.fromkeys(level, 0.5))
        return 0

    monkeypatch.setattr(api, "train", fake_train)
    monkeypatch.setattr(train, "show", lambda trained: None)
    monkeypatch.setattr(evaluate, "evaluate", fake_evaluate)
    return found


def with_checkpoint(folder):
    (folder / "checkpoints").mkdir()
    for kind in ("safetensors", "json"):
        (folder / "checkpoints" / f"000000000009.{kind}").touch()


def hashes(root):
    """Of every file, and the folders and links that there are."""
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        for path in root.rglob("*")
    }


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    return shutil.copytree(RESULTS, tmp_path_factory.mktemp("published") / "results")


def done(root):
    """Every attempt at an experiment that has a run folder."""
    for task, recipe in recipes.every().items():
        for outcome in collect(root / task, recipe).values():
            yield from ((task, outcome.experiment, one) for one in outcome.attempts if one.folder.is_dir())


@pytest.mark.parametrize("task", recipes.every())
def test_listing_a_copy_of_what_is_published_changes_no_byte(task, published, monkeypatch, capsys):
    monkeypatch.chdir(published.parent)
    before = hashes(published)
    assert main(["reproduce", task]) == 0
    assert "seed 0: " in capsys.readouterr().out
    assert hashes(published) == before


def test_reproducing_what_is_published_changes_no_byte(published, monkeypatch, capsys):
    """Neither as it is nor for longer: the folders keep what runs reported, not the runs."""
    monkeypatch.chdir(published.parent)
    before, tried = hashes(published), 0
    for task, experiment, one in done(published):
        words = ["reproduce", task, experiment.name, "--seed", str(one.seed)]
        code, said = main(words), capsys.readouterr()
        whole = one.state == "done" and not one.missing
        assert code == (0 if whole else 2)
        assert ("done" if whole else "no checkpoint") in said.out + said.err
        assert main([*words, "--steps", "9000000000"]) == 2  # more than any has
        assert "no checkpoint to continue from" in capsys.readouterr().err
        tried += 1
    assert tried >= 8
    assert hashes(published) == before


def test_the_experiments_are_listed(tmp_path, capsys):
    made(tmp_path / "results" / "ballet", "hcam", 1)
    (tmp_path / "results" / "ballet" / "trxl-0").mkdir()
    assert main(["reproduce", "ballet"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(f"{experiment.name}: {experiment.title}" in lines for experiment in EXPERIMENTS)
    at = lines.index("hcam: HCAM")
    assert lines[at + 1 : at + 4 : 2] == ["  seed 0: not run", "  seed 1: done"]
    assert lines[at + 2] == "    hcam train ballet --preset fast --seed 0 --run results/ballet/hcam-0"
    assert any(line.startswith("  seed 0: unfinished: it has no metrics.jsonl") for line in lines)


def test_one_is_run_with_its_own_settings(calls):
    assert main(["reproduce", "ballet", "hcam-k1"]) == 0
    assert main(["reproduce", "ballet", "trxl", "--seed", "3", "--steps", "9", "--runs", "mine"]) == 0
    (_, one, where), (_, two, there) = calls
    assert one == RECIPE.config(RECIPE.find("hcam-k1"), 0)
    assert one.agent.memory.top_k == 1
    assert where == {"run": "results/ballet/hcam-k1-0"}
    expected = RECIPE.config(RECIPE.find("trxl"), 3)
    assert two == replace(expected, run=replace(expected.run, steps=9))
    assert there == {"run": "mine/trxl-3"}


def test_other_levels_are_played_after_training(calls, monkeypatch, tmp_path):
    def whole(config, **where):
        made(tmp_path / "mine", "hcam-246", 0)
        (tmp_path / "mine" / "hcam-246-0" / "eval-8.json").unlink()
        calls.append(["train"])

    monkeypatch.setattr(api, "train", whole)
    words = ["reproduce", "ballet", "hcam-246", "--runs", "mine"]
    assert main(words) == 0
    assert calls == [["train"], ["eval", "mine/hcam-246-0", "8_delay16", "8_delay48"]]
    assert Path("mine/hcam-246-0/eval-other-levels.json").exists()
    assert main(words) == 0  # and then there is nothing left to do
    assert len(calls) == 2


def test_what_was_stopped_continues(calls, tmp_path, capsys):
    folder = made(tmp_path / "results" / "ballet", "hcam-gated")
    rows = (folder / "metrics.jsonl").read_text().splitlines()
    (folder / "metrics.jsonl").write_text("\n".join(rows[:9]) + "\n")
    with_checkpoint(folder)
    assert main(["reproduce", "ballet", "hcam-gated"]) == 0
    ((_, config, where),) = calls
    assert where == {"resume": "results/ballet/hcam-gated-0"}
    assert config.agent.memory.gated


def test_what_cannot_go_on_is_not_begun_anew(tmp_path, capsys):
    """As all of results/: the folder keeps what a run reported, without its checkpoints."""
    folder = made(tmp_path / "results" / "ballet", "hcam-gated")
    rows = (folder / "metrics.jsonl").read_text().splitlines()
    (folder / "metrics.jsonl").write_text("\n".join(rows[:9]) + "\n")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for words in ([], ["--steps", "500000000"]):
        err = refusal(["reproduce", "ballet", "hcam-gated", *words], capsys)
        assert "has metrics but no checkpoint to continue from" in err
        assert "--runs" in err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_what_is_done_is_left_alone_unless_it_shall_be_longer(calls, tmp_path, capsys):
    with_checkpoint(made(tmp_path / "results" / "ballet", "lstm"))
    assert main(["reproduce", "ballet", "lstm"]) == 0
    assert capsys.readouterr().out == "results/ballet/lstm-0: done\n"
    assert calls == []
    assert main(["reproduce", "ballet", "lstm", "--steps", "500000000"]) == 0
    ((_, config, where),) = calls
    assert (config.run.steps, where) == (500_000_000, {"resume": "results/ballet/lstm-0"})


def test_a_run_that_is_stopped_ends_it(calls, monkeypatch):
    def stopped(config, **where):
        raise api.StoppedError(2, Path("x"))

    monkeypatch.setattr(api, "train", stopped)
    assert main(["reproduce", "ballet", "hcam-246"]) == 130
    assert calls == []


NO_WALTZ = f"there are no experiments for 'waltz': there are some for {', '.join(recipes.every())}."


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["waltz"], NO_WALTZ),
        (["waltz", "hcam"], NO_WALTZ),
        (["ballet", "k1"], "ballet has no experiment 'k1': there are hcam, trxl, lstm, hcam-246, hcam-k1,"),
        (["ballet", "hcam-k1"], "hcam-k1-0 is not hcam-k1, top_k is 8: move it away, or choose another --runs."),
    ],
)
def test_reproduce_refuses_in_one_sentence(words, sentence, calls, tmp_path, capsys):
    made(tmp_path / "results" / "ballet", "hcam").rename(tmp_path / "results" / "ballet" / "hcam-k1-0")
    err = refusal(["reproduce", *words], capsys)
    assert err.startswith("hcam reproduce: ")
    assert sentence in err
    assert calls == []
