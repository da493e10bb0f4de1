"""`hcam bench train`: agent steps a second, end to end, and how the time is shared between acting and learning."""

from typing import Any

import jax
from rich.table import Table

from hcam import __version__, rollout
from hcam.benchmarks.figure import empty_table
from hcam.benchmarks.measure import compare, compile_all, device_name
from hcam.config import Config
from hcam.learner import TrainState
from hcam.memory import checks
from hcam.train import make_learner

PARTS = {"update": "whole update", "act": "acting alone"}  # the rest of an update is learning


def run(config: Config, rounds: int) -> dict[str, Any]:
    """An update, and its acting compiled alone, timed in turn."""
    checks.positive(rounds=rounds)
    learner = make_learner(config)
    state = jax.jit(learner.init)(jax.random.key(config.run.seed))

    def acting(state: TrainState) -> Any:
        life, steps = state.lives_b, config.learner.unroll
        return rollout.rollout(learner.agent, learner.env, state.params, learner.level, state.key, life, steps)

    costs = compare(compile_all({"update": learner.update, "act": acting}, state), state, rounds=rounds, seconds=0.5)
    sizes = [leaf.size for leaf in jax.tree.leaves(state.params)]
    return {
        "device": device_name(),
        "jax": jax.__version__,
        "hcam": __version__,
        "task": config.task.task,
        "memory": config.agent.memory.memory,
        "parameters": sum(sizes),
        "steps": config.steps_per_update,
        "rounds": rounds,
        "parts": {name: cost._asdict() for name, cost in costs.items()},
    }


def show(results: dict[str, Any]) -> Table:
    title = f"{results['task']}, {results['memory']}, {results['parameters']:,} parameters, {results['steps']:,} steps"
    table = empty_table(f"{title} an update", ("", "steps/s", "an update", "share", "scratch"))
    whole = results["parts"]["update"]
    for name, label in PARTS.items():
        cost = results["parts"][name]
        if "reason" in cost:
            table.add_row(label, cost["reason"], "", "", "")
            continue
        share = f"{cost['seconds'] / whole['seconds']:.0%}" if "seconds" in whole else ""
        rate = f"{results['steps'] / cost['seconds']:,.0f}"
        table.add_row(label, rate, f"{cost['seconds'] * 1e3:,.1f} ms", share, f"{cost['scratch'] / 1e6:,.0f} MB")
    if all("seconds" in cost for cost in results["parts"].values()):
        rest = whole["seconds"] - results["parts"]["act"]["seconds"]
        table.add_row("learning", "", f"{rest * 1e3:,.1f} ms", f"{rest / whole['seconds']:.0%}", "")
    return table
