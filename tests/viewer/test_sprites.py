"""Sheets hold every different frame once, without loss."""

import io

import numpy as np
from PIL import Image

from hcam.viewer import sprites


def unpacked(sheets):
    """The frames as a page cuts them out."""
    images = [np.asarray(Image.open(io.BytesIO(image)).convert("RGB")) for image in sheets.images]
    for number in sheets.numbers:
        sheet, place = divmod(number, sheets.columns * sheets.rows)
        row, column = divmod(place, sheets.columns)
        y, x = row * sheets.height, column * sheets.width
        yield images[sheet][y : y + sheets.height, x : x + sheets.width]


def test_frames_come_back_and_equal_ones_are_kept_once(monkeypatch):
    monkeypatch.setattr(sprites, "PIXELS", 4 * 6 * 5)
    rng = np.random.default_rng(0)
    different = [rng.integers(0, 256, (4, 6, 3), dtype=np.uint8) for _ in range(13)]
    frames = [different[n] for n in (0, 1, 1, 0, *range(13))]
    sheets = sprites.pack(frames)
    assert sheets.numbers == [0, 1, 1, 0, *range(13)]
    assert len(sheets.images) > 1
    for frame, found in zip(frames, unpacked(sheets), strict=True):
        np.testing.assert_array_equal(frame, found)


def test_smaller_frames_have_a_border():
    small, large = np.full((2, 3, 3), 9, np.uint8), np.full((5, 4, 3), 7, np.uint8)
    first, second = unpacked(sprites.pack([small, large]))
    assert (first[:2, :3] == 9).all()
    assert first[2:].sum() == 0
    np.testing.assert_array_equal(second, large)


def test_a_sheet_stays_within_what_browsers_draw():
    for width, height, count in ((99, 99, 513), (640, 480, 200), (4000, 30, 900), (1, 1, 9), (5000, 5000, 3)):
        columns, rows = sprites.grid(width, height, count)
        assert columns == 1 or columns * width <= sprites.SIDE
        assert rows == 1 or rows * height <= sprites.SIDE
        assert columns * rows == 1 or columns * rows * width * height <= 2 * sprites.PIXELS
    assert sprites.grid(99, 99, 4) == (2, 2)
