"""Run folders as tables and pictures; everything is read from the folders alone."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.table import Table
from rich.text import Text

from hcam.folder import CONFIG, EVAL, METRICS, read_config, read_metrics
from hcam.progress import Row, clock, finite, levels, percent

Numbers = NDArray[np.float64]
Points = tuple[Numbers, Numbers]  # steps and values
Line = tuple[str, list["Run"], str | None]  # label, repeats, level

UNLIKE = {"seed", "seeds", "log_every", "save_every", "keep", "eval_episodes"}  # what repeats may differ in
MOST_PANELS = 8  # levels that get a picture of their own
FAINT = "#767676"


@dataclass(frozen=True)
class Run:
    name: str
    memory: str
    config: dict[str, Any]
    rows: list[dict[str, Any]]
    evaluation: dict[str, dict[str, Row]]  # "greedy" and "sampled", level by level
    steps: int
    seeds: int  # trained at once
    levels: list[str]  # that it learned
    names: list[str]  # these, and those that it was only evaluated on


def read(folder: Path) -> Run:
    if not folder.is_dir():
        raise ValueError(f"there is no run folder {folder}: give one that `hcam train` has made, such as runs/NAME.")
    if not (folder / METRICS).exists():
        raise ValueError(f"{folder} has no {METRICS}: give a folder in which `hcam train` has run.")
    rows = read_metrics(folder)
    if not rows:
        raise ValueError(f"{folder / METRICS} holds no whole row yet: wait for the run's first one, or train again.")
    config = read_config(folder) if (folder / CONFIG).exists() else {}
    evaluation = json.loads((folder / EVAL).read_bytes()) if (folder / EVAL).exists() else {}
    kept = {kind: evaluation[kind] for kind in ("greedy", "sampled") if evaluation.get(kind)}
    learned = list(dict.fromkeys(name for row in rows for name in levels(row)))
    names = list(dict.fromkeys([*learned, *(name for part in kept.values() for name in part)]))
    memory, seeds = _first_text(config, "memory") or "?", max(1, len(rows[-1].get("seeds") or ()))
    return Run(folder.resolve().name, memory, config, rows, kept, rows[-1]["steps"], seeds, learned, names)


def _first_text(tree: Any, key: str) -> str | None:
    """The first text under this key, however deep: which part of the configuration holds it is not our business."""
    if not isinstance(tree, dict) or isinstance(tree.get(key), str):
        return tree[key] if isinstance(tree, dict) else None
    return next((found for part in tree.values() if (found := _first_text(part, key))), None)


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


def final_table(folder: Path) -> Table:
    """What one run has reached: while training, and in its evaluation if there was one."""
    run = read(folder)
    seconds, count = finite(run.rows[-1].get("seconds")), window([run])
    speed = f", {run.steps / seconds:,.0f} steps/s" if seconds else ""
    title = f"{run.name} ({run.memory}): {run.steps:,} steps in {clock(seconds)}{speed}, {_seeds([run])}"
    table = _table(title, "level", "training", *run.evaluation)
    table.min_width = len(title)  # else a table of one level breaks its title into many lines
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


def compare_table(folders: Sequence[Path]) -> Table:
    """One row per run, all measured alike: by greedy evaluation if every run has one, else by the end of training."""
    runs = [read(folder) for folder in folders]
    judged = all("greedy" in run.evaluation for run in runs)
    names = list(dict.fromkeys(name for run in runs for name in (run.evaluation["greedy"] if judged else run.levels)))
    title = f"Success, %, {'greedy evaluation' if judged else 'at the end of training'}"
    table = _table(title, "run", "memory", "steps", *names)
    for run in runs:
        greedy = run.evaluation.get("greedy", {})
        found = [greedy.get(name, {}).get("success") if judged else last(run, name) for name in names]
        cells = [percent(share).removesuffix(" %") for share in found]
        table.add_row(Text(run.name), run.memory, short(run.steps), *cells)
    return table


def _table(title: str, *headings: str) -> Table:
    look: Any = {"title_justify": "left", "caption_justify": "left", "box": box.SIMPLE, "padding": (0, 1, 0, 0)}
    table = Table(title=Text(title, style="italic"), **look)
    for heading in headings:
        justify: Any = "left" if heading in ("run", "memory", "level") else "right"
        table.add_column(Text(heading), overflow="fold", justify=justify)
    return table


def _with_interval(part: Row) -> str:
    low, high = finite(part.get("low")), finite(part.get("high"))
    around = "" if low is None or high is None else f"  ({100 * low:.1f} to {100 * high:.1f})"
    return percent(part.get("success")) + around if part else ""


def _seeds(runs: Sequence[Run]) -> str:
    count = sum(run.seeds for run in runs)
    return "one seed" if count == 1 else f"{count} seeds"


def short(steps: float) -> str:
    """1,500,000 as 1.5 M."""
    size, unit = (1e6, " M") if abs(steps) >= 1e6 else (1e3, " k") if abs(steps) >= 1e3 else (1.0, "")
    return f"{float(f'{steps / size:.4g}'):,g}{unit}"


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
    """Steps, mean, lowest and highest of several curves, where all of them have begun and none has ended."""
    known = [points for points in curves if len(points[0])]
    if not known:
        return (np.zeros(0),) * 4
    begin, end = max(steps[0] for steps, _ in known), min(steps[-1] for steps, _ in known)
    steps = np.unique(np.concatenate([steps for steps, _ in known]))
    steps = steps[(begin <= steps) & (steps <= end)]
    values = np.stack([np.interp(steps, *points) for points in known])
    return steps, values.mean(0), values.min(0), values.max(0)


def curve(folders: Sequence[Path], out: Path, *, smooth: int | None = None, title: str | None = None) -> None:
    """Draws success over agent steps: a line per level, or a panel per level when kinds of run are compared."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import seaborn as sns

    runs = [read(folder) for folder in dict.fromkeys(folders)]
    if not runs:
        raise ValueError("a learning curve needs at least one run folder.")
    count, compared = window(runs, smooth), kinds(runs)
    names: list[str | None] = [*dict.fromkeys(name for run in runs for name in run.names)] or [None]
    one, thin = len(compared) == 1, count > 1 and len(runs) == runs[0].seeds == 1
    plan: list[tuple[str, list[Line]]] = [("", [(name or "all levels", runs, name) for name in names])]
    if not one:
        labels = {f"{label}, {_seeds(some)}": some for label, some in compared.items()}
        shown = names if len(names) <= MOST_PANELS else [None]
        plan = [(name or "all levels", [(*item, name) for item in labels.items()]) for name in shown]
    columns = min(len(plan), 3 if len(plan) <= 6 else 4)
    sns.set_theme(style="whitegrid", palette="colorblind", font_scale=0.9)
    figure = plt.figure(figsize=(10, 6), layout="constrained")
    parts: Any = figure.subfigures(2, 1, height_ratios=(3, 1.1))
    panels = parts[0].subplots(-(-len(plan) // columns), columns, sharey=True, squeeze=False).flat
    judged = [_draw_success(axes, *panel, count, columns, thin) for axes, panel in zip(panels, plan, strict=False)]
    for axes in panels[len(plan) :]:
        axes.set_axis_off()
    keys = dict(zip(*reversed(panels[0].get_legend_handles_labels()), strict=True))
    keys |= {"chance": keys.pop("chance")} if "chance" in keys else {}  # last
    where = "right upper" if one else "upper right"
    parts[0].legend(keys.values(), keys.keys(), loc=f"outside {where}", ncols=1 if one else 4, frameon=False)
    parts[0].supxlabel("agent steps", fontsize=10)
    _draw_strip(parts[1], list(compared.values()), count)
    called = f"{_cut(' + '.join(run.name for run in runs), 60)}: {runs[0].memory}, {_seeds(runs)}"
    parts[0].suptitle(title or (called if one else _first_text(runs[0].config, "task") or ""), x=0.01, ha="left")
    figure.supxlabel(_caption(runs, count, thin, any(judged)), fontsize=8, color=FAINT)
    figure.savefig(out, dpi=150)
    plt.close(figure)


def _draw_success(axes: Any, title: str, lines: Sequence[Line], smooth: int, columns: int, thin: bool) -> bool:
    """One panel: the lines, what chance would give, and how they ended in evaluation, if they were: True then."""
    end = edge = float(max(run.steps for _, runs, _ in lines for run in runs))
    circles = sum(len(run.evaluation) for _, runs, _ in lines for run in runs)
    gap = end * min(0.012 * columns, 0.2 / max(1, circles))
    for number, (label, runs, level) in enumerate(lines):
        look = {"color": f"C{number % 10}", "linestyle": ("-", "--", "-.", ":")[number // 10 % 4]}
        if thin:
            _draw_line(axes, success(runs[0], level, 1), 100, **look, linewidth=0.6, alpha=0.35)
        curves = [points for run in runs for points in success(run, level, smooth)]
        _draw_line(axes, curves, 100, **look, linewidth=2, label=_cut(label))
        for kind, part in [item for run in runs for item in run.evaluation.items()]:
            y, low, high = (finite(part.get(level or "", {}).get(what)) for what in ("success", "low", "high"))
            if y is not None:
                edge += gap
                bars = [[0.0 if e is None else max(0.0, sign * (y - e))] for e, sign in ((low, 100), (high, -100))]
                fill = look["color"] if kind == "greedy" else "white"
                axes.errorbar(edge, 100 * y, bars, fmt="o", color=look["color"], mfc=fill, ms=4.5, elinewidth=1.2)
        for chance in {share for run in runs if (share := finite((run.config.get("chance") or {}).get(level)))}:
            axes.axhline(100 * chance, color=FAINT, linestyle="--", linewidth=1, zorder=1, label="chance")
    if edge > end:  # beside the axis of steps, not on it: the evaluation came after the last one
        axes.axvspan(end + gap / 2, edge + gap, color="0.94", zorder=0, linewidth=0)
    axes.set(ylim=(-2, 102), xlim=(0, edge + gap))
    axes.set_title(_cut(title), fontsize=10)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0f} %")
    axes.xaxis.set_major_formatter(lambda value, _: short(value))
    axes.locator_params(axis="x", nbins=8 if columns == 1 else 4)
    axes.set_xticks([tick for tick in axes.xaxis.get_major_locator().tick_values(0, end) if tick <= end])
    return edge > end


def _draw_line(axes: Any, curves: Sequence[Points], scale: float, **look: Any) -> None:
    steps, mean, low, high = merged(curves)
    axes.plot(steps, scale * mean, marker="o" if len(steps) == 1 else None, **look)
    if len(curves) > 1:
        axes.fill_between(steps, scale * low, scale * high, color=look["color"], alpha=0.18, linewidth=0)


def _draw_strip(figure: Any, groups: Sequence[list[Run]], smooth: int) -> None:
    """Return and losses, each on a scale of its own."""
    names = list(groups[0][0].rows[-1].get("losses") or {})[:5]
    for axes, name in zip(figure.subplots(1, 1 + len(names), squeeze=False).flat, ["return", *names], strict=True):
        for number, runs in enumerate(groups):
            curves = [points for run in runs for points in overall(run, name, smooth)]
            _draw_line(axes, curves, 1, color=FAINT if len(groups) == 1 else f"C{number}", linewidth=1.2)
        axes.set_title(name if name == "return" else f"{name} loss", fontsize=9)
        axes.tick_params(labelsize=8)
        axes.locator_params(axis="y", nbins=4)
        axes.set_xticks([])


def _caption(runs: Sequence[Run], smooth: int, thin: bool, judged: bool) -> str:
    about = short(float(f"{smooth * runs[0].steps / len(runs[0].rows):.1g}"))
    mean = f"running mean over {smooth} rows of the log, about {about} steps" if smooth > 1 else "as logged"
    text = f"Success of training episodes, {mean}." + " Thin: as logged." * thin
    text += " Lines: mean over seeds; bands: lowest to highest." * (len(kinds(runs)) < sum(run.seeds for run in runs))
    circles = "\nCircles: evaluation after training, with 95 % interval; full: greedy, open: sampled."
    return text + circles * judged


def _cut(text: str, most: int = 28) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
