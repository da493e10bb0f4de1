"""The palette, cells as bits, and names of levels."""

import pytest

from hcam.envs.tasks.match.levels import PALETTE, Level, bits, parse, unbits


def test_the_palette_is_the_published_one():
    """Every combination of {0, 170} and of {85, 255}, with one brown for the dark yellow."""
    dark = {(r, g, b) for r in (0, 170) for g in (0, 170) for b in (0, 170)} - {(170, 170, 0)} | {(170, 85, 0)}
    light = {(r, g, b) for r in (85, 255) for g in (85, 255) for b in (85, 255)}
    assert set(PALETTE.values()) == dark | light
    assert len(PALETTE) == 16


def test_bits_and_back():
    found = [(0, 0), (10, 2), (0, 3), (10, 10)]
    assert unbits(bits(found)) == found


def test_a_name_says_how_long_the_apples_take():
    assert parse("delay30") == Level()
    assert (parse("delay2.5").question, parse("delay2.5").max_steps) == (20 + 10, 20 + 10 + 20)
    assert (parse("quick_delay2").question, parse("quick_delay2").max_steps) == (4 + 8, 4 + 8 + 20)


@pytest.mark.parametrize("name", ["", "delay", "delay-1", "delay0.3", "match", "delay007", "quickdelay1"])
def test_unknown_levels_are_told_in_one_sentence(name):
    with pytest.raises(ValueError, match="there is no Match level"):
        parse(name)


def test_bad_levels_are_told_in_one_sentence():
    with pytest.raises(ValueError, match="apples must be a probability"):
        Level(apples=1.5)
    with pytest.raises(ValueError, match="options must be a whole number from 2 to 4"):
        Level(options=5)
    with pytest.raises(ValueError, match="colors must be at least 4 different"):
        Level(colors=("red", "green"))
