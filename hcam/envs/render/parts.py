"""The kinds of parts that things are made of, as data.

A part is a solid with a centre, half sizes along its own axes, a rotation (degrees about x, then y, then z) and a
colour: None is the thing's own colour.
"""

from typing import NamedTuple

from hcam.envs.render.solids import BOX, CYLINDER, ELLIPSOID, FAR, cone

RGB = tuple[float, float, float]
Triple = tuple[float, float, float]

LOOSE = (-FAR, FAR)
UNIT = (-1.0, 1.0)


class Part(NamedTuple):
    quadric: tuple[float, float, float, float]
    bounds: tuple[float, float, float, float]
    center: Triple
    half: Triple
    color: RGB | None = None
    turn: Triple = (0.0, 0.0, 0.0)


def ball(center: Triple, half: Triple, color: RGB | None = None, turn: Triple = (0.0, 0.0, 0.0)) -> Part:
    return Part(ELLIPSOID, (*LOOSE, *LOOSE), center, half, color, turn)


def dome(center: Triple, half: Triple, color: RGB | None = None, turn: Triple = (0.0, 0.0, 0.0)) -> Part:
    """The upper half of a ball; `center` is the middle of its flat side."""
    return Part(ELLIPSOID, (*LOOSE, 0.0, FAR), center, half, color, turn)


def can(center: Triple, half: Triple, color: RGB | None = None, turn: Triple = (0.0, 0.0, 0.0)) -> Part:
    """A cylinder along z."""
    return Part(CYLINDER, (*LOOSE, *UNIT), center, half, color, turn)


def block(center: Triple, half: Triple, color: RGB | None = None, turn: Triple = (0.0, 0.0, 0.0)) -> Part:
    return Part(BOX, (*UNIT, *UNIT), center, half, color, turn)


def spike(
    center: Triple, half: Triple, color: RGB | None = None, turn: Triple = (0.0, 0.0, 0.0), top: float = 0.0
) -> Part:
    """A cone along z, or a frustum whose upper radius is `top` times the lower one."""
    return Part(cone(top), (*LOOSE, *UNIT), center, half, color, turn)


def wedge(
    center: Triple, half: Triple, color: RGB | None = None, turn: Triple = (0.0, 0.0, 0.0), top: float = 0.0
) -> Part:
    """A gable roof whose ridge runs along y."""
    _, c, b, a = cone(top)
    return Part((0.0, c, b, a), (*UNIT, *UNIT), center, half, color, turn)


X_AXIS, Y_AXIS = (0.0, 90.0, 0.0), (90.0, 0.0, 0.0)  # turns of a cylinder that lies along x, along y
