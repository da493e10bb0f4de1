"""The levels of the Memory&Planning Game: how large the torus is, how long an episode, and whether the agent stays.

All of this is data, so that one program plays every mixture of levels.
"""

import re
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from hcam.envs.values import is_whole

PUBLISHED = 4  # cells along a side
STEPS = 100  # of an episode, as published
LARGEST = 16  # cells along a side

PAPER_LEVELS = ("torus4",)
OTHER_LEVELS = ("torus3", "torus2", "torus4_placed")


class Rules(NamedTuple):
    """A level as data: what an episode has of it."""

    side: jax.Array  # int32, cells along a side
    steps: jax.Array  # int32, of an episode
    placed: jax.Array  # bool, whether the agent is put somewhere else when it has collected a goal


@dataclass(frozen=True)
class Level:
    """`torus{side}`, with `_steps{n}` for episodes of another length, and `_placed` for an agent that is moved."""

    side: int = PUBLISHED
    steps: int = STEPS
    placed: bool = False

    def __post_init__(self) -> None:
        if not is_whole(self.side, 2, LARGEST):
            raise ValueError(f"side must be a whole number of cells from 2 to {LARGEST}, but is {self.side!r}.")
        if not is_whole(self.steps, 1, 10**6):
            raise ValueError(f"steps must be a whole number from 1 to 1,000,000, but is {self.steps!r}.")
        if not isinstance(self.placed, bool):
            raise ValueError(f"placed must be true or false, but is {self.placed!r}.")

    @property
    def cells(self) -> int:
        return self.side**2

    def rules(self) -> Rules:
        return Rules(jnp.int32(self.side), jnp.int32(self.steps), jnp.bool_(self.placed))


def parse(name: str) -> Level:
    found = re.fullmatch(r"torus([1-9]\d?)(?:_steps([1-9]\d{0,6}))?(_placed)?", name)
    if not found or not 2 <= int(found[1]) <= LARGEST:
        raise ValueError(
            f"there is no Planning level {name!r}: a level is torus{{n}}, with 2 to {LARGEST} cells along a side, "
            f"such as {PAPER_LEVELS[0]}, the published one; _steps{{k}} sets the length of an episode, and _placed "
            "puts the agent somewhere else after each goal."
        )
    return Level(int(found[1]), int(found[2] or STEPS), bool(found[3]))


def parsed(level: str | Level) -> Level:
    """A level by name, or as it is."""
    return level if isinstance(level, Level) else parse(level)


def title(level: str | Level) -> str:
    known = parsed(level)
    parts = [f"{known.side} x {known.side} torus"]
    parts += [f"{known.steps} steps"] if known.steps != STEPS else []
    return ", ".join(parts + ["placed anew"] * known.placed)
