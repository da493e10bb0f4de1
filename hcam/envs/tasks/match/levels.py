"""The levels of passive visual match: how long its phases take, how large its rooms are, and which colours there are.

All that makes a level easier than another is data, so that one program plays every mixture of levels.
"""

import re
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hcam.envs.body import RATE, steps
from hcam.envs.render.apples import GRID, WORDS
from hcam.envs.values import is_number, is_whole

OPTIONS = 4  # colour squares to choose from, at most
CHANCES = 16  # bits of an apple's probability

# Every combination of two brightnesses, twice, with a brown for the dark yellow.
PALETTE: dict[str, tuple[int, int, int]] = {
    "black": (0, 0, 0),
    "blue": (0, 0, 170),
    "green": (0, 170, 0),
    "cyan": (0, 170, 170),
    "red": (170, 0, 0),
    "magenta": (170, 0, 170),
    "brown": (170, 85, 0),
    "light_grey": (170, 170, 170),
    "dark_grey": (85, 85, 85),
    "bright_blue": (85, 85, 255),
    "bright_green": (85, 255, 85),
    "bright_cyan": (85, 255, 255),
    "bright_red": (255, 85, 85),
    "bright_magenta": (255, 85, 255),
    "yellow": (255, 255, 85),
    "white": (255, 255, 255),
}
COLORS = tuple(PALETTE)
QUICK_COLORS = ("red", "bright_green", "bright_blue", "yellow")

PAPER_LEVELS = ("delay30",)
OTHER_LEVELS = ("delay0", "delay10", "delay60")
QUICK_LEVELS = ("quick_delay1", "quick_delay2", "quick_delay5")


class Rules(NamedTuple):
    """What an episode has of its level."""

    explore: jax.Array  # int32, steps in the corridor
    delay: jax.Array  # int32, steps among the apples
    limit: jax.Array  # int32, steps to choose
    side: jax.Array  # int32, cells along a side of the room with the apples
    options: jax.Array  # int32, colour squares to choose from
    depth: jax.Array  # int32, cells from the alcove to the squares


class LevelParams(NamedTuple):
    """A level as data."""

    rules: Rules
    apples: jax.Array  # int32, of 2 ** CHANCES: the probability of an apple in a cell
    cells_w: jax.Array  # uint32 [WORDS], the cells that may have an apple
    color_x: jax.Array  # bool, which colours of the palette may occur


@dataclass(frozen=True)
class Level:
    """`delay{seconds}`, and what its name does not say: seconds, cells."""

    delay: float = 30
    explore: float = 5
    limit: float = 5
    side: int = GRID
    apples: float = 0.3  # the probability of an apple in a cell
    options: int = OPTIONS
    depth: int = 4
    colors: tuple[str, ...] = COLORS

    def __post_init__(self) -> None:
        for name, least in (("delay", 0), ("explore", 1 / RATE), ("limit", 1)):
            seconds = getattr(self, name)
            if not is_number(seconds) or not least <= seconds <= 10**6 or seconds * RATE != round(seconds * RATE):
                raise ValueError(f"{name} must be whole quarters of a second, at least {least:g}, but is {seconds!r}.")
        for name, low, high in (("side", 3, GRID), ("options", 2, OPTIONS), ("depth", 2, 8)):
            if not is_whole(getattr(self, name), low, high):
                raise ValueError(f"{name} must be a whole number from {low} to {high}, but is {getattr(self, name)!r}.")
        if not is_number(self.apples) or not 0 <= self.apples <= 1:
            raise ValueError(f"apples must be a probability, from 0 to 1, but is {self.apples!r}.")
        if not set(self.colors) <= set(COLORS) or len(set(self.colors)) < self.options:
            raise ValueError(
                f"colors must be at least {self.options} different of {', '.join(COLORS)}, but are {self.colors}."
            )

    @property
    def question(self) -> int:
        """The first frame in which the agent can choose."""
        return steps(self.explore) + steps(self.delay)

    @property
    def max_steps(self) -> int:
        return self.question + steps(self.limit)

    def rules(self) -> Rules:
        times = [jnp.int32(steps(seconds)) for seconds in (self.explore, self.delay, self.limit)]
        return Rules(*times, *(jnp.int32(cells) for cells in (self.side, self.options, self.depth)))

    def params(self) -> LevelParams:
        chances = jnp.int32(round(self.apples * 2**CHANCES))
        color_x = jnp.asarray(np.array([color in self.colors for color in COLORS]))
        return LevelParams(self.rules(), chances, jnp.asarray(bits(cells(self.side))), color_x)


def cells(side: int) -> list[tuple[int, int]]:
    """The cells, as x and y from the south-west on, that may have an apple: all but the one where the agent appears."""
    spawn = (side // 2, side - 1)
    return [(x, y) for y in range(side) for x in range(side) if (x, y) != spawn]


def bits(found: list[tuple[int, int]]) -> Any:
    """Cells as a bit field, uint32 [WORDS]."""
    bits_w = np.zeros(WORDS, np.uint32)
    for x, y in found:
        bits_w[(y * GRID + x) // 32] |= np.uint32(1 << (y * GRID + x) % 32)
    return bits_w


def unbits(bits_w: Any) -> list[tuple[int, int]]:
    """The cells of a bit field, the way back."""
    return [(n % GRID, n // GRID) for n in range(GRID * GRID) if int(bits_w[n // 32]) >> n % 32 & 1]


def parse(name: str) -> Level:
    found = re.fullmatch(r"(quick_)?delay(0|[1-9]\d{0,5})(\.(?:25|5|75))?", name)
    if not found:
        raise ValueError(
            f"there is no Match level {name!r}: a level is delay{{s}}, with s seconds among the apples, such as "
            f"{PAPER_LEVELS[0]}, the published one, or a small one for a CPU, such as {QUICK_LEVELS[1]}."
        )
    return replace(QUICK if found[1] else Level(), delay=float(found[2] + (found[3] or "")))


def parsed(level: str | Level) -> Level:
    """A level by name, or as it is."""
    return level if isinstance(level, Level) else parse(level)


# Two squares instead of four, of four colours that are far apart, two cells away; 5 x 5 cells of apples.
QUICK = Level(delay=2, explore=1, side=5, options=2, depth=2, colors=QUICK_COLORS)
