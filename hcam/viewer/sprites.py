"""Frames as sheets of small pictures, each different picture once, for a page that holds its images itself."""

import io
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

SIDE = 4096  # pixels: every browser decodes and draws an image of this size
PIXELS = 4_000_000  # of one sheet: the first is decoded before the page shows anything

Pixels = NDArray[np.uint8]  # [height, width, 3]


class Sheets(NamedTuple):
    width: int  # of one picture
    height: int
    columns: int  # pictures side by side in a sheet
    rows: int  # of a full sheet
    numbers: list[int]  # the picture of each frame: sheet by sheet, in reading order
    images: list[bytes]  # lossless WebP


def pack(frames: Sequence[Pixels]) -> Sheets:
    """Pictures smaller than the largest get a black border to the right and below."""
    height, width = (max(frame.shape[axis] for frame in frames) for axis in (0, 1))
    known: dict[bytes, int] = {}
    numbers = [known.setdefault(bytes(f"{frame.shape}", "ascii") + frame.tobytes(), len(known)) for frame in frames]
    pictures = [frames[numbers.index(number)] for number in range(len(known))]
    columns, rows = grid(width, height, len(pictures))
    images = [
        _encoded(pictures[first : first + columns * rows], width, height, columns)
        for first in range(0, len(pictures), columns * rows)
    ]
    return Sheets(width, height, columns, rows, numbers, images)


def grid(width: int, height: int, count: int) -> tuple[int, int]:
    """Columns and rows of a sheet: about as wide as high, and no more than its limits allow."""
    most = max(1, min(count, PIXELS // (width * height)))
    columns = max(1, min(most, SIDE // width, round((most * height / width) ** 0.5)))
    return columns, max(1, min(-(-most // columns), SIDE // height))


def _encoded(pictures: Sequence[Pixels], width: int, height: int, columns: int) -> bytes:
    rows = -(-len(pictures) // columns)
    sheet: Any = np.zeros((rows * height, min(columns, len(pictures)) * width, 3), np.uint8)
    for place, picture in enumerate(pictures):
        row, column = divmod(place, columns)
        y, x = row * height, column * width
        sheet[y : y + picture.shape[0], x : x + picture.shape[1]] = picture
    written = io.BytesIO()
    Image.fromarray(sheet).save(written, "WEBP", lossless=True, quality=80, method=4)
    return written.getvalue()
