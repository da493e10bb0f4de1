"""A picture and tables of what hcam.runs.attention has measured: relative attention by layer, and around the moment."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from hcam.report.curves import FAINT, _cut, plain_text, save
from hcam.report.markdown import escape, row
from hcam.runs.attention import FILE, GROUPS, LARGEST_RATIO, read
from hcam.runs.files import exists

PICTURE, VECTOR = "attention.png", "attention.svg"
BEYOND = f"over {LARGEST_RATIO:,}"
MOST_LEVELS = 8  # rows of panels
SOLVED, FAILED = GROUPS
HEAD = ("layer", "asked for", "the others", "ratio", "at first")

Level = Mapping[str, Any]


def caption(levels: Mapping[str, Level]) -> str:
    """What the picture shows."""
    level = next(iter(levels.values()))
    others = "those that were not asked for" if level["compared_with"] != "all else" else "all others"
    counts = " or ".join(sorted({f"{_main(one)['episodes']}" for one in levels.values()}))
    kind = "solved" if all(SOLVED in one for one in levels.values()) else "solved or, where hardly any is, failed"
    return (
        "Relative attention: the relevance of a chunk before the top k, or the attention to a past step, divided by "
        f"the mean over all that could be recalled then (dotted: 1). Left: to what is asked for and to {others}, "
        f"in the steps in which it is asked for; means over {counts} {kind} episodes with 95 % intervals. "
        "Right: to the steps around what is asked for, which begins at 0."
    )


def draw(levels: Mapping[str, Level], titles: Mapping[str, str], *outs: Path, captioned: bool = True) -> None:
    """Draws a row per level: by layer, and over the steps around the moment that is asked for."""
    shown = dict(list(levels.items())[:MOST_LEVELS])
    with plain_text() as plt:
        figure = plt.figure(figsize=(10, 3.4 * len(shown) + 0.9), layout="constrained")
        grid: Any = figure.subplots(len(shown), 2, squeeze=False, width_ratios=(1, 1.5))
        keys: dict[str, Any] = {}
        for (left, right), (name, level) in zip(grid, shown.items(), strict=True):
            keys |= _draw_layers(left, level)
            _draw_profile(right, level, plt)
            left.set_title(_cut(titles.get(name, name)), fontsize=10, loc="left")
        figure.legend(keys.values(), keys.keys(), loc="outside upper left", ncols=4, frameon=False, fontsize=9)
        if captioned:
            figure.supxlabel(_wrapped(caption(shown), 150), fontsize=8, color=FAINT, x=0.01, ha="left")
        for out in outs:
            save(figure, out)
        plt.close(figure)


def _main(level: Level) -> Mapping[str, Any]:
    """Solved episodes, or the failed ones where hardly any was solved."""
    group: Mapping[str, Any] = level[SOLVED] if SOLVED in level else level[FAILED]
    return group


def _draw_layers(axes: Any, level: Level) -> dict[str, Any]:
    """Draws a mean with its interval for each layer; returns the entries of a legend."""
    keys: dict[str, Any] = {}
    others = "others" if level["compared_with"] != "all else" else "all else"
    looks: list[tuple[str, Any, str, dict[str, Any]]] = [
        ("asked for", lambda line: line, "asked", {"fmt": "o", "color": "C0", "ms": 7}),
        (others, lambda line: line, "other", {"fmt": "o", "color": FAINT, "mfc": "white", "ms": 6}),
        (
            "the same, while another was",
            lambda line: line.get("earlier", {}),
            "other",
            {"fmt": "s", "color": "C1"},
        ),
    ]
    drawn = [(label, look, _known(_main(level), part, name)) for label, part, name, look in looks]
    if SOLVED in level and FAILED in level:
        failed = {"fmt": "X", "color": "C3", "ms": 6}
        drawn.append(("asked for, failed episodes", failed, _known(level[FAILED], looks[0][1], "asked")))
    drawn = [entry for entry in drawn if entry[-1]]
    for number, (label, look, known) in enumerate(drawn):
        x = [layer + 0.14 * (number - (len(drawn) - 1) / 2) for layer, _ in known]
        y = [one["mean"] for _, one in known]
        bars = [[abs(one[end] - one["mean"]) for _, one in known] for end in ("low", "high")]
        keys[label] = axes.errorbar(x, y, bars, elinewidth=1.4, linestyle="", **look)
    _draw_uniform(axes)
    axes.set(xlabel="layer", ylabel="relative attention", xlim=(0.5, len(_main(level)["layers"]) + 0.5))
    axes.set_xticks([line["layer"] for line in _main(level)["layers"]])
    axes.grid(visible=False, axis="x")
    return keys


def _known(group: Mapping[str, Any], part: Callable[[Any], Any], name: str) -> list[tuple[int, Mapping[str, float]]]:
    """The layers that have a number, and the number with its interval."""
    return [(line["layer"], part(line)[name]) for line in group["layers"] if part(line).get(name)]


def _draw_profile(axes: Any, level: Level, plt: Any) -> None:
    profile = _main(level)["profile"]
    count = len(profile["layers"])
    axes.axvspan(0, level["moment_steps"], color="0.93", zorder=0, linewidth=0)
    for number, values in enumerate(profile["layers"]):
        color = plt.get_cmap("viridis_r")(0.15 + 0.8 * number / max(1, count - 1))
        axes.plot(profile["steps"], values, color=color, linewidth=1.6, label=f"layer {number + 1}")
    _draw_uniform(axes)
    axes.legend(loc="upper right", fontsize=8, frameon=False, ncols=1 + (count > 4))
    axes.locator_params(axis="x", integer=True)
    axes.set(xlabel="steps from the first one of what is asked for", ylabel="")


def _draw_uniform(axes: Any) -> None:
    axes.axhline(1, color=FAINT, linestyle=":", linewidth=1.4, zorder=1)
    axes.set_ylim(0, max(1.5, axes.get_ylim()[1]))


def _wrapped(text: str, width: int) -> str:
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) > width:
            lines.append("")
        lines[-1] += f"{word} "
    return "\n".join(line.rstrip() for line in lines)


# Tables ---------------------------------------------------------------------------------------------------------------


def rows(group: Mapping[str, Any]) -> Iterator[list[str]]:
    """The cells below HEAD of solved or failed episodes, a row per layer."""
    for line in group["layers"]:
        yield [f"{line['layer']}", *cells(line), cells(line["first"])[-1].partition(" (")[0]]


def earlier_rows(group: Mapping[str, Any]) -> Iterator[list[str]]:
    """The paper's comparison: a layer, its attention to the moment when asked for it and before, their ratio."""
    for line in group["layers"]:
        if "earlier" in line:
            yield [f"{line['layer']}", *cells(line["earlier"])]


