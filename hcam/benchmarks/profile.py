"""Where the time of a compiled program goes, operation by operation: what the profiler saw, summed up."""

import gzip
import json
import re
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import jax
from rich.table import Table

from hcam.benchmarks.figure import empty_table

# `jax.named_scope`s in the code, the innermost first: an operation belongs to the first that its name has.
PARTS = ("environment", "window", "recall", "mlp", "encoder", "heads", "reconstruction", "optimiser")
PHASES = ("acting", "learning")
CONTAINERS = re.compile(r"(while|conditional|call)(\.\d+)?")  # whose time is that of what they hold


def profile(program: Any, state: Any) -> tuple[Any, list[dict[str, Any]]]:
    """Runs the program once more, watched: the state after it, and its operations, the longest first."""
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder, create_perfetto_trace=True):
            state, metrics = program(state)
            jax.block_until_ready((state, metrics))  # type: ignore[no-untyped-call]
        (path,) = Path(folder).rglob("perfetto_trace.json.gz")
        events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    return state, summed(events, sources(program.as_text()))


def sources(hlo: str) -> dict[str, str]:
    """What each instruction of a compiled program comes from, as JAX named it."""
    return dict(re.findall(r'%?([\w.\-]+) = .*?metadata=\{op_name="([^"]*)"', hlo))


def summed(events: list[dict[str, Any]], source: dict[str, str]) -> list[dict[str, Any]]:
    """By instruction: how often it ran and for how long. On an accelerator all that ran there, else what is named."""
    devices = {
        event["pid"]
        for event in events
        if event.get("name") == "process_name" and event["args"]["name"].startswith("/device:")
    }
    calls: dict[str, int] = defaultdict(int)
    seconds: dict[str, float] = defaultdict(float)
    kernel: dict[str, str] = {}
    for event in events:
        operation = event.get("args", {}).get("hlo_op", event.get("name") if event.get("pid") in devices else None)
        if event.get("ph") != "X" or operation is None or (devices and event["pid"] not in devices):
            continue
        if CONTAINERS.fullmatch(operation):
            continue
        calls[operation] += 1
        seconds[operation] += event["dur"] * 1e-6
        kernel[operation] = event["name"]
    return [
        {
            "operation": name,
            "kernel": kernel[name],
            "source": source.get(name, ""),
            "calls": calls[name],
            "seconds": seconds[name],
        }
        for name in sorted(seconds, key=lambda name: -seconds[name])
    ]


def tables(operations: list[dict[str, Any]], title: str, most: int = 20) -> list[Table]:
    """By part of the agent, and the longest operations."""
    whole = sum(one["seconds"] for one in operations) or 1.0
    by_part = empty_table(f"{title}, by part", ("", *PHASES, "", "share"))
    for part in (*PARTS, ""):
        seconds = [
            sum(one["seconds"] for one in operations if where(one["source"]) == (part, at)) for at in (*PHASES, "")
        ]
        cells = [f"{value * 1e3:.2f} ms" if value else "" for value in seconds]
        by_part.add_row(part or "other", *cells, f"{sum(seconds) / whole:.1%}")
    longest = empty_table(f"{title}, the longest operations", ("ms", "share", "calls", "operation", "part"))
    for one in operations[:most]:
        cells = [f"{one['seconds'] * 1e3:.2f}", f"{one['seconds'] / whole:.1%}", f"{one['calls']:,}", one["operation"]]
        longest.add_row(*cells, " ".join(filter(None, where(one["source"]))))
    return [by_part, longest]


def where(source: str) -> tuple[str, str]:
    """The part that an operation belongs to, and whether that was acting or learning; empty if neither is known."""
    words = set(re.findall(r"\w+", source))
    part, phase = (next((name for name in names if name in words), "") for names in (PARTS, PHASES))
    return part, phase
