"""What a training run shows while it runs: a live display on a terminal, plain lines elsewhere.

Rows and names may hold anything: what cannot be shown as a number is a gap, and no name reaches the terminal raw.
"""

import io
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Real
from types import TracebackType
from typing import Any, Self

from rich import box
from rich.cells import cell_len
from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from hcam.runs.measure import SUCCESS, Measure
from hcam.runs.text import clock, finite, number, percent, printable

Row = Mapping[str, Any]  # one line of metrics.jsonl

HISTORY = 30  # rows in a sparkline
PRINT_EVERY = 5.0  # seconds between plain lines
BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[Any]) -> str:
    """Returns shares as bars on a scale from 0 to 1, so that levels can be compared, with a gap for each unknown."""
    known = [finite(value) for value in values]
    return "".join(" " if v is None else BARS[round(min(max(v, 0.0), 1.0) * (len(BARS) - 1))] for v in known)


@dataclass(frozen=True)
class View:
    """Everything that the display shows."""

    title: str
    total: int  # steps
    stage: str = ""  # such as "training"
    row: Row = field(default_factory=dict)
    rate: float | None = None  # steps a second, smoothed over rows
    history: tuple[Row, ...] = ()
    measure: Measure = SUCCESS
    oracle: Mapping[str, float] = field(default_factory=dict)  # the mean return of the task's expert, by level

    def seen(self, row: Row) -> "View":
        now = finite(row.get("rate"))
        rate = self.rate if now is None else now if self.rate is None else 0.8 * self.rate + 0.2 * now
        return replace(self, stage="training", row=row, rate=rate, history=(*self.history, row)[-HISTORY:])

    @property
    def steps(self) -> int:
        return int(finite(self.row.get("steps")) or 0)

    @property
    def eta(self) -> str:
        return clock(max(0, self.total - self.steps) / self.rate if self.rate else None)

    @property
    def speed(self) -> str:
        return "-/s" if self.rate is None else f"{self.rate:,.0f}/s"


def levels(row: Row) -> dict[str, Row]:
    """Returns the entries of a row's levels; one that is missing or not an object is empty."""
    found = row.get("levels")
    parts = found.items() if isinstance(found, Mapping) else ()
    return {f"{name}": part if isinstance(part, Mapping) else {} for name, part in parts}


def values(row: Row) -> dict[str, Any]:
    """Returns the numbers of all groups in a row, such as its losses; a name that two groups have goes with its group.

    Which groups there are is up to the learner: whatever it reports is shown.
    """
    groups = {name: part for name, part in row.items() if isinstance(part, Mapping) and name != "levels"}
    names = [name for part in groups.values() for name in part]
    return {
        printable(name if names.count(name) == 1 else f"{group} {name}"): value
        for group, part in groups.items()
        for name, value in part.items()
    }


def spread(row: Row, measure: Measure = SUCCESS) -> str:
    """Returns the worst and the best of several seeds, whose mean alone would hide that one of them failed."""
    seeds = row.get("seeds")
    parts = [part for part in seeds if isinstance(part, Mapping)] if isinstance(seeds, list | tuple) else []
    known = [score for part in parts if (score := measure.score(part)) is not None]
    return f"{len(known)} seeds {measure.text(min(known))} to {measure.text(max(known))}" if len(known) > 1 else ""


def line(view: View) -> str:
    """Returns the last row as one line."""
    row, width, measure = view.row, len(f"{view.total:,}"), view.measure
    parts = [f"{view.steps:>{width},} / {view.total:,} steps", view.speed, f"eta {view.eta}"]
    other = "" if measure.name == "return" else f"return {number(row.get('return'))}"
    parts += [f"{measure.name} {measure.text(measure.score(row))}", spread(row, measure), other]
    for name, level in levels(row).items():
        known, share = measure.score(level), measure.of_oracle(measure.score(level), view.oracle.get(name))
        parts += [f"{printable(name)} {measure.text(known)}" + (f" ({share})" if share else "")]
    parts += [f"{name} {number(value)}" for name, value in values(row).items()]
    return "  ".join(part for part in (*parts, f"learning_rate {number(row.get('learning_rate'))}") if part)


def picture(view: View, spinner: Spinner | None, width: int) -> RenderableType:
    """Returns what the terminal shows, progress first, so that a low window cuts off only details."""
    title = printable(view.title)
    if spinner is not None:
        spinner.update(text=Text.assemble((title, "bold"), f"  {view.stage}"))
    bar = Table.grid(expand=True)
    bar.add_row(ProgressBar(total=max(1, view.total), completed=min(view.steps, view.total)))
    share = f"{view.steps / view.total:.0%}" if view.total else "-"
    words = f"{view.steps:,} / {view.total:,} steps  {share}  {view.speed}"
    times = f"{clock(view.row.get('seconds', 0))} trained  eta {view.eta}"
    parts: list[RenderableType] = [spinner or Text(title, style="bold"), bar, Text(f"{words}  {times}")]
    if view.row:
        shown = {"learning rate": view.row.get("learning_rate"), **values(view.row)}
        numbers = Columns([_value(*item) for item in shown.items()], equal=True, padding=(0, 3))
        parts += [level_table(view, width), Text(spread(view.row, view.measure)), numbers]
    return Group(*parts)


