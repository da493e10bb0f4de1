"""`hcam attention` as it is typed: one small analysis of a pretrained agent, and bad input."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from hcam.cli import main
from hcam.runs import attention, pretrained
from hcam.runs.attention import read
from tests.report.test_attention import level


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def measured(monkeypatch):
    """Nothing is played: each level has the same numbers."""
    asked: list[dict[str, Any]] = []

    def measure(*played, **options):
        asked.append(options)
        options["on_progress"](options["episodes"], options["episodes"])
        return {name: part for name, part in level(earlier=2.0).items() if name != "title"}

    monkeypatch.setattr(attention, "measure", measure)
    return asked


def test_an_agent_is_analysed(tmp_path, capsys):
    assert main(["attention", "pretrained:quickstart", "--episodes", "16", "--out", "new/folder"]) == 0
    out, err = capsys.readouterr()
    found = read(tmp_path / "new" / "folder")
    assert (found["run"], found["seed"]) == ("pretrained:quickstart", 0)
    one = found["levels"]["2_delay5_of4"]
    assert (one["title"], one["episodes"], one["compared_with"]) == (
        "2 dances, delay 5, 4 kinds",
        16,
        "others of its kind",
    )
    assert 3 <= one["question_steps"] < 8
    assert one["moment_steps"] == 16
    first = one["solved_episodes"]["layers"][0]
    # Of two dances, knowing the other one is enough: this agent recalls the dance that was not asked for.
    assert first["ratio"]["high"] < 0.5
    assert f"{first['ratio']['mean']:.2f} ({first['ratio']['low']:.2f}-" in out
    assert "…" not in out
    for name in ("attention.png", "attention.svg"):
        assert (tmp_path / "new" / "folder" / name).stat().st_size > 10_000
        assert f"new/folder/{name}" in err


def test_levels_and_a_run_folder(tmp_path, measured, capsys):
    agent: Any = pretrained.find("quickstart")
    shutil.copytree(agent, tmp_path / "mine")
    words = ["attention", "mine", "--level", "2_delay5_of4", "3_delay5_of4", "--episodes", "7", "--seed", "3"]
    assert main(words) == 0
    assert [(options["episodes"], options["seed"]) for options in measured] == [(7, 3)] * 2
    assert list(read(tmp_path / "mine")["levels"]) == ["2_delay5_of4", "3_delay5_of4"]
    out = capsys.readouterr().out
    assert "The same moment, solved episodes" in out
    assert "3_delay5_of4: 32 episodes, 20 solved" in out
    assert (tmp_path / "mine" / "attention.svg").exists()


def test_a_pretrained_agents_numbers_go_here(tmp_path, measured):
    assert main(["attention", "pretrained:quickstart"]) == 0
    assert json.loads((tmp_path / "attention.json").read_text())["run"] == "pretrained:quickstart"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nowhere"], "there is no run folder nowhere"),
        (["kept"], "kept has no checkpoint"),
        (["pretrained:waltz"], "there is no pretrained agent 'waltz'"),
        (["pretrained:quickstart", "--level", "9_delay1"], "a level is {N}_delay{d}"),
        (["pretrained:quickstart", "--seed", "-1"], "seed must be from 0 to"),
        (["pretrained:quickstart", "--episodes", "0"], "episodes must be a whole number of at least 1"),
        (["pretrained:quickstart", "--out", "file"], "cannot be written"),
    ],
)
def test_bad_input_is_one_sentence(words, sentence, tmp_path, capsys):
    (tmp_path / "file").touch()
    (tmp_path / "kept").mkdir()
    agent: Any = pretrained.find("quickstart")
    for name in ("config.json", "metrics.jsonl"):
        shutil.copy(Path(agent) / name, tmp_path / "kept")
    assert main(["attention", *words]) == 2
    err = capsys.readouterr().err
    assert err.splitlines()[-1].startswith("hcam attention: ")
    assert sentence in err.splitlines()[-1]
    assert not (tmp_path / "attention.json").exists()
