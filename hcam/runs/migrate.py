"""Run folders of format 1, made before settings and metrics had their present names: read as if they were of format 2.

Nothing is written: the files stay as the run left them.
"""

from collections.abc import Mapping
from typing import Any

FORMAT = 2  # of config.json, and with it of metrics.jsonl

# Which of the settings each memory had.
MEMORIES = {
    "hcam": ("width", "layers", "heads", "chunk", "overlap", "slots", "top_k", "window", "mlp"),
    "trxl": ("width", "layers", "heads", "trxl_top_k", "mlp"),
    "lstm": ("width", "layers"),
    "none": ("width", "layers", "heads", "mlp"),
}
DIAGNOSTICS = {
    "rho": "ratio",
    "rho_first": "ratio_first",
    "drift": "ratio_deviation",
    "drift_first": "ratio_deviation_first",
    "gradient": "gradient_norm",
}


def config(old: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by their present names; what is not as format 1 had it is left for the reader to refuse."""
    new = {name: value for name, value in old.items() if name != "loss"}
    if isinstance(task := old.get("task"), Mapping):
        new["task"] = {name: value for name, value in task.items() if name != "tile"}
        new["task"]["options"] = {} if task.get("tile") is None else {"tile": task["tile"]}
    if isinstance(loss := old.get("loss"), Mapping):
        new["objective"] = {{"trace": "lambda_"}.get(name, name): value for name, value in loss.items()}
    if isinstance(agent := old.get("agent"), Mapping):
        new["agent"] = dict(agent)
        if isinstance(encoder := agent.get("encoder"), Mapping):
            new["agent"]["encoder"] = {{"filters": "kernel_sizes"}.get(k, k): value for k, value in encoder.items()}
        if isinstance(settings := agent.get("memory"), Mapping):
            new["agent"]["memory"] = memory(settings)
    return new


def memory(old: Mapping[str, Any]) -> dict[str, Any]:
    """One dataclass had the settings of all memories; now each has its own."""
    name = str(old.get("memory", "hcam"))
    new = {key.removeprefix("trxl_"): old[key] for key in MEMORIES.get(name, ()) if key in old}
    window, gated = old.get("window"), old.get("gated")
    if name == "trxl":
        new["window"] = 320 if window is None else window
    if name == "none":
        new["window"] = old.get("chunk", 32) if window is None else window
    if name != "lstm":
        new["gated"] = name == "trxl" if gated is None else gated
    return {"memory": name, **new}


def row(old: Mapping[str, Any]) -> dict[str, Any]:
    """A row of metrics.jsonl; one of format 2 as it is."""
    health, losses = old.get("health"), old.get("losses")
    if not isinstance(health, Mapping):
        return dict(old)
    new: dict[str, Any] = {name: value for name, value in old.items() if name != "health"}
    new["diagnostics"] = {DIAGNOSTICS.get(name, name): value for name, value in health.items()}
    if isinstance(losses, Mapping):
        new["losses"] = {name: value for name, value in losses.items() if name != "entropy"}
        entropy = losses.get("entropy")  # it was the loss, which is minus the entropy
        if isinstance(entropy, int | float):
            new["diagnostics"]["entropy"] = -entropy
    return new
