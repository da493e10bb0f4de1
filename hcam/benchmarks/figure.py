"""The numbers of `hcam bench memory` as tables and one figure."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

NAMES = {
    "dense": "dense form",
    "gather": "gather form",
    "released": "released",
    "released_bf16": "released, bf16",
    "full": "full attention",
    "full_flash": "full, flash",
}
STYLES = {
    "hcam": "HCAM",
    "hcam_cached": "HCAM, keys and values cached",
    "full": "full attention",
    "full_flash": "full attention (flash)",
    "released": "HCAM as released",
    "released_bf16": "as released, held to bfloat16",
}
ACTING = {"hcam": "HCAM", "hcam_cached": "HCAM, cached", "full": "full attention"}


def tables(results: dict[str, Any]) -> Iterable[Table]:
    for entry in results["paper"]:
        yield paper_table(entry)
    yield length_table(results["read"])
    yield acting_table(results["act"])


def paper_table(entry: dict[str, Any]) -> Table:
    """One shape: every variant, and how many times better the chosen form is than the released formulation."""
    headings = ("", "forward", "scratch", "with gradient", "scratch", "faster", "smaller")
    table = empty_table(f"Read, {entry['name']} (* chosen from the sizes)", headings)
    base = entry["both"]["released"]
    for name in entry["both"]:
        forward, both = entry["forward"][name], entry["both"][name]
        label = NAMES[name] + (" *" if name == entry["chosen"] else "")
        factors = (ratio(base, both, "seconds"), ratio(base, both, "scratch"))
        table.add_row(label, duration(forward), size(forward), duration(both), size(both), *factors)
    return table


def length_table(entries: list[dict[str, Any]]) -> Table:
    """Growing histories: the form that the sizes choose, against the two others."""
    others = [name for name in ("released", "released_bf16", "full", "full_flash") if name in entries[0]["both"]]
    headings = ("history", "chunks", "form", "hcam", *(NAMES[name] for name in others))
    table = empty_table("Read with gradient, by length of history: time, scratch", headings)
    for entry in entries:
        cells = [f"{duration(entry['both'][name])}, {size(entry['both'][name])}" for name in (entry["chosen"], *others)]
        table.add_row(f"{entry['length']:,}", f"{entry['slots']:,}", entry["chosen"], *cells)
    return table


def acting_table(entries: list[dict[str, Any]]) -> Table:
    table = empty_table("One acting step of the whole memory", ("history", *ACTING.values()))
    for entry in entries:
        table.add_row(f"{entry['length']:,}", *(duration(entry[name]) for name in ACTING))
    return table


def empty_table(title: str, headings: Iterable[str]) -> Table:
    """Narrow enough for a terminal of 80 columns."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE, padding=(0, 1, 0, 0))
    for heading in headings:
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    return table


def duration(cost: dict[str, Any]) -> str:
    if "reason" in cost:
        return str(cost["reason"])
    seconds = cost["seconds"]
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} µs"


def size(cost: dict[str, Any]) -> str:
    if "reason" in cost:
        return ""
    return f"{cost['scratch'] / 1e9:.2f} GB" if cost["scratch"] >= 1e9 else f"{cost['scratch'] / 1e6:.1f} MB"


def ratio(base: dict[str, Any], cost: dict[str, Any], what: str) -> str:
    if "reason" in base or "reason" in cost or not cost[what]:
        return ""
    return f"{base[what] / cost[what]:.1f}x"


def draw(results: dict[str, Any], path: Path) -> None:
    """Time and scratch memory of the read, and time of an acting step, over the length of the history."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import seaborn as sns

    sns.set_theme(style="whitegrid")
    colours = dict(zip(STYLES, sns.color_palette("colorblind"), strict=False))
    figure, (time_axes, scratch_axes, act_axes) = plt.subplots(1, 3, figsize=(13.5, 4.8), layout="constrained")

    def line(axes: Any, name: str, costs: list[tuple[int, dict[str, Any]]], what: str, factor: float) -> None:
        width = 3 if name.startswith("hcam") else 1.5
        axes.plot(*_points(costs, what, factor), color=colours[name], label=STYLES[name], marker="o", linewidth=width)

    for name in ("hcam", "released", "released_bf16", "full", "full_flash"):
        costs = [(e["length"], e["both"].get(e["chosen"] if name == "hcam" else name, {})) for e in results["read"]]
        line(time_axes, name, costs, "seconds", 1e3)
        line(scratch_axes, name, costs, "scratch", 1e-6)
    for name in ("hcam", "hcam_cached", "full"):
        line(act_axes, name, [(entry["length"], entry[name]) for entry in results["act"]], "seconds", 1e3)

    sizes = results["sizes"]
    titles = {
        time_axes: "Read, forward and backward: milliseconds",
        scratch_axes: "Read, forward and backward: scratch, MB",
        act_axes: f"Acting, {sizes['layers']} layers, {sizes['actors']} at once: milliseconds a step",
    }
    lengths = [entry["length"] for entry in results["read"]]
    for axes, title in titles.items():
        axes.set(title=title, xlabel="steps of history", xscale="log", yscale="log")
        axes.set_xticks(lengths, [f"{length:,}" for length in lengths], rotation=45)
        axes.minorticks_off()
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    handles = {
        label: handle for axes in titles for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    shown = [label for label in STYLES.values() if label in handles and len(handles[label].get_xdata())]
    figure.legend([handles[label] for label in shown], shown, loc="outside lower center", ncols=len(shown))
    figure.suptitle(
        f"{results['device']}, {sizes['dtype']}: batch {sizes['batch']}, unroll {sizes['unroll']}, "
        f"width {sizes['width']}, {sizes['heads']} heads, chunks of {sizes['chunk']}, k {sizes['top_k']}"
    )
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _points(costs: list[tuple[int, dict[str, Any]]], what: str, factor: float) -> tuple[list[int], list[float]]:
    """What could be measured; a variant that ran out of memory ends earlier."""
    measured = [(length, cost[what] * factor) for length, cost in costs if what in cost]
    return [length for length, _ in measured], [value for _, value in measured]
