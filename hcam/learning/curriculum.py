"""Which levels to play: those whose outcome is uncertain.

Where an agent always succeeds, or never, every episode teaches the same. What can be learned from an outcome is its
variance, p (1 - p) for a success of probability p. Levels share the steps in proportion to it: easy and short ones at
first, then those that are half learned, then those that still fail.
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


def update(record: Record, stats: EpisodeStats) -> Record:
    """The record with the episodes that ended in an update."""
    new = Record(stats.episodes_l, stats.success_l, stats.length_l)
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
