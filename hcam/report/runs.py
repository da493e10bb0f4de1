"""Run folders as reports read them: what a run was, how it learned, and how it was evaluated."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hcam.report.columns import LARGEST, Log, Numbers, read_log
from hcam.runs.files import exists, parse_json, read_file
from hcam.runs.folder import CONFIG, EVAL, METRICS, read_config, read_made_by
from hcam.runs.measure import SUCCESS, Measure, find
from hcam.runs.progress import Row
from hcam.runs.text import finite

Points = tuple[Numbers, Numbers]  # steps and values
Weighted = tuple[Numbers, Numbers, Numbers]  # steps, values and what each counts
Scores = dict[str, dict[str, Row]]  # "greedy" and "sampled", by level

MOST_POINTS = 400  # of a curve that is drawn; a picture shows no more
UNLIKE = {"seed", "seeds", "log_every", "save_every", "keep", "eval_episodes"}  # what repeats may differ in


@dataclass(frozen=True)
class Run:
    name: str
    memory: str
    config: dict[str, Any]
    made_by: dict[str, Any]  # versions, commit, device
    log: Log
    evaluation: Scores
    steps: int
    seeds: int  # trained at once
    levels: list[str]  # that it was trained on
    names: list[str]  # these, and those that it was only evaluated on

    @property
    def measure(self) -> Measure:
        """What the task is scored by."""
        return find(self.config.get("scored_by"))

    def fact(self, name: str, level: str | None) -> float | None:
        """Returns a fact of a level from config.json, such as its `chance`; None where it is not known."""
        known = self.config.get(name)
        return share(known, level) if isinstance(known, dict) and level is not None else None

    def oracle(self, level: str | None) -> float | None:
        """Returns the mean return of the task's expert: of training levels in config.json, of others in eval.json."""
        parts = [part.get(level or "", {}) for part in self.evaluation.values()]
        return next((full for part in parts if (full := share(part, "oracle")) is not None), self.fact("oracle", level))

    @property
    def seconds(self) -> float | None:
        """Those of training alone, over all resumes."""
        return finite(self.log.last.get("seconds")) or None

    @property
    def rate(self) -> float | None:
        """Steps per second, compilation included."""
        return self.steps / self.seconds if self.seconds else None


def read(folder: Path) -> Run:
    """Reads a run folder; raises ValueError or OSError with one sentence where it has nothing that can be shown."""
    if not os.path.isdir(folder):
        raise ValueError(f"there is no run folder {folder}: give one that `hcam train` has made, such as runs/NAME.")
    if not exists(folder / METRICS):
        raise ValueError(f"{folder} has no {METRICS}: give a folder in which `hcam train` has run.")
    log = read_log(folder / METRICS)
    if not len(log.steps):
        raise ValueError(f"{folder / METRICS} has no complete row yet: wait for the first one, or train again.")
    steps, known = int(log.steps[-1]), exists(folder / CONFIG)
    config, made_by = (read_config(folder), read_made_by(folder)) if known else ({}, {})
    evaluation = read_evaluation(folder, steps)
    return Run(
        name=folder.resolve().name,
        memory=first_text(config, "memory") or "?",
        config=config,
        made_by=made_by,
        log=log,
        evaluation=evaluation,
        steps=steps,
        seeds=max(1, len(log.last.get("seeds") or ())),
        levels=log.levels,
        names=list(dict.fromkeys([*log.levels, *(name for part in evaluation.values() for name in part)])),
    )


def read_evaluation(folder: Path, steps: int | None) -> Scores:
    """Reads eval.json, and the levels that `hcam eval RUN --out RUN/eval-NAME.json` has added.

    Where two files have the same level, the first one counts. A file made at other steps (`--best`, or before the run
    was resumed) says nothing about how the run ended, and is left out, unless `steps` is None.
    """
    merged: Scores = {}
    for file in (folder / EVAL, *sorted(folder.glob("eval-*.json"))):
        for kind, part in (_read_scores(file, steps) if exists(file) else {}).items():
            known = merged.setdefault(kind, {})
            known |= {level: row for level, row in part.items() if level not in known}
    return merged


