"""What a training run shows while it runs: a live display on a terminal, plain lines elsewhere.

Rows and names may hold anything: what cannot be shown as a number is a gap, and no name reaches the terminal raw.
"""

import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
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

from hcam.runs.text import printable

Row = Mapping[str, Any]  # one line of metrics.jsonl

HISTORY = 30  # rows in a sparkline
PRINT_EVERY = 5.0  # seconds between plain lines
BARS = "▁▂▃▄▅▆▇█"
CENTURY = 100 * 366 * 86_400.0  # seconds


def finite(value: Any) -> float | None:
    """Returns the number, or None for anything else: null, NaN, infinity, text, an integer that no float holds."""
    known = _float(value)
    return known if math.isfinite(known) else None


def _float(value: Any) -> float:
    try:
        return float(value) if isinstance(value, Real) else math.nan
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def percent(value: Any) -> str:
    """Returns a share as 61.0 %, or "-" where it is unknown."""
    known = finite(value)
    return "-" if known is None else f"{100 * known:.1f} %"


def number(value: Any) -> str:
    """Returns a number in few digits. Unlike a share it may be "nan": a loss that is lost must be seen."""
    if not isinstance(value, Real):
        return "-"
    known = _float(value)
    return f"{known:.1e}" if 0 < abs(known) < 0.001 or abs(known) >= 1e5 else f"{known:.3f}"


def clock(seconds: Any) -> str:
    """Returns a time as 1:02:03, or "?" where it is unknown or beyond anybody's patience."""
    known = finite(seconds)
    if known is None or known > CENTURY:
        return "?"
    minutes, rest = divmod(max(0, round(known)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


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


def spread(row: Row) -> str:
    """Returns the worst and the best of several seeds, whose mean alone would hide that one of them failed."""
    seeds = row.get("seeds")
    parts = [part for part in seeds if isinstance(part, Mapping)] if isinstance(seeds, list | tuple) else []
    known = [share for part in parts if (share := finite(part.get("success"))) is not None]
    return f"{len(known)} seeds {percent(min(known))} to {percent(max(known))}" if len(known) > 1 else ""


def line(view: View) -> str:
    """Returns the last row as one line."""
    row, width = view.row, len(f"{view.total:,}")
    parts = [f"{view.steps:>{width},} / {view.total:,} steps", view.speed, f"eta {view.eta}"]
    parts += [f"success {percent(row.get('success'))}", spread(row), f"return {number(row.get('return'))}"]
    parts += [f"{printable(name)} {percent(level.get('success'))}" for name, level in levels(row).items()]
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
        parts += [level_table(view, width), Text(spread(view.row)), numbers]
    return Group(*parts)


def level_table(view: View, width: int) -> Table:
    """Returns a table with a line per level; columns that do not fit are left out, the history first."""
    pasts = [(printable(name), [levels(row).get(name, {}) for row in view.history]) for name in levels(view.row)]
    pasts += [] if len(pasts) == 1 else [("all", list(view.history))]
    room = width - max(cell_len(name) for name, _ in pasts) - 38  # for the history: the other columns take the rest
    recent = min(HISTORY, room) if room >= len("last 30 rows") else 0
    headings = ["level", "success", *(["return", "episodes"] if room >= 0 else [])]
    headings += [f"last {recent} rows"] if recent else []
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0))
    for heading in headings:
        table.add_column(
            heading, justify="right" if heading in ("success", "return", "episodes") else "left", no_wrap=True
        )
    for name, past in pasts:
        now = past[-1]
        cells = [name, percent(now.get("success")), number(now.get("return")), _count(now.get("episodes"))]
        cells.append(sparkline([row.get("success") for row in past[-recent:]]))
        table.add_row(*map(Text, cells[: len(headings)]))
    return table


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


class Display:
    """Shows rows as they come: a live picture on a terminal, lines in a pipe or a log file.

    No row, name or width makes it raise: a display is no reason for a run to end.
    """

    def __init__(
        self, total_steps: int, title: str, console: Console | None = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        # Training continues when nobody reads what it prints: metrics.jsonl has everything.
        self._console = Console(file=Lossy(sys.stderr)) if console is None else console  # type: ignore[arg-type]
        self._view, self._now = View(title, total_steps, "starting"), now
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
