"""A memory and a query as a picture: every item is a patch of coloured squares, made of its first numbers."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]

SIDE = 3  # squares along a side of an item
SQUARE = 4  # pixels of a square
ITEM = SIDE * SQUARE
GAP, THIN = 6, 1  # between pairs, and between the items of a pair
COLUMNS = 8  # pairs side by side
BACKGROUND = (39, 39, 42)
BRIGHTEST = 2.0  # this many deviations from the mean are black or fully bright


def draw(observation: dict[str, Any]) -> Pixels:
    """The pairs of a memory in the order of its rows; below them the cue, and to its right the options."""
    filled = int(observation["filled"])
    lines, columns, wide = -(-filled // COLUMNS), min(filled, COLUMNS), 2 * ITEM + THIN + GAP
    height, width = (lines + 1) * (ITEM + GAP) + 3 * GAP, max(columns * wide, 4 * (ITEM + GAP)) + GAP
    image = np.full((height, width, 3), BACKGROUND, np.uint8)
    for row in range(filled):
        y, x = GAP + row // COLUMNS * (ITEM + GAP), GAP + row % COLUMNS * wide
        for place, item_f in enumerate(observation["memory"][row]):
            put(image, y, x + place * (ITEM + THIN), item_f)
    y = height - GAP - ITEM
    for place, item_f in enumerate(observation["query"]):
        put(image, y, GAP + (place + (place > 0)) * (ITEM + GAP), item_f)
    return image


def put(image: Pixels, y: int, x: int, item_f: NDArray[np.float32]) -> None:
    image[y : y + ITEM, x : x + ITEM] = patch(item_f)


def patch(item_f: NDArray[np.float32]) -> Pixels:
    """The first numbers of an item as the colours of SIDE x SIDE squares, repeated where there are too few."""
    numbers = np.resize(item_f, SIDE * SIDE * 3).reshape(SIDE, SIDE, 3)
    colours = ((numbers / BRIGHTEST + 1) / 2 * 255).clip(0, 255).astype(np.uint8)
    return np.kron(colours, np.ones((SQUARE, SQUARE, 1), np.uint8))
