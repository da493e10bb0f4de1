"""`hcam reproduce` as it is typed. Nothing is trained, but for one small queue at the end."""

import hashlib
import re
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from hcam import api, recipes
from hcam.cli import evaluate, main, train
from hcam.cli.train import parse
from hcam.recipes import OTHER_LEVELS, Experiment, Recipe
from hcam.recipes.ballet import EXPERIMENTS, RECIPE
from hcam.report.results import collect
from hcam.report.runs import read
from hcam.runs.folder import read_metrics
from tests.cli.test_report import elsewhere, refusal
from tests.report.folders import judge, made
from tests.test_training import compiled_once

__all__ = ["compiled_once", "elsewhere"]  # fixtures

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture
def calls(monkeypatch):
    """What would have been trained and evaluated."""
    found: list = []

    def fake_train(config, minutes, **where):
        limit = {} if minutes is None else {"minutes": minutes}
        found.append(["train", config, limit | {name: str(path) for name, path in where.items()}])

    def fake_evaluate(agent, level=(), slots=None, out=None):
        found.append(["eval", agent, *level, *([] if slots is None else ["slots", slots])])
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
    assert tried == sum(len(list((published / task).glob("*/config.json"))) for task in recipes.every()) > 0
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
        (["ballet", "k1"], "ballet has no experiment 'k1': there are hcam, trxl, lstm, hcam-246, trxl-246,"),
        (["ballet", "hcam-k1"], "hcam-k1-0 is not hcam-k1, top_k is 8: move it away, or choose another --runs."),
    ],
)
def test_reproduce_refuses_in_one_sentence(words, sentence, calls, tmp_path, capsys):
    made(tmp_path / "results" / "ballet", "hcam").rename(tmp_path / "results" / "ballet" / "hcam-k1-0")
    err = refusal(["reproduce", *words], capsys)
    assert err.startswith("hcam reproduce: ")
    assert sentence in err
    assert calls == []


# The queue


STATE = re.compile(r" (done|unfinished .*|not run)$")


def test_the_queue_lists_every_run_of_every_task(tmp_path, capsys):
    made(tmp_path / "results" / "ballet", "hcam")
    assert main(["reproduce"]) == 0
    head, *lines, space, summary = capsys.readouterr().out.splitlines()
    assert head.split() == ["next", "task", "experiment", "seed", "minutes", "state"]
    planned = [len(one.seeds) for recipe in recipes.every().values() for one in recipe.experiments]
    assert len(lines) == sum(planned)
    assert all(STATE.search(line) for line in lines)
    assert (lines[0].split(), lines[1].split()[:5]) == (
        ["ballet", "hcam", "0", "40", "done"],
        ["1", "ballet", "hcam", "1", "?"],
    )
    assert space == ""
    assert summary.startswith(f"1 of {len(lines)} runs are done, {len(lines) - 1} are left to run. Nothing is known of")


def test_next_runs_what_is_wanted_most(calls, capsys):
    assert main(["reproduce", "next", "--minutes", "25", "--runs", "mine"]) == 0
    ((_, config, where),) = calls
    assert config == RECIPE.config(RECIPE.find("hcam"), 0)
    assert where == {"run": "mine/ballet/hcam-0", "minutes": 25 - 75 / 60}
    assert capsys.readouterr().out.startswith("next: ballet hcam, seed 0, not run; nobody knows how long it takes on ")


def test_little_time_is_shared_with_evaluation(calls):
    assert main(["reproduce", "ballet", "lstm", "--minutes", "2"]) == 0
    ((_, _, where),) = calls
    assert where["minutes"] == 1.0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["next", "hcam"], "the queue decides what is run: leave out NAME, or name a task."),
        (["next", "--seed", "0", "--steps", "9"], "leave out --seed and --steps, or name a task."),
        (["--minutes", "5"], "the queue decides what is run: leave out --minutes, or name a task."),
        (["next", "--minutes", "0"], "minutes must be a number above 0, but is 0.0: leave it out for no limit."),
        (["next", "--minutes", "-1"], "minutes must be a number above 0, but is -1.0"),
        (["ballet", "lstm", "--minutes", "nan"], "minutes must be a number above 0, but is nan"),
        (["--minutes", "inf"], "minutes must be a number above 0, but is inf"),
    ],
)
def test_the_queue_refuses_in_one_sentence(words, sentence, calls, capsys):
    err = refusal(["reproduce", *words], capsys)
    assert err.startswith("hcam reproduce: ")
    assert sentence in err
    assert calls == []


# From end to end, on a task that takes a second

TASK = "first_symbol"


def tiny(memory):
    words = [TASK, "--memory", memory, "--levels", "blanks2", "--width", "8", "--layers", "1", "--hidden", "8"]
    words += ["--environments", "4", "--unroll", "8", "--steps", "320", "--eval-episodes", "4", "--log-every", "1e-9"]
    return parse(words).config


SMALL = Recipe(TASK, 1, {"fast": tiny}, (Experiment("soon", "Soon", "lstm", evaluate=("blanks4",)),))


def test_the_queue_is_worked_off(tmp_path, capsys, monkeypatch):
    """A run is stopped by its minutes with a whole checkpoint, continued, evaluated and stored; nothing is left."""
    monkeypatch.setattr(recipes, "every", lambda: {TASK: SMALL})
    monkeypatch.setattr(recipes, "find", lambda task: None)
    results = tmp_path / "results" / TASK
    assert main(["reproduce", "next", "--minutes", "1e-9"]) == 128 + signal.SIGALRM
    out, err = capsys.readouterr()
    assert f"next: {TASK} soon, seed 0, not run; nobody knows" in out
    assert "stopped and saved at 32 steps" in err
    assert not (results / "soon-0" / "eval.json").exists()
    assert main(["reproduce"]) == 0
    assert f"   1  {TASK}  soon           0      1.3  unfinished at 32 of 320 steps, can be" in capsys.readouterr().out

    assert main(["reproduce", "next", "--minutes", "25"]) == 0
    assert "continuing from 32 steps" in capsys.readouterr().err
    assert sorted(read(results / "soon-0").evaluation["greedy"]) == ["blanks2", "blanks4"]
    assert (results / "soon-0" / OTHER_LEVELS).exists()
    assert [row["steps"] for row in read_metrics(results / "soon-0")] == list(range(32, 321, 32))

    assert main(["reproduce", "next"]) == 1
    assert capsys.readouterr().out == "nothing is left to run: 1 of 1 runs are done.\n"
