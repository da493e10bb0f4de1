"""A picture of a torus, for people: what the agent has seen of it, its way so far, and its goal."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Picture = NDArray[np.uint8]  # [height, width, 3]

CELL, GAP = 23, 2  # pixels; an odd number has a middle
UNSEEN, SEEN, BETWEEN = (39, 39, 42), (82, 82, 91), (24, 24, 27)
WAY, AGENT, GOAL = (96, 165, 250), (244, 244, 245), (74, 222, 128)


def draw(side: int, walk: Sequence[tuple[int, int]]) -> Picture:
    """The torus after a walk, which has the agent's cell and the goal of each state. x is to the right, y is up.

    The way is that to the present goal alone. Where it leaves the torus on one side it comes back on the other.
    """
    size = side * (CELL + GAP) + GAP
    canvas = np.empty((size, size, 3), np.uint8)
    canvas[:] = BETWEEN
    seen = {place for place, _ in walk}
    for cell in range(side**2):
        row, column = _corner(cell, side)
        canvas[row : row + CELL, column : column + CELL] = SEEN if cell in seen else UNSEEN
    place, goal = walk[-1]
    _ring(canvas, _middle(goal, side), CELL // 2 - 1, GOAL)
    for one, two in _legs(walk):
        for cell, other in ((one, two), (two, one)):
            _half_leg(canvas, cell, other, side)
    _disc(canvas, _middle(place, side), CELL // 4, AGENT)
    return canvas


def _legs(walk: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The moves since the goal was set, as pairs of cells."""
    since = len(walk) - 1
    while since and walk[since - 1][1] == walk[-1][1]:
        since -= 1
    places = [place for place, _ in walk[since:]]
    return [(one, two) for one, two in itertools.pairwise(places) if one != two]


def _corner(cell: int, side: int) -> tuple[int, int]:
    """The upper left pixel of a cell, as row and column."""
    x, y = divmod(cell, side)
    return GAP + (side - 1 - y) * (CELL + GAP), GAP + x * (CELL + GAP)


def _middle(cell: int, side: int) -> tuple[int, int]:
    row, column = _corner(cell, side)
    return row + CELL // 2, column + CELL // 2


def _half_leg(canvas: Picture, cell: int, other: int, side: int) -> None:
    """A line from the middle of a cell to the edge that it shares with a neighbour."""
    away = np.array(divmod(other, side)) - np.array(divmod(cell, side))
    away = (away + side // 2) % side - side // 2  # the shorter way round
    if side == 2:
        away = np.abs(away)  # both ways are as long: drawn to the right, or up
    row, column = _middle(cell, side)
    reach = CELL // 2 + GAP
    rows, columns = sorted((row, row - int(away[1]) * reach)), sorted((column, column + int(away[0]) * reach))
    canvas[max(0, rows[0] - 1) : rows[1] + 2, max(0, columns[0] - 1) : columns[1] + 2] = WAY


def _distance(canvas: Picture, middle: tuple[int, int]) -> Any:
    rows, columns = np.ogrid[: canvas.shape[0], : canvas.shape[1]]
    return np.hypot(rows - middle[0], columns - middle[1])


def _disc(canvas: Picture, middle: tuple[int, int], radius: int, rgb: tuple[int, int, int]) -> None:
    canvas[_distance(canvas, middle) <= radius] = rgb


def _ring(canvas: Picture, middle: tuple[int, int], radius: int, rgb: tuple[int, int, int]) -> None:
    away = _distance(canvas, middle)
    canvas[(away <= radius) & (away > radius - 3)] = rgb
