"""The fifteen shapes and nineteen colours that dancers and objects on a tile board come in."""

import numpy as np
from numpy.typing import NDArray

TILE = 9  # pixels along a tile's side, as published

# Nine rows of nine bits, the most significant bit on the left.
SHAPES: dict[str, str] = {
    "triangle": "010 010 038 038 07c 07c 0fe 0fe 1ff",
    "empty_square": "1ff 1ff 183 183 183 183 183 1ff 1ff",
    "plus": "038 038 038 1ff 1ff 1ff 038 038 038",
    "inverse_plus": "1c7 1c7 1c7 000 000 000 1c7 1c7 1c7",
    "ex": "183 1c7 0ee 07c 038 07c 0ee 1c7 183",
    "inverse_ex": "07c 038 111 183 1c7 183 111 038 07c",
    "circle": "010 07c 0fe 0fe 1ff 0fe 0fe 07c 010",
    "empty_circle": "07c 0c6 183 101 101 101 183 0c6 07c",
    "tee": "1ff 1ff 1ff 038 038 038 038 038 038",
    "upside_down_tee": "038 038 038 038 038 038 1ff 1ff 1ff",
    "h": "1c7 1c7 1c7 1ff 1ff 1ff 1c7 1c7 1c7",
    "u": "1c7 1c7 1c7 1c7 1c7 1c7 1ff 1ff 1ff",
    "upside_down_u": "1ff 1ff 1ff 1c7 1c7 1c7 1c7 1c7 1c7",
    "vertical_stripes": "155 155 155 155 155 155 155 155 155",
    "horizontal_stripes": "1ff 000 1ff 000 1ff 000 1ff 000 1ff",
}

COLORS: dict[str, tuple[int, int, int]] = {
    "red": (255, 0, 0),
    "green": (0, 255, 0),
    "blue": (0, 0, 255),
    "purple": (128, 0, 128),
    "orange": (255, 165, 0),
    "yellow": (255, 255, 0),
    "brown": (128, 64, 0),
    "pink": (255, 64, 255),
    "cyan": (0, 255, 255),
    "dark_green": (0, 100, 0),
    "dark_red": (100, 0, 0),
    "dark_blue": (0, 0, 100),
    "olive": (100, 100, 0),
    "teal": (0, 100, 100),
    "lavender": (215, 200, 255),
    "peach": (255, 210, 170),
    "rose": (255, 205, 230),
    "light_green": (200, 255, 200),
    "light_yellow": (255, 255, 200),
}


def masks(tile: int) -> NDArray[np.uint8]:
    """All shapes as [shape, tile, tile], 255 where lit.

    Fewer pixels than published: every block shows its centre pixel, so that at 3 some shapes look alike (circle and
    plus); at 1 a shape is one lit pixel and only the colour tells.
    """
    if tile not in (1, 3, TILE):
        raise ValueError(f"tile must be 9 (as published), 3 or 1 pixels, but is {tile!r}.")
    rows = np.array([[int(row, 16) for row in text.split()] for text in SHAPES.values()])
    lit = (rows[:, :, None] >> np.arange(TILE - 1, -1, -1)) & 1
    if tile == 1:
        return np.full((len(SHAPES), 1, 1), 255, np.uint8)
    block = TILE // tile
    return (lit[:, block // 2 :: block, block // 2 :: block] * 255).astype(np.uint8)


def colors() -> NDArray[np.uint8]:
    return np.array(list(COLORS.values()), np.uint8)
