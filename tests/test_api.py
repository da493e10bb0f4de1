"""`hcam.train` and `hcam.load` from Python: settings that are left out, environments that are given."""

import math
import re
import signal
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import hcam
from hcam import api, recipes
from hcam.adapters import HostEnvironmentError
from hcam.adapters.from_gymnasium import from_gymnasium
from hcam.cli import main
from hcam.config import Config, TaskConfig, override, to_json
from hcam.envs import make
from hcam.envs.probes import FirstSymbol
from hcam.memory import LSTM
from hcam.runs.folder import RunFolder, read_config, read_metrics
from hcam.training import TIME_IS_UP
from tests.test_training import compiled_once

__all__ = ["compiled_once"]  # a fixture


def small(task: TaskConfig, env: Any, **changes: Any) -> Config:
    config = recipes.preset("general", task, env, "lstm")
    sizes = {"agent.memory": LSTM(width=8, layers=1), "agent.heads.hidden": 8, "learner.environments": 4}
    return override(config, sizes | {"run.steps": 256, "run.eval_episodes": 4} | changes)


# Minutes


def test_minutes_end_at_a_time():
    assert api.after(None) == math.inf
    before = time.monotonic()
    assert before + 90 <= api.after(1.5) <= time.monotonic() + 90


@pytest.mark.parametrize("minutes", [0, -1, math.nan, math.inf])
def test_minutes_that_are_none_are_refused_before_anything_else(minutes):
    with pytest.raises(
        ValueError, match=r"^minutes must be a number above 0, but is [^\n]+: leave it out for no limit\.$"
    ):
        hcam.train(env=make("echo"), minutes=minutes)


def test_a_stopped_run_has_the_exit_status_of_its_signal():
    assert [api.StoppedError(number, Path("x")).exit_status for number in (signal.SIGINT, TIME_IS_UP)] == [130, 142]
    assert TIME_IS_UP == signal.SIGALRM


# Settings


