"""`hcam bench train`: agent steps a second, end to end, and how the time is shared between acting and learning."""

from functools import partial
from typing import Any

import jax
from rich.table import Table

from hcam import __version__, rollout
from hcam.benchmarks.figure import empty_table
from hcam.benchmarks.measure import compare, compile_all, device_name
from hcam.config import Config
from hcam.learner import Batch
from hcam.memory import checks
from hcam.train import make_learner

PARTS = {"update": "whole update", "act": "acting alone", "learn": "learning alone"}


def run(config: Config, rounds: int) -> dict[str, Any]:
    """One run's update, its acting and its learning, each compiled alone and timed in turn."""
    checks.positive(rounds=rounds)
    learner = make_learner(config)
    state = jax.jit(learner.init)(jax.random.key(config.run.seed))
    act = partial(rollout.rollout, learner.agent, learner.env, steps=config.learner.unroll)

    def acting(state: Any, batch: Batch) -> Any:
        return act(state.params, learner.level, state.key, state.lives_b)

    def learning(state: Any, batch: Batch) -> Any:
        return learner.learn(state.params, state.optimiser, batch)

    def whole(state: Any, batch: Batch) -> Any:
        return learner.update(state)

    lives_b, steps_tb = jax.jit(lambda state: acting(state, None))(state)  # type: ignore[arg-type]
    batch = Batch(state.lives_b.memory, steps_tb, lives_b.inputs)
    compiled = compile_all({"update": whole, "act": acting, "learn": learning}, state, batch)
    costs = compare(compiled, state, batch, rounds=rounds, seconds=0.5)
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
    return table
