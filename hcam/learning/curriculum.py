"""Which levels to play: those whose outcome is uncertain.

Where an agent always succeeds, or never, every episode teaches the same. What can be learned from an outcome is its
variance, p (1 - p) for a success of probability p. Levels share the steps in proportion to it: easy and short ones at
first, then those that are half learned, then those that still fail.

Where a task is scored by its return, the return as a part of the expert's mean return takes the place of p. No outcome
between 0 and 1 has a larger variance than p (1 - p), and a level that is played as well as by the expert has none left.
"""

from typing import NamedTuple

import jax.numpy as jnp

from hcam.envs.levels import Mixture
from hcam.learning.metrics import EpisodeStats
from hcam.types import Array

DECAY = 0.98  # of the statistics, per update: about the last fifty updates count
MIN_VARIANCE = 0.01  # added to the variance, so that no level is ever left out and forgotten


class Record(NamedTuple):
    """Decaying sums over the last episodes of each level. Float32."""

    episodes_l: Array
    success_l: Array
    length_l: Array


def init(levels: int) -> Record:
    return Record(*(jnp.zeros(levels, jnp.float32) for _ in Record._fields))


def update(record: Record, stats: EpisodeStats, full_return_l: Array | None = None) -> Record:
    """The record with the episodes that ended in an update; of returns, as parts of `full_return_l`, if that is given.

    The least and the most that the episodes of a level can have earned is nothing and the expert's return.
    """
    new = Record(stats.episodes_l, stats.success_l, stats.length_l)
    if full_return_l is not None:
        new = new._replace(success_l=jnp.clip(stats.return_l / full_return_l, 0.0, stats.episodes_l))
    return Record(*(DECAY * old_l + new_l for old_l, new_l in zip(record, new, strict=True)))


def reweigh(levels: Mixture, record: Record) -> Mixture:
    """The mixture with new weights: a level's share of the steps is proportional to its variance.

    Every level has two episodes of average length added, one of them a success: a level that was not played yet is
    neither certain nor short.
    """
    average = (record.length_l.sum() + 1) / (record.episodes_l.sum() + 1)
    episodes_l = record.episodes_l + 2
    success_l, length_l = (record.success_l + 1) / episodes_l, (record.length_l + 2 * average) / episodes_l
    return levels._replace(weight_l=levels.weight_l * (success_l * (1 - success_l) + MIN_VARIANCE) / length_l)
