"""`hcam reproduce`: the paper's experiments, and what has been done of them."""

from pathlib import Path
from typing import Annotated, Any

import tyro

from hcam import recipes
from hcam.api import after
from hcam.config import override
from hcam.recipes import OTHER_LEVELS, Experiment, Recipe
from hcam.report import queue
from hcam.report.results import attempt, collect, unlike
from hcam.runs.folder import CONFIG, made_by, read_config, refuse_without_checkpoint
from hcam.runs.text import printable

Folder = Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")]

NEXT = "next"  # in place of a task
NOTHING_LEFT = 1  # exit status, so that a loop in a shell ends


def reproduce(
    task: tyro.conf.Positional[Annotated[str, tyro.conf.arg(metavar="[TASK]")]] = "",
    experiment: tyro.conf.Positional[Annotated[str, tyro.conf.arg(metavar="[NAME]")]] = "",
    seed: int | None = None,
    steps: int | None = None,
    minutes: float | None = None,
    runs: Folder = None,
) -> int:
    """Run an experiment of the paper. Without its name, list those of the task; without a task, show the queue of all.

    `hcam reproduce next` runs the first of the queue: what was begun, else what is wanted most and fits into --minutes.

    Args:
        task: The task, or `next`.
        experiment: The experiment, as listed. If its run was stopped, it continues.
        seed: Another number, another repeat; 0 if not given.
        steps: Fewer or more steps than its preset has.
        minutes: Stop and save in time to be done after this time, evaluation included; the next call continues.
        runs: The folder that its run folder goes into, as NAME-SEED; results/TASK if not given. For the queue, the
            folder that has a folder for each task; results if not given.
    """
    after(minutes)
    if not task or task == NEXT:
        given = {"NAME": experiment, "--seed": seed, "--steps": steps, "--minutes": minutes if not task else None}
        if unused := [name for name, value in given.items() if value not in (None, "")]:
            raise ValueError(f"the queue decides what is run: leave out {' and '.join(unused)}, or name a task.")
        return run_next(runs or Path("results"), minutes) if task else show_queue(runs or Path("results"))
    recipe, root = recipe_of(task), runs or Path("results") / task
    if not experiment:
        print("\n".join(map(printable, listing(recipe, root))))
        return 0
    return run(recipe, recipe.find(experiment), root, seed or 0, steps, minutes)


def show_queue(results: Path) -> int:
    device = made_by()["device"]
    print("\n".join(map(printable, queue.listing(jobs_in(results, device), device))))
    return 0


def run_next(results: Path, minutes: float | None) -> int:
    device = made_by()["device"]
    jobs = jobs_in(results, device)
    job = queue.next_job(jobs, minutes)
    if job is None:
        print(printable(queue.nothing(jobs, minutes)))
        return NOTHING_LEFT
    expected = "nobody knows how long it takes" if job.minutes is None else f"about {queue.shown(job)} minutes"
    print(printable(f"next: {job.name}, {queue.told(job)}; {expected} on {device}"))
    return run(job.recipe, job.experiment, results / job.recipe.task, job.attempt.seed, None, minutes)


def jobs_in(results: Path, device: str) -> list[queue.Job]:
    return queue.collect_jobs(results, list(recipes.every().values()), device)


def run(
    recipe: Recipe, experiment: Experiment, root: Path, seed: int, steps: int | None, minutes: float | None = None
) -> int:
    """Trains, evaluates and stores a run, as far as that is not done yet; the exit status."""
    folder = experiment.folder(root, seed)
    if code := train(recipe, experiment, folder, seed, steps, minutes):
        return code
    now = attempt(recipe, experiment, folder, seed)
    if set(experiment.evaluate) & set(now.missing):
        from hcam.cli.evaluate import evaluate

        return evaluate(f"{folder}", experiment.evaluate, slots=experiment.slots, out=folder / OTHER_LEVELS)
    print(printable(f"{folder}: {now}"))
    return 0


def minutes_of_training(minutes: float | None) -> float | None:
    """What is left of them if evaluation is to fit as well; at least half."""
    return None if minutes is None else max(minutes - queue.EVALUATION / 60, minutes / 2)


def recipe_of(task: str) -> Recipe:
    recipe = recipes.find(task)
    if recipe is None or not recipe.experiments:
        known = [name for name, one in recipes.every().items() if one.experiments]
        raise ValueError(f"there are no experiments for {task!r}: there are some for {', '.join(known)}.")
    return recipe


def train(
    recipe: Recipe, experiment: Experiment, folder: Path, seed: int, steps: int | None, minutes: float | None = None
) -> int:
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
    where: dict[str, Any] = {"resume" if begun else "run": folder}
    try:
        show(api.train(config, **where, minutes=minutes_of_training(minutes)))
    except api.StoppedError as stopped:
        return stopped.exit_status
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
