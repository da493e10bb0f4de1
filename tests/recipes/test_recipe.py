"""What a recipe consists of: experiments as changes to a preset, as commands, and as numbers of the paper."""

import re
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from hcam.agent import AgentConfig, memories
from hcam.config import Config, TaskConfig
from hcam.memory import HCAM, LSTM, TrXL
from hcam.recipes.recipe import OTHER_LEVELS, Experiment, Recipe, Reported, flags, memory_of

FOLDER = Path("results/first_symbol/x-0")


def small(memory: str) -> Config:
    return Config(task=TaskConfig(task="first_symbol"), agent=AgentConfig(memory=memory_of(memory, {"width": 64}, {})))


RECIPE = Recipe(
    task="first_symbol",
    order=1,
    presets={"fast": small},
    experiments=(
        Experiment("plain", "Plain"),
        Experiment("k1", "Top-k 1", overrides={"agent.memory.top_k": 1, "objective.reconstruction": 0.0}),
        Experiment(
            "trxl-long",
            "TrXL on long delays",
            "trxl",
            overrides={"agent.memory.gated": False, "task.levels": ("blanks32", "blanks64")},
            evaluate=("blanks128", "blanks256"),
            slots="auto",
        ),
    ),
)


def test_an_experiment_is_its_preset_with_changes():
    assert RECIPE.config(RECIPE.find("plain")) == small("hcam")
    changed = RECIPE.config(RECIPE.find("k1"), seed=3)
    assert changed.agent.memory == HCAM(width=64, top_k=1)
    assert (changed.objective.reconstruction, changed.run.seed) == (0.0, 3)
    assert RECIPE.config(RECIPE.find("trxl-long")).agent.memory == TrXL(width=64, gated=False)


def test_levels_are_those_of_training_and_then_the_others():
    assert RECIPE.levels(RECIPE.find("plain")) == ("blanks8",)
    assert RECIPE.levels(RECIPE.find("trxl-long")) == ("blanks32", "blanks64", "blanks128", "blanks256")


def test_folders_have_the_names_of_experiments():
    assert RECIPE.find("k1").folder(Path("results"), 2) == Path("results/k1-2")


def test_commands_are_whole():
    assert RECIPE.commands(RECIPE.find("k1"), FOLDER, 3, {"run.steps": 9}) == [
        "hcam train first_symbol --preset fast --top-k 1 --reconstruction 0.0 --steps 9 --seed 3 "
        "--run results/first_symbol/x-0"
    ]
    first, second = RECIPE.commands(RECIPE.find("trxl-long"), FOLDER, 0, {})
    assert first == (
        "hcam train first_symbol --preset fast --memory trxl --no-gated --levels blanks32 blanks64 --seed 0 "
        "--run results/first_symbol/x-0"
    )
    assert second == (
        "hcam eval results/first_symbol/x-0 --level blanks128 blanks256 --slots auto "
        f"--out results/first_symbol/x-0/{OTHER_LEVELS}"
    )


def test_commands_can_be_typed_whatever_is_in_them():
    """A shell takes each value as one word."""
    folder, more = Path("my results/x-0"), {"task.options": {"name": "two words", "sizes": [1, 2]}}
    for command in RECIPE.commands(RECIPE.find("trxl-long"), folder, 0, more):
        assert folder.as_posix() in shlex.split(command)
    first, _ = RECIPE.commands(RECIPE.find("trxl-long"), folder, 0, more)
    assert shlex.split(first)[-7:-4] == ["--env-arg", "name=two words", "sizes=[1, 2]"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, []),
        ({"agent.memory.top_k": 1}, ["--top-k", "1"]),
        ({"objective.lambda_": 0.5}, ["--lambda", "0.5"]),
        ({"agent.memory.gated": True}, ["--gated"]),
        ({"learner.curriculum": False}, ["--no-curriculum"]),
        ({"task.levels": ("a", "b")}, ["--levels", "a", "b"]),
        ({"task.weights": [1.0, 2.0]}, ["--weights", "1.0", "2.0"]),
        ({"agent.memory.window": None}, ["--window", "None"]),
        ({"task.options": {"tile": 1, "name": "x"}}, ["--env-arg", "tile=1", "name=x"]),
        ({"task.options": {"far": True, "size": None}}, ["--env-arg", "far=true", "size=null"]),
        ({"task.options": {"digit": "7", "sizes": [1, 2]}}, ["--env-arg", 'digit="7"', "sizes=[1, 2]"]),
        ({"run.steps": 9, "run.seed": 0}, ["--steps", "9", "--seed", "0"]),
    ],
)
def test_settings_as_options_of_the_command_line(settings, words):
    assert flags(settings) == words


def test_numbers_as_the_paper_prints_them():
    assert str(Reported(99.8, 0.3)) == "99.8 ± 0.3"
    assert str(Reported(49.2, 13.0)) == "49.2 ± 13.0"
    assert str(Reported(90.0)) == "at least 90"


@dataclass(frozen=True)
class Own:
    """A memory that knows few sizes."""

    width: int = 8
    depth: int = 1

    def build(self, dtype: str) -> Any:
        raise NotImplementedError


def test_a_memory_gets_the_sizes_that_it_has():
    common, own = {"width": 64, "layers": 2, "heads": 4}, {"hcam": {"chunk": 16}, "lstm": {}}
    assert memory_of("hcam", common, own) == HCAM(width=64, layers=2, heads=4, chunk=16)
    assert memory_of("lstm", common, own) == LSTM(width=64, layers=2)
    assert memory_of("tests.recipes.test_recipe:Own", common, own) == Own(width=64)


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda: RECIPE.preset("slow"), "first_symbol has no preset 'slow': choose from fast, general."),
        (lambda: RECIPE.find("k2"), "first_symbol has no experiment 'k2': there are plain, k1, trxl-long."),
        (
            lambda: RECIPE.preset("fast", "waltz"),
            f"there is no memory 'waltz': choose from {', '.join(memories.names())}, or name a configuration of your "
            "own, as package.module:Class.",
        ),
        (
            lambda: RECIPE.config(replace(RECIPE.experiments[0], overrides={"loss.policy": 1})),
            "there is no setting loss.policy: Config has no loss.",
        ),
    ],
)
def test_what_there_is_not_is_refused(ask, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        ask()
