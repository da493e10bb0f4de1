"""Who dances what, where and when: the levels and episodes of Ballet.

All dancers live on a 3 x 3 grid of places around the agent, whose middle place is the agent's own. So the axis letter P
is a place (nine of them), and a place's `order` is its dancer's turn.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hcam.envs.render import sprites
from hcam.envs.values import is_whole

BOARD = 11  # tiles along a side, walls included; the view is as wide
CENTRE = BOARD // 2
PLACES = tuple((row, col) for row in (2, 5, 8) for col in (2, 5, 8))
HOMES = tuple(place for place in PLACES if place != (CENTRE, CENTRE))
ABSENT = len(PLACES)  # the order of a place without a dancer

# N, NE, E, SE, S, SW, W, NW: the agent's actions and the dancers' moves.
MOVES = np.array([(-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1)], np.int32)

DANCES: dict[str, str] = {
    "circle_cw": "0244660022446602",
    "circle_ccw": "0644220066442206",
    "up_and_down": "0440044004400440",
    "left_and_right": "2662266226622662",
    "diagonal_uldr": "7337733773377337",
    "diagonal_urdl": "1551155115511551",
    "plus_cw": "0426406204264062",
    "plus_ccw": "0462402604624026",
    "times_cw": "1537517315375173",
    "times_ccw": "7351371573513715",
    "zee": "1662251552266151",
    "chevron_down": "7431051514570373",
    "chevron_up": "3075415150134737",
}
# Straight lines first: any two frames tell them apart. A level that ends in _of4 has the first four.
EASIEST_FIRST = (
    *("up_and_down", "left_and_right", "diagonal_uldr", "diagonal_urdl", "plus_cw", "plus_ccw", "times_cw"),
    *("times_ccw", "circle_cw", "circle_ccw", "zee", "chevron_down", "chevron_up"),
)
SHAPES, COLORS = tuple(sprites.SHAPES), tuple(sprites.COLORS)
DANCE_STEPS = 16
PERIOD = DANCE_STEPS - 1  # a dance starts this many frames plus the delay after the one before it
PAPER_LEVELS = ("2_delay16", "4_delay16", "8_delay16", "2_delay48", "4_delay48", "8_delay48")

# Where a dancer stands, relative to its home, after 0 .. 16 moves.
_moves = np.array([[int(move) for move in moves] for moves in DANCES.values()])
PATHS = np.pad(np.cumsum(MOVES[_moves], axis=1, dtype=np.int32), ((0, 0), (1, 0), (0, 0)))


class LevelParams(NamedTuple):
    """A level as data."""

    dancers: jax.Array  # int32, 1 to 8
    delay: jax.Array  # int32, frames between dances
    limit: jax.Array  # int32, frames until time is up
    dances_x: jax.Array  # bool, which of the 13 dances may occur


class Episode(NamedTuple):
    """What is drawn once per episode."""

    order_p: jax.Array  # int32, the place's turn to dance; ABSENT where nobody stands
    dance_p: jax.Array  # int32
    shape_p: jax.Array  # int32
    color_p: jax.Array  # int32
    target: jax.Array  # int32, the turn of the dancer to choose
    dancers: jax.Array  # int32
    delay: jax.Array  # int32
    limit: jax.Array  # int32


@dataclass(frozen=True)
class Level:
    """`{dancers}_delay{delay}`, and what its name does not say."""

    dancers: int
    delay: int
    limit: int | None = None  # frames; None: as published, longer where that would leave no time to choose
    dances: tuple[str, ...] = tuple(DANCES)

    def __post_init__(self) -> None:
        if not is_whole(self.dancers, 1, len(HOMES)):
            raise ValueError(f"Ballet has 1 to {len(HOMES)} dancers, but is asked for {self.dancers!r}.")
        if not is_whole(self.delay, 0, 10**8 - 1):
            raise ValueError(f"the delay between dances is 0 to 99,999,999 frames, but is {self.delay!r}.")
        for dance in self.dances:
            _known("dance", dance, tuple(DANCES))
        if len(set(self.dances)) < self.dancers:
            raise ValueError(f"{self.dancers} dancers need as many different dances, but have {len(set(self.dances))}.")
        soonest = choice_time(self.dancers, self.delay) + 3
        if self.limit is not None and not is_whole(self.limit, soonest, 2 * 10**9):
            raise ValueError(f"max_steps is {self.limit!r}, but the earliest possible choice ends at frame {soonest}.")

    @property
    def max_steps(self) -> int:
        """320 at delay 16 and 1024 at any other, as published; where the dances take longer, 72 frames to choose."""
        if self.limit is not None:
            return self.limit
        published = 320 if self.delay == 16 else 1024
        return max(published, int(choice_time(self.dancers, self.delay)) + 72)


def parse(name: str) -> Level:
    found = re.fullmatch(rf"([1-{len(HOMES)}])_delay(0|[1-9]\d{{0,7}})(?:_of([1-9]\d?))?", name)
    if not found:
        raise ValueError(
            f"there is no Ballet level {name!r}: a level is {{N}}_delay{{d}}, with N from 1 to {len(HOMES)} dancers "
            f"and d frames between dances, such as {', '.join(PAPER_LEVELS)}; an ending such as _of4 leaves only the "
            f"4 easiest of the {len(DANCES)} dances."
        )
    kinds = int(found[3] or len(DANCES))
    if kinds > len(DANCES):
        raise ValueError(f"the Ballet level {name!r} asks for {kinds} dances, but there are {len(DANCES)}: lower it.")
    return Level(int(found[1]), int(found[2]), dances=EASIEST_FIRST[:kinds])


def parsed(level: str | Level) -> Level:
    """A level by name, or as it is."""
    return level if isinstance(level, Level) else parse(level)


def choice_time(dancers: Any, delay: Any) -> Any:
    """The frame at which the instruction names a dance, and from which on the agent may move."""
    return dancers * (PERIOD + delay)


def draw(key: jax.Array, level: LevelParams) -> Episode:
    """Homes, dances, shapes and colours, each without replacement, and the target."""
    _, key_target, key_cast = jax.random.split(key, 3)  # the first once drew the level: seeds keep their episodes
    home_p, dance_x, shape_s, color_c = _split(
        jax.random.bits(key_cast, (len(PLACES) + len(DANCES) + len(SHAPES) + len(COLORS),)),
        (len(PLACES), len(DANCES), len(SHAPES), len(COLORS)),
    )
    order_p = _ranks(home_p, allowed=jnp.asarray(np.array([place in HOMES for place in PLACES])))
    return Episode(
        jnp.where(order_p < level.dancers, order_p, ABSENT),
        _with_rank(_ranks(dance_x, allowed=level.dances_x), order_p),
        _with_rank(_ranks(shape_s), order_p),
        _with_rank(_ranks(color_c), order_p),
        jax.random.randint(key_target, (), 0, level.dancers),
        level.dancers,
        level.delay,
        level.limit,
    )


def _split(values: jax.Array, sizes: tuple[int, ...]) -> list[jax.Array]:
    return jnp.split(values, np.cumsum(sizes)[:-1])


def _ranks(bits_n: jax.Array, allowed: jax.Array | None = None) -> jax.Array:
    """A random permutation: the rank of each number among all, what is not allowed last.

    Counting, not sorting: XLA sorts slowly, and an episode is drawn at every step in case the old one ends. The lowest
    bits are the index, so that no two are equal.
    """
    index_n = jnp.arange(bits_n.size, dtype=jnp.uint32)
    number_n = (bits_n >> 6 << 5) | index_n
    if allowed is not None:
        number_n = jnp.where(allowed, number_n, number_n | jnp.uint32(1 << 31))
    return (number_n[None, :] < number_n[:, None]).sum(axis=1, dtype=jnp.int32)


def _with_rank(rank_n: jax.Array, wanted_p: jax.Array) -> jax.Array:
    """The index that has each wanted rank; 0 if none has."""
    index_pn = jnp.where(rank_n[None, :] == wanted_p[:, None], jnp.arange(rank_n.size)[None, :], 0)
    return index_pn.sum(axis=1, dtype=jnp.int32)


def from_description(description: Mapping[str, Any]) -> Episode:
    """The episode that `{"dancers": [{"home", "dance", "shape", "color"}, ...], "target": i, "delay": d}` describes."""
    _fields("an episode", description, ("dancers", "target", "delay"), optional=("max_steps",))
    dancers = description["dancers"]
    if not isinstance(dancers, Sequence) or not 1 <= len(dancers) <= len(HOMES):
        raise ValueError(f"dancers must be a list of 1 to {len(HOMES)} dancers, in the order in which they dance.")
    cast = [_dancer(dancer) for dancer in dancers]
    places = [place for place, *_ in cast]
    if len(set(places)) < len(places):
        twice = PLACES[next(place for place in places if places.count(place) > 1)]
        raise ValueError(f"two dancers have the home {list(twice)}: choose different ones of {_HOMES_TEXT}.")
    target = description["target"]
    if not is_whole(target, 0, len(cast) - 1):
        raise ValueError(f"target must be the number of a dancer, 0 to {len(cast) - 1}, but is {target!r}.")
    level = Level(len(cast), description["delay"], description.get("max_steps"))
    by_place = np.zeros((4, len(PLACES)), np.int32)
    by_place[0] = ABSENT
    for order, (place, *looks) in enumerate(cast):
        by_place[:, place] = order, *looks
    numbers = (target, level.dancers, level.delay, level.max_steps)
    return Episode(*(jnp.asarray(row) for row in by_place), *(jnp.int32(number) for number in numbers))


def to_description(episode: Episode) -> dict[str, Any]:
    """What `from_description` takes, for an episode of NumPy arrays."""
    places = sorted((int(order), place) for place, order in enumerate(episode.order_p) if order != ABSENT)
    dancers = [
        {
            "home": list(PLACES[place]),
            "dance": tuple(DANCES)[episode.dance_p[place]],
            "shape": SHAPES[episode.shape_p[place]],
            "color": COLORS[episode.color_p[place]],
        }
        for _, place in places
    ]
    numbers = {"target": episode.target, "delay": episode.delay, "max_steps": episode.limit}
    return {"dancers": dancers, **{name: int(number) for name, number in numbers.items()}}


_HOMES_TEXT = ", ".join(str(list(home)) for home in HOMES)


def _dancer(dancer: Mapping[str, Any]) -> tuple[int, int, int, int]:
    _fields("a dancer", dancer, ("home", "dance", "shape", "color"))
    try:
        home = tuple(int(number) for number in dancer["home"])
    except (TypeError, ValueError):
        home = ()
    if home not in HOMES:
        raise ValueError(f"a dancer's home must be one of {_HOMES_TEXT}, but is {dancer['home']!r}.")
    names = (("dance", tuple(DANCES)), ("shape", SHAPES), ("color", COLORS))
    dance, shape, color = (_known(kind, dancer[kind], allowed) for kind, allowed in names)
    return PLACES.index(home), dance, shape, color


def _known(kind: str, name: Any, allowed: tuple[str, ...]) -> int:
    if name not in allowed:
        raise ValueError(f"there is no {kind} {name!r}: choose from {', '.join(allowed)}.")
    return allowed.index(name)


def _fields(what: str, given: Any, needed: tuple[str, ...], optional: tuple[str, ...] = ()) -> None:
    if not isinstance(given, Mapping) or not set(needed) <= set(given) <= {*needed, *optional}:
        found = ", ".join(map(str, given)) if isinstance(given, Mapping) else repr(given)
        also = f" and may have {', '.join(optional)}" if optional else ""
        raise ValueError(f"{what} is described by {', '.join(needed)}{also}, but was given {found}.")
