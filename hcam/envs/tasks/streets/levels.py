"""The levels of One-Shot StreetLearn: which cities, how large a neighbourhood, how long an episode.

All neighbourhoods that a program plays are rows of one table, a constant of the program. A level says which rows: it is
a few numbers, so that one program plays every mixture of levels.
"""

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hcam.envs.tasks.streets import neighbourhoods
from hcam.envs.tasks.streets.cities import CITIES, TEST_CITIES, TITLES, TRAIN_CITIES
from hcam.envs.tasks.streets.neighbourhoods import STATES, Neighbourhoods
from hcam.envs.values import is_whole

JUNCTIONS, STEPS = 5, 200  # as published
SYMBOLS = {JUNCTIONS: STATES, 2: 22, 1: 14}  # by junctions: in small ones, as many as the largest has states
SIZES = tuple(SYMBOLS)
SMALL_SHARE = 8  # small neighbourhoods are an eighth as many

SPLITS = {"train": TRAIN_CITIES, "test": TEST_CITIES}
SMALL = {"small_": 2, "quick_": 1}  # the junctions of a level that is called so
LEVELS = (*SPLITS, *CITIES, *(small + split for small in SMALL for split in SPLITS))


class LevelParams(NamedTuple):
    """A level as data."""

    city_c: jax.Array  # int32, the cities to draw from, in front; the rest is filled up
    cities: jax.Array  # int32, how many
    size: jax.Array  # int32, of its neighbourhoods: a place in SIZES
    symbols: jax.Array  # int32, which may occur: those below this number
    steps: jax.Array  # int32, of an episode


@dataclass(frozen=True)
class Level:
    """A level's name as its parts."""

    cities: tuple[str, ...] = TRAIN_CITIES
    junctions: int = JUNCTIONS
    steps: int = STEPS

    def __post_init__(self) -> None:
        if not self.cities or not set(self.cities) <= set(CITIES) or len(set(self.cities)) < len(self.cities):
            raise ValueError(f"cities must be different ones of {', '.join(CITIES)}, but are {self.cities!r}.")
        if isinstance(self.junctions, bool) or self.junctions not in SIZES:
            known = ", ".join(map(str, SIZES))
            raise ValueError(f"junctions must be one of {known}, but is {self.junctions!r}.")
        check_steps(self.steps)

    @property
    def symbols(self) -> int:
        return SYMBOLS[self.junctions]

    def params(self) -> LevelParams:
        numbers = [CITIES.index(city) for city in self.cities]
        filled = jnp.array(numbers + [0] * (len(CITIES) - len(numbers)), jnp.int32)
        size = SIZES.index(self.junctions)
        return LevelParams(filled, *map(jnp.int32, (len(numbers), size, self.symbols, self.steps)))


def check_steps(steps: object) -> None:
    if not is_whole(steps, 1, 10**6):
        raise ValueError(f"steps must be a whole number from 1 to 1,000,000, but is {steps!r}.")


def parse(name: str) -> Level:
    small = next((small for small in SMALL if name.startswith(small)), "")
    plain = name.removeprefix(small)
    if plain not in {*SPLITS, *CITIES}:
        raise ValueError(
            f"there is no Streets level {name!r}: a level is {', '.join(SPLITS)} or a city ({', '.join(CITIES)}), and "
            f"{' and '.join(small + '{level}' for small in SMALL)} have smaller neighbourhoods."
        )
    return Level(SPLITS.get(plain, (plain,)), SMALL.get(small, JUNCTIONS))


def parsed(level: str | Level) -> Level:
    """A level by name, or as it is."""
    return level if isinstance(level, Level) else parse(level)


def title(level: str | Level) -> str:
    """A level for figures and tables."""
    known = parsed(level)
    split = next((split for split, cities in SPLITS.items() if cities == known.cities), None)
    words = f"{split} cities" if split else ", ".join(TITLES[city] for city in known.cities)
    return words + {JUNCTIONS: "", 2: ", two junctions", 1: ", one junction"}[known.junctions]


def guessing(level: str | Level) -> float | None:
    """The mean return of random actions, as `python examples/cities.py` measures it; None: of another length."""
    known = parsed(level)
    return {JUNCTIONS: 1.15, 2: 2.7, 1: 4.9}[known.junctions] if known.steps == STEPS else None


# The table of all neighbourhoods --------------------------------------------------------------------------------------


def rows_of(size: int, count: int) -> int:
    """Neighbourhoods of this size in each city, where there are `count` of the published size."""
    return count if SIZES[size] == JUNCTIONS else max(1, count // SMALL_SHARE)


@cache
def table(count: int) -> Neighbourhoods:
    """The neighbourhoods of all cities, size by size; as narrow as they allow.

    int32 and uint8, since the table is a constant of every program that plays.
    """
    kinds = [(junctions, rows_of(size, count)) for size, junctions in enumerate(SIZES)]
    parts = [neighbourhoods.of_city(city, junctions, rows) for junctions, rows in kinds for city in CITIES]
    joined = Neighbourhoods(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
    nodes, states = joined.nodes_r.max(), joined.states_r.max()
    return Neighbourhoods(
        joined.node_rn2[:, :nodes].astype(np.int32),
        joined.tail_rs[:, :states].astype(np.uint8),
        joined.head_rs[:, :states].astype(np.uint8),
        joined.forward_rs[:, :states].astype(np.uint8),
        joined.nodes_r.astype(np.uint8),
        joined.states_r.astype(np.uint8),
    )


def draw_row(key: jax.Array, level: LevelParams, count: int) -> tuple[jax.Array, jax.Array]:
    """A city of the level, each equally often, and the row of one of its neighbourhoods: int32 scalars."""
    key_city, key_row = jax.random.split(key)
    city = level.city_c[jax.random.randint(key_city, (), 0, level.cities)]
    rows = [rows_of(size, count) for size in range(len(SIZES))]
    first = [len(CITIES) * sum(rows[:size]) for size in range(len(SIZES))]
    number, begin = jnp.array(rows, jnp.int32)[level.size], jnp.array(first, jnp.int32)[level.size]
    return city, begin + city * number + jax.random.randint(key_row, (), 0, number)