def test_what_is_no_environment_and_no_folder_is_one_sentence():
    with pytest.raises(TypeError, match=r"^env must be an environment of hcam, but is 3: [^\n]+\.$"):
        hcam.train(env=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^an agent is loaded from a folder or pretrained:NAME, but this is None\.$"):
        hcam.load(None)  # type: ignore[arg-type]


def test_something_must_be_given():
    with pytest.raises(ValueError, match="give config, env or resume"):
        hcam.train()


def test_a_memory_that_has_nothing_to_remember_is_told_and_no_other():
    """It would train, and an LSTM of paired inference stay at chance, without a word."""
    for task, memory, told in (("pai", "lstm", True), ("pai", "hcam", False), ("first_symbol", "lstm", False)):
        env = make(task)
        config = recipes.preset(recipes.preset_name(task), TaskConfig(task=task), env, memory)
        lines = [line for line in api.nothing_to_remember(config, env) if "lstm has nothing to remember" in line]
        assert len(lines) == told
        assert all("--memory hcam_reader, ut, memo would read" in line for line in lines)


def test_an_environment_alone_gets_general_settings():
    env = make("kth_item", symbols=5)
    config = api.settings(None, env, None)
    assert config.task == TaskConfig(task="kth_item", options={"symbols": 5})
    assert config.agent.memory.slots * config.agent.memory.chunk >= 5
    assert config.agent.dtype != "auto"


def test_the_given_environment_is_the_task_whatever_the_settings_say():
    config = small(TaskConfig(task="echo"), make("echo"))
    found = api.settings(config, make("first_symbol"), None)
    assert found.task.task == "first_symbol"
    assert found.agent.memory == config.agent.memory


def test_what_may_change_when_a_run_continues(tmp_path: Path):
    config = small(TaskConfig(task="echo"), make("echo"))
    config = replace(config, agent=config.agent.here())
    RunFolder.create(tmp_path / "run", to_json(config)).close()
    longer = override(config, {"run.steps": 999, "run.log_every": 1.0})
    assert api.settings(longer, None, tmp_path / "run") == longer
    assert api.settings(None, None, tmp_path / "run") == config
    for path, value in (("run.seed", 3), ("learner.unroll", 8), ("agent.memory", LSTM(width=16, layers=1))):
        with pytest.raises(ValueError, match=f"a run continues as it was started, but {path}.* would change"):
            api.settings(override(config, {path: value}), None, tmp_path / "run")


@pytest.mark.parametrize("task", ["first_symbol", "echo"])
def test_facts_of_the_levels_go_into_the_run_folder(task: str):
    env = make(task)
    found = api.facts(TaskConfig(task=task), env)
    level = {"first_symbol": "blanks8", "echo": "echo"}[task]
    assert found == {"chance": {level: 0.25}, "titles": {}, "scored_by": "success"}


def test_a_task_that_is_scored_by_its_return_has_an_oracle_and_its_guessing_is_measured():
    found = api.facts(TaskConfig(task="planning", levels=("torus2_steps20",)), make("planning"))
    assert found["scored_by"] == "return"
    assert found["oracle"]["torus2_steps20"] > 4 * found["chance"]["torus2_steps20"] > 0


# Environments without a name


class Nameless(FirstSymbol):
    """No dataclass of its own, so nobody can tell its options."""


def local() -> Any:
    @dataclass(frozen=True)
    class Hidden(FirstSymbol):
        pass

    return Hidden()


def test_an_environment_that_cannot_be_named_trains_and_is_asked_for_again(tmp_path: Path):
    env = local()
    config = small(TaskConfig(task="first_symbol", levels=("blanks1",)), env)
    trained = hcam.train(config, env, run=tmp_path / "run")
    assert trained.env is env
    assert read_config(tmp_path / "run")["task"]["task"] == "python:Hidden"
    with pytest.raises(ValueError, match=r"Hidden was given in Python .* as in hcam\.load\(RUN, env=\.\.\.\)"):
        hcam.load(tmp_path / "run")
    assert hcam.load(tmp_path / "run", env=env).metadata["steps"] == 256
    longer = override(trained.config, {"run.steps": 512})
    assert hcam.train(longer, env, resume=tmp_path / "run").metadata["steps"] == 512


# Environments on the host


class Coin(gymnasium.Env):
    """Shows a side, and asks for it three steps later; may break."""

    observation_space, action_space = gymnasium.spaces.Box(0, 1, (2,), np.float32), gymnasium.spaces.Discrete(2)

    def __init__(self, breaks_at: int = 10**9) -> None:
        self.breaks_at, self.steps = breaks_at, 0

    def seen(self) -> Any:
        shown = [float(self.time == 0 and self.side == side) for side in (0, 1)]
        return np.array(shown, np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.time, self.side = 0, int(self.np_random.integers(2))
        return self.seen(), {}

    def step(self, action: Any) -> Any:
        self.time, self.steps = self.time + 1, self.steps + 1
        if self.steps >= self.breaks_at:
            raise ArithmeticError("the coin is lost")
        done = self.time == 3
        return self.seen(), float(done and action == self.side), done, False, {}


def test_a_gymnasium_environment_trains_and_continues_with_new_episodes(tmp_path: Path, capsys: Any):
    env = from_gymnasium(Coin)
    config = small(TaskConfig(task="echo"), make("echo"))
    hcam.train(config, env, run=tmp_path / "run")
    (row, *_) = read_metrics(tmp_path / "run")
    assert row["levels"]["HostEnvironment"]["length"] == 3
    longer = override(config, {"run.steps": 512})
    hcam.train(longer, from_gymnasium(Coin), resume=tmp_path / "run")
    err = capsys.readouterr().err
    assert "continuing from 256 steps" in err
    assert "environments on the host cannot be saved: their episodes start anew" in err
    assert [row["steps"] for row in read_metrics(tmp_path / "run")][-1] == 512


def test_an_environment_that_raises_is_one_sentence(tmp_path: Path):
    env = from_gymnasium(lambda: Coin(breaks_at=40))
    config = small(TaskConfig(task="echo"), make("echo"))
    with pytest.raises(HostEnvironmentError) as caught:
        hcam.train(config, env, run=tmp_path / "run")
    assert str(caught.value).startswith("the environment raised ArithmeticError: the coin is lost (test_api.py, line ")
    assert isinstance(caught.value.__cause__, ArithmeticError)
    assert [frame.name for frame in caught.value.frames] == ["step"]  # its own, and nobody else's


BROKEN = """
from tests.test_api import Coin


def make():
    return Coin(breaks_at=40)


class Larger(Coin):
    def seen(self):
        return [0.0, 0.0, 0.0]
"""


@pytest.mark.parametrize(
    ("task", "frames", "sentence"),
    [
        ("make", 1, r"ArithmeticError: the coin is lost \(test_api\.py, line \d+\)\."),
        ("Larger", 0, r"ValueError: an observation has shape \(3,\), but observation_space says \(2,\)\."),
    ],
)
def test_the_command_shows_frames_of_the_environment_alone(
    task: str, frames: int, sentence: str, tmp_path: Path, capfd: Any, caplog: Any, monkeypatch: pytest.MonkeyPatch
):
    """JAX logs its own by itself."""
    (tmp_path / "broken_coin.py").write_text(BROKEN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    words = [f"broken_coin:{task}", "--memory", "lstm", "--width", "8", "--layers", "1", "--environments", "4"]
    assert main(["train", *words, "--steps", "256"]) == 3
    err = capfd.readouterr().err
    assert re.search(rf"\nhcam train: the environment raised {sentence}\n$", err)
    assert err.count("  File ") == frames
    assert "Traceback" not in err
    assert not caplog.records


# Environments in worker processes


def test_an_environment_in_worker_processes_trains_and_continues(tmp_path: Path, capsys: Any):
    """As one in JAX, with its words in the settings; what cannot be saved is said."""
    task = TaskConfig(task="gymnasium:tests.host.toys:told")
    config = small(task, task.make())
    trained: Any = hcam.train(config, run=tmp_path / "run", workers=1)
    assert trained.config.task.options == {"vocabulary": ["left", "right"], "longest": 2}
    assert trained.env.workers.pool is None, "workers end with the run"
    *_, row = read_metrics(tmp_path / "run")
    assert row["levels"]["told"]["length"] == 3
    assert (tmp_path / "run" / "eval.json").is_file()
    assert row["steps"] == 256
    assert main(["train", "--resume", str(tmp_path / "run"), "--steps", "512", "--workers", "2"]) == 0
    err = capsys.readouterr().err
    assert "environments on the host cannot be saved: their episodes start anew" in err
    assert [row["steps"] for row in read_metrics(tmp_path / "run")][-1] == 512
    assert main(["watch", str(tmp_path / "run"), "--out", str(tmp_path / "watch.html")]) == 0


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        (["gymnasium:tests.host.toys:told", "--workers", "0"], 2, "workers must be 1 or more, but is 0"),
        (["gymnasium:tests.host.toys:dying"], 2, "cannot be made: its process has ended with status 7"),
        (["gymnasium:tests.host.toys:growing"], 2, "has shape (2,), but observation_space says (1,)"),
        (
            ["gymnasium:tests.host.toys:breaking", "--env-arg", "how=raise", "after=9"],
            3,
            "the floor is lava",
        ),
    ],
)
def test_what_cannot_train_is_one_sentence_before_there_is_a_folder(
    words: list[str], status: int, sentence: str, tmp_path: Path, capsys: Any
):
    assert main(["train", *words, "--run", str(tmp_path / "run")]) == status
    err = capsys.readouterr().err
    assert sentence in err
    assert "Traceback" not in err
    assert err.count("  File ") == (2 if status == 3 else 0)
    assert not (tmp_path / "run").exists()
