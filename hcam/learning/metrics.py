"""What a run tells: counted on the device, made into rows of metrics.jsonl on the host."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hcam.learning.rollout import Episode
from hcam.memory.types import Array

# Told beside the losses: importance weights and how far they are from 1 (and both in the first minibatch, before
# anything was learned: where acting equals learning they are 1 and 0), values, advantages, the norm of the gradient.
DIAGNOSTICS = ("rho", "rho_first", "drift", "drift_first", "value", "advantage", "gradient")


class EpisodeStats(NamedTuple):
    """Of the episodes that ended, by level: sums, so that tallies can be added."""

    episodes_l: Array
    success_l: Array
    return_l: Array
    length_l: Array


class UpdateMetrics(NamedTuple):
    """What one update has to tell."""

    losses: dict[str, Array]  # means over its gradient steps
    tally: EpisodeStats


def count(episode_n: Episode, levels: int) -> EpisodeStats:
    """Of steps in an array of any shape."""
    episode_n = Episode(*(leaf.ravel() for leaf in episode_n))
    ended_nl = (episode_n.level[:, None] == jnp.arange(levels)[None]) & episode_n.done[:, None]

    def total(value_n: Array) -> Array:
        return jnp.where(ended_nl, value_n.astype(jnp.float32)[:, None], 0.0).sum(0)

    one_n = jnp.ones_like(episode_n.ret)
    return EpisodeStats(*map(total, (one_n, episode_n.success, episode_n.ret, episode_n.length)))


def add(seen: list[Any]) -> Any:
    """Many updates' UpdateMetrics as one: losses are means, tallies are sums."""
    losses = jax.tree.map(lambda *values: np.mean(values, axis=0), *[one.losses for one in seen])
    return UpdateMetrics(losses, jax.tree.map(lambda *values: np.sum(values, axis=0), *[one.tally for one in seen]))


def row(seen_s: UpdateMetrics, levels: tuple[str, ...], **head: Any) -> dict[str, Any]:
    """A row of metrics.jsonl: means over the seeds that are trained at once, whose axis comes first."""
    tally = EpisodeStats(*(np.asarray(values).sum(0) for values in seen_s.tally))
    by_level = {level: _of(tally, np.s_[n : n + 1]) for n, level in enumerate(levels)}
    whole = _of(tally, np.s_[:])
    means = {name: float(np.mean(value)) for name, value in seen_s.losses.items()}
    losses = {name: mean for name, mean in means.items() if name not in DIAGNOSTICS}
    health = {name: mean for name, mean in means.items() if name in DIAGNOSTICS}
    told = {
        **head,
        "losses": losses,
        "health": health,
        "levels": by_level,
        "success": whole["success"],
        "return": whole["return"],
    }
    seeds = len(seen_s.tally.episodes_l)
    if seeds > 1:
        each = [_of(EpisodeStats(*(np.asarray(values)[s] for values in seen_s.tally)), np.s_[:]) for s in range(seeds)]
        told["seeds"] = [{"success": one["success"], "return": one["return"]} for one in each]
    return told


def score(row: dict[str, Any]) -> float:
    """A row as one number: the mean over levels, however often each was played; one that was not counts as 0."""
    return float(np.mean([level["success"] or 0.0 for level in row["levels"].values()]))


def _of(tally: EpisodeStats, which: Any) -> dict[str, Any]:
    episodes, *sums = (float(values[which].sum()) for values in tally)
    means = [value / episodes if episodes else None for value in sums]
    return {"episodes": int(episodes), **dict(zip(("success", "return", "length"), means, strict=True))}


def first_not_finite(seen: list[Any]) -> tuple[int, str] | None:
    """Which of the updates, and which of its losses, is the first that is no longer a number."""
    for number, one in enumerate(seen):
        for name, value in one.losses.items():
            if not np.isfinite(value).all():
                return number, name
    return None