def _read_scores(file: Path, steps: int | None) -> Scores:
    damaged = ValueError(f"{file} is damaged: delete it and evaluate again, with `hcam eval`.")
    try:
        found = parse_json(read_file(file))
    except ValueError:
        raise damaged from None
    if not isinstance(found, dict):
        raise damaged
    kept = {kind: found[kind] for kind in ("greedy", "sampled") if found.get(kind)}
    for part in kept.values():
        if not isinstance(part, dict) or not all(isinstance(row, dict) for row in part.values()):
            raise damaged
    return kept if steps is None or found.get("steps", steps) == steps else {}


def share(part: Row, name: str) -> float | None:
    """Returns a number of an evaluation, such as its `success`; None where it is none, or too large to draw."""
    known = finite(part.get(name))
    return known if known is not None and abs(known) < LARGEST else None


def first_text(tree: Any, key: str) -> str | None:
    """Returns the first text under this key, at any depth: which part of a configuration holds it may change."""
    if not isinstance(tree, dict) or isinstance(tree.get(key), str):
        return tree[key] if isinstance(tree, dict) else None
    return next((found for part in tree.values() if (found := first_text(part, key))), None)


def window(runs: Sequence[Run], smooth: int | None = None) -> int:
    """Returns the rows in a smoothing window: as asked for, else a fiftieth of the longest run."""
    if smooth is not None and smooth < 1:
        raise ValueError(f"smooth is a number of rows and at least 1, but is {smooth}.")
    return smooth or max(1, *(len(run.log.steps) // 50 for run in runs))


def series(steps: Numbers, values: Numbers, weights: Numbers, smooth: int) -> Points:
    """Returns means under a triangular window over `smooth` points, each at the window's middle."""
    if not len(steps):
        return np.zeros(0), np.zeros(0)
    count = min(smooth, len(steps))  # only whole windows: the first ones alone would be noise drawn boldly
    rise = (count + 1) // 2  # a running sum of running sums weighs by a triangle

    def triangle(numbers: Numbers) -> Numbers:
        return running_sum(running_sum(numbers, rise), count - rise + 1)

    left, right = (count - 1) // 2, count // 2
    middle = (steps[left : len(steps) - right] + steps[right : len(steps) - left]) / 2
    return middle, triangle(values * weights) / triangle(weights)


def running_sum(values: Numbers, count: int) -> Numbers:
    """Returns the sums of all windows of `count` values, in linear time.

    A window spans at most two blocks of `count`: it is the end of one and the beginning of the next. Differences of one
    cumulative sum would be shorter to write, but a single huge value would ruin all sums after it.
    """
    blocks = np.pad(values, (0, -len(values) % count)).reshape(-1, count)
    heads, tails = np.cumsum(blocks, axis=1).ravel(), np.cumsum(blocks[:, ::-1], axis=1)[:, ::-1].ravel()
    begin = np.arange(len(values) - count + 1)
    return np.where(begin % count == 0, 0.0, tails[begin]) + heads[begin + count - 1]


def measure_of(runs: Sequence[Run]) -> Measure:
    """Returns what all these runs are scored by; raises ValueError where that differs."""
    found = list(dict.fromkeys(run.measure for run in runs))
    if len(found) > 1:
        raise ValueError(
            f"these runs are scored by different things, {' and '.join(one.name for one in found)}: compare those that "
            "are scored alike."
        )
    return found[0] if found else SUCCESS


def scores(run: Run, level: str | None, smooth: int) -> list[Points]:
    """Returns the success or the return on a level, or on all together; a curve per seed where rows tell them apart."""
    return [series(*rows, smooth) for rows in _rows(run, level)]


def _rows(run: Run, level: str | None) -> list[Weighted]:
    """What a score is made of: it is an average over episodes, so rows count by the episodes that ended in them."""
    what = run.measure.name
    if level is None or (run.seeds > 1 and run.levels == [level]):
        return _overall_rows(run, what)
    return [run.log.weighted(("levels", level, what), ("levels", level, "episodes"))]


def overall(run: Run, what: str, smooth: int) -> list[Points]:
    """Returns the success or the return of all levels together, a curve per seed."""
    return [series(*rows, smooth) for rows in _overall_rows(run, what)]


def _overall_rows(run: Run, what: str) -> list[Weighted]:
    keys: list[tuple[str | int, ...]] = [("seeds", number, what) for number in range(run.seeds)]
    told = [key for key in keys if key in run.log.columns] if run.seeds > 1 else []
    return [_alike(run, key) for key in told or [(what,)]]


def loss(run: Run, name: str, smooth: int) -> list[Points]:
    return [series(*_alike(run, ("losses", name)), smooth)]


def _alike(run: Run, key: tuple[str | int, ...]) -> Weighted:
    """Rows that all count the same."""
    steps, values = run.log.get(*key)
    return steps, values, np.ones(len(values))


def last(run: Run, level: str | None) -> float | None:
    """Returns the score that training ended with: the mean of the last rows, as many as a smoothing window has."""
    count = window([run])
    ends = [
        np.average(values[-count:], weights=weights[-count:]) for _, values, weights in _rows(run, level) if len(values)
    ]
    return float(np.mean(ends)) if ends else None


def kinds(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Groups runs that differ only in their seed, named by their memory where that tells the groups apart."""

    def essence(tree: Any) -> Any:
        return {k: essence(v) for k, v in tree.items() if k not in UNLIKE} if isinstance(tree, dict) else tree

    together: dict[str, list[Run]] = {}
    for run in runs:
        alike = json.dumps(essence(run.config), sort_keys=True) if run.config else f"{len(together)}"
        together.setdefault(alike, []).append(run)
    labels = [some[0].memory for some in together.values()]
    if "?" in labels or len(set(labels)) < len(labels):
        labels = [" + ".join(run.name for run in some) for some in together.values()]
    unique = [label if labels.count(label) == 1 else f"{label} ({n})" for n, label in enumerate(labels, start=1)]
    return dict(zip(unique, together.values(), strict=True))


class Merged(NamedTuple):
    """Several curves as one, at the same steps."""

    steps: Numbers
    mean: Numbers
    deviation: Numbers  # standard deviation over the curves; 0 for a single one
    low: Numbers
    high: Numbers


def merged(curves: Sequence[Points]) -> Merged:
    """Returns several curves as one, where all of them have begun and none has ended."""
    known = [points for points in curves if len(points[0])]
    if not known:
        return Merged(*(np.zeros(0),) * 5)
    begin, end = max(steps[0] for steps, _ in known), min(steps[-1] for steps, _ in known)
    steps = np.unique(np.concatenate([steps for steps, _ in known]))
    steps = steps[(begin <= steps) & (steps <= end)]
    if len(steps) > MOST_POINTS:
        steps = steps[np.linspace(0, len(steps) - 1, MOST_POINTS).round().astype(int)]
    values = np.stack([np.interp(steps, *points) for points in known])
    deviation = values.std(0, ddof=1) if len(known) > 1 else np.zeros(len(steps))
    return Merged(steps, values.mean(0), deviation, values.min(0), values.max(0))


def seeds_of(runs: Sequence[Run]) -> str:
    count = sum(run.seeds for run in runs)
    return "one seed" if count == 1 else f"{count} seeds"


def short(steps: float) -> str:
    """Returns 1,500,000 as 1.5 M."""
    size, unit = (1e6, " M") if abs(steps) >= 1e6 else (1e3, " k") if abs(steps) >= 1e3 else (1.0, "")
    return f"{float(f'{steps / size:.4g}'):,g}{unit}"
