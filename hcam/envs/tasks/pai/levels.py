"""The levels of paired associative inference: how long its chains are, which items they use, and what is asked.

A query is named by its two letters, cue first: `ac` shows an A and asks for the C of the same chain. Neighbours are
stored together, so that a query for them is direct; all others are indirect.
"""

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hcam.envs.values import is_whole

SHORTEST, LONGEST = 3, 5  # letters of a chain
LETTERS = "abcde"
POOLS = ("train", "valid", "test")
GROUPS = ("all", "direct", "indirect")  # of queries
PAPER_LEVELS = ("length3",)

Pools = Mapping[str, tuple[int, int]]  # name -> the number of its first item, how many items it has


class LevelParams(NamedTuple):
    """A level as data."""

    length: jax.Array  # int32, letters of a chain
    first: jax.Array  # int32, the number of the pool's first item
    size: jax.Array  # int32, items of the pool
    weight_x: jax.Array  # float32 [LONGEST * LONGEST], how often each query is asked: cue * LONGEST + match


@dataclass(frozen=True)
class Level:
    """`length{n}`, with `_valid` or `_test` for items of these pools, and with the queries that are asked."""

    length: int = 3
    pool: str = "train"
    query: str = "all"  # all: half of them direct, half indirect, as in the original training

    def __post_init__(self) -> None:
        if not is_whole(self.length, SHORTEST, LONGEST):
            raise ValueError(f"length must be a whole number from {SHORTEST} to {LONGEST}, but is {self.length!r}.")
        if self.pool not in POOLS:
            raise ValueError(f"pool must be one of {', '.join(POOLS)}, but is {self.pool!r}.")
        if self.query not in (*GROUPS, *queries(self.length)):
            raise ValueError(
                f"query must be one of {', '.join((*GROUPS, *queries(self.length)))} in chains of {self.length}, but "
                f"is {self.query!r}."
            )

    def params(self, pools: Pools) -> LevelParams:
        first, count = pools[self.pool]
        weight = jnp.asarray(weights(self.length, self.query))
        return LevelParams(jnp.int32(self.length), jnp.int32(first), jnp.int32(count), weight)


def queries(length: int) -> list[str]:
    """`ab`, `ac` and so on: the cue comes before the match."""
    return ["".join(pair) for pair in itertools.combinations(LETTERS[:length], 2)]


def is_direct(query: str) -> bool:
    return LETTERS.index(query[1]) - LETTERS.index(query[0]) == 1


def weights(length: int, query: str) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """How often each query is asked; direct and indirect ones each have half of the weight, if both are asked."""
    found = np.zeros((2, LONGEST, LONGEST), np.float32)
    for name in queries(length):
        if query in ("all", "direct" if is_direct(name) else "indirect", name):
            found[int(is_direct(name)), LETTERS.index(name[0]), LETTERS.index(name[1])] = 1
    shares = [group / group.sum() for group in found if group.any()]
    return np.asarray(sum(shares) / len(shares), np.float32).ravel()


def parse(name: str) -> Level:
    found = re.fullmatch(r"length([3-5])(?:_(valid|test))?(?:_(direct|indirect|[a-e]{2}))?", name)
    if not found or (found[3] and found[3] not in (*GROUPS, *queries(int(found[1])))):
        raise ValueError(
            f"there is no PairedInference level {name!r}: a level is length{{3 to 5}}, then _valid or _test for items "
            f"that are not trained on, then _direct, _indirect or a query, such as {PAPER_LEVELS[0]} or "
            "length3_test_ac."
        )
    return Level(int(found[1]), found[2] or "train", found[3] or "all")


def parsed(level: str | Level) -> Level:
    """A level by name, or as it is."""
    return level if isinstance(level, Level) else parse(level)


def names(longest: int) -> tuple[str, ...]:
    """Levels for lists: for every length, what is trained on, and what is asked of items that are not."""
    return tuple(
        name
        for length in range(SHORTEST, longest + 1)
        for name in (f"length{length}", f"length{length}_valid", f"length{length}_test", *held_out_levels(length))
    )


def held_out_levels(length: int) -> tuple[str, ...]:
    """One level for every query about items that are not trained on, from neighbours to the ends of a chain."""
    by_distance = sorted(queries(length), key=lambda query: (LETTERS.index(query[1]) - LETTERS.index(query[0]), query))
    return tuple(f"length{length}_test_{query}" for query in by_distance)
