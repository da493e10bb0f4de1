"""`hcam export`, and `hcam eval` of what it wrote."""

import json
import re
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from hcam import load
from hcam.cli import main
from hcam.cli.export import size
from hcam.runs import evaluate
from tests.runs.test_pretrained import run

__all__ = ["run"]  # a fixture


def test_it_says_what_it_wrote_and_the_next_step_works(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    out = tmp_path / "out"
    assert main(["export", str(run), str(out), "--seed", "1"]) == 0
    said = capsys.readouterr().out
    assert re.search(rf"^{out}/agent\.safetensors  [\d.]+ kB$", said, flags=re.MULTILINE)
    words = re.findall(r"in all [\d.]+ kB; evaluate it with:  hcam (.*)", said)[0].split()
    assert words == ["eval", str(out)]

    def play(agent: Any, env: Any, params_s: Any, levels: Any, episodes: int, **options: Any) -> Any:
        """Playing takes seconds, and is another file's to test."""
        for found, wanted in zip(jax.tree.leaves(params_s), jax.tree.leaves(load(out).params_s), strict=True):
            np.testing.assert_array_equal(found, wanted)
        score = {"episodes": episodes, "success": 0.5, "low": 0.4, "high": 0.6, "return": 0.5, "length": 9.0}
        return {way: dict.fromkeys(levels, score) for way in ("greedy", "sampled")}

    monkeypatch.setattr(evaluate, "evaluate_all", play)
    assert main([*words, "--episodes", "4"]) == 0
    assert "4 episodes a level" in " ".join(capsys.readouterr().out.split())


def test_the_best_is_another(run: Path, tmp_path: Path):
    assert main(["export", str(run), str(tmp_path / "out"), "--best"]) == 0
    assert json.loads((tmp_path / "out" / "agent.json").read_text())["metadata"]["steps"] == 32


def test_an_agent_of_the_package_is_copied_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    for source, out in (("pretrained:quickstart", tmp_path / "one"), (str(tmp_path / "one"), tmp_path / "two")):
        assert main(["export", source, str(out)]) == 0
        assert f"{out}/config.json" in capsys.readouterr().out
        assert load(out).config == load("pretrained:quickstart").config


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["export", "RUN", "RUN"], "exists already: export to a new folder."),
        (["export", "RUN", "new", "--seed", "2"], "there is no seed 2: of seeds trained at once it has 2"),
        (["export", "nowhere", "new"], "there is no run folder nowhere."),
        (["eval", "pretrained:waltz"], "there is no pretrained agent 'waltz': there is pretrained:"),
        (["eval", "pretrained:quickstart", "--best"], "has no other checkpoint: leave out best."),
        (["eval", "pretrained:quickstart", "--level", "9_delay1"], "a level is {N}_delay{d}"),
    ],
)
def test_refusals_are_one_sentence(run: Path, words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]):
    words = [word.replace("RUN", str(run)) for word in words]
    assert main(words) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert err.startswith(f"hcam {words[0]}: ")
    assert sentence in err
    assert not Path("new").exists()


@pytest.mark.slow
def test_the_quickstarts_agent_remembers(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    numbers = tmp_path / "numbers.json"
    assert main(["eval", "pretrained:quickstart", "--episodes", "32", "--out", str(numbers)]) == 0
    assert "pretrained:quickstart" in capsys.readouterr().out
    found = json.loads(numbers.read_text())
    assert found["run"] == "pretrained:quickstart"
    for way in ("greedy", "sampled"):
        assert found[way]["2_delay5_of4"]["success"] > 0.8  # chance is 0.5


@pytest.mark.parametrize(
    ("count", "shown"), [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (2_540_000, "2.5 MB")]
)
def test_sizes_are_short(count: int, shown: str):
    assert size(count) == shown
