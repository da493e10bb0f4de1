"""Runs as tables for a terminal."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from hcam.report.runs import Run, last, read, seeds_of, short, window
from hcam.runs.progress import Row, clock, finite, percent

COSTS = ("seeds", "steps", "minutes", "steps/s")


def final_table(folder: Path) -> Table:
    """What one run has reached: while training, and in its evaluation if there was one."""
    run = read(folder)
    count, speed = window([run]), f", {run.rate:,.0f} steps/s" if run.rate else ""
    title = f"{run.name} ({run.memory}): {run.steps:,} steps in {clock(run.seconds)}{speed}, {seeds_of([run])}"
    table = _table(title, "level", "training", *run.evaluation)
    for name in run.names:
        cells = [_with_interval(part.get(name, {})) for part in run.evaluation.values()]
        table.add_row(Text(name), percent(last(run, name)) if name in run.levels else "", *cells)
    if len(run.levels) != 1:
        table.add_row("all", percent(last(run, None)))
    table.caption = f"Success. Training: {f'mean of the last {count} rows' if count > 1 else 'the last row'}."
    if run.evaluation:
        episodes = sorted({int(p.get("episodes", 0)) for part in run.evaluation.values() for p in part.values()})
        table.caption += f" Evaluation: 95 % interval, {' or '.join(map(str, episodes))} episodes a level."
    return table


def compare_tables(folders: Sequence[Path]) -> list[Table]:
    """One row per run: how good they are, and what that took. Two tables, since one would be wider than a terminal.

    All runs are measured alike: by greedy evaluation if every run has one, else by the end of training.
    """
    runs = [read(folder) for folder in folders]
    judged = all("greedy" in run.evaluation for run in runs)
    names = list(dict.fromkeys(name for run in runs for name in (run.evaluation["greedy"] if judged else run.levels)))
    how = "greedy evaluation, below it the 95 % interval" if judged else "at the end of training"
    good, cost = _table(f"Success, %, {how}", "run", *names), _table("Training", "run", "memory", *COSTS)
    for run in runs:
        greedy = run.evaluation.get("greedy", {})
        good.add_row(Text(run.name), *(_two_lines(greedy.get(n, {})) if judged else _end(run, n) for n in names))
        minutes = "-" if run.seconds is None else f"{run.seconds / 60:,.1f}"
        rate = "-" if run.rate is None else f"{run.rate:,.0f}"
        cost.add_row(Text(run.name), run.memory, str(run.seeds), short(run.steps), minutes, rate)
    return [good, cost]


def _two_lines(part: Row) -> str:
    low, high = finite(part.get("low")), finite(part.get("high"))
    around = "" if low is None or high is None else f"\n{100 * low:.1f}-{100 * high:.1f}"
    return percent(part.get("success")).removesuffix(" %") + around


def _end(run: Run, level: str) -> str:
    return percent(last(run, level)).removesuffix(" %")


def _table(title: str, *headings: str) -> Table:
    look: Any = {"title_justify": "left", "caption_justify": "left", "box": box.SIMPLE, "padding": (0, 1, 0, 0)}
    table = Table(title=Text(title, style="italic"), **look)
    table.min_width = len(title)  # else a table of one level breaks its title into many lines
    for heading in headings:
        justify: Any = "left" if heading in ("run", "memory", "level") else "right"
        table.add_column(Text(heading), overflow="fold", justify=justify)
    return table


def _with_interval(part: Row) -> str:
    low, high = finite(part.get("low")), finite(part.get("high"))
    around = "" if low is None or high is None else f"  ({100 * low:.1f} to {100 * high:.1f})"
    return percent(part.get("success")) + around if part else ""
