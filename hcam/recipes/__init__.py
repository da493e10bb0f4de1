"""One recipe per task, in a file or a folder called as the task is: presets, experiments, words for the results page.

hcam train TASK --preset quickstart | fast | paper
hcam reproduce TASK EXPERIMENT
"""

import pkgutil
from dataclasses import replace

from hcam import plugins
from hcam.config import Config, TaskConfig
from hcam.envs.environment import Environment
from hcam.recipes.general import general
from hcam.recipes.recipe import OTHER_LEVELS, Experiment, Recipe, Reported, Section, flags

GROUP = "hcam.recipes"  # the entry points of installed packages: a task's name -> a Recipe
OWN = ("general", "recipe")  # files of this folder that are no recipes
GENERAL, QUICKSTART = "general", "quickstart"

__all__ = ["OTHER_LEVELS", "Experiment", "Recipe", "Reported", "Section", "default_task", "every", "find", "flags"]
__all__ += ["GENERAL", "QUICKSTART", "preset", "preset_name"]


def published() -> tuple[str, ...]:
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name not in OWN))


def find(task: str) -> Recipe | None:
    """A task's recipe; None: it has none."""
    point = plugins.installed(GROUP).get(task)
    path = f"{__name__}.{task}:RECIPE" if task in published() else point.value if point else ""
    recipe: Recipe | None = plugins.load(path) if path else None
    return recipe


def every() -> dict[str, Recipe]:
    """All recipes by task, in the paper's order."""
    found = [recipe for task in (*published(), *plugins.installed(GROUP)) if (recipe := find(task))]
    return {recipe.task: recipe for recipe in sorted(found, key=lambda recipe: recipe.order)}


def default_task() -> str:
    return next(iter(every()))


def preset_name(task: str) -> str:
    """What `hcam train TASK` starts from."""
    recipe = find(task)
    return QUICKSTART if recipe and QUICKSTART in recipe.presets else GENERAL


def preset(name: str, task: TaskConfig, env: Environment, memory: str = "hcam") -> Config:
    """Settings to start from; levels, weights and options of `task` are kept where they are given."""
    recipe = find(task.task)
    if name == GENERAL:
        return general(task, env, memory)
    if recipe is None:
        raise ValueError(
            f"there is no recipe for {task.task}, so it has no preset {name!r}: leave out --preset, which then is "
            f"{GENERAL!r}, or train on {', '.join(every())}."
        )
    config = recipe.preset(name, memory)
    own = config.task
    weights = task.weights or (() if task.levels else own.weights)
    kept = replace(own, levels=task.levels or own.levels, weights=weights, options={**own.options, **task.options})
    return replace(config, task=kept)
