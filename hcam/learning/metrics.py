"""What a run reports: counted on the device, turned into rows of metrics.jsonl on the host."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hcam.types import Array, EpisodeEnd

# Logged beside the losses. `ratio` is the importance weight and `ratio_deviation` its distance from 1; both also in the
# first minibatch, before anything was learned: where acting equals learning, they are 1 and 0 there.
DIAGNOSTICS = (
    *("entropy", "ratio", "ratio_first", "ratio_deviation", "ratio_deviation_first", "value", "advantage"),
    *("accuracy", "gradient_norm"),
)


class EpisodeStats(NamedTuple):
    """Sums over the episodes that ended, by level: they can be added."""

    episodes_l: Array
    success_l: Array
    return_l: Array
    length_l: Array


class UpdateMetrics(NamedTuple):
    """What one update reports."""

    means: dict[str, Array]  # losses and diagnostics, over its gradient steps
    episodes: EpisodeStats


def count(end_n: EpisodeEnd, levels: int) -> EpisodeStats:
    """Of steps in an array of any shape."""
    end_n = EpisodeEnd(*(leaf.ravel() for leaf in end_n))
    ended_nl = (end_n.level[:, None] == jnp.arange(levels)[None]) & end_n.done[:, None]

    def total(value_n: Array) -> Array:
        return jnp.where(ended_nl, value_n.astype(jnp.float32)[:, None], 0.0).sum(0)

    one_n = jnp.ones_like(end_n.episode_return)
    return EpisodeStats(*map(total, (one_n, end_n.success, end_n.episode_return, end_n.length)))


def add(updates: list[Any]) -> Any:
    """The metrics of many updates as one: losses are averaged, episodes are summed."""
    means = jax.tree.map(lambda *values: np.mean(values, axis=0), *[one.means for one in updates])
    return UpdateMetrics(
        means, jax.tree.map(lambda *values: np.sum(values, axis=0), *[one.episodes for one in updates])
    )


def row(metrics_s: UpdateMetrics, levels: tuple[str, ...], **head: Any) -> dict[str, Any]:
    """A row of metrics.jsonl: means over the seeds that are trained at once, whose axis comes first."""
    episodes = EpisodeStats(*(np.asarray(values).sum(0) for values in metrics_s.episodes))
    whole = _summary(episodes, np.s_[:])
    means = {name: float(np.mean(value)) for name, value in metrics_s.means.items()}
    found = {
        **head,
        "losses": {name: mean for name, mean in means.items() if name not in DIAGNOSTICS},
        "diagnostics": {name: mean for name, mean in means.items() if name in DIAGNOSTICS},
        "levels": {level: _summary(episodes, np.s_[n : n + 1]) for n, level in enumerate(levels)},
        "success": whole["success"],
        "return": whole["return"],
    }
    seeds = len(metrics_s.episodes.episodes_l)
    if seeds > 1:
        per_seed = [EpisodeStats(*(np.asarray(values)[s] for values in metrics_s.episodes)) for s in range(seeds)]
        each = [_summary(one, np.s_[:]) for one in per_seed]
        found["seeds"] = [{"success": one["success"], "return": one["return"]} for one in each]
    return found


def score(row: dict[str, Any], by: str = "success", least: float = 0.0) -> float:
    """A row as one number: the mean success (or return) over levels, however often each was played.

    One that was not played counts `least`, which no level that was played falls below.
    """
    return float(np.mean([least if level[by] is None else level[by] for level in row["levels"].values()]))


def _summary(episodes: EpisodeStats, which: Any) -> dict[str, Any]:
    number, *sums = (float(values[which].sum()) for values in episodes)
    means = [value / number if number else None for value in sums]
    return {"episodes": int(number), **dict(zip(("success", "return", "length"), means, strict=True))}


def first_not_finite(updates: list[Any]) -> tuple[int, str] | None:
    """The first update with a mean that is not finite, and the name of that mean."""
    for number, one in enumerate(updates):
        for name, value in one.means.items():
            if not np.isfinite(value).all():
                return number, name
    return None
