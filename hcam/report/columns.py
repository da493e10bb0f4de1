"""metrics.jsonl as columns of numbers: a million rows need a hundredth of the memory that they would as objects."""

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hcam.runs import metrics
from hcam.runs.text import finite

Numbers = NDArray[np.float64]
Key = tuple[
    str | int, ...
]  # ("return",), ("losses", "policy"), ("levels", "2_delay16", "success"), ("seeds", 0, "return")

MOST_STEPS = 2**63
LARGEST = 1e39  # what no float32 holds is a gap: sums of it, and pictures, would overflow
MOST = 1000  # levels, or seeds trained at once


@dataclass(frozen=True)
class Column:
    """The rows that have a value, as their numbers from 0, and the values."""

    rows: NDArray[np.int64]
    values: Numbers


@dataclass(frozen=True)
class Log:
    """All numbers of a run's rows that reports show."""

    steps: Numbers  # by row
    columns: dict[Key, Column]
    last: Mapping[str, Any]  # the last row
    levels: list[str]  # of any row

    def get(self, *key: str | int) -> tuple[Numbers, Numbers]:
        """Returns the steps and the values of the rows that have a value under this key."""
        column = self.columns.get(key)
        return (np.zeros(0), np.zeros(0)) if column is None else (self.steps[column.rows], column.values)

    def weighted(self, key: Key, weight: Key) -> tuple[Numbers, Numbers, Numbers]:
        """Returns steps, values and weights of the rows that have both a value and a positive weight."""
        value, by = self.columns.get(key), self.columns.get(weight)
        if value is None or by is None:
            return (np.zeros(0),) * 3
        rows, left, right = np.intersect1d(value.rows, by.rows, assume_unique=True, return_indices=True)
        counts = by.values[right] > 0
        return self.steps[rows][counts], value.values[left][counts], by.values[right][counts]


def read_log(file: Path) -> Log:
    """Reads metrics.jsonl in time and memory linear in its size; raises ValueError where a row is not as it should be.

    Names the line then, since a report that left it out would show something that did not happen.
    """
    steps, last, known = array("d"), dict[str, Any](), dict[str, None]()
    found: dict[Key, tuple[array[int], array[float]]] = {}
    for line, last in metrics.iterate(file):
        if problem := _problem(last):
            raise ValueError(f"{file} is damaged: line {line} {problem}, delete it.")
        for key, value in _numbers(last):
            number = value if type(value) is float else finite(value)
            if number is not None and -LARGEST < number < LARGEST:  # NaN is not
                rows, values = found.get(key) or found.setdefault(key, (array("q"), array("d")))
                rows.append(len(steps))
                values.append(number)
        steps.append(last["steps"])
        known.update(dict.fromkeys(last.get("levels") or ()))
        if len(known) > MOST:
            raise ValueError(f"{file} names more than {MOST} levels, which no report can show.")
    columns = {key: Column(np.array(rows, np.int64), np.array(values)) for key, (rows, values) in found.items()}
    return Log(np.array(steps), columns, last, list(known))


def _problem(row: Mapping[str, Any]) -> str:
    """Returns what is wrong with a row; nothing where all parts that reports read are of their kind."""
    steps: Any = row.get("steps")
    if type(steps) not in (int, float) or not 0 <= steps < MOST_STEPS:
        return "has no steps" if steps is None else "has steps that are no number from 0 to 2^63"
    for name in ("levels", "losses"):
        if not isinstance(row.get(name), dict | None):
            return f"has {name} that are not an object"
    for name, part in (row.get("levels") or {}).items():
        if not isinstance(part, dict | None):
            return f"has a level {name[:40]!r} that is not an object"
    seeds = row.get("seeds")
    if not isinstance(seeds, list | None) or any(not isinstance(seed, dict | None) for seed in seeds or ()):
        return "has seeds that are not a list of objects"
    return f"has more than {MOST} seeds" if len(seeds or ()) > MOST else ""


def _numbers(row: Mapping[str, Any]) -> Iterator[tuple[Key, Any]]:
    yield ("success",), row.get("success")
    yield ("return",), row.get("return")
    for name, value in (row.get("losses") or {}).items():
        yield ("losses", name), value
    for name, part in (row.get("levels") or {}).items():
        if part:
            yield ("levels", name, "success"), part.get("success")
            yield ("levels", name, "return"), part.get("return")
            yield ("levels", name, "episodes"), part.get("episodes", 1)
    for number, seed in enumerate(row.get("seeds") or ()):
        for name, value in (seed or {}).items():
            yield ("seeds", number, name), value
