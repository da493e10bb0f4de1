"""Runs as tables for a terminal. Names are shown as they are: nothing in them is markup."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from hcam.report.runs import Run, last, measure_of, read, seeds_of, short, window
from hcam.runs.progress import Row
from hcam.runs.text import clock, finite, printable

COSTS = ("seeds", "steps", "minutes", "steps/s")


def final_table(folder: Path) -> Group:
    """Returns what one run has reached: in training, and in its evaluation if there was one."""
    run = read(folder)
    measure, count, speed = run.measure, window([run]), f", {run.rate:,.0f} steps/s" if run.rate else ""
    title = f"{run.name} ({run.memory}): {run.steps:,} steps in {clock(run.seconds)}{speed}, {seeds_of([run])}"
    table = _table("level", "training", *run.evaluation)
    for name in run.names:
        cells = [_with_interval(run, name, part.get(name, {})) for part in run.evaluation.values()]
        _add_row(table, name, measure.text(last(run, name)) if name in run.levels else "", *cells)
    if len(run.levels) != 1:
        _add_row(table, "all", measure.text(last(run, None)))
    caption = f"{measure.title}. Training: {f'mean of the last {count} rows' if count > 1 else 'the last row'}."
    if run.evaluation:
        counts = [finite(part.get("episodes")) for by_level in run.evaluation.values() for part in by_level.values()]
        episodes = " or ".join(f"{count:.0f}" for count in sorted({count or 0 for count in counts}))
        caption += f" Evaluation: 95 % interval, {episodes} episodes a level."
    return Group(_line(title), table, _line(caption, "dim"))


def compare_tables(folders: Sequence[Path]) -> list[Group]:
    """Returns two tables with a row per run, as one would be wider than a terminal: how good it is, and what it took.

    All runs are measured alike: by evaluation (greedy, or sampled for returns) if every run has one, else by the end of
    training.
    """
    runs = [read(folder) for folder in folders]
    measure = measure_of(runs)
    judged = all(measure.way in run.evaluation for run in runs)
    names = list(dict.fromkeys(n for run in runs for n in (run.evaluation[measure.way] if judged else run.levels)))
    how = f"{measure.way} evaluation, below it the 95 % interval" if judged else "at the end of training"
    good, cost = _table("run", *names), _table("run", "memory", *COSTS)
    for run in runs:
        chosen = run.evaluation.get(measure.way, {})
        _add_row(good, run.name, *(_lines(run, n, chosen.get(n, {})) if judged else _end(run, n) for n in names))
        minutes = "-" if run.seconds is None else f"{run.seconds / 60:,.1f}"
        rate = "-" if run.rate is None else f"{run.rate:,.0f}"
        _add_row(cost, run.name, printable(run.memory), str(run.seeds), short(run.steps), minutes, rate)
    heading = ", ".join(part for part in (measure.title, measure.unit.strip(), how) if part)
    return [Group(_line(heading), good), Group(_line("Training"), cost)]


def _lines(run: Run, level: str, part: Row) -> str:
    """Returns a score, below it its interval and, of a return, what part of the oracle's it is."""
    measure = run.measure
    score = measure.score(part)
    found = (measure.bare(score), measure.around(part, "-"), measure.of_oracle(score, run.oracle(level)))
    return "\n".join(line for line in found if line)


def _end(run: Run, level: str) -> str:
    return run.measure.bare(last(run, level))


def _line(text: str, style: str = "italic") -> Text:
    """Returns a line above or below a table. As the table's own title it would be broken to the table's width."""
    return Text(printable(text), style=style)


def _table(*headings: str) -> Table:
    table = Table(box=box.SIMPLE, padding=(0, 1, 0, 0))
    for heading in headings:
        justify: Any = "left" if heading in ("run", "memory", "level") else "right"
        table.add_column(Text(printable(heading)), overflow="fold", justify=justify)
    return table


def _add_row(table: Table, name: str, *cells: str) -> None:
    table.add_row(Text(printable(name)), *map(Text, cells))


def _with_interval(run: Run, level: str, part: Row) -> str:
    measure = run.measure
    around, share = measure.around(part), measure.of_oracle(measure.score(part), run.oracle(level))
    text = measure.text(measure.score(part)) + (f"  ({around})" if around else "") + (f"\n{share}" if share else "")
    return text if part else ""
