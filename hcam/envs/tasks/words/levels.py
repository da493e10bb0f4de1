"""The levels of rapid word learning: how many phases, how long, in how large a room, with which objects and words.

All that makes a level easier than another is data, so that one program plays every mixture of levels.
"""

import re
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hcam.envs.body import RADIUS, RATE, steps
from hcam.envs.render.things import THINGS
from hcam.envs.values import is_number, is_whole

OBJECTS = 3  # in the room, in every phase
MAX_EPISODES, MAX_DISTRACTORS = 4, 20
MAX_WORDS = MAX_EPISODES * OBJECTS
GIRTH = 0.36  # the radius of an object as an obstacle, by its height
GAP = 0.02  # metres that a body has to spare between two objects, at least

DISTRACTORS = ("train", "robot", "rocket")  # never among the objects whose names are learned, as published
POOL = tuple(thing for thing in THINGS if thing not in DISTRACTORS)
WORDS = (
    *("dax", "blicket", "wug", "toma", "fep", "gazzer", "modi", "bosa", "tulver", "pilk", "nurp", "gorp"),
    *("vash", "lorp", "zib", "mef", "cheem", "koba", "teebu", "danu", "sibo", "jeffa", "yosp", "keff"),
)
QUICK_KINDS = 3

TRAINING_LEVELS = ("distractors0", "distractors1", "distractors2")
HELD_OUT_LEVELS = (
    *("distractors10", "episodes4_distractors0", "episodes2_distractors5"),  # main text
    *("distractors20", "episodes4_distractors1", "episodes3_distractors5"),  # appendix
)
QUICK_LEVELS = ("quick_distractors0", "quick_distractors1", "quick_distractors2", "quick_episodes2_distractors0")
EASY_LEVELS = ("near_distractors0", "guided_distractors0")  # to begin with


class Rules(NamedTuple):
    """What an episode has of its level."""

    episodes: jax.Array  # int32, learning phases, each with a test of its own
    distractors: jax.Array  # int32, distractor phases between learning and test
    limit: jax.Array  # int32, steps in all
    phase_limit: jax.Array  # int32, steps of a distractor phase
    pause: jax.Array  # int32, steps from the last new name to the next phase
    half: jax.Array  # float32, half of the room's side
    spacing: jax.Array  # float32, between the middles of neighbouring places
    jitter: jax.Array  # float32, how far from the middle of its place anything may be, in x and in y
    guide: jax.Array  # float32, the reward for coming one step nearer to where the agent should go
    near: jax.Array  # float32, how far away an object is named and can be lifted
    size: jax.Array  # float32, the height of objects
    ahead: jax.Array  # bool, whether every phase begins with the agent looking at all three objects
    turned: jax.Array  # bool, whether objects face random directions


class LevelParams(NamedTuple):
    """A level as data."""

    rules: Rules
    pool_x: jax.Array  # bool, which of all things may have invented names
    word_v: jax.Array  # bool, which of all invented words may occur


@dataclass(frozen=True)
class Level:
    """`episodes{E}_distractors{D}`, and what its name does not say: seconds and metres."""

    distractors: int = 0
    episodes: int = 1
    limit: float = 450
    phase_limit: float = 20
    pause: float = 1
    room: float = 7.0  # the side of the floor, a square
    spacing: float = 2.0
    jitter: float = 0.3
    guide: float = 0.0
    near: float = 1.2
    size: float = 0.7
    ahead: bool = False
    turned: bool = True
    things: tuple[str, ...] = POOL
    words: tuple[str, ...] = WORDS

    def __post_init__(self) -> None:
        _check_numbers(self)
        _check_sizes(self)
        _check_names("things", self.things, POOL, self.episodes)
        _check_names("words", self.words, WORDS, self.episodes)

    @property
    def max_steps(self) -> int:
        return steps(self.limit)

    def rules(self) -> Rules:
        whole = {name: jnp.int32(getattr(self, name)) for name in ("episodes", "distractors")}
        times = {name: jnp.int32(steps(getattr(self, name))) for name in ("limit", "phase_limit", "pause")}
        sizes = {name: jnp.float32(getattr(self, name)) for name in ("spacing", "jitter", "guide", "near", "size")}
        flags = {name: jnp.bool_(getattr(self, name)) for name in ("ahead", "turned")}
        return Rules(**whole, **times, **sizes, **flags, half=jnp.float32(self.room / 2))

    def params(self) -> LevelParams:
        known = ((THINGS, self.things), (WORDS, self.words))
        return LevelParams(self.rules(), *(jnp.asarray(np.array([x in some for x in every])) for every, some in known))


