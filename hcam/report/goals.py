"""A picture of steps per goal over the course of an episode: agents, the expert and random actions."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hcam.report.curves import FAINT, _cut, plain_text, save
from hcam.runs.goals import Goals

PICTURE = "goals.png"
MOST_PANELS = 6  # levels
YARDSTICKS = {"oracle": "-.", "random": ":"}
CAPTION = (
    "Steps spent on the n-th goal of an episode, for each time that it was reached; bands: 95 % interval.\n"
    "Drawn as far as at least half of the episodes get."
)


def draw(levels_of: Mapping[str, Mapping[str, Goals]], out: Path, titles: Mapping[str, str] | None = None) -> None:
    """A panel per level; `levels_of` has the content of goals.json by agent. One agent is drawn sampled and greedy."""
    names = list(dict.fromkeys(level for levels in levels_of.values() for level in levels))[:MOST_PANELS]
    if not names:
        raise ValueError("there are no goals to draw: count them with `hcam eval RUN --goals FOLDER`.")
    columns = min(3, len(names))
    with plain_text() as plt:
        size = (max(6.5, 3.6 * columns), 3.4 * -(-len(names) // columns) + 0.7)
        figure = plt.figure(figsize=size, layout="constrained")
        grid: Any = figure.subplots(-(-len(names) // columns), columns, squeeze=False).flat
        for axes, level in zip(grid, names, strict=False):
            keys = _draw_level(axes, levels_of, level)
            axes.set_title(_cut((titles or {}).get(level, level)), fontsize=10)
        for axes in grid[len(names) :]:
            axes.set_axis_off()
        figure.legend(*zip(*keys, strict=True), loc="outside upper center", ncols=4, frameon=False, fontsize=9)
        figure.supxlabel(CAPTION, fontsize=8, color=FAINT)
        save(figure, out)
        plt.close(figure)


def lines(levels_of: Mapping[str, Mapping[str, Goals]], level: str) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """What a panel shows, by label: the player, and what it did. The expert and random actions come from one agent."""
    having = {label: levels[level] for label, levels in levels_of.items() if level in levels}
    found: dict[str, tuple[str, Mapping[str, Any]]] = {}
    if len(levels_of) == 1:
        found |= {f"agent, {way}": (way, of[way]) for of in having.values() for way in ("sampled", "greedy")}
    else:
        found |= {label: ("sampled", of["sampled"]) for label, of in having.items()}
    first = next(iter(having.values()))
    return found | {name: (name, first[name]) for name in YARDSTICKS if name in first}


def points(player: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The goals that at least half of the episodes reached."""
    return [goal for goal in player["goals"] if 2 * goal["reached"] >= player["episodes"]]


def _draw_level(axes: Any, levels_of: Mapping[str, Mapping[str, Goals]], level: str) -> list[tuple[Any, str]]:
    keys = []
    for number, (label, (name, player)) in enumerate(lines(levels_of, level).items()):
        shown = points(player)
        look: Any = {"color": f"C{number % 10}", "linewidth": 2, "linestyle": "--" if name == "greedy" else "-"}
        if name in YARDSTICKS:
            look = {"color": FAINT, "linewidth": 1.4, "linestyle": YARDSTICKS[name]}
        goal, steps, low, high = ([one[part] for one in shown] for part in ("goal", "steps", "low", "high"))
        (line,) = axes.plot(goal, steps, marker="o", markersize=3, **look)
        axes.fill_between(goal, low, high, color=look["color"], alpha=0.18, linewidth=0)
        keys.append((line, _cut(label)))
    axes.set_yscale("log")
    axes.set(xlabel="goal of the episode", ylabel="steps", xlim=(0.5, None))
    axes.set_yticks([2, 3, 5, 10, 20, 50, 100, 200], labels=["2", "3", "5", "10", "20", "50", "100", "200"])
    axes.set_yticks([], minor=True)
    ends = [one[part] for _, player in lines(levels_of, level).values() for one in points(player) for part in _ENDS]
    axes.set_ylim(0.8 * min([value for value in ends if value > 0] or [1.0]), 1.25 * max(ends or [100.0]))
    return keys


_ENDS = ("low", "high")
