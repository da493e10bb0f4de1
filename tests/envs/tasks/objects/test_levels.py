"""The levels of object permanence: their names, their lengths, and what is refused."""

import pytest

from hcam.envs.tasks.objects import Objects
from hcam.envs.tasks.objects.levels import Level, parse

ENV = Objects()


@pytest.mark.parametrize(
    ("name", "steps"), [("delay0", 36), ("delay30", 396), ("delay7", 120), ("delay2.25", 63), ("quick_delay2", 36)]
)
def test_names(name, steps):
    assert parse(name).watching == steps


@pytest.mark.parametrize("name", ["delay", "delay-1", "delay1.3", "quick", "quick_delay", "delay01", "2_delay16", ""])
def test_other_names_are_refused(name):
    with pytest.raises(ValueError, match=r"^there is no Objects level .* such as delay0, .*\.$"):
        ENV.level(name)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"delay": 0.3}, "delay must be 0 to 1,000,000 seconds in quarters"),
        ({"limit": 0}, "limit must be 1 to"),
        ({"jumps": 0}, "jumps must be a whole number"),
        ({"jumps": 1.5}, "jumps must be a whole number"),
        ({"rise": (1.0,)}, "rise must be 2 to 8 heights"),
        ({"rise": (1.0, 0.5)}, "rise must be 2 to 8 heights"),
        ({"rise": (1.0, 0.0, 0.0)}, "rise must be 2 to 8 heights"),
        ({"room": 0}, "must be metres above 0"),
        ({"near": 5.0}, "near at most far"),
        ({"near": 2.0}, "raise near"),
        ({"far": 7.5}, "lower far"),
        ({"things": ("duck", "mug")}, "at least 3 different"),
        ({"things": ("duck", "mug", "unicorn")}, "at least 3 different"),
    ],
)
def test_bad_levels_are_refused(change, sentence):
    with pytest.raises(ValueError, match=sentence):
        Level(**change).params()


def test_all_levels_are_data_of_one_structure():
    shapes = {str([(leaf.shape, leaf.dtype) for leaf in ENV.level(name).rules]) for name in ENV.levels}
    assert len(shapes) == 1
