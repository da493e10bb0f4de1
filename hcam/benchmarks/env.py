"""`hcam bench env`: steps a second of a task, pixels included, against the speed of writing the pixels alone."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from rich.table import Table

from hcam import __version__
from hcam.benchmarks.figure import empty_table
from hcam.benchmarks.measure import compare, compile_all, device_name
from hcam.config import TaskConfig
from hcam.envs.environment import Environment, EnvParams, Observation, State
from hcam.envs.play import Now, begin
from hcam.memory import checks

BATCHES = {"cpu": (1, 16, 128, 1024), "accelerator": (256, 1024, 4096, 16384)}
VARIANTS = {
    "rendered": "steps, all pixels drawn",
    "unrendered": "steps, nothing drawn",
    "written": "pixels written, nothing else",
}


def batches_here() -> tuple[int, ...]:
    return BATCHES["cpu" if jax.default_backend() == "cpu" else "accelerator"]


def run(
    task: TaskConfig,
    levels: Sequence[str],
    batches: Sequence[int],
    steps: int,
    rounds: int,
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Steps per second for every batch size, as plain numbers."""
    env = task.make()
    params = env.params(*levels)
    checks.positive(steps=steps, rounds=rounds, **{f"batch {batch}": batch for batch in batches})
    shapes = jax.eval_shape(env.reset, jax.random.key(0), params)[0]
    size = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes))
    results: dict[str, Any] = {"device": device_name(), "jax": jax.__version__, "hcam": __version__, "task": task.task}
    results |= {
        "levels": list(levels or env.default_levels),
        "steps": steps,
        "rounds": rounds,
        "bytes": size,
        "rates": [],
    }
    for batch in batches:
        say(f"{batch:,} environments at once")
        results["rates"].append({"batch": batch, **measure(env, params, batch, steps, rounds)})
    return results


def measure(env: Environment, params: EnvParams, batch: int, steps: int, rounds: int) -> dict[str, Any]:
    """All variants in turn, so that a slow moment of the machine meets each."""
    now = jax.jit(jax.vmap(partial(begin, env), in_axes=(0, None)))(jax.random.split(jax.random.key(0), batch), params)
    programs = {"rendered": partial(_rendered, env, steps), "unrendered": partial(_unrendered, env, steps)}
    programs["written"] = partial(_written, steps)
    compiled = compile_all(programs, jax.random.key(1), now, params)
    costs = compare(compiled, jax.random.key(1), now, params, rounds=rounds, seconds=0.2)
    return {name: cost._asdict() | _rate(cost, batch * steps) for name, cost in costs.items()}


def _rate(cost: Any, steps: int) -> dict[str, float]:
    return {"rate": steps / cost.seconds} if hasattr(cost, "seconds") else {}


def _rendered(env: Environment, steps: int, key: jax.Array, now: Now, params: EnvParams) -> Any:
    """A random policy that looks: the action depends on the observation, which therefore has to be there in time."""

    def one(key: jax.Array, now: Now) -> tuple[Now, jax.Array]:
        key_act, key_step = jax.random.split(key)
        action = (env.action_space.sample(key_act) + _glance(now.observation)) % env.action_space.n
        observation, state, reward, terminated, truncated, _ = env.step(key_step, now.state, action, params)
        return Now(state, observation, terminated | truncated), reward

    return _scan(one, key, now, now.first.size, steps)


def _unrendered(env: Environment, steps: int, key: jax.Array, now: Now, params: EnvParams) -> Any:
    def one(key: jax.Array, state: State) -> tuple[State, jax.Array]:
        key_act, key_step = jax.random.split(key)
        _, state, reward, _, _, _ = env.step(key_step, state, env.action_space.sample(key_act), params)
        return state, reward

    return _scan(one, key, now.state, now.first.size, steps)


def _written(steps: int, key: jax.Array, now: Now, params: EnvParams) -> Any:
    """The floor: as many bytes, each a different one at every step, and nothing to compute."""
    del key, params

    def body(observation: Observation, t: jax.Array) -> tuple[Observation, None]:
        return jax.tree.map(lambda leaf: leaf + t.astype(leaf.dtype), observation), None

    return jax.lax.scan(body, now.observation, jnp.arange(steps))


def _scan(one: Callable[..., Any], key: jax.Array, carry: Any, batch: int, steps: int) -> Any:
    def body(carry: Any, t: jax.Array) -> Any:
        return jax.vmap(one)(jax.random.split(jax.random.fold_in(key, t), batch), carry)

    return jax.lax.scan(body, carry, jnp.arange(steps))


def _glance(observation: Observation) -> jax.Array:
    """One number from every part of an observation."""
    corners = [leaf.ravel()[-1].astype(jnp.int32) for leaf in jax.tree.leaves(observation)]
    return jnp.stack(corners).sum()


def show(results: dict[str, Any]) -> Table:
    title = f"{results['task']}, {results['bytes']:,} bytes an observation: steps a second"
    rows = empty_table(title, ("at once", "drawn", "not drawn", "only written", "drawn / written"))
    for entry in results["rates"]:
        rates = {name: entry[name].get("rate") for name in VARIANTS}
        cells = [f"{rates[name]:,.0f}" if rates[name] else entry[name]["reason"] for name in VARIANTS]
        share = f"{rates['rendered'] / rates['written']:.0%}" if rates["rendered"] and rates["written"] else ""
        rows.add_row(f"{entry['batch']:,}", *cells, share)
    return rows


def draw(results: dict[str, Any], path: Path) -> None:
    """Steps a second over the number of environments."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import seaborn as sns

    sns.set_theme(style="whitegrid")
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for (name, label), colour in zip(VARIANTS.items(), sns.color_palette("colorblind"), strict=False):
        points = [(entry["batch"], entry[name]["rate"]) for entry in results["rates"] if "rate" in entry[name]]
        width = 3 if name == "rendered" else 1.5
        axes.plot(*zip(*points, strict=True), color=colour, label=label, marker="o", linewidth=width)
    batches = [entry["batch"] for entry in results["rates"]]
    axes.set(xscale="log", yscale="log", xlabel="environments at once", ylabel="steps a second")
    axes.set_xticks(batches, [f"{batch:,}" for batch in batches])
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    figure.suptitle(f"{results['task']} on {results['device']}\n{', '.join(results['levels'])}", fontsize=10)
    axes.legend()
    figure.savefig(path, dpi=120)
    plt.close(figure)
