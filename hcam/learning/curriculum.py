"""Which levels to play: those of which it is not known yet how they end.

Where an agent always succeeds, or never, every episode teaches the same. What there is to learn from an outcome is its
variance, p (1 - p) for a success of probability p, so that is what levels share the steps by: easy and short ones at
first, then whichever is half learned, then what is still missing.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp

from hcam.learning.metrics import EpisodeStats
from hcam.memory.types import Array

DECAY = 0.98  # of what is remembered, per update: the last fifty or so count
CERTAIN = 0.01  # added to the variance: nothing is ever left out, and forgotten


class Record(NamedTuple):
    """How the last episodes went, by level: sums, of which older ones count less. Float32."""

    episodes_l: Array
    success_l: Array
    length_l: Array


def begin(levels: int) -> Record:
    return Record(*(jnp.zeros(levels, jnp.float32) for _ in Record._fields))


def note(record: Record, tally: EpisodeStats) -> Record:
    """With the episodes that an update ended."""
    news = Record(tally.episodes_l, tally.success_l, tally.length_l)
    return Record(*(DECAY * old_l + new_l for old_l, new_l in zip(record, news, strict=True)))


def choose(level: Any, record: Record) -> Any:
    """The mixture with new weights: a level's share of the steps is that of its variance.

    As if there had been two more episodes of each, one of them won and both as long as others: levels that were not
    played yet are neither sure nor short.
    """
    usual = (record.length_l.sum() + 1) / (record.episodes_l.sum() + 1)
    episodes_l = record.episodes_l + 2
    success_l, length_l = (record.success_l + 1) / episodes_l, (record.length_l + 2 * usual) / episodes_l
    return level._replace(weight_l=level.weight_l * (success_l * (1 - success_l) + CERTAIN) / length_l)
