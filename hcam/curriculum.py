"""Which levels episodes are drawn from: all from the start, or one after the other, as they are learned."""

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp

from hcam.memory.types import Array
from hcam.metrics import Tally

SPAN = 1000  # episodes of a level over which its success is a running mean


@dataclass(frozen=True, kw_only=True)
class CurriculumConfig:
    open_at: float = 0.0  # success at which the next level opens, in the order of `levels`; 0: all are open at once

    def __post_init__(self) -> None:
        if not 0 <= self.open_at <= 1:
            raise ValueError(f"open_at is a share of episodes, from 0 to 1, but is {self.open_at}.")


class Progress(NamedTuple):
    """How far a run has come: sums over about the last SPAN episodes of each level."""

    episodes_l: Array
    success_l: Array
    opened: Array  # int32, how many levels are open, from the first; one that has opened stays open


def begin(config: CurriculumConfig, levels: int) -> Progress:
    none_l = jnp.zeros(levels, jnp.float32)
    return Progress(none_l, none_l, jnp.int32(1 if config.open_at else levels))


def weights(progress: Progress) -> Array:
    """How often each level is drawn, relative to the others."""
    return (jnp.arange(len(progress.episodes_l)) < progress.opened).astype(jnp.float32)


def after(config: CurriculumConfig, progress: Progress, tally: Tally) -> Progress:
    """Where a run stands after an update: the next level opens when the newest is learned well enough."""
    episodes_l, success_l = progress.episodes_l + tally.episodes_l, progress.success_l + tally.success_l
    newest, levels = progress.opened - 1, len(episodes_l)
    known = episodes_l[newest] >= SPAN / 2  # a lucky streak is not enough
    learned = known & (success_l[newest] >= config.open_at * episodes_l[newest])
    fade_l = jnp.minimum(1.0, SPAN / jnp.maximum(episodes_l, 1.0))
    opened = jnp.minimum(progress.opened + learned.astype(jnp.int32), levels)
    return Progress(episodes_l * fade_l, success_l * fade_l, opened)
