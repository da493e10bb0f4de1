"""A picture of the score over the delay of levels: how far back a memory reaches. From files of `hcam eval --out`.

Which levels have a delay, and of how many steps, the environment has said when they were played (`Environment.delay`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hcam.report.curves import FAINT, _cut, plain_text, save, set_scale
from hcam.report.runs import share
from hcam.runs.files import parse_json, read_file
from hcam.runs.measure import Measure, find

PICTURE = "delays.png"
MOST_PANELS = 8
ROOM = ("slots", "window")  # how much a memory held
CAPTION = "Each circle: {way} episodes of one level, with 95 % interval; full: the level was trained on."


@dataclass(frozen=True)
class Point:
    steps: int  # of delay
    row: dict[str, Any]  # its evaluation
    trained: bool
    chance: float | None


@dataclass(frozen=True)
class Line:
    """The scores of one file, by what its levels are besides their delay."""

    label: str
    measure: Measure
    points: dict[str, list[Point]]


def read(files: Sequence[Path]) -> list[Line]:
    """What the files hold; raises ValueError where one holds no levels with a delay."""
    found = [(file, _content(file)) for file in dict.fromkeys(files)]
    labels = [_label(file, content) for file, content in found]
    pairs = zip(labels, found, strict=True)
    unique = [label if labels.count(label) == 1 else f"{label} ({file.stem})" for label, (file, _) in pairs]
    return [_line(file, label, content) for label, (file, content) in zip(unique, found, strict=True)]


def draw(lines: Sequence[Line], out: Path) -> None:
    """A panel for each kind of level, a line for each file."""
    names = list(dict.fromkeys(name for line in lines for name in line.points))[:MOST_PANELS]
    measures = list(dict.fromkeys(line.measure for line in lines))
    if len(measures) > 1:
        raise ValueError("these evaluations are scored by different things: draw those that are scored alike.")
    columns = min(2, len(names))
    with plain_text() as plt:
        size = (max(7.0, 5.0 * columns), 3.4 * -(-len(names) // columns) + 0.9)
        figure = plt.figure(figsize=size, layout="constrained")
        grid: Any = figure.subplots(-(-len(names) // columns), columns, sharey=True, squeeze=False).flat
        for axes, name in zip(grid, names, strict=False):
            _draw_panel(axes, name, lines)
        for axes in grid[len(names) :]:
            axes.set_axis_off()
        keys = [
            (plt.Line2D([], [], color=f"C{n % 10}", marker="o", ms=4.5), _cut(one.label, 48))
            for n, one in enumerate(lines)
        ]
        keys += [(plt.Line2D([], [], color=FAINT, ls=":"), "chance")] if _chances(lines) else []
        figure.legend(*zip(*keys, strict=True), loc="outside upper center", ncols=2, frameon=False, fontsize=9)
        figure.supxlabel(CAPTION.format(way=measures[0].way), fontsize=8, color=FAINT)
        save(figure, out)
        plt.close(figure)


def _draw_panel(axes: Any, name: str, lines: Sequence[Line]) -> None:
    measure, ticks = lines[0].measure, set[int]()
    for number, line in enumerate(lines):
        points = sorted(line.points.get(name, []), key=lambda point: point.steps)
        color = f"C{number % 10}"
        axes.plot([p.steps for p in points], [_score(p, measure) for p in points], color=color, linewidth=1.6)
        for point in points:
            y, (low, high) = _score(point, measure), measure.interval(point.row) or (0.0, 0.0)
            bars = [[max(0.0, y - measure.scale * low)], [max(0.0, measure.scale * high - y)]] if high > low else None
            fill = color if point.trained else "white"
            axes.errorbar(point.steps, y, bars, fmt="o", color=color, mfc=fill, ms=5, elinewidth=1.2)
        ticks |= {point.steps for point in points}
    for chance in sorted(_chances(lines, name)):
        axes.axhline(measure.scale * chance, color=FAINT, linestyle=":", linewidth=1.2, zorder=1)
    axes.set_xscale("symlog", linthresh=10, linscale=0.6)
    axes.set_xlim(-1, 1.2 * max(10, *ticks))
    axes.set_xticks(_apart(sorted(ticks)), labels=[f"{tick:,}" for tick in _apart(sorted(ticks))])
    axes.set_xticks([], minor=True)
    set_scale(axes, measure)
    axes.set_title(_cut(name, 60), fontsize=10)
    axes.set(xlabel="delay in steps", ylabel=measure.title.lower())


def _apart(ticks: Sequence[int]) -> list[int]:
    """Those that have room for their numbers on a scale that is logarithmic beyond 10."""
    kept: list[int] = []
    for tick in ticks:
        if not kept or (tick >= kept[-1] + 4 and tick > 1.3 * kept[-1]):
            kept.append(tick)
    return kept


def _score(point: Point, measure: Measure) -> float:
    return measure.scale * (share(point.row, measure.name) or 0.0)


def _chances(lines: Sequence[Line], name: str | None = None) -> set[float]:
    parts = [part for line in lines for key, part in line.points.items() if name in (None, key)]
    return {point.chance for part in parts for point in part if point.chance is not None}


def _content(file: Path) -> dict[str, Any]:
    try:
        content = parse_json(read_file(file))
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise ValueError(f"{file} is damaged: write it again, with `hcam eval AGENT --out FILE.json`.")
    return content


def _label(file: Path, content: dict[str, Any]) -> str:
    """The run, its memory where the name does not say it, and how much that held."""
    run, memory = f"{content.get('run', file.stem)}", f"{content.get('memory', '')}"
    parts = [run if memory in run else f"{run}: {memory}"]
    return ", ".join(parts + [f"{name} {content[name]}" for name in ROOM if type(content.get(name)) is int])


def _line(file: Path, label: str, content: dict[str, Any]) -> Line:
    measure, points = find(content.get("scored_by")), dict[str, list[Point]]()
    try:
        for level, delay in content.get("delays", {}).items():
            row = content[measure.way][level]
            if share(row, measure.name) is None:
                raise ValueError
            chance = content["chance"].get(level)
            steps, of = int(delay["steps"]), str(delay["of"])
            trained = level in content["trained"]
            points.setdefault(of, []).append(Point(steps, row, trained, None if chance is None else float(chance)))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise ValueError(f"{file} is damaged: write it again, with `hcam eval AGENT --out FILE.json`.") from None
    if not points:
        raise ValueError(
            f"{file} holds no levels with a delay: play some, with `hcam eval AGENT --level ... --out FILE.json`."
        )
    return Line(label, measure, points)
