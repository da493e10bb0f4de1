"""Run folders as they are read: what a run was, how it learned, and how it was judged."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hcam.runs.folder import CONFIG, EVAL, METRICS, read_config, read_metrics
from hcam.runs.progress import Row, finite, levels

Numbers = NDArray[np.float64]
Points = tuple[Numbers, Numbers]  # steps and values
Scores = dict[str, dict[str, Row]]  # "greedy" and "sampled", level by level

UNLIKE = {"seed", "seeds", "log_every", "save_every", "keep", "eval_episodes"}  # what repeats may differ in


@dataclass(frozen=True)
class Run:
    name: str
    memory: str
    config: dict[str, Any]
    made_by: dict[str, Any]  # versions, commit, device
    rows: list[dict[str, Any]]
    evaluation: Scores
    steps: int
    seeds: int  # trained at once
    levels: list[str]  # that it learned
    names: list[str]  # these, and those that it was only evaluated on

    @property
    def seconds(self) -> float | None:
        """Of training alone, over all sittings."""
        return finite(self.rows[-1].get("seconds")) or None

    @property
    def rate(self) -> float | None:
        """Steps a second, compilation included."""
        return self.steps / self.seconds if self.seconds else None


def read(folder: Path) -> Run:
    if not folder.is_dir():
        raise ValueError(f"there is no run folder {folder}: give one that `hcam train` has made, such as runs/NAME.")
    if not (folder / METRICS).exists():
        raise ValueError(f"{folder} has no {METRICS}: give a folder in which `hcam train` has run.")
    rows = read_metrics(folder)
    if not rows:
        raise ValueError(f"{folder / METRICS} holds no whole row yet: wait for the run's first one, or train again.")
    steps = finite(rows[-1].get("steps"))
    if steps is None:
        raise ValueError(f"{folder / METRICS} is damaged: its last row has no steps, delete it.")
    config, made_by = _read_config(folder)
    evaluation = read_evaluation(folder, int(steps))
    learned = list(dict.fromkeys(name for row in rows for name in levels(row)))
    return Run(
        name=folder.resolve().name,
        memory=first_text(config, "memory") or "?",
        config=config,
        made_by=made_by,
        rows=rows,
        evaluation=evaluation,
        steps=int(steps),
        seeds=max(1, len(rows[-1].get("seeds") or ())),
        levels=learned,
        names=list(dict.fromkeys([*learned, *(name for part in evaluation.values() for name in part)])),
    )


def _read_config(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    if not (folder / CONFIG).exists():
        return {}, {}
    return read_config(folder), json.loads((folder / CONFIG).read_bytes()).get("made_by") or {}


def read_evaluation(folder: Path, steps: int) -> Scores:
    """eval.json, and the levels that `hcam eval RUN --out RUN/eval-NAME.json` has added.

    Where two files have the same level, the first one counts. One that was made at other steps (`--best`, or before a
    run went on) says nothing about how the run ended, and is left out.
    """
    merged: Scores = {}
    for file in (folder / EVAL, *sorted(folder.glob("eval-*.json"))):
        for kind, part in (_read_scores(file, steps) if file.exists() else {}).items():
            known = merged.setdefault(kind, {})
            known |= {level: row for level, row in part.items() if level not in known}
    return merged


def _read_scores(file: Path, steps: int) -> Scores:
    damaged = ValueError(f"{file} is damaged: delete it and evaluate again, with `hcam eval`.")
    try:
        found = json.loads(file.read_bytes())
    except ValueError:
        raise damaged from None
    if not isinstance(found, dict):
        raise damaged
    kept = {kind: found[kind] for kind in ("greedy", "sampled") if found.get(kind)}
    for part in kept.values():
        if not isinstance(part, dict) or not all(isinstance(row, dict) for row in part.values()):
            raise damaged
    return kept if found.get("steps", steps) == steps else {}


def first_text(tree: Any, key: str) -> str | None:
    """The first text under this key, however deep: which part of the configuration holds it is not our business."""
    if not isinstance(tree, dict) or isinstance(tree.get(key), str):
        return tree[key] if isinstance(tree, dict) else None
    return next((found for part in tree.values() if (found := first_text(part, key))), None)


def window(runs: Sequence[Run], smooth: int | None = None) -> int:
    """Rows in a running mean: as asked for, else a fiftieth of the longest run."""
    if smooth is not None and smooth < 1:
        raise ValueError(f"smooth is a number of rows and at least 1, but is {smooth}.")
    return smooth or max(1, *(len(run.rows) // 50 for run in runs))


def series(points: Iterable[tuple[Any, Any, Any]], smooth: int) -> Points:
    """Steps and running means of (steps, value, weight); points without a value or a weight do not count."""
    known = [(step, finite(value), finite(weight)) for step, value, weight in points]
    kept = [point for point in known if point[1] is not None and point[2]]
    if not kept:
        return np.zeros(0), np.zeros(0)
    step, value, weight = np.asarray(kept, np.float64).T
    kernel = np.ones(min(smooth, len(kept)))  # only whole windows: the first ones alone would be noise drawn boldly
    total, weights = (np.convolve(x, kernel, "valid") for x in (value * weight, weight))
    return step[len(kernel) - 1 :], total / weights


def success(run: Run, level: str | None, smooth: int) -> list[Points]:
    """A level's success, or that of all together; a curve per seed where the rows tell them apart.

    A share of successes is an average over episodes, so rows count by the episodes that ended in them.
    """
    if level is None or (run.seeds > 1 and run.levels == [level]):
        return overall(run, "success", smooth)
    told = [(row["steps"], levels(row).get(level, {})) for row in run.rows]
    return [series(((step, part.get("success"), part.get("episodes", 1)) for step, part in told), smooth)]


def overall(run: Run, what: str, smooth: int) -> list[Points]:
    """Success or return of all levels together, or a loss."""
    if run.seeds == 1 or what not in run.rows[-1]["seeds"][0]:
        return [series(((r["steps"], r.get(what, (r.get("losses") or {}).get(what)), 1) for r in run.rows), smooth)]
    seeds = [[(row["steps"], seed.get(what), 1) for seed in row.get("seeds") or ()] for row in run.rows]
    return [series((row[n] for row in seeds if n < len(row)), smooth) for n in range(run.seeds)]


def last(run: Run, level: str | None) -> float | None:
    """The success that training ended with."""
    ends = [values[-1] for _, values in success(run, level, window([run])) if len(values)]
    return float(np.mean(ends)) if ends else None


def kinds(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Runs that differ in nothing but their seed together; called by their memory where that tells them apart."""

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


def merged(curves: Sequence[Points]) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Transition, mean, lowest and highest of several curves, where all of them have begun and none has ended."""
    known = [points for points in curves if len(points[0])]
    if not known:
        return (np.zeros(0),) * 4
    begin, end = max(steps[0] for steps, _ in known), min(steps[-1] for steps, _ in known)
    steps = np.unique(np.concatenate([steps for steps, _ in known]))
    steps = steps[(begin <= steps) & (steps <= end)]
    values = np.stack([np.interp(steps, *points) for points in known])
    return steps, values.mean(0), values.min(0), values.max(0)


def seeds_of(runs: Sequence[Run]) -> str:
    count = sum(run.seeds for run in runs)
    return "one seed" if count == 1 else f"{count} seeds"


def short(steps: float) -> str:
    """1,500,000 as 1.5 M."""
    size, unit = (1e6, " M") if abs(steps) >= 1e6 else (1e3, " k") if abs(steps) >= 1e3 else (1.0, "")
    return f"{float(f'{steps / size:.4g}'):,g}{unit}"
