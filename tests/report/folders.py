"""Run folders that no training has made."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hcam.config import override, to_json
from hcam.recipes import Experiment
from hcam.recipes.ballet import RECIPE
from hcam.runs.evaluate import interval

LEVELS = ("2_delay16", "4_delay16")
MADE_BY = {"created": "2030-01-01T00:00:00+00:00", "hcam": "0.1.0", "commit": "0123456789abcdef", "device": "H200"}


def make(folder, memory="hcam", seed=0, count=10, levels=LEVELS, evaluated=False, success=0.5, **changed):
    """A run folder whose levels all have the same success."""
    folder.mkdir(parents=True)
    config = {"task": {"task": "ballet"}, "agent": {"memory": {"memory": memory}}, "run": {"seed": seed}}
    (folder / "config.json").write_text(
        json.dumps({"format": 2, "config": config | changed.pop("config", {}), "made_by": {}})
    )
    part = {"episodes": 10, "success": success, "return": success, "length": 44.0}
    row = {
        "seconds": 60.0,
        "losses": {"policy": -0.01, "image": 0.08},
        "diagnostics": {"ratio": 1.0},
        "success": success,
        "return": success,
    }
    row |= {"levels": levels if isinstance(levels, dict) else dict.fromkeys(levels, part)} | changed
    rows = [row | {"update": n, "steps": 100_000 * n} for n in range(1, count + 1)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    if evaluated:
        score = {"episodes": 500, "success": 0.95, "low": 0.93, "high": 0.97, "return": 0.95}
        result = {"greedy": {levels[0]: score, "8_delay48": score | {"success": 0.4}}, "sampled": {levels[0]: score}}
        (folder / "eval.json").write_text(json.dumps(result))
    return folder


def made(root: Path, name: str, seed: int = 0, ends: float | Mapping[str, float] = 0.9, **options: Any) -> Path:
    """A whole run of a Ballet experiment that ends with this success, on all levels or on each."""
    experiment = RECIPE.find(name)
    folder, levels = experiment.folder(root, seed), RECIPE.levels(experiment)
    config = to_json(override(RECIPE.config(experiment, seed), options.pop("more", {})))
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"format": 2, "config": config, "made_by": MADE_BY}))
    trained = [level for level in levels if level not in experiment.evaluate]
    goal = dict.fromkeys(levels, ends) if isinstance(ends, float) else dict(ends)
    rows = [
        learned(share, config["run"]["steps"], trained, goal, **options) for share in (n / 60 for n in range(1, 61))
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    judge(folder / "eval.json", {level: goal[level] for level in trained if level in goal})
    if experiment.evaluate:
        judge(folder / "eval-8.json", {level: goal[level] for level in experiment.evaluate if level in goal})
    return folder


def learned(share, steps, levels, goal, *, seconds=2400.0, slow=0.5, noise=0.0) -> dict[str, Any]:
    """A row after this share of training: from chance to where it ends, along an S."""
    far = 1 / (1 + math.exp(-14 * (share - slow)))
    parts = {}
    for n, level in enumerate(levels):
        chance = 1 / int(level[0])
        value = chance + (goal.get(level, chance) - chance) * far + noise * math.sin(40 * share + n)
        parts[level] = {"episodes": 100, "success": min(1.0, max(0.0, value)), "return": value, "length": 99.0}
    mean = sum(part["success"] for part in parts.values()) / len(parts)
    return {
        "update": round(60 * share), "steps": round(share * steps), "seconds": share * seconds, "rate": steps / seconds,
        "losses": {"policy": 0.0}, "diagnostics": {}, "levels": parts, "success": mean, "return": mean,
    }  # fmt: skip


def judge(file: Path, goal: Mapping[str, float], episodes: int = 500, **more: Any) -> None:
    """An evaluation with this success."""
    scores = {}
    for level, share in goal.items():
        low, high = interval(round(share * episodes), episodes)
        scores[level] = {"episodes": episodes, "success": share, "low": low, "high": high, "return": share}
    file.write_text(json.dumps({**more, "greedy": scores, "sampled": scores}))


def cut(experiment: Experiment, share: float) -> dict[str, float]:
    """Success that falls with the number of dancers."""
    return {level: 1 - share * int(level[0]) / 8 for level in RECIPE.levels(experiment)}


def made_by_return(folder: Path, seed: int = 0, ends: float = 8.0, oracle: float = 32.0) -> Path:
    """A run of a task that is scored by its return, whose success is always 1."""
    part = {"episodes": 10, "success": 1.0, "return": ends, "length": 100.0}
    facts = {"scored_by": "return", "oracle": {"a": oracle}, "chance": {"a": 1.0}}
    make(folder, seed=seed, levels={"a": part}, **{"return": ends, "success": 1.0, "config": facts})
    score = {"episodes": 500, "success": 1.0, "low": 0.99, "high": 1.0, "return": ends + 1}
    score |= {"return_low": ends + 0.5, "return_high": ends + 1.5, "length": 100.0, "oracle": oracle}
    (folder / "eval.json").write_text(json.dumps({"greedy": {"a": score | {"return": 0.5}}, "sampled": {"a": score}}))
    return folder
