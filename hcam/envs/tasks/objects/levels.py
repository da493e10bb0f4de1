"""The levels of object permanence: how long it takes, how large the room is, and which objects there are.

All that makes a level easier than another is data, so that one program plays every mixture of levels.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hcam.envs.body import RATE, steps
from hcam.envs.render.raycast import FIELD_OF_VIEW
from hcam.envs.render.things import THINGS
from hcam.envs.values import is_number, is_whole

BOXES = 3
LONGEST_JUMP = 8  # steps; the length of the table of heights
EDGE, GAP = math.radians(1), math.radians(5)  # between a box and the view's edge, between neighbouring boxes
BEHIND = 0.5  # metres from the south wall to the agent

RESERVED = ("train", "robot", "rocket")  # the distractors of rapid word learning
POOL = tuple(thing for thing in THINGS if thing not in RESERVED)
QUICK_POOL = ("duck", "mug", "car")  # yellow, blue and red

RISE = (0.6, 1.0, 0.6, 0.0)  # of an object in its jump, step by step: half out, out, half out, inside
PAPER_LEVELS = ("delay0", "delay10", "delay20", "delay30")
QUICK_LEVELS = ("quick_delay0", "quick_delay1", "quick_delay2")
NEAR_LEVELS = ("near_delay0",)


class Rules(NamedTuple):
    """What an episode has of its level."""

    delay: jax.Array  # int32, steps after each object
    jumps: jax.Array  # int32, of each object
    jump_steps: jax.Array  # int32
    rise_s: jax.Array  # float32 [LONGEST_JUMP], heights within a jump: 1 at its top, 0 inside the box
    limit: jax.Array  # int32, steps to look backward, and again as many to choose
    half: jax.Array  # float32, half of the room's side
    side: jax.Array  # float32, of a box
    size: jax.Array  # float32, of an object


class LevelParams(NamedTuple):
    """A level as data."""

    rules: Rules
    near: jax.Array  # float32, metres from the agent to the nearest place of a box
    far: jax.Array  # float32, to the farthest
    pool_x: jax.Array  # bool, which of all things may occur


@dataclass(frozen=True)
class Level:
    """`delay{seconds}`, and what its name does not say: seconds and metres."""

    delay: float = 0
    jumps: int = 3
    rise: Sequence[float] = RISE  # how far an object is out of its box, step by step: 1 at the top, 0 at the end
    limit: float = 20
    room: float = 8.0  # the side of the floor, a square
    box: float = 0.7  # the side of a box, a cube
    object: float = 0.63  # the height of an object
    near: float = 2.8
    far: float = 4.4
    things: tuple[str, ...] = POOL

    def __post_init__(self) -> None:
        _check_times(self)
        _check_sizes(self)
        unknown = [thing for thing in self.things if thing not in THINGS]
        if unknown or len(set(self.things)) < BOXES:
            raise ValueError(
                f"things must be at least {BOXES} different of {', '.join(THINGS)}, but are {self.things}."
            )

    @property
    def watching(self) -> int:
        """Steps until the lids close."""
        return BOXES * (self.jumps * len(self.rise) + steps(self.delay))

    @property
    def max_steps(self) -> int:
        return self.watching + 2 * steps(self.limit)

    def rules(self) -> Rules:
        rise_s = np.zeros(LONGEST_JUMP, np.float32)
        rise_s[: len(self.rise)] = self.rise
        return Rules(
            delay=jnp.int32(steps(self.delay)),
            jumps=jnp.int32(self.jumps),
            jump_steps=jnp.int32(len(self.rise)),
            rise_s=jnp.asarray(rise_s),
            limit=jnp.int32(steps(self.limit)),
            half=jnp.float32(self.room / 2),
            side=jnp.float32(self.box),
            size=jnp.float32(self.object),
        )

    def params(self) -> LevelParams:
        """What episodes are drawn from: three boxes must fit into the view wherever they are placed."""
        _check_places(self)
        pool_x = jnp.asarray(np.array([thing in self.things for thing in THINGS]))
        return LevelParams(self.rules(), jnp.float32(self.near), jnp.float32(self.far), pool_x)


def parse(name: str) -> Level:
    found = re.fullmatch(r"(quick_|near_)?delay(0|[1-9]\d{0,5})(\.(?:25|5|75))?", name)
    if not found:
        raise ValueError(
            f"there is no Objects level {name!r}: a level is delay{{s}}, with s seconds after each object, such as "
            f"{', '.join(PAPER_LEVELS)}, or a small one, such as {QUICK_LEVELS[1]} or {NEAR_LEVELS[0]}."
        )
    delay = float(found[2] + (found[3] or ""))
    return with_delay({"quick_": QUICK, "near_": NEAR}.get(found[1], Level()), delay)


def with_delay(level: Level, delay: float) -> Level:
    return replace(level, delay=delay)


def parsed(level: str | Level) -> Level:
    """A level by name, or as it is."""
    return level if isinstance(level, Level) else parse(level)


def size_of(level: Level) -> str:
    """How a level differs from those of the paper, in a word for its title."""
    if len(level.things) < len(POOL):
        return "small"
    return "near" if level.room < Level().room else ""


def reach(side: Any) -> Any:
    """How far the corners of a box's lid, which is a little wider than the box, are from its middle."""
    return side * 0.77


def _check_times(level: Level) -> None:
    for name, seconds, least in (("delay", level.delay, 0), ("limit", level.limit, 1)):
        if not is_number(seconds) or not least <= seconds <= 10**6 or seconds * RATE != round(seconds * RATE):
            raise ValueError(f"{name} must be {least} to 1,000,000 seconds in quarters, but is {seconds!r}.")
    if not is_whole(level.jumps, 1, 100):
        raise ValueError(f"jumps must be a whole number from 1 to 100, but is {level.jumps!r}.")
    if not _is_jump(level.rise):
        raise ValueError(
            f"rise must be 2 to {LONGEST_JUMP} heights up to 1, the last of them 0 and no other, but is {level.rise}."
        )


def _is_jump(rise: Any) -> bool:
    if not isinstance(rise, Sequence) or not 2 <= len(rise) <= LONGEST_JUMP:
        return False
    return all(is_number(part) and 0 < part <= 1 for part in rise[:-1]) and rise[-1] == 0


def _check_sizes(level: Level) -> None:
    sizes = (level.room, level.box, level.object, level.near, level.far)
    if not all(is_number(size) and 0 < size <= 1000 for size in sizes) or level.near > level.far:
        raise ValueError(f"room, box, object, near and far must be metres above 0, near at most far, but are {sizes}.")


def _check_places(level: Level) -> None:
    widest = math.asin(min(1.0, reach(level.box) / level.near))
    if 2 * (BOXES * widest + EDGE) + (BOXES - 1) * GAP > FIELD_OF_VIEW:
        raise ValueError(f"{BOXES} boxes of {level.box} m do not fit into the view {level.near} m away: raise near.")
    if level.far + reach(level.box) + BEHIND > level.room:
        raise ValueError(f"a box {level.far} m away does not fit into a room of {level.room} m: lower far.")


# A smaller room, boxes as near as three of them can stand side by side, one jump, of a large object.
QUICK = Level(
    jumps=1, rise=(1.0, 1.0, 1.0, 0.0), limit=10, room=5.0, box=0.6, object=1.0, near=2.4, far=2.6, things=QUICK_POOL
)
# The same with all objects: for a GPU to begin with.
NEAR = replace(QUICK, things=POOL)
