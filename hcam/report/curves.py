"""Learning curves: the score over steps, returns and losses below. Names are drawn as they are, not as formulas."""

import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from hcam.report.runs import (
    Merged,
    Points,
    Run,
    first_text,
    kinds,
    loss,
    measure_of,
    merged,
    overall,
    read,
    scores,
    seeds_of,
    share,
    short,
    window,
)
from hcam.runs.files import explained, write_file
from hcam.runs.measure import Measure
from hcam.runs.text import printable

MOST_PANELS = 8  # levels that get a panel of their own
BANDS = "Lines: mean over seeds; light bands: lowest to highest, dark: ± standard deviation, of three or more."
MOST_LINES = 24  # levels in one panel; more would fill the picture with their names
FAINT = "#767676"

Curves = Callable[..., list[Points]]  # of a run, smoothed over so many rows


@dataclass(frozen=True)
class Line:
    label: str
    runs: list[Run]  # repeats
    level: str | None  # None: all levels


@dataclass(frozen=True)
class Look:
    """How all panels of a picture are drawn."""

    smooth: int  # rows in a smoothing window
    columns: int
    thin: bool  # whether the rows are also drawn as logged
    measure: Measure


def curve(folders: Sequence[Path], *outs: Path, smooth: int | None = None, title: str | None = None) -> None:
    """Draws the score over agent steps: a line per level, or a panel per level when kinds of run are compared.

    The same picture into each of `outs`, in the format that its name ends in.
    """
    runs = [read(folder) for folder in dict.fromkeys(folders)]
    if not runs:
        raise ValueError("a learning curve needs at least one run folder.")
    count, compared = window(runs, smooth), kinds(runs)
    plan = panels(runs, compared)
    columns = min(len(plan), 3 if len(plan) <= 6 else 4)
    look = Look(count, columns, thin=count > 1 and len(runs) == runs[0].seeds == 1, measure=measure_of(runs))
    with plain_text() as plt:
        figure = plt.figure(figsize=(10, 6), layout="constrained")
        parts: Any = figure.subfigures(2, 1, height_ratios=(3, 1.1))
        grid = parts[0].subplots(-(-len(plan) // columns), columns, sharey=True, squeeze=False).flat
        drawn = [_draw_scores(axes, *panel, look) for axes, panel in zip(grid, plan.items(), strict=False)]
        for axes in grid[len(plan) :]:
            axes.set_axis_off()
        _draw_legend(parts[0], *zip(*drawn[0][0], strict=True), one=len(compared) == 1)
        parts[0].supxlabel("agent steps", fontsize=10)
        _draw_strip(parts[1], list(compared.values()), count)
        parts[0].suptitle(_cut(title or _title(runs, len(compared) == 1), 120), x=0.01, ha="left")
        figure.supxlabel(_caption(runs, look, any(judged for _, judged in drawn)), fontsize=8, color=FAINT)
        for out in outs:
            save(figure, out)
        plt.close(figure)


@contextmanager
def plain_text() -> Iterator[Any]:
    """Gives pyplot with our theme, in which text is never a formula and a character that no font has is a box."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import seaborn as sns

    with plt.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning)  # missing characters, and panels too small for names
        sns.set_theme(style="whitegrid", palette="colorblind", font_scale=0.9)
        plt.rcParams.update({"text.usetex": False, "text.parse_math": False, "axes.formatter.use_mathtext": False})
        plt.rcParams["svg.hashsalt"] = "hcam"  # the same file from the same numbers
        yield plt


def panels(runs: Sequence[Run], compared: dict[str, list[Run]]) -> dict[str, list[Line]]:
    """Returns the lines of each panel, by its title: one panel for one kind of run, else a panel per level."""
    names: list[str | None] = list(dict.fromkeys(name for run in runs for name in run.names))
    if len(compared) == 1:
        shown = names if 0 < len(names) <= MOST_LINES else [None]
        return {"": [Line(_called(name), list(runs), name) for name in shown]}
    learned: list[str | None] = list(dict.fromkeys(name for run in runs for name in run.levels))  # others have no curve
    shown = learned if 0 < len(learned) <= MOST_PANELS else names if len(names) == 1 else [None]
    labels = {f"{label}, {seeds_of(some)}": some for label, some in compared.items()}
    return {_called(name): [Line(label, some, name) for label, some in labels.items()] for name in shown}


def _called(level: str | None) -> str:
    return "all levels" if level is None else level


def _draw_scores(axes: Any, title: str, lines: Sequence[Line], look: Look) -> tuple[list[tuple[Any, str]], bool]:
    """Draws one panel; returns the entries of its legend, and whether it shows an evaluation."""
    end = edge = max(1.0, *(float(run.steps) for line in lines for run in line.runs))
    circles = sum(len(run.evaluation) for line in lines for run in line.runs)
    gap = end * min(0.012 * look.columns, 0.2 / max(1, circles))
    keys, measure = [], look.measure
    known: dict[str, set[float]] = {"chance": set(), "oracle": set()}
    for number, line in enumerate(lines):
        style = {"color": f"C{number % 10}", "linestyle": ("-", "--", "-.", ":")[number // 10 % 4]}
        if look.thin:
            _draw_line(axes, scores(line.runs[0], line.level, 1), measure.scale, **style, linewidth=0.6, alpha=0.35)
        curves = [points for run in line.runs for points in scores(run, line.level, look.smooth)]
        keys.append((_draw_line(axes, curves, measure.scale, **style, linewidth=2), _cut(line.label)))
        for kind, part in [item for run in line.runs for item in run.evaluation.items()]:
            score = part.get(line.level, {}) if line.level is not None else {}
            if share(score, measure.name) is not None:
                edge += gap
                _draw_circle(axes, edge, score, measure, style["color"], kind == "greedy")
        known["chance"] |= {chance for run in line.runs if (chance := run.fact("chance", line.level))}
        known["oracle"] |= {full for run in line.runs if (full := run.oracle(line.level))}
    keys += draw_yardsticks(axes, known, measure)
    if edge > end:  # beside the axis of steps, not on it: the evaluation came after the last one
        axes.axvspan(end + gap / 2, edge + gap, color="0.94", zorder=0, linewidth=0)
    axes.set(xlim=(0, edge + gap))
    set_scale(axes, measure)
    axes.set_title(_cut(title), fontsize=10)
    axes.xaxis.set_major_formatter(lambda value, _: short(value))
    axes.locator_params(axis="x", nbins=8 if look.columns == 1 else 4)
    axes.set_xticks([tick for tick in axes.xaxis.get_major_locator().tick_values(0, end) if tick <= end])
    return keys, edge > end


def set_scale(axes: Any, measure: Measure) -> None:
    """Gives success a scale of its own, 0 to 100 %; returns one that begins at 0 unless some are negative."""
    if measure.name == "success":
        axes.set(ylim=(-2, 102))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0f} %")
    elif axes.get_ylim()[0] < 0 <= min((value for line in axes.lines for value in line.get_ydata()), default=0):
        axes.set(ylim=(0, axes.get_ylim()[1]))


def draw_yardsticks(axes: Any, known: dict[str, set[float]], measure: Measure) -> list[tuple[Any, str]]:
    """Draws what guessing scores, and what the expert; returns the entries of a legend."""
    styles, found = {"chance": ":", "oracle": "-."}, []
    for name, values in known.items():
        look: Any = {"color": FAINT, "linestyle": styles[name], "linewidth": 1.2, "zorder": 1}
        lines = [axes.axhline(measure.scale * value, **look) for value in sorted(values)]
        found += [(line, name) for line in lines[:1]]
    return found


def _draw_circle(axes: Any, x: float, part: Any, measure: Measure, color: str, full: bool) -> None:
    """Draws an evaluation with its interval."""
    y, ends, scale = (
        share(part, measure.name),
        [share(part, name) for name in (measure.low, measure.high)],
        measure.scale,
    )
    assert y is not None
    bars = [[0.0 if e is None else max(0.0, sign * (y - e))] for e, sign in zip(ends, (scale, -scale), strict=True)]
    fill = color if full else "white"
    axes.errorbar(x, scale * y, bars, fmt="o", color=color, mfc=fill, ms=4.5, elinewidth=1.2)


def _draw_line(axes: Any, curves: Sequence[Points], scale: float, **style: Any) -> Any:
    """Draws the mean of several curves with the paper's bands: dark for the standard deviation, light for the range."""
    found = merged(curves)
    alone = {"marker": "o"} if len(found.steps) == 1 else {}
    (line,) = axes.plot(found.steps, scale * found.mean, **alone, **style)
    draw_bands(axes, found, scale, len(curves), style["color"])
    return line


def draw_bands(axes: Any, found: Merged, scale: float, count: int, color: str) -> None:
    """Draws the range of several curves and, of three or more, their standard deviation within it."""
    if count > 1:
        axes.fill_between(found.steps, scale * found.low, scale * found.high, color=color, alpha=0.15, linewidth=0)
    if count > 2:  # that of two is the range, and larger than it
        low, high = found.mean - found.deviation, found.mean + found.deviation
        axes.fill_between(found.steps, scale * low, scale * high, color=color, alpha=0.2, linewidth=0)


def _draw_legend(figure: Any, handles: Sequence[Any], labels: Sequence[str], *, one: bool) -> None:
    where = "right upper" if one else "upper right"
    figure.legend(handles, labels, loc=f"outside {where}", ncols=1 if one else 4, frameon=False)


def _draw_strip(figure: Any, groups: Sequence[list[Run]], smooth: int) -> None:
    """Draws return and losses, each on a scale of its own."""
    names = list(groups[0][0].log.last.get("losses") or {})[:5]
    drawn: list[tuple[str, Curves]] = [("return", partial(overall, what="return"))]
    drawn += [(f"{name} loss", partial(loss, name=name)) for name in names]
    for axes, (title, curves_of) in zip(figure.subplots(1, len(drawn), squeeze=False).flat, drawn, strict=True):
        for number, runs in enumerate(groups):
            curves = [points for run in runs for points in curves_of(run, smooth=smooth)]
            _draw_line(axes, curves, 1, color=FAINT if len(groups) == 1 else f"C{number}", linewidth=1.2)
        axes.set_title(_cut(title), fontsize=9)
        axes.tick_params(labelsize=8)
        axes.locator_params(axis="y", nbins=4)
        axes.set_xticks([])


def _title(runs: Sequence[Run], one: bool) -> str:
    called = f"{_cut(' + '.join(run.name for run in runs), 60)}: {_cut(runs[0].memory)}, {seeds_of(runs)}"
    return called if one else first_text(runs[0].config, "task") or ""


def _caption(runs: Sequence[Run], look: Look, judged: bool) -> str:
    steps = short(float(f"{look.smooth * runs[0].steps / len(runs[0].log.steps):.1g}"))
    rows = f"smoothed by a triangular window over {look.smooth} rows of the log, about {steps} steps"
    mean = rows if look.smooth > 1 else "as logged"
    text = f"{look.measure.title} of training episodes, {mean}." + " Thin: as logged." * look.thin
    text += f"\n{BANDS}" * (len(kinds(runs)) < sum(run.seeds for run in runs))
    oracle = any(run.oracle(level) for run in runs for level in run.names)
    text += " Oracle: the task's own expert, which knows the answer." * oracle
    circles = "\nCircles: evaluation after training, with 95 % interval; full: greedy, open: sampled."
    return text + circles * judged


def _cut(text: str, most: int = 28) -> str:
    shown = printable(text)
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def save(figure: Any, out: Path) -> None:
    """Writes the picture whole or not at all, and through no symbolic link, since `out` may lie in a run folder."""
    picture, kind = io.BytesIO(), out.suffix.lstrip(".") or "png"
    dated: dict[str, Any] = {"metadata": {"Date": None}} if kind == "svg" else {}
    figure.savefig(picture, dpi=150, format=kind, **dated)
    with explained(f"{out} cannot be written"):
        write_file(out, picture.getvalue())