def parse(name: str) -> Level:
    found = re.fullmatch(r"(quick_|near_|guided_)?(?:episodes([1-9])_)?distractors(0|[1-9]\d?)", name)
    if not found:
        raise ValueError(
            f"there is no Words level {name!r}: a level is distractors{{D}} or episodes{{E}}_distractors{{D}}, such as "
            f"{', '.join(HELD_OUT_LEVELS[:2])}, or one to begin with, such as {QUICK_LEVELS[1]} or {EASY_LEVELS[1]}."
        )
    episodes, distractors = int(found[2] or 1), int(found[3])
    small = {"quick_": quick(min(episodes, MAX_EPISODES)), "near_": NEAR, "guided_": GUIDED}
    base = small.get(found[1], Level())
    return replace(base, episodes=episodes, distractors=distractors)


def size_of(level: Level) -> str:
    """How a level differs from those of the paper, in a word for its title."""
    if len(level.things) < len(POOL):
        return "small"
    if level.room < Level().room:
        return "near"
    return "guided" if level.guide else ""


def quick(episodes: int) -> Level:
    """A small room with objects side by side before the agent, which only has to turn; few objects and words."""
    kinds = max(QUICK_KINDS, episodes * OBJECTS)
    small = {"room": 4.0, "spacing": 0.9, "jitter": 0.05, "near": 2.0, "size": 0.8, "ahead": True, "turned": False}
    known = {"things": POOL[:kinds], "words": WORDS[:kinds]}
    return Level(limit=30, phase_limit=5, pause=0.25, episodes=episodes, **small, **known)  # type: ignore[arg-type]


def parsed(level: str | Level) -> Level:
    """A level by name, or as it is."""
    return level if isinstance(level, Level) else parse(level)


def _check_numbers(level: Level) -> None:
    for name, value, low, high in (
        ("distractors", level.distractors, 0, MAX_DISTRACTORS),
        ("episodes", level.episodes, 1, MAX_EPISODES),
    ):
        if not is_whole(value, low, high):
            raise ValueError(f"{name} must be a whole number from {low} to {high}, but is {value!r}.")
    for name in ("limit", "phase_limit", "pause"):
        seconds = getattr(level, name)
        if not is_number(seconds) or not 0 < seconds <= 10**6 or seconds * RATE != round(seconds * RATE):
            raise ValueError(f"{name} must be seconds in quarters, above 0 and up to 1,000,000, but is {seconds!r}.")
    for name in ("ahead", "turned"):
        if not isinstance(getattr(level, name), bool | np.bool_):
            raise ValueError(f"{name} must be true or false, but is {getattr(level, name)!r}.")


def _check_sizes(level: Level) -> None:
    """Nothing may overlap, and whatever stands in the room can be reached: a body passes between any two of them."""
    if not is_number(level.guide) or not 0 <= level.guide <= 1:
        raise ValueError(f"guide must be a reward from 0 to 1, but is {level.guide!r}.")
    sizes = (level.room, level.spacing, level.near, level.size)
    if not all(is_number(size) and 0 < size <= 1000 for size in (*sizes, level.jitter + 1e-9)):
        raise ValueError(f"room, spacing, near and size must be metres above 0, but are {sizes}.")
    girth = GIRTH * level.size
    if level.spacing - 2 * level.jitter < girth + RADIUS + GAP:
        raise ValueError(f"a body does not fit beside objects with a spacing of {level.spacing} m: raise spacing.")
    if level.room / 2 - level.spacing - level.jitter < max(girth, RADIUS):
        raise ValueError(f"three places of {level.spacing} m do not fit into a room of {level.room} m: raise room.")
    if level.near < girth + RADIUS + GAP:
        raise ValueError(
            f"near must be at least {girth + RADIUS + GAP:.2f} m, where a body stops, but is {level.near}."
        )


def _check_names(what: str, given: Any, known: tuple[str, ...], episodes: int) -> None:
    needed = OBJECTS * episodes
    if not isinstance(given, tuple | list) or not set(given) <= set(known) or len(set(given)) < needed:
        raise ValueError(f"{what} must be at least {needed} different of {', '.join(known)}, but are {given}.")


# For a GPU to begin with, with all objects and words. All side by side and within reach; then the published room and
# rules, but every step pays that leads nearer to what to look for, and costs as much where it leads away.
NEAR = replace(quick(1), things=POOL, words=WORDS)
GUIDED = Level(guide=0.05)
