"""The queue of all tasks: which run of which experiment is wanted next, and how long it will take.

The order is data of the recipes (`Experiment.places`); what was done, and how fast, is read from the run folders.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Literal, NamedTuple

from hcam.recipes import Experiment, Recipe
from hcam.report.results import Attempt, collect, leaves, unlike
from hcam.report.runs import Run, short
from hcam.runs.folder import CONFIG, LOCK, read_config, refuse_without_checkpoint
from hcam.runs.text import finite

EVALUATION = 75.0  # seconds that are kept after training

State = Literal["done", "unfinished", "not run", "in the way"]


class Pace(NamedTuple):
    """How fast a run was."""

    task: str
    memory: str
    experiment: str
    seed: int
    rate: float  # steps a second


@dataclass(frozen=True)
class Job:
    """One seed of an experiment, as the queue sees it."""

    recipe: Recipe
    experiment: Experiment
    attempt: Attempt
    state: State  # in the way: its folder is neither done nor can be continued
    minutes: float | None = (
        None  # until it is done, evaluation included; of one that is done: of training. None: unknown
    )

    @property
    def is_open(self) -> bool:
        return self.state in ("unfinished", "not run")

    @property
    def name(self) -> str:
        return f"{self.recipe.task} {self.experiment.name}, seed {self.attempt.seed}"

    @property
    def place(self) -> int:
        return self.recipe.place(self.experiment, self.attempt.seed)

    @property
    def steps(self) -> int:
        """That it is at."""
        run = self.attempt.run or self.attempt.begun
        return run.steps if run else 0

    @property
    def steps_wanted(self) -> int:
        run = self.attempt.run or self.attempt.begun
        asked = finite(leaves(run.config).get("run.steps")) if run else None
        return int(asked or self.recipe.config(self.experiment, self.attempt.seed).run.steps)


# What there is --------------------------------------------------------------------------------------------------------


def collect_jobs(results: Path, recipes: Sequence[Recipe], device: str) -> list[Job]:
    """Every run of every experiment in the order in which they are wanted; `results` has a folder for each task."""
    jobs = [
        Job(recipe, outcome.experiment, attempt, state_of(recipe, outcome.experiment, attempt))
        for recipe in recipes
        for outcome in collect(results / recipe.task, recipe).values()
        for attempt in outcome.attempts
    ]
    paces = [pace for job in jobs for pace in paces_of(job, device)]
    timed = [replace(job, minutes=minutes_of(job, paces)) for job in jobs]
    return sorted(timed, key=lambda job: job.place)  # stable: else in the order of the recipes and their experiments


def state_of(recipe: Recipe, experiment: Experiment, attempt: Attempt) -> State:
    if attempt.state == "not run":
        return "not run"
    if attempt.state == "done" and not set(experiment.evaluate) & set(attempt.missing):
        return "done"
    if is_resumable(recipe, experiment, attempt.folder):
        return "unfinished"
    return "done" if attempt.state == "done" else "in the way"  # an agent that is gone cannot be asked any more


def is_resumable(recipe: Recipe, experiment: Experiment, folder: Path) -> bool:
    """Whether `hcam reproduce` can go on in this folder; one that holds nothing yet counts as well."""
    try:
        if not (folder / CONFIG).exists():
            return all(entry.name == LOCK for entry in folder.iterdir())
        refuse_without_checkpoint(folder)
        return not unlike(recipe, experiment, read_config(folder))
    except (ValueError, OSError):
        return False


def paces_of(job: Job, device: str) -> list[Pace]:
    """How fast a run was, if it was made on a device of this kind."""
    run: Run | None = job.attempt.run or job.attempt.begun
    if run is None or run.rate is None or run.made_by.get("device") != device:
        return []
    return [Pace(job.recipe.task, job.experiment.memory, job.experiment.name, job.attempt.seed, run.rate)]


def minutes_of(job: Job, paces: Sequence[Pace]) -> float | None:
    if job.state == "done":
        return job.attempt.run.seconds / 60 if job.attempt.run and job.attempt.run.seconds else None
    left = max(0, job.steps_wanted - job.steps)
    rate = rate_of(job, paces) if left else 1.0
    return None if rate is None or not job.is_open else (left / rate + EVALUATION) / 60


def rate_of(job: Job, paces: Sequence[Pace]) -> float | None:
    """The steps a second that a run will make: its own so far, else the median of those that are most like it."""
    wanted = (job.recipe.task, job.experiment.memory, job.experiment.name, job.attempt.seed)
    for alike in (4, 3, 2, 1):  # the same run, experiment, memory or at least task
        names = [(pace.task, pace.memory, pace.experiment, pace.seed)[:alike] for pace in paces]
        if found := [pace.rate for pace, name in zip(paces, names, strict=True) if name == wanted[:alike]]:
            return median(found)
    return None


# What is next ---------------------------------------------------------------------------------------------------------


def next_job(jobs: Sequence[Job], minutes: float | None = None) -> Job | None:
    """What to run now: what was begun, else the most wanted run that fits or may fit; `jobs` are in their order.

    What was begun comes first however long it takes: it can be stopped and continued again.
    """
    begun = [job for job in jobs if job.state == "unfinished"]
    return next(iter([*begun, *(job for job in jobs if job.state == "not run" and fits(job, minutes))]), None)


def fits(job: Job, minutes: float | None) -> bool:
    return minutes is None or job.minutes is None or job.minutes <= minutes


def nothing(jobs: Sequence[Job], minutes: float | None) -> str:
    """Why there is no next run, as a sentence."""
    left = [job for job in jobs if job.is_open]
    if left:
        first, shortest = left[0], min(left, key=lambda job: job.minutes or 0)
        return (
            f"no run that is left fits into {minutes:g} minutes: the shortest, {shortest.name}, takes "
            f"{shown(shortest)}, and the one wanted most, {first.name}, {shown(first)}; begin one by its name with "
            "--minutes, and the next call continues it."
        )
    stuck = [job for job in jobs if job.state == "in the way"]
    also = f", and {len(stuck)} cannot be continued: move {stuck[0].attempt.folder} away" if stuck else ""
    return f"nothing is left to run: {sum(job.state == 'done' for job in jobs)} of {len(jobs)} runs are done{also}."


# What is shown --------------------------------------------------------------------------------------------------------


def listing(jobs: Sequence[Job], device: str) -> list[str]:
    """The whole table: a line per run, in the order in which they are wanted, and a summary."""
    numbers = {id(job): f"{number}" for number, job in enumerate((job for job in jobs if job.is_open), start=1)}
    rows = [("next", "task", "experiment", "seed", "minutes", "state")]
    for job in jobs:
        names = (job.recipe.task, job.experiment.name, f"{job.attempt.seed}")
        rows.append((numbers.get(id(job), ""), *names, shown(job), told(job)))
    widths = [max(len(row[n]) for row in rows) for n in range(6)]
    aligned = "><<>><"
    lines = [
        "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(row, aligned, widths, strict=True))
        for row in rows
    ]
    return [*(line.rstrip() for line in lines), "", summary(jobs, device)]


def shown(job: Job) -> str:
    return "?" if job.minutes is None else f"{job.minutes:.1f}" if job.minutes < 9.95 else f"{job.minutes:,.0f}"


def told(job: Job) -> str:
    """What has become of a run."""
    if job.state == "done":
        return f"{job.attempt}"
    if job.state == "unfinished":
        left = "evaluation is left" if job.steps >= job.steps_wanted else "can be continued"
        return f"unfinished at {short(job.steps)} of {short(job.steps_wanted)} steps, {left}"
    if job.state == "in the way":
        return f"unfinished at {short(job.steps)} of {short(job.steps_wanted)} steps, cannot be continued: move it away"
    return "not run"


def summary(jobs: Sequence[Job], device: str) -> str:
    left = [job for job in jobs if job.is_open]
    known = [job.minutes for job in left if job.minutes is not None]
    parts = [f"{sum(job.state == 'done' for job in jobs)} of {len(jobs)} runs are done, {len(left)} are left to run."]
    if known:
        parts += [f"{len(known)} of these take about {sum(known) / 60:,.1f} hours on {device}."]
    if len(known) < len(left):
        parts += [f"Nothing is known of how long {len(left) - len(known)} of them take on {device}."]
    return " ".join(parts)
