"""What counts as a number, a whole number and the side of an image."""

import numpy as np
import pytest

from hcam.envs.values import check_pixels, is_number, is_whole


@pytest.mark.parametrize("value", [0, -1.5, np.int32(3), np.float32(2)])
def test_numbers(value):
    assert is_number(value)


@pytest.mark.parametrize("value", [True, False, "1", None, [1]])
def test_no_numbers(value):
    assert not is_number(value)
    assert not is_whole(value, -10, 10)


def test_whole_numbers_lie_between_both_ends():
    assert [is_whole(value, 2, 4) for value in (1, 2, 4, 5, 3.0, np.int64(3))] == [
        False,
        True,
        True,
        False,
        False,
        True,
    ]


def test_pixels():
    check_pixels(width=8, height=1024)
    with pytest.raises(ValueError, match=r"^height must be 8 to 1024 pixels, but is 7\.$"):
        check_pixels(width=8, height=7)
