"""Which run folders belong to which experiment, and whether they may be counted."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hcam.config import to_json
from hcam.recipes import Experiment, Recipe
from hcam.report.runs import Run, read, short
from hcam.runs.progress import Row
from hcam.runs.text import finite

# In what a run may differ without being another experiment: how it was observed, and what the machine decided.
FREE = {"run.seed", "run.log_every", "run.save_every", "run.keep", "run.eval_episodes", "agent.dtype"}


@dataclass(frozen=True)
class Attempt:
    """One seed of an experiment, and what became of it."""

    folder: Path
    seed: int
    state: Literal["done", "unfinished", "not run"]
    why: str = ""  # it is unfinished
    run: Run | None = None  # if it is done
    missing: tuple[str, ...] = ()  # levels that it was not evaluated on
    more: Mapping[str, Any] | None = None  # settings that it was given besides the experiment's own
    begun: Run | None = None  # if it is unfinished, and as far as it is the experiment's

    def __str__(self) -> str:
        missing = f"not evaluated on {', '.join(self.missing)}" if self.missing else ""
        return ": ".join(part for part in (self.state, self.why, missing) if part)


@dataclass(frozen=True)
class Outcome:
    experiment: Experiment
    attempts: tuple[Attempt, ...]  # the planned seeds, and any others that are there

    @property
    def runs(self) -> list[Run]:
        return [attempt.run for attempt in self.attempts if attempt.run]

    @property
    def absent(self) -> str:
        """The cell of a table where there is no number."""
        states = [attempt.state for attempt in self.attempts]
        return "unfinished" if "unfinished" in states and not self.runs else "not run"


def collect(root: Path, recipe: Recipe) -> dict[str, Outcome]:
    """All experiments of a recipe by name."""
    return {one.name: Outcome(one, tuple(_attempts(root, recipe, one))) for one in recipe.experiments}


def strangers(root: Path, outcomes: Sequence[Outcome]) -> list[str]:
    """Folders that belong to no experiment."""
    known = {attempt.folder.name for outcome in outcomes for attempt in outcome.attempts}
    return [name for name in _folders(root) if name not in known]


def _folders(root: Path) -> list[str]:
    return sorted(entry.name for entry in root.iterdir() if entry.is_dir()) if root.is_dir() else []


def _attempts(root: Path, recipe: Recipe, experiment: Experiment) -> list[Attempt]:
    pattern = re.escape(experiment.name) + r"-(0|[1-9][0-9]*)"
    there = {int(found[1]) for name in _folders(root) if (found := re.fullmatch(pattern, name))}
    seeds = sorted({*experiment.seeds, *there})
    return [attempt(recipe, experiment, experiment.folder(root, seed), seed) for seed in seeds]


def attempt(recipe: Recipe, experiment: Experiment, folder: Path, seed: int) -> Attempt:
    """Never raises: a folder that cannot be read is unfinished, and says why."""
    if not folder.is_dir():
        return Attempt(folder, seed, "not run")
    try:
        run = read(folder)
    except (ValueError, OSError) as error:
        return Attempt(folder, seed, "unfinished", _without_path(folder, f"{error}"))
    if why := trouble(recipe, experiment, run):
        ours = run if run.config and not unlike(recipe, experiment, run.config) else None
        return Attempt(folder, seed, "unfinished", why, begun=ours)
    missing = tuple(level for level in recipe.levels(experiment) if score(run, level) is None)
    return Attempt(folder, seed, "done", "", run, missing, other_settings(recipe, experiment, run.config))


def trouble(recipe: Recipe, experiment: Experiment, run: Run) -> str:
    """Why a run's numbers are not the experiment's; nothing if they are."""
    if not run.config:
        return "it has no config.json"
    if wrong := unlike(recipe, experiment, run.config):
        return f"it has other settings: {wrong}"
    steps = finite(leaves(run.config).get("run.steps")) or 0
    if run.steps < steps:
        return f"it is at {short(run.steps)} of {short(steps)} steps"
    return "" if run.evaluation.get(run.measure.way) else "it was not evaluated"


def unlike(recipe: Recipe, experiment: Experiment, config: Mapping[str, Any]) -> str:
    """Which of the experiment's own settings a run does not have."""
    have, wanted = leaves(config), leaves(to_json(recipe.config(experiment)))
    own = ["task.task", "agent.memory.memory", *experiment.overrides]
    wrong = [path for path in own if have.get(path) != wanted.get(path)]
    return ", ".join(f"{path.rpartition('.')[2]} is {have.get(path)}" for path in wrong)


def other_settings(recipe: Recipe, experiment: Experiment, config: Mapping[str, Any]) -> dict[str, Any]:
    """In what a run differs from the experiment as it would be started now."""
    have, wanted = leaves(config), leaves(to_json(recipe.config(experiment)))
    paths = [path for path in wanted if path in have and path not in FREE | set(experiment.overrides)]
    return {path: have[path] for path in paths if have[path] != wanted[path]}


def leaves(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A configuration's settings by path: {"agent.memory.top_k": 8}."""
    found: dict[str, Any] = {}
    for name, value in tree.items():
        path = f"{prefix}{name}"
        found |= leaves(value, f"{path}.") if isinstance(value, Mapping) and path != "task.options" else {path: value}
    return found


def score(run: Run, level: str) -> Row | None:
    """The evaluation on a level that counts: greedy for a task that is scored by success, else sampled."""
    part = run.evaluation.get(run.measure.way, {}).get(level, {})
    return part if run.measure.score(part) is not None else None


def mean(runs: Sequence[Run], level: str) -> float | None:
    found = shares(runs, level)
    return sum(found) / len(found) if found else None


def shares(runs: Sequence[Run], level: str) -> list[float]:
    return [part[run.measure.name] for run in runs if (part := score(run, level))]


def _without_path(folder: Path, sentence: str) -> str:
    """Without the folder, which stands beside it, and which may be a path of one machine."""
    return sentence.replace(f"{folder}/", "").replace(f"{folder}", "it").rstrip(".")
