"""`hcam reproduce`: the paper's experiments, and what has been done of them."""

from pathlib import Path
from typing import Annotated

import tyro

from hcam import recipes
from hcam.config import override
from hcam.recipes import OTHER_LEVELS, Experiment, Recipe
from hcam.report.results import attempt, collect, unlike
from hcam.runs.folder import CONFIG, read_config, refuse_without_checkpoint
from hcam.runs.text import printable

Folder = Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")]


def reproduce(
    task: tyro.conf.Positional[Annotated[str, tyro.conf.arg(metavar="TASK")]],
    experiment: tyro.conf.Positional[Annotated[str, tyro.conf.arg(metavar="[NAME]")]] = "",
    seed: int = 0,
    steps: int | None = None,
    runs: Folder = None,
) -> int:
    """Run an experiment of the paper; without a name, list them.

    Args:
        task: The task.
        experiment: The experiment, as listed. If its run was stopped, it continues.
        seed: Another number, another repeat.
        steps: Fewer or more steps than its preset has.
        runs: The folder that its run folder goes into, as NAME-SEED; results/TASK if not given.
    """
    recipe, root = recipe_of(task), runs or Path("results") / task
    if not experiment:
        print("\n".join(map(printable, listing(recipe, root))))
        return 0
    chosen = recipe.find(experiment)
    folder = chosen.folder(root, seed)
    if code := train(recipe, chosen, folder, seed, steps):
        return code
    now = attempt(recipe, chosen, folder, seed)
    if set(chosen.evaluate) & set(now.missing):
        from hcam.cli.evaluate import evaluate

        return evaluate(f"{folder}", level=chosen.evaluate, out=folder / OTHER_LEVELS)
    print(printable(f"{folder}: {now}"))
    return 0


def recipe_of(task: str) -> Recipe:
    recipe = recipes.find(task)
    if recipe is None or not recipe.experiments:
        known = [name for name, one in recipes.every().items() if one.experiments]
        raise ValueError(f"there are no experiments for {task!r}: there are some for {', '.join(known)}.")
    return recipe


def train(recipe: Recipe, experiment: Experiment, folder: Path, seed: int, steps: int | None) -> int:
    """Trains what is not trained yet; 0 if there is nothing left to train."""
    begun = (folder / CONFIG).exists()
    if begun and (wrong := unlike(recipe, experiment, read_config(folder))):
        raise ValueError(f"{folder} is not {experiment.name}, {wrong}: move it away, or choose another --runs.")
    now = attempt(recipe, experiment, folder, seed)
    if now.run is not None and now.run.steps >= (steps or 0):
        return 0
    from hcam import api
    from hcam.cli.train import show
    from hcam.config import read

    config = recipe.config(experiment, seed)
    if begun:
        refuse_without_checkpoint(folder, "--runs")
        config = read(folder)
    if steps is not None:
        config = override(config, {"run.steps": steps})
    try:
        show(api.train(config, resume=folder) if begun else api.train(config, run=folder))
    except api.StoppedError as stopped:
        return 128 + stopped.number
    return 0


def listing(recipe: Recipe, root: Path) -> list[str]:
    """Every experiment with its commands, and what has been done of it."""
    lines = []
    for outcome in collect(root, recipe).values():
        lines += [f"{outcome.experiment.name}: {outcome.experiment.title}"]
        for one in outcome.attempts:
            lines += [f"  seed {one.seed}: {one}"]
            typed = recipe.commands(outcome.experiment, one.folder, one.seed, one.more or {})
            lines += [f"    {command}" for command in typed]
    return lines
