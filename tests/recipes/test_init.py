"""Recipes by task: ours, those of installed packages, and what a task without one starts from."""

import re
from dataclasses import replace

import pytest

from hcam import recipes
from hcam.config import TaskConfig
from hcam.envs import registry
from hcam.recipes.ballet import RECIPE
from tests.packages import install


def test_every_recipe_is_that_of_its_file():
    assert "ballet" in recipes.published()
    for task in recipes.published():
        recipe = recipes.find(task)
        assert recipe is not None
        assert recipe.task == task
        assert task in registry.published()


def test_recipes_come_in_the_papers_order_and_the_first_is_the_default():
    orders = [recipe.order for recipe in recipes.every().values()]
    assert orders == sorted(orders)
    assert recipes.default_task() == "ballet"


def test_a_task_without_a_recipe():
    assert recipes.find("echo") is None
    assert recipes.preset_name("echo") == recipes.GENERAL
    assert recipes.preset_name("ballet") == recipes.QUICKSTART


CODE = """
from hcam.config import Config, TaskConfig
from hcam.recipes import Recipe
RECIPE = Recipe(task="song", order=0, presets={"fast": lambda memory: Config(task=TaskConfig(task="song"))})
"""


def test_a_recipe_of_an_installed_package(tmp_path, monkeypatch):
    points = {recipes.GROUP: {"song": "stranger:RECIPE", "ballet": "stranger:RECIPE"}}
    install(monkeypatch, tmp_path, "stranger", CODE, points)
    found = recipes.find("song")
    assert found is not None
    assert found.task == "song"
    assert recipes.find("ballet") is RECIPE  # a name of ours stays ours
    assert list(recipes.every())[:2] == ["song", "ballet"]
    assert recipes.preset_name("song") == recipes.GENERAL  # it has no quickstart


def test_presets_of_a_task():
    task = TaskConfig(task="ballet")
    for name in RECIPE.presets:
        assert recipes.preset(name, task, task.make(), "trxl") == RECIPE.preset(name, "trxl")
    assert recipes.preset(recipes.GENERAL, task, task.make()).task == task


def test_what_is_asked_of_the_task_is_kept():
    """Levels, weights and options that are given replace those of the preset, and all others stay."""
    base = RECIPE.preset("quickstart")
    assert (base.task.levels, base.task.options) == (("2_delay5_of4",), {"tile": 1})
    for given, expected in (
        (TaskConfig(task="ballet", options={"tile": 3}), replace(base.task, options={"tile": 3})),
        (TaskConfig(task="ballet", levels=("8_delay16",)), replace(base.task, levels=("8_delay16",))),
        (
            TaskConfig(task="ballet", levels=("8_delay16", "2_delay16"), weights=(1, 2)),
            replace(base.task, levels=("8_delay16", "2_delay16"), weights=(1, 2)),
        ),
    ):
        found = recipes.preset("quickstart", given, given.make())
        assert found == replace(base, task=expected)


@pytest.mark.parametrize(
    ("task", "name", "sentence"),
    [
        (
            "echo",
            "fast",
            "there is no recipe for echo, so it has no preset 'fast': leave out --preset, which then is 'general', or "
            "train on ballet, objects, words, match, pai.",
        ),
        ("ballet", "slow", "ballet has no preset 'slow': choose from quickstart, fast, paper, general."),
    ],
)
def test_a_preset_that_there_is_not(task, name, sentence):
    chosen = TaskConfig(task=task)
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        recipes.preset(name, chosen, chosen.make())
