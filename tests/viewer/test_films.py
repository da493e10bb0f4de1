"""Pictures that move, and text that fits."""

import numpy as np
import pytest
from PIL import Image, ImageFont

from hcam.viewer.films import fitted, write_gif, write_mp4


def pictures():
    return [Image.fromarray(np.full((4, 6, 3), grey, np.uint8)) for grey in (0, 90, 200)]


def test_gif_shows_each_picture_as_long_as_asked(tmp_path):
    write_gif(pictures(), tmp_path / "a.gif", [50, 200, 1500])
    with Image.open(tmp_path / "a.gif") as gif:
        seen = []
        for number in range(3):
            gif.seek(number)
            seen.append((gif.info["duration"], np.asarray(gif.convert("RGB"))[0, 0, 0]))
    assert seen == [(50, 0), (200, 90), (1500, 200)]


def test_mp4_without_av_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "av", None)
    with pytest.raises(ValueError, match=r"hcam\[video\]"):
        write_mp4(pictures(), tmp_path / "a.mp4", 10)


def test_long_instructions_keep_their_end():
    font = ImageFont.load_default(13)
    text = "go to the box containing the duck"
    assert fitted(text, 1000, font) == text
    short = fitted(text, 100, font)
    assert short.startswith("… ")
    assert short.endswith("the duck")
    assert font.getlength(short) <= 100
    assert fitted(text, 1, font) == "…"
