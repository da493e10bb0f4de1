"""Folders with names that mean something to a terminal, to rich, to matplotlib or to Markdown, as they are typed."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from hcam.cli import main
from hcam.runs import evaluate
from hcam.runs.text import printable
from tests.report.folders import make
from tests.runs.test_pretrained import run

__all__ = ["run"]  # a fixture

NAMES = [
    "[",
    "run[bold]",
    "[/]",
    "x$\\foo$",
    "a_b^c\\",
    "\x1b[31mred\x07",
    "a\nb\rc",
    "日本 😀",
    "-x",
    "`a|b`",
    "é" * 100,
]
NAMES += [os.fsdecode(b"not utf-8 \xff")]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "400")


def typed(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = main(words)
    said = capsys.readouterr()
    assert not [c for c in said.out + said.err if not c.isprintable() and c != "\n"]
    return code, said.out, said.err


@pytest.mark.parametrize("name", NAMES)
def test_report_shows_any_name(name: str, capsys: pytest.CaptureFixture[str]):
    make(Path(name) / "x]", "hcam[red]", levels=("[/x]", name), evaluated=True)
    make(Path(name) / name, name, levels=("[/x]", name), evaluated=True)
    folders = [f"./{name}/x]", f"./{name}/{name}"]
    code, out, err = typed(["report", *folders, "--out", f"./{name}"], capsys)
    assert (code, err) == (0, "")
    for shown in ("x]", "hcam[red]", "[/x]", printable(name)):
        assert shown in out
    assert (Path(name) / "curves.png").exists()
    code, out, err = typed(["report", f"./{name}/nowhere"], capsys)
    assert code == 2
    assert err.count("\n") == 1
    assert printable(f"{name}/nowhere") in err


@pytest.mark.parametrize("width", [1, 2, 3, 5, 8, 20])
def test_report_fits_any_terminal(width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", f"{width}")
    make(Path("a run"), evaluated=True)
    make(Path("日本"), "lstm")
    assert typed(["report", "a run"], capsys)[0] == 0
    assert typed(["report", "a run", "日本"], capsys)[0] == 0


@pytest.mark.parametrize("name", NAMES)
def test_eval_and_export_show_any_name(
    name: str, run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    def play(agent: Any, env: Any, params_s: Any, levels: Any, episodes: int, **options: Any) -> Any:
        options["on_progress"](episodes, episodes)
        score = {"episodes": episodes, "success": 0.5, "low": 0.4, "high": 0.6, "return": 0.5, "length": 9.0}
        return {way: dict.fromkeys(levels, score) for way in ("greedy", "sampled")}

    monkeypatch.setattr(evaluate, "evaluate_all", play)
    shutil.copytree(run, name)
    code, out, err = typed(["eval", f"./{name}", "--episodes", "4", "--out", f"./{name}/eval-4.json"], capsys)
    assert code == 0
    assert printable(f"{name}, 224 steps") in out.replace("\n", "")  # a long one takes two lines
    assert printable(f"{name}, 224 steps") in err
    code, out, err = typed(["export", f"./{name}", f"./{name}-out"], capsys)
    assert code == 0
    assert printable(f"{name}-out/agent.safetensors") in out
    (Path(name) / "checkpoints" / "000000000007.safetensors").write_bytes(b"")
    code, out, err = typed(["eval", f"./{name}"], capsys)
    assert code == 2
    assert err.count("\n") == 1
    assert printable(name) in err


def test_the_name_of_a_folder_may_be_too_long(capsys: pytest.CaptureFixture[str]):
    for words in (
        ["report", "x" * 300],
        ["eval", "x" * 300],
        ["export", "x" * 300, "y"],
        ["train", "--run", "x" * 300],
    ):
        code, _, err = typed(words, capsys)
        assert code == 2
        assert err.count("\n") == 1
        assert "Errno" not in err
