"""From outside the package: a task and a memory in one file each are as good as ours, by the command line alone."""

import json
import re
import shutil
from pathlib import Path

import pytest
from PIL import Image

import hcam
from hcam.cli import main
from tests.test_training import compiled_once

__all__ = ["compiled_once"]  # a fixture

HERE = Path(__file__).with_name("outside")
SMALL = ["--width", "16", "--layers", "1", "--heads", "2", "--hidden", "16", "--mlp", "1", "--environments", "16"]
SMALL += ["--eval-episodes", "16", "--channels", "4", "--kernel-sizes", "3", "--strides", "3", "--blocks", "1"]
LEVELS = {"near": "2 dark steps", "middle": "5 dark steps", "far": "9 dark steps"}


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of somebody's own, with their two files and nothing else."""
    folder = tmp_path_factory.mktemp("elsewhere")
    for file in HERE.glob("*.py"):
        shutil.copy(file, folder / f"my_{file.name}")
    return folder


@pytest.fixture(autouse=True)
def there(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(elsewhere)


@pytest.fixture(scope="module")
def run(elsewhere: Path) -> Path:
    """A run on all three levels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(elsewhere)
        words = ["my_lights:Lights", *SMALL, "--env-arg", "size=9", "--steps", "8192", "--curriculum", "--run", "mine"]
        assert main(["train", *words]) == 0
    return elsewhere / "mine"


def test_it_trains_every_level_under_its_own_name(run: Path):
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert set(rows[-1]["levels"]) == set(LEVELS)
    length = {level: rows[-1]["levels"][level]["length"] for level in LEVELS}
    assert length == {"near": 4, "middle": 7, "far": 11}  # counted under the right one
    config = json.loads((run / "config.json").read_text())["config"]
    assert config["task"] == {"task": "my_lights:Lights", "levels": [], "weights": [], "options": {"size": 9}}
    assert config["chance"] == dict.fromkeys(LEVELS, 0.5)
    assert config["titles"] == LEVELS
    evaluation = json.loads((run / "eval.json").read_text())
    assert {level: part["length"] for level, part in evaluation["greedy"].items()} == length


def test_it_is_evaluated_with_the_environment_it_was_trained_in(run: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["eval", "mine", "--level", "far", "--episodes", "4"]) == 0
    assert re.search(r"far .* 11\.0", capsys.readouterr().out)
    assert main(["eval", "mine", "--level", "farther", "--episodes", "4"]) == 2
    assert "there is no level 'farther'" in capsys.readouterr().err
    assert hcam.load("mine").env.observation_space["image"].shape == (9, 9, 3)  # type: ignore[index]


def test_it_goes_on(run: Path, capsys: pytest.CaptureFixture[str]):
    shutil.copytree(run, "longer")
    assert main(["train", "--resume", "longer", "--steps", "9216"]) == 0
    assert "continuing from 8,192 steps" in capsys.readouterr().err
    assert main(["train", "--resume", "longer", "--env-arg", "size=6"]) == 2
    assert "task.options would change" in capsys.readouterr().err


def test_it_is_reported_exported_and_shown(run: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["report", "mine", "--out", "pictures"]) == 0
    out = capsys.readouterr().out
    assert all(level in out for level in LEVELS)
    assert Path("pictures/curves.png").exists()
    assert main(["export", "mine", "small"]) == 0
    assert main(["eval", "small", "--level", "near", "--episodes", "4"]) == 0
    assert main(["show", "my_lights:Lights", "--level", "far", "--env-arg", "size=9", "--out", "far.gif"]) == 0
    with Image.open("far.gif") as picture:
        assert picture.n_frames == 12  # type: ignore[attr-defined]


def test_a_preset_of_another_task_is_not_taken(capsys: pytest.CaptureFixture[str]):
    assert main(["train", "my_lights:Lights", "--preset", "paper", "--run", "never"]) == 2
    assert "there is no recipe for my_lights:Lights, so it has no preset 'paper'" in capsys.readouterr().err
    assert main(["reproduce", "my_lights:Lights"]) == 2
    assert "there are no experiments for 'my_lights:Lights'" in capsys.readouterr().err


def test_a_memory_in_one_file_trains_on_a_probe(capsys: pytest.CaptureFixture[str]):
    """Its options are the command line's; and it learns, as no agent without memory could."""
    words = ["first_symbol", "--levels", "blanks2", "--memory", "my_decay:Decay", "--width", "32", "--longest", "9"]
    words += ["--steps", "131072", "--eval-episodes", "64", "--learning-rate", "0.005", "--discount", "0.9"]
    assert main(["train", *words, "--run", "decay"]) == 0
    config = json.loads(Path("decay/config.json").read_text())["config"]
    assert config["agent"]["memory"] == {"memory": "my_decay:Decay", "width": 32, "longest": 9.0}
    greedy = json.loads(Path("decay/eval.json").read_text())["greedy"]["blanks2"]
    assert greedy["success"] > 0.9
    capsys.readouterr()
    assert main(["eval", "decay", "--episodes", "4"]) == 0


def test_in_python(elsewhere: Path):
    """An environment that is given, not named."""
    from my_lights import Lights  # type: ignore[import-not-found]

    from hcam import recipes
    from hcam.config import TaskConfig, override

    env = Lights(size=3)
    config = recipes.preset("general", TaskConfig(task="my_lights:Lights"), env)
    config = override(config, {"run.steps": 2048, "run.eval_episodes": 4, "agent.memory.width": 16})
    trained = hcam.train(config, env, run="given")
    assert trained.config.task.task == "my_lights:Lights"
    assert trained.config.task.options == {"size": 3}
    assert trained.folder == Path("given")
    again = hcam.load("given")  # by its name alone
    assert again.env == env
