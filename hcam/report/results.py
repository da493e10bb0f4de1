"""Which run folders belong to which experiment, and whether they may be counted."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hcam.config import to_json
from hcam.experiments import PRESET, Experiment
from hcam.presets import preset
from hcam.report.runs import Run, read, short
from hcam.runs.progress import Row, finite

# What a run may have otherwise without being another experiment: how it was watched, and what the machine decided.
FREE = {"seed", "log_every", "save_every", "keep", "eval_episodes", "dtype"}


@dataclass(frozen=True)
class Attempt:
    """One seed of an experiment, and what became of it."""

    folder: Path
    seed: int
    state: Literal["done", "unfinished", "not run"]
    why: str = ""  # it is unfinished
    run: Run | None = None  # if it is done
    lacking: tuple[str, ...] = ()  # levels that it was not evaluated on
    more: tuple[str, ...] = ()  # options that it was given besides the experiment's own

    def __str__(self) -> str:
        lacking = f"not evaluated on {', '.join(self.lacking)}" if self.lacking else ""
        return ": ".join(part for part in (self.state, self.why, lacking) if part)


@dataclass(frozen=True)
class Outcome:
    experiment: Experiment
    attempts: tuple[Attempt, ...]  # the planned seeds, and any others that are there

    @property
    def runs(self) -> list[Run]:
        return [attempt.run for attempt in self.attempts if attempt.run]

    @property
    def absent(self) -> str:
        """What stands where there is no number."""
        states = [attempt.state for attempt in self.attempts]
        return "unfinished" if "unfinished" in states and not self.runs else "not run"


def collect(root: Path, experiments: Sequence[Experiment]) -> list[Outcome]:
    return [Outcome(one, tuple(_attempts(root, one))) for one in experiments]


def strangers(root: Path, outcomes: Sequence[Outcome]) -> list[str]:
    """Folders that belong to no experiment."""
    known = {attempt.folder.name for outcome in outcomes for attempt in outcome.attempts}
    return [name for name in _folders(root) if name not in known]


def _folders(root: Path) -> list[str]:
    return sorted(entry.name for entry in root.iterdir() if entry.is_dir()) if root.is_dir() else []


def _attempts(root: Path, experiment: Experiment) -> list[Attempt]:
    pattern = re.escape(experiment.name) + r"-(0|[1-9][0-9]*)"
    there = {int(found[1]) for name in _folders(root) if (found := re.fullmatch(pattern, name))}
    return [attempt(experiment, experiment.folder(root, seed), seed) for seed in sorted({*experiment.seeds, *there})]


def attempt(experiment: Experiment, folder: Path, seed: int) -> Attempt:
    """Never raises: a folder that cannot be read is unfinished, and says why."""
    if not folder.is_dir():
        return Attempt(folder, seed, "not run")
    try:
        run = read(folder)
    except (ValueError, OSError) as error:
        return Attempt(folder, seed, "unfinished", _inside(folder, f"{error}"))
    if why := trouble(experiment, run):
        return Attempt(folder, seed, "unfinished", why)
    lacking = tuple(level for level in experiment.levels if score(run, level) is None)
    return Attempt(folder, seed, "done", "", run, lacking, besides(experiment, run.config))


def trouble(experiment: Experiment, run: Run) -> str:
    """Why a run's numbers are not the experiment's; nothing if they are."""
    if not run.config:
        return "it has no config.json"
    if wrong := unlike(experiment, run.config):
        return f"it has other settings: {wrong}"
    steps = finite(leaves(run.config).get("steps")) or 0
    if run.steps < steps:
        return f"it is at {short(run.steps)} of {short(steps)} steps"
    return "" if run.evaluation.get("greedy") else "it was not evaluated"


def unlike(experiment: Experiment, config: dict[str, Any]) -> str:
    """Which of the experiment's settings a run does not have."""
    have = leaves(config)
    wrong = [name for name, words in experiment.options.items() if not _same(words, have.get(name))]
    return ", ".join(f"{name} is {have.get(name)}" for name in wrong)


def score(run: Run, level: str) -> Row | None:
    """The greedy evaluation on a level."""
    part = run.evaluation.get("greedy", {}).get(level, {})
    return part if finite(part.get("success")) is not None else None


def mean(runs: Sequence[Run], level: str) -> float | None:
    found = shares(runs, level)
    return sum(found) / len(found) if found else None


def shares(runs: Sequence[Run], level: str) -> list[float]:
    return [part["success"] for run in runs if (part := score(run, level))]


def besides(experiment: Experiment, config: dict[str, Any]) -> tuple[str, ...]:
    """What a run was given besides the experiment's options: where it differs from the preset as it is now."""
    have, memory = leaves(config), experiment.options["memory"][0]
    usual = leaves(json.loads(json.dumps(to_json(preset(PRESET, memory=memory)))))
    left_out = FREE | set(experiment.options)
    words: list[str] = []
    for name in usual:
        if name in have and name not in left_out and have[name] != usual[name]:
            words += _words(name, have[name], isinstance(usual[name], bool))
    return tuple(words)


def _words(name: str, value: Any, switch: bool) -> list[str]:
    flag = name.replace("_", "-")
    if switch:
        return [f"--{flag}" if value else f"--no-{flag}"]
    return [f"--{flag}", *(str(part) for part in (value if isinstance(value, list) else [value]))]


def leaves(tree: dict[str, Any]) -> dict[str, Any]:
    """A configuration's settings without the parts they stand in, as on the command line; no name is there twice."""
    found: dict[str, Any] = {}
    for name, value in tree.items():
        found |= leaves(value) if isinstance(value, dict) else {name: value}
    return found


def _same(words: Sequence[str], value: Any) -> bool:
    values = value if isinstance(value, list) else [value]
    return len(words) == len(values) and all(map(_equal, words, values))


def _equal(word: str, value: Any) -> bool:
    number = None if isinstance(value, bool) else finite(value)
    return word == str(value) if number is None else float(word) == number


def _inside(folder: Path, sentence: str) -> str:
    """Without the folder, which stands beside it, and which may be a path of one machine."""
    return sentence.replace(f"{folder}/", "").replace(f"{folder}", "it").rstrip(".")
