"""Kinds of parts: which points are inside them."""

import numpy as np
import pytest

from hcam.envs.render import parts

HALF = (0.5, 0.4, 0.3)


def inside(part, x, y, z):
    """By the definition of a solid, in the part's own frame."""
    x, y, z = (at / half for at, half in zip((x, y, z), part.half, strict=True))
    k, c, b, a = part.quadric
    y0, y1, z0, z1 = part.bounds
    return x * x + k * y * y + c * z * z + b * z + a <= 1e-9 and y0 <= y <= y1 and z0 <= z <= z1


@pytest.mark.parametrize(
    ("kind", "corner", "rim", "top", "below"),
    [
        (parts.ball, False, False, True, True),
        (parts.dome, False, False, True, False),
        (parts.can, False, True, True, True),
        (parts.block, True, True, True, True),
        (parts.spike, False, False, True, True),
        (parts.wedge, False, False, True, True),
    ],
)
def test_what_is_inside(kind, corner, rim, top, below):
    part = kind((0.0, 0.0, 0.0), HALF)
    assert inside(part, 0.0, 0.0, 0.0)
    assert inside(part, 0.499, 0.399, 0.299) == corner
    assert inside(part, 0.499, 0.0, 0.299) == rim
    assert inside(part, 0.0, 0.0, 0.299) == top
    assert inside(part, 0.0, 0.0, -0.299) == below
    assert not inside(part, 0.501, 0.0, 0.0)
    assert not inside(part, 0.0, 0.0, 0.301)


def test_a_frustum_has_the_radius_of_its_top():
    part = parts.spike((0.0, 0.0, 0.0), HALF, top=0.6)
    for z, radius in ((-0.3, 1.0), (0.0, 0.8), (0.3, 0.6)):
        assert inside(part, 0.999 * radius * 0.5, 0.0, z)
        assert not inside(part, 1.001 * radius * 0.5, 0.0, z)


def test_a_ridge_runs_along_y():
    part = parts.wedge((0.0, 0.0, 0.0), HALF)
    assert inside(part, 0.0, 0.399, 0.299)
    assert not inside(part, 0.1, 0.0, 0.299)


def test_turns_lay_a_cylinder_down():
    assert np.count_nonzero(parts.X_AXIS) == np.count_nonzero(parts.Y_AXIS) == 1
