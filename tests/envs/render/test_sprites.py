import numpy as np
import pytest

from hcam.envs.render import sprites

LIT = [41, 56, 45, 36, 45, 36, 49, 32, 45, 45, 63, 63, 63, 45, 45]  # published, in the order of SHAPES


def test_shapes_are_as_lit_as_published():
    masks = sprites.masks(9)
    assert masks.shape == (15, 9, 9)
    assert (masks == 255).sum((1, 2)).tolist() == LIT
    assert set(np.unique(masks)) == {0, 255}


def test_a_triangle_points_up():
    triangle = sprites.masks(9)[0] // 255
    assert triangle[0].tolist() == [0, 0, 0, 0, 1, 0, 0, 0, 0]
    assert triangle[8].all()


def test_fewer_pixels_show_block_centres():
    np.testing.assert_array_equal(sprites.masks(3), sprites.masks(9)[:, 1::3, 1::3])
    assert (sprites.masks(1) == 255).all()


def test_colours_are_different():
    assert sprites.colors().shape == (19, 3)
    assert len({tuple(color) for color in sprites.colors().tolist()}) == 19


@pytest.mark.parametrize("tile", [0, 2, 4, 18])
def test_other_sizes_are_refused(tile):
    with pytest.raises(ValueError, match="tile must be 9"):
        sprites.masks(tile)
