import pytest

from hcam.envs.tasks.planning.levels import OTHER_LEVELS, PAPER_LEVELS, Level, parse, parsed, title


def test_names_say_what_a_level_is():
    assert parse("torus4") == Level() == parsed(Level())
    assert parse("torus5_steps30_placed") == Level(5, 30, True)
    assert [parse(name).cells for name in (*PAPER_LEVELS, *OTHER_LEVELS)] == [16, 9, 4, 16]
    assert title("torus3_steps30_placed") == "3 x 3 torus, 30 steps, placed anew"


@pytest.mark.parametrize("name", ["torus1", "torus17", "torus04", "torus4_steps0", "torus", "torus4_placed_steps3", ""])
def test_other_names_are_refused(name):
    with pytest.raises(ValueError, match=r"there is no Planning level .*: a level is torus\{n\}, with 2 to 16 cells"):
        parse(name)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"side": 1}, "side must be a whole number of cells from 2 to 16, but is 1"),
        ({"side": 2.0}, "side must be"),
        ({"steps": 0}, "steps must be a whole number from 1 to 1,000,000, but is 0"),
        ({"placed": 1}, "placed must be true or false, but is 1"),
    ],
)
def test_levels_beyond_bounds_are_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        Level(**options)
