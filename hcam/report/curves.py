"""Learning curves: success over steps, with returns and losses below."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hcam.report.runs import Points, Run, first_text, kinds, merged, overall, read, seeds_of, short, success, window
from hcam.runs.progress import finite

Line = tuple[str, list[Run], str | None]  # label, repeats, level

MOST_PANELS = 8  # levels that get a picture of their own
FAINT = "#767676"


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
        labels = {f"{label}, {seeds_of(some)}": some for label, some in compared.items()}
        learned = [*dict.fromkeys(name for run in runs for name in run.levels)] or names  # others have no curve
        shown = learned if len(learned) <= MOST_PANELS else [None]
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
    called = f"{_cut(' + '.join(run.name for run in runs), 60)}: {runs[0].memory}, {seeds_of(runs)}"
    parts[0].suptitle(title or (called if one else first_text(runs[0].config, "task") or ""), x=0.01, ha="left")
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
