"""`hcam reproduce` as it is typed; nothing is trained."""

from dataclasses import replace
from pathlib import Path

import pytest

from hcam import api, recipes
from hcam.cli import evaluate, main, train
from hcam.recipes.ballet import EXPERIMENTS, RECIPE
from tests.cli.test_report import elsewhere, refusal
from tests.report.folders import judge, made

__all__ = ["elsewhere"]  # a fixture


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
    (folder / "checkpoints" / "000000000009.safetensors").touch()


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
