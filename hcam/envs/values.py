"""What people type into levels, options and descriptions: checks that tasks share."""

from typing import Any

import numpy as np


def is_number(value: Any) -> bool:
    """Whether a value is a number; true and false are none."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def is_whole(value: Any, low: int, high: int) -> bool:
    """Whether a value is a whole number from `low` to `high`."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(low <= value <= high)


def check_pixels(**sides: Any) -> None:
    """Refuses a side of an image that is too short to show anything, or too long to be meant."""
    for name, pixels in sides.items():
        if not is_whole(pixels, 8, 1024):
            raise ValueError(f"{name} must be 8 to 1024 pixels, but is {pixels!r}.")
