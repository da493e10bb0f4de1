"""What walls and floors look like: rectangular cells in rows, with joints between them, as one formula with numbers.

Checks, bricks, planks, stripes and tiles differ in their numbers alone, so a room's theme is data.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from hcam.envs.render.solids import larger, smaller


class Pattern(NamedTuple):
    """Cells of `size` metres, `shift`ed by a part of their length from row to row, with joints around them."""

    size: tuple[float, float]
    shift: float
    alternate: tuple[float, float]  # 1 where the second colour alternates along the row, and from row to row
    joint: tuple[float, float]  # metres, along and across
    vary: float  # how much the brightness differs from cell to cell
    colors: tuple[tuple[int, int, int], tuple[int, int, int], tuple[int, int, int]]  # cells, other cells, joints


class Theme(NamedTuple):
    wall: Pattern
    floor: Pattern
    ceiling: tuple[int, int, int]


def _cells(
    size: tuple[float, float],
    *colors: tuple[int, int, int],
    shift: float = 0.0,
    alternate: tuple[float, float] = (0.0, 0.0),
    joint: tuple[float, float] = (0.0, 0.0),
    vary: float = 0.0,
) -> Pattern:
    first, second, third = (colors * 3)[:3]
    return Pattern(size, shift, alternate, joint, vary, (first, second, third))


THEMES: dict[str, Theme] = {
    "brick": Theme(
        _cells((0.8, 0.36), (176, 82, 62), (176, 82, 62), (212, 196, 180), shift=0.5, joint=(0.06, 0.06), vary=0.16),
        _cells((2.4, 0.3), (164, 122, 78), (164, 122, 78), (104, 74, 46), shift=0.37, joint=(0.03, 0.03), vary=0.14),
        (206, 222, 240),
    ),
    "checks": Theme(
        _cells((1.0, 9.0), (214, 206, 178), (188, 178, 146), alternate=(1.0, 0.0)),
        _cells((0.8, 0.8), (232, 232, 228), (96, 106, 118), alternate=(1.0, 1.0)),
        (240, 236, 222),
    ),
    "planks": Theme(
        _cells((0.34, 9.0), (112, 146, 122), (112, 146, 122), (70, 96, 80), joint=(0.05, 0.0), vary=0.16),
        _cells((0.9, 0.9), (184, 150, 120), (184, 150, 120), (128, 100, 80), joint=(0.06, 0.06), vary=0.10),
        (222, 232, 220),
    ),
    "stripes": Theme(
        _cells((9.0, 0.5), (118, 144, 196), (222, 226, 236), alternate=(0.0, 1.0)),
        _cells((9.0, 0.9), (98, 100, 140), (118, 120, 160), alternate=(0.0, 1.0)),
        (226, 226, 244),
    ),
    "tiles": Theme(
        _cells((0.6, 0.6), (122, 180, 184), (122, 180, 184), (226, 238, 238), joint=(0.07, 0.07), vary=0.08),
        _cells((0.6, 0.6), (206, 196, 180), (160, 122, 110), (206, 196, 180), alternate=(1.0, 1.0), vary=0.06),
        (216, 236, 238),
    ),
    "stone": Theme(
        _cells((1.3, 0.65), (142, 136, 150), (142, 136, 150), (92, 86, 100), shift=0.5, joint=(0.05, 0.05), vary=0.22),
        _cells((1.1, 1.1), (122, 132, 104), (122, 132, 104), (92, 100, 78), shift=0.3, joint=(0.06, 0.06), vary=0.2),
        (150, 156, 180),
    ),
}

NUMBERS = 17  # of a pattern


def _numbers(pattern: Pattern) -> list[float]:
    color = [channel / 255 for rgb in pattern.colors for channel in rgb]
    joint = [width / size for width, size in zip(pattern.joint, pattern.size, strict=True)]
    return [1 / pattern.size[0], 1 / pattern.size[1], pattern.shift, *pattern.alternate, *joint, pattern.vary, *color]


def table() -> NDArray[np.float32]:
    """All themes, [theme, 37]: the numbers of the wall, of the floor, and the ceiling's colour."""
    rows = [
        _numbers(theme.wall) + _numbers(theme.floor) + [channel / 255 for channel in theme.ceiling]
        for theme in THEMES.values()
    ]
    return np.array(rows, np.float32)


def paint(along: jax.Array, across: jax.Array, blur: jax.Array, number: list[jax.Array]) -> list[jax.Array]:
    """Red, green and blue of a pattern at a place on it, in metres. `blur` is the width of a pixel there.

    A pixel that covers a joint in part shows a part of the joint's colour; where pixels are larger than cells, only
    the mean is left.
    """
    across = across * number[1]
    row = jnp.floor(across)
    along = along * number[0] + number[2] * row
    column = jnp.floor(along)
    odd = column * number[3] + row * number[4]
    odd = odd - 2.0 * jnp.floor(odd * 0.5)
    soft_along, soft_across = blur * number[0], blur * number[1]
    joint = larger(_line(along - column, number[5], soft_along), _line(across - row, number[6], soft_across))
    noise = column * 0.7548777 + row * 0.5698403
    noise = noise - jnp.floor(noise)
    sharp = _clip(1.6 - 1.5 * larger(soft_along * number[3], soft_across * number[4]))
    odd = 0.5 * jnp.sign(number[3] + number[4]) * (1.0 - sharp) + odd * sharp
    light = 1.0 + number[7] * (noise - 0.5) * 2.0
    return [_mix(_mix(number[8 + c], number[11 + c], odd) * light, number[14 + c], joint) for c in range(3)]


def _mix(first: jax.Array, second: jax.Array, part: jax.Array) -> jax.Array:
    return first + (second - first) * part


def _line(place: jax.Array, width: jax.Array, blur: jax.Array) -> jax.Array:
    """How much of a pixel of width `blur` around `place` lies in a line from 0 to `width`, repeated with period 1."""
    blur = blur + 1e-3
    half, place = width * 0.5, jnp.abs(jnp.abs(place - width * 0.5 - 0.5) - 0.5)  # from the line's middle
    covered = (smaller(half, place + blur * 0.5) - larger(-half, place - blur * 0.5)) / blur
    return _clip(covered)


def _clip(x: jax.Array) -> jax.Array:
    return smaller(larger(x, jnp.float32(0)), jnp.float32(1))
