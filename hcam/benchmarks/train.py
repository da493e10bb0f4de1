"""`hcam bench train`: agent steps a second, end to end; how acting and learning share the time, and of what it is."""

import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from rich.table import Table

from hcam import __version__
from hcam.agent import memories
from hcam.benchmarks import operations
from hcam.benchmarks.figure import empty_table
from hcam.benchmarks.measure import Failed, device_name, reason
from hcam.benchmarks.profile import profile
from hcam.config import Config
from hcam.learning.layout import vmap_seeds
from hcam.learning.learner import Learner
from hcam.memory import checks
from hcam.training import make_learner
from hcam.types import TrainState

PARTS = ("update", "act")  # the rest of an update is learning
SECONDS = 1.0  # that a part is repeated for in each round

Step = Callable[[TrainState], tuple[TrainState, Any]]


class Contender(NamedTuple):
    """One memory's programs, which go on from the state that they are given, as training does."""

    programs: dict[str, Any]
    state: TrainState
    metadata: dict[str, Any]


def run(
    configs: Mapping[str, Config], rounds: int, watched: bool = False
) -> tuple[dict[str, Any], dict[str, list[dict[str, Any]]]]:
    """An update, and its acting alone, of each configuration; all timed in turn, round after round.

    With `watched`, also the operations of an update of each.
    """
    checks.positive(rounds=rounds)
    contenders = {name: prepare(config) for name, config in configs.items()}
    ready = {name: one for name, one in contenders.items() if isinstance(one, Contender)}
    samples: dict[str, dict[str, list[float]]] = {name: {part: [] for part in PARTS} for name in ready}
    failed = {name: one for name, one in contenders.items() if isinstance(one, Failed)}
    for _ in range(rounds):
        for name in list(ready):
            state = ready[name].state
            try:
                for part in PARTS:
                    state, seconds = timed(ready[name].programs[part], state)
                    samples[name][part].append(seconds)
            except Exception as error:  # one that does not fit beside the others is a result, not a crash
                failed[name] = Failed(reason(error))
                del ready[name]
            else:
                ready[name] = ready[name]._replace(state=state)
    peak = (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use")
    seen = {name: profile(one.programs["update"], one.state)[1] for name, one in ready.items()} if watched else {}
    results = {
        "device": device_name(),
        "jax": jax.__version__,
        "hcam": __version__,
        "rounds": rounds,
        "device_peak_bytes": peak,  # of all that was measured together
        "possible_operations": operations.peak_here(),
        "runs": {
            name: failed[name]._asdict() if name in failed else ready[name].metadata | {"parts": costs(samples[name])}
            for name in configs
        },
    }
    return results, seen


def prepare(config: Config) -> Contender | Failed:
    """The program that `hcam train` would run, for as many seeds at once, and its acting alone."""
    learner = make_learner(config)
    seeds = config.run.seeds
    parts: dict[str, Step] = {"update": vmap_seeds(learner.update, seeds), "act": vmap_seeds(acting(learner), seeds)}
    seed_s = jnp.arange(seeds) + config.run.seed
    try:
        state = jax.jit(jax.vmap(lambda seed: learner.init(jax.random.key(seed))))(seed_s)
        programs = {name: jax.jit(part, donate_argnums=0).lower(state).compile() for name, part in parts.items()}
    except Exception as error:  # likewise
        return Failed(reason(error))
    needs: Any = programs["update"].memory_analysis()
    total = needs.argument_size_in_bytes + needs.temp_size_in_bytes + needs.output_size_in_bytes
    metadata = {
        "task": config.task.task,
        "memory": memories.name_of(config.agent.memory),
        "width": config.agent.memory.width,
        "environments": config.learner.environments,
        "minibatches": config.learner.minibatches,
        "seeds": seeds,
        "steps": config.steps_per_update * seeds,
        "parameters": sum(leaf[0].size for leaf in jax.tree.leaves(state.params)),
        "operations": {name: operations.count(part, state) for name, part in parts.items()},
        "bytes": total - needs.alias_size_in_bytes,
    }
    return Contender(programs, state, metadata)


def acting(learner: Learner) -> Step:
    """The acting of an update, with all that learning would be given."""

    def act(state: TrainState) -> tuple[TrainState, Any]:
        actors_b, batch = learner.act(state)
        return state._replace(actors_b=actors_b, updates=state.updates + 1), batch

    return act


def timed(program: Step, state: TrainState) -> tuple[TrainState, float]:
    """Seconds of a call; the first of a round is not counted."""
    state, _ = program(state)
    jax.block_until_ready(state)  # type: ignore[no-untyped-call]
    calls, start = 0, time.perf_counter()
    while calls == 0 or time.perf_counter() - start < SECONDS:
        state, metrics = program(state)
        jax.block_until_ready((state, metrics))  # type: ignore[no-untyped-call]
        calls += 1
    return state, (time.perf_counter() - start) / calls


def costs(samples: dict[str, list[float]]) -> dict[str, dict[str, float]]:
    return {
        part: {"seconds": median(times), "spread": (max(times) - min(times)) / median(times)}
        for part, times in samples.items()
    }


def show(results: dict[str, Any]) -> Table:
    """A row per configuration; the ratio is of its steps a second to those of the first."""
    headings = ("", "steps/s", "ratio", "update", "acting", "learning", "operations", "memory")
    table = empty_table(f"training, end to end, on {results['device']}", headings)
    rates = [one["steps"] / one["parts"]["update"]["seconds"] for one in results["runs"].values() if "parts" in one]
    for name, one in results["runs"].items():
        if "parts" not in one:
            table.add_row(name, one["reason"])
            continue
        whole, act = (one["parts"][part]["seconds"] for part in PARTS)
        table.add_row(
            name,
            f"{one['steps'] / whole:,.0f}",
            f"{one['steps'] / whole / rates[0]:.2f}",
            f"{whole * 1e3:,.1f} ms",
            f"{act / whole:.0%}",
            f"{1 - act / whole:.0%}",
            utilisation(one["operations"]["update"] / whole, results["possible_operations"]),
            f"{one['bytes'] / 1e9:,.2f} GB",
        )
    return table


def utilisation(done: float, possible: float | None) -> str:
    """Operations a second, as a share of what the device could do where that is known."""
    return f"{done / possible:.1%} of peak" if possible else f"{done / 1e9:,.1f} GFLOP/s"


def sizes(one: dict[str, Any]) -> str:
    """What was measured."""
    return (
        f"{one['task']}, width {one['width']}, {one['parameters']:,} parameters; {one['environments']} environments, "
        f"{one['steps']:,} steps an update, {one['minibatches']} minibatches"
    )