def level_table(view: View, width: int) -> Table:
    """Returns a table with a line per level; columns that do not fit are left out, the history first."""
    pasts = [(printable(name), [levels(row).get(name, {}) for row in view.history]) for name in levels(view.row)]
    pasts += [] if len(pasts) == 1 else [("all", list(view.history))]
    room = width - max(cell_len(name) for name, _ in pasts) - 38  # for the history: the other columns take the rest
    recent = min(HISTORY, room) if room >= len("last 30 rows") else 0
    measure = view.measure
    beside = "of oracle" if measure.name == "return" else "return"
    headings = ["level", measure.name, *([beside, "episodes"] if room >= 0 else [])]
    headings += [f"last {recent} rows"] if recent else []
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0))
    for heading in headings:
        table.add_column(
            heading, justify="right" if heading in (measure.name, beside, "episodes") else "left", no_wrap=True
        )
    for name, past in pasts:
        now, share_of = past[-1], partial(_share, view, name)
        other = percent(share_of(now)) if measure.name == "return" else number(now.get("return"))
        cells = [name, measure.text(measure.score(now)), other, _count(now.get("episodes"))]
        cells.append(sparkline([share_of(row) for row in past[-recent:]]))
        table.add_row(*map(Text, cells[: len(headings)]))
    return table


def _share(view: View, level: str, part: Row) -> float | None:
    """Returns a score as a part of the best: success as it is, a return by the oracle's; None where it is unknown."""
    known = view.measure.score(part)
    if view.measure.name != "return" or known is None:
        return known
    full = finite(view.oracle.get(level))
    return known / full if full is not None and full > 0 else None


def _value(name: str, value: Any) -> Text:
    lost = isinstance(value, Real) and finite(value) is None
    return Text.assemble((f"{name} ", "dim"), (number(value), "bold red" if lost else ""))


def _count(value: Any) -> str:
    known = finite(value)
    return "" if known is None else f"{known:,.0f}"


class Lossy:
    """A text file whose reader may go away: from then on, what is written is dropped and the writer continues."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):  # a closed file is a ValueError
            self._file.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._file.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def silent() -> Console:
    """For a process that has nothing to show, as another one shows it."""
    return Console(file=io.StringIO(), quiet=True)


class Display:
    """Shows rows as they come: a live picture on a terminal, lines in a pipe or a log file.

    No row, name or width makes it raise: a display is no reason for a run to end.
    """

    def __init__(
        self,
        total_steps: int,
        title: str,
        console: Console | None = None,
        now: Callable[[], float] = time.monotonic,
        measure: Measure = SUCCESS,
        oracle: Mapping[str, float] | None = None,
    ) -> None:
        # Training continues when nobody reads what it prints: metrics.jsonl has everything.
        self._console = Console(file=Lossy(sys.stderr)) if console is None else console  # type: ignore[arg-type]
        self._view, self._now = View(title, total_steps, "starting", measure=measure, oracle=oracle or {}), now
        self._printed, self._held = -math.inf, ""  # when the last plain line was printed; the one held back since
        self._spinner = Spinner("dots")
        # The file is asked too: FORCE_COLOR, which CI sets, makes rich take a log file for a terminal.
        alive = self._console.is_interactive and self._console.file.isatty()
        alive = alive and self._console.encoding.startswith("utf")  # bars and lines are not in ASCII or Latin-1
        self._live = Live(console=self._console, get_renderable=self._picture) if alive else None

    def __enter__(self) -> Self:
        if self._live is None:
            self.say(self._view.title)
        else:
            self._live.start(refresh=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leaves the last picture on the screen; an exception, Ctrl-C included, is raised further."""
        self._view = replace(self._view, stage="")
        if self._live is None:
            self._print(self._held, always=True)
        else:
            self._live.stop()

    def compiling(self) -> None:
        self._view = replace(self._view, stage="compiling, once ...")
        if self._live is None:
            self.say("compiling, once ...")

    def update(self, row: Row) -> None:
        first = not self._view.row
        self._view = self._view.seen(row)
        if self._live is None:
            self._print(line(self._view), always=first)

    def evaluating(self, done: int, total: int) -> None:
        if self._live is None and self._view.stage == "training":
            self._print(self._held, always=True)  # the last row, which lines of another kind would replace
        text = f"evaluating {done:,} / {total:,}"
        self._view = replace(self._view, stage=text if done < total else "")
        if self._live is None:
            self._print(text, always=done in (0, total))

    def say(self, text: str) -> None:
        """Prints one line that stays."""
        encoding = self._console.encoding
        shown = printable(text).encode(encoding, "replace").decode(encoding)  # a log file may be in ASCII
        self._console.print(Text(shown), soft_wrap=True)

    def _print(self, text: str, *, always: bool) -> None:
        """Prints a line, or holds it back if one came just now; the last one held back is printed at the end."""
        if not always and self._now() - self._printed < PRINT_EVERY:
            self._held = text
        elif text:
            self.say(text)
            self._printed, self._held = self._now(), ""

    def _picture(self) -> RenderableType:
        return picture(self._view, self._spinner if self._view.stage else None, self._console.width)