def cells(line: Mapping[str, Any]) -> list[str]:
    """Two means and their ratio."""
    ratio = line.get("ratio")
    return [text(line.get("asked")), text(line.get("other")), text(ratio) if ratio or "other" not in line else BEYOND]


def text(part: Mapping[str, float] | None) -> str:
    if not part:
        return "-"
    mean, low, high = (f"{part[name]:.{1 if part['mean'] >= 10 else 2}f}" for name in ("mean", "low", "high"))
    return f"{mean} ({low} to {high})"


def told(level: Level) -> str:
    """How many episodes there were, which of them count, and how long the question stood."""
    counted = " and ".join(f"{level[name]['episodes']} {name.split('_')[0]}" for name in GROUPS if name in level)
    return (
        f"{level['episodes']} episodes, {level['solved']} solved; counted are {counted} ones, whose memory could "
        f"reach what was asked for, over {level['question_steps']:.1f} steps"
    )


def markdown(level: Level) -> str:
    """A table of the solved episodes."""
    lines = [row(*HEAD), row(*["---"] * len(HEAD)), *(row(*cells) for cells in rows(_main(level)))]
    return "\n".join(lines) + "\n"


# A part of a page -----------------------------------------------------------------------------------------------------

SECTION = """### {task}: what the memory attends to

Measured with `hcam attention`; [attention.md](attention.md) explains it.
"""


def section(task: str, folders: Mapping[str, Path], out: Path) -> tuple[str, list[Path]]:
    """The part of a results page about agents with an attention.json in their folder, by name, and its pictures.

    Both are empty where none has one.
    """
    parts, pictures = [], []
    for number, (name, folder) in enumerate((name, path) for name, path in folders.items() if exists(path / FILE)):
        levels = read(folder)["levels"]
        picture = f"images/{task}-attention{f'-{number}' if number else ''}.png"
        titles = {key: f"{level.get('title', key)}" for key, level in levels.items()}
        draw(levels, titles, out / picture, captioned=False)
        pictures.append(out / picture)
        for key, level in levels.items():
            parts += [f"**{escape(name)}**, {escape(titles[key])}: {told(level)}.\n", markdown(level)]
        parts.append(f"![relative attention]({picture})\n\n{caption(levels)}\n")
    head = [SECTION.format(task=task.capitalize())] if parts else []
    return "\n".join([*head, *parts]), pictures
