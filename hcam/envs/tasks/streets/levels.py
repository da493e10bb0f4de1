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
from hcam.envs.tasks.streets.neighbourhoods import Neighbourhoods
from hcam.envs.values import is_whole

JUNCTIONS, STEPS = 5, 200  # as published
QUICK_JUNCTIONS, QUICK_STEPS = 2, 50
QUICK_SHARE = 8  # small neighbourhoods are an eighth as many

SPLITS = {"train": TRAIN_CITIES, "test": TEST_CITIES}
QUICK = "quick_"
LEVELS = (*SPLITS, *CITIES, *(QUICK + split for split in SPLITS))


class LevelParams(NamedTuple):
    """A level as data."""

    city_c: jax.Array  # int32, the cities to draw from, in front; the rest is filled up
    cities: jax.Array  # int32, how many
    quick: jax.Array  # bool, whether neighbourhoods are the small ones
    steps: jax.Array  # int32, of an episode


@dataclass(frozen=True)
class Level:
    """A level's name as its parts."""

    cities: tuple[str, ...] = TRAIN_CITIES
    quick: bool = False
    steps: int = STEPS

    def __post_init__(self) -> None:
        if not self.cities or not set(self.cities) <= set(CITIES) or len(set(self.cities)) < len(self.cities):
            raise ValueError(f"cities must be different ones of {', '.join(CITIES)}, but are {self.cities!r}.")
        if not isinstance(self.quick, bool):
            raise ValueError(f"quick must be True or False, but is {self.quick!r}.")
        check_steps(self.steps)

    @property
    def junctions(self) -> int:
        return QUICK_JUNCTIONS if self.quick else JUNCTIONS

    def params(self) -> LevelParams:
        numbers = [CITIES.index(city) for city in self.cities]
        filled = jnp.array(numbers + [0] * (len(CITIES) - len(numbers)), jnp.int32)
        return LevelParams(filled, jnp.int32(len(numbers)), jnp.bool_(self.quick), jnp.int32(self.steps))


def check_steps(steps: object) -> None:
    if not is_whole(steps, 1, 10**6):
        raise ValueError(f"steps must be a whole number from 1 to 1,000,000, but is {steps!r}.")


def parse(name: str) -> Level:
    plain = name.removeprefix(QUICK)
    if plain not in {*SPLITS, *CITIES}:
        raise ValueError(
            f"there is no Streets level {name!r}: a level is {', '.join(SPLITS)} or a city ({', '.join(CITIES)}), and "
            f"{QUICK}{{level}} is a small one for a CPU."
        )
    cities = SPLITS.get(plain, (plain,))
    return Level(cities, quick=True, steps=QUICK_STEPS) if name.startswith(QUICK) else Level(cities)


def parsed(level: str | Level) -> Level:
    """A level by name, or as it is."""
    return level if isinstance(level, Level) else parse(level)


def title(level: str | Level) -> str:
    """A level for figures and tables."""
    known = parsed(level)
    split = next((split for split, cities in SPLITS.items() if cities == known.cities), None)
    words = f"{split} cities" if split else ", ".join(TITLES[city] for city in known.cities)
    return f"{words}, small" if known.quick else words


def guessing(level: str | Level) -> float | None:
    """The mean return of random actions, as `python examples/cities.py` measures it; None: of another length."""
    known = parsed(level)
    return {(False, STEPS): 1.15, (True, QUICK_STEPS): 0.67}.get((known.quick, known.steps))


# The table of all neighbourhoods --------------------------------------------------------------------------------------


def quick_count(count: int) -> int:
    """Small neighbourhoods of each city, where there are `count` of the published size."""
    return max(1, count // QUICK_SHARE)


@cache
def table(count: int) -> Neighbourhoods:
    """The neighbourhoods of all cities, `count` each, then the small ones; as narrow as they allow.

    int32 and uint8, since the table is a constant of every program that plays.
    """
    kinds = ((JUNCTIONS, count), (QUICK_JUNCTIONS, quick_count(count)))
    parts = [neighbourhoods.of_city(city, junctions, number) for junctions, number in kinds for city in CITIES]
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
    number = jnp.where(level.quick, quick_count(count), count)
    first = jnp.where(level.quick, len(CITIES) * count, 0)
    return city, first + city * number + jax.random.randint(key_row, (), 0, number)
