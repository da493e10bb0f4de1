"""A map of a neighbourhood for people: streets, the way so far, goals, and where the agent looks."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

SIDE, MARGIN = 320, 30  # pixels
PAPER, STREET, NODE = (24, 24, 27), (82, 82, 91), (161, 161, 170)
WAY, AGENT, GOAL, FOUND = (59, 108, 180), (147, 197, 253), (251, 146, 60), (74, 222, 128)
REACH = 26.0  # pixels of an arrow, at most

Picture = NDArray[np.uint8]
Canvas = NDArray[np.float64]
Point = NDArray[np.float64]


def draw(at: Any, walk: Sequence[tuple[int, int]]) -> Picture:
    """The map of a neighbourhood of NumPy arrays, after a walk: the state and the goal of every step so far.

    Blue: streets that were walked, and the agent at its node, facing a street. Orange: the goal, in the same way.
    Green: goals that were collected.
    """
    node_n2 = pixels(at.node_n2[: int(at.nodes)])
    ways = [(node_n2[at.tail_s[state]], node_n2[at.head_s[state]]) for state in range(int(at.states))]
    canvas = np.broadcast_to(np.array(PAPER, np.float64), (SIDE, SIDE, 3)).copy()
    for a, b in ways:
        line(canvas, a, b, 2.5, STREET)
    for state in walked(at, [place for place, _ in walk]):
        line(canvas, *ways[state], 2.5, WAY)
    for node in node_n2:
        line(canvas, node, node, 3.5, NODE)
    place, goal = walk[-1]
    for state in collected(walk):
        arrow(canvas, *ways[state], 3.0, FOUND)
    arrow(canvas, *ways[goal], 5.0, GOAL)
    arrow(canvas, *ways[place], 5.0 if place != goal else 3.0, AGENT)
    return canvas.round().astype(np.uint8)


def pixels(node_n2: NDArray[Any]) -> NDArray[np.float64]:
    """Nodes as places in the picture: north is up."""
    low, high = node_n2.min(0), node_n2.max(0)
    scale = (SIDE - 2 * MARGIN) / max(1, *(high - low))
    centred = (node_n2 - (low + high) / 2) * scale * np.array([1, -1])
    return np.asarray(centred + SIDE / 2)


def walked(at: Any, places: Sequence[int]) -> set[int]:
    """The streets that were walked: where the agent left a node, it went along the street that it faced."""
    pairs = pairwise(places)
    return {before for before, after in pairs if at.tail_s[before] != at.tail_s[after]}


def collected(walk: Sequence[tuple[int, int]]) -> set[int]:
    """The goals that were collected: those that were followed by another."""
    return {goal for (_, goal), (_, new) in pairwise(walk) if goal != new}


def line(canvas: Canvas, a: Point, b: Point, thick: float, rgb: tuple[int, int, int]) -> None:
    """Draws a line with round ends, whose radius is `thick`, with soft edges."""
    low = np.clip(np.floor(np.minimum(a, b) - thick - 1), 0, SIDE).astype(int)
    high = np.clip(np.ceil(np.maximum(a, b) + thick + 1), 0, SIDE).astype(int)
    y, x = np.mgrid[low[1] : high[1], low[0] : high[0]]
    offset = np.stack([x - a[0], y - a[1]], -1)
    way = b - a
    along = np.clip(offset @ way / max(float(way @ way), 1e-9), 0, 1)
    away = np.linalg.norm(offset - along[..., None] * way, axis=-1)
    ink = np.clip(thick + 0.5 - away, 0, 1)[..., None]
    part = canvas[low[1] : high[1], low[0] : high[0]]
    part += ink * (np.array(rgb) - part)


def arrow(canvas: Canvas, tail: Point, head: Point, thick: float, rgb: tuple[int, int, int]) -> None:
    """Draws a state: a disc at the node, and a point towards the street that is faced."""
    way = head - tail
    tip = tail + way * min(1.0, REACH / max(float(np.linalg.norm(way)), 1e-9))
    line(canvas, tail, tail, thick + 1.5, rgb)
    line(canvas, tail, tip, max(1.0, thick / 2), rgb)
    back = (tail - tip) / max(float(np.linalg.norm(tail - tip)), 1e-9) * thick * 1.8
    for turn in (0.6, -0.6):
        turned = np.array([back @ [np.cos(turn), -np.sin(turn)], back @ [np.sin(turn), np.cos(turn)]])
        line(canvas, tip, tip + turned, max(1.0, thick / 2), rgb)


def beside(picture: Picture, seen: Picture) -> Picture:
    """The map, and below it what the agent sees: the view from where it is, and the goal's."""
    times = max(1, SIDE // seen.shape[1])
    enlarged = np.kron(seen, np.ones((times, times, 1), np.uint8))[:, :SIDE]
    below = np.full((enlarged.shape[0], SIDE, 3), PAPER, np.uint8)
    left = (SIDE - enlarged.shape[1]) // 2
    below[:, left : left + enlarged.shape[1]] = enlarged
    return np.concatenate([picture, below])
