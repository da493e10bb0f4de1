"""Values as text: numbers in few digits, and text from outside, such as the name of a folder, made safe to show."""

import math
from numbers import Real
from typing import Any

CENTURY = 100 * 366 * 86_400.0  # seconds


def printable(text: object) -> str:
    r"""Returns the text on one line, with everything that a terminal could act on as an escape such as \x1b or \n.

    What is escaped: control characters, line breaks, marks that change the direction of writing, characters that no
    font has, and the halves of characters that stand for the undecodable bytes of a file's name.
    """
    shown = str(text)
    if shown.isprintable():
        return shown
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in shown)


def finite(value: Any) -> float | None:
    """Returns the number, or None for anything else: null, NaN, infinity, text, an integer that no float holds."""
    known = _float(value)
    return known if math.isfinite(known) else None


def _float(value: Any) -> float:
    try:
        return float(value) if isinstance(value, Real) else math.nan
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def percent(value: Any) -> str:
    """Returns a share as 61.0 %, or "-" where it is unknown."""
    known = finite(value)
    return "-" if known is None else f"{100 * known:.1f} %"


def number(value: Any) -> str:
    """Returns a number in few digits. Unlike a share it may be "nan": a loss that is lost must be seen."""
    if not isinstance(value, Real):
        return "-"
    known = _float(value)
    return f"{known:.1e}" if 0 < abs(known) < 0.001 or abs(known) >= 1e5 else f"{known:.3f}"


def clock(seconds: Any) -> str:
    """Returns a time as 1:02:03, or "?" where it is unknown or beyond anybody's patience."""
    known = finite(seconds)
    if known is None or known > CENTURY:
        return "?"
    minutes, rest = divmod(max(0, round(known)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
