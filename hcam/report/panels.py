"""The pictures of a results page: a panel per level, a line per experiment."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hcam.envs.environment import Environment
from hcam.recipes import Section
from hcam.report.curves import FAINT, draw_bands, draw_yardsticks, save
from hcam.report.results import Outcome, score
from hcam.report.runs import Run, measure_of, merged, scores, short, window

STYLES = ("-", "--", "-.", (0, (4, 1, 1, 1, 1, 1)))  # besides colours, for those who do not see them
MARKS = ("evaluation", "the paper's number", "chance", "oracle")


def draw(outcomes: Sequence[Outcome], env: Environment, section: Section, out: Path) -> None:
    """A panel per level, in the section's order. Only experiments that have a run are drawn."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import seaborn as sns

    drawn = [outcome for outcome in outcomes if outcome.runs]
    levels, columns = section.levels, section.columns
    rows = -(-len(levels) // columns)
    lines = {"grid.color": "0.9", "axes.edgecolor": "0.75", "axes.linewidth": 1}
    sns.set_theme(style="whitegrid", palette="colorblind", font_scale=0.9, rc=lines)
    figure, grid = plt.subplots(
        rows, columns, sharex=True, sharey=True, squeeze=False, figsize=(10, 2.75 * rows + 0.9), layout="constrained"
    )
    for axes, level in zip(grid.flat, levels, strict=False):
        _draw_level(axes, drawn, env, level)
    for axes in grid.flat[len(levels) :]:
        axes.set_axis_off()
    handles, labels = grid.flat[0].get_legend_handles_labels()
    look: Any = {"loc": "outside upper left", "ncols": 3, "frameon": False, "fontsize": 9}
    marks = MARKS if any(run.oracle(level) for o in drawn for run in o.runs for level in levels) else MARKS[:3]
    way = measure_of([run for outcome in drawn for run in outcome.runs]).way
    shown = [*labels, f"{way} {marks[0]}", *marks[1:]]
    figure.legend([*handles, *_marks(plt)[: len(marks)]], shown, **look)
    figure.supxlabel("agent steps", fontsize=10)
    save(figure, out)
    plt.close(figure)


def _marks(plt: Any) -> list[Any]:
    """Grey, since they stand for all experiments."""
    looks: list[Any] = [{"marker": "o", "ls": ""}, {"marker": "D", "ls": "", "mfc": "none"}, {"ls": ":", "lw": 1.2}]
    looks += [{"ls": "-.", "lw": 1.2}]
    return [plt.Line2D([], [], color=FAINT, ms=6, **look) for look in looks]


def _draw_level(axes: Any, outcomes: Sequence[Outcome], env: Environment, level: str) -> None:
    runs = [run for outcome in outcomes for run in outcome.runs]
    measure, smooth, end = measure_of(runs), window(runs), float(max(run.steps for run in runs))
    gap = end * 0.22 / (len(outcomes) + 1)
    for number, outcome in enumerate(outcomes):
        color, style = f"C{number % 10}", STYLES[number % len(STYLES)]
        curves = [points for run in outcome.runs for points in scores(run, level, smooth)]
        found = merged(curves)
        draw_bands(axes, found, measure.scale, len(curves), color)
        axes.plot(
            found.steps, measure.scale * found.mean, color=color, linestyle=style, linewidth=2, label=label(outcome)
        )
        _draw_ends(axes, outcome, level, end + gap * (number + 1), gap / 2, color)
    axes.axvspan(end + gap / 3, end * 1.22, color="0.95", zorder=0, linewidth=0)  # beside the axis of steps
    draw_yardsticks(axes, {name: yardsticks(runs, env, name, level) for name in ("chance", "oracle")}, measure)
    trained = any(level in run.levels for run in runs)
    axes.set_title(env.title(level) + ("" if trained else "\n(never trained on)"), fontsize=10)
    axes.set(xlim=(0, end * 1.22))
    if measure.name == "success":
        axes.set(ylim=(-2, 104))
        axes.set_yticks(range(0, 101, 25))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0f} %")
    axes.xaxis.set_major_formatter(lambda value, _: short(value))
    axes.locator_params(axis="x", nbins=4)
    axes.set_xticks([tick for tick in axes.xaxis.get_major_locator().tick_values(0, end) if tick <= end])


def _draw_ends(axes: Any, outcome: Outcome, level: str, x: float, apart: float, color: str) -> None:
    """How each run ended in evaluation, and what the paper reports, which is no run of ours and looks so."""
    measure = measure_of(outcome.runs)
    if reported := outcome.experiment.paper.get(level):
        axes.plot([x], [reported.mean], "D", color=color, mfc="none", ms=7, mew=1.2)
    found = [part for run in outcome.runs if (part := score(run, level))]
    for number, part in enumerate(found):
        y = part[measure.name]
        around = measure.interval(part) or (y, y)
        bars = [[measure.scale * abs(y - edge)] for edge in around]
        beside = x + apart * (number - (len(found) - 1) / 2) / max(1, len(found) - 1)
        axes.errorbar(beside, measure.scale * y, bars, fmt="o", color=color, ms=3.5, elinewidth=1.1)


def yardsticks(runs: Sequence[Run], env: Environment, name: str, level: str) -> set[float]:
    """What guessing or the expert scores on a level: as the environment says, else as the run folders do."""
    known = env.chance(level) if name == "chance" else None
    if known is not None:
        return {known}
    found = [run.oracle(level) if name == "oracle" else run.fact(name, level) for run in runs]
    return {value for value in found if value is not None}


def label(outcome: Outcome) -> str:
    count = sum(run.seeds for run in outcome.runs)
    return f"{outcome.experiment.title}, {count} seed{'s' * (count > 1)}"
