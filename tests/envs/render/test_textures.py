"""Walls and floors: points computed by hand."""

import jax.numpy as jnp
import numpy as np
import pytest

from hcam.envs.render import textures
from hcam.envs.render.raycast import Scene
from tests.envs.render.scenes import camera, empty, picture, room

THEMES = list(textures.THEMES)


def color_of_wall(theme, x, z):
    """The pixel of a camera one metre from the north wall that looks straight at (x, z) on it."""
    image = picture(
        Scene(room(theme=THEMES.index(theme)), empty()), camera(x, 4.0, z), 73, 97
    )  # odd: a pixel in the middle
    return np.asarray(image[36, 48]).astype(int)


def expected(rgb, light=0.98):
    return [channel * light for channel in rgb]


@pytest.mark.parametrize(("z", "color"), [(0.25, 0), (0.75, 1), (1.25, 0), (2.25, 0), (2.75, 1)])
def test_stripes_alternate_every_half_metre(z, color):
    pattern = textures.THEMES["stripes"].wall
    np.testing.assert_allclose(color_of_wall("stripes", 0.1, z), expected(pattern.colors[color]), atol=1)


@pytest.mark.parametrize(("x", "color"), [(0.5, 0), (1.5, 1), (2.5, 0), (-0.5, 1), (-1.5, 0)])
def test_wide_stripes_alternate_along_the_wall(x, color):
    pattern = textures.THEMES["checks"].wall
    np.testing.assert_allclose(color_of_wall("checks", x, 1.0), expected(pattern.colors[color]), atol=1)


def test_bricks_are_shifted_by_half_a_brick_from_row_to_row():
    joint = textures.THEMES["brick"].wall.colors[2]
    row = 0.36
    np.testing.assert_allclose(color_of_wall("brick", 0.8 + 0.03, 2.5 * row), expected(joint), atol=1)
    assert np.abs(color_of_wall("brick", 0.8 + 0.03, 3.5 * row) - expected(joint)).max() > 40
    np.testing.assert_allclose(color_of_wall("brick", 0.4 + 0.03, 3.5 * row), expected(joint), atol=1)
    np.testing.assert_allclose(color_of_wall("brick", 0.2, 3 * row + 0.03), expected(joint), atol=1)


def test_checks_alternate_both_ways_on_the_floor():
    pattern = textures.THEMES["checks"].floor
    for x, y in [(0.4, 0.4), (1.2, 0.4), (0.4, 1.2), (1.2, 1.2), (-0.4, 0.4)]:
        # From 1 m above, 45 degrees down: the floor 1 m ahead.
        image = picture(Scene(room(theme=1), empty()), camera(x, y - 1, 1.0, pitch=-np.pi / 4), 73, 97)
        odd = (int(np.floor(x / 0.8)) + int(np.floor(y / 0.8))) % 2
        np.testing.assert_allclose(image[36, 48], expected(pattern.colors[odd], 0.95), atol=1)


def test_walls_of_a_room_differ_in_brightness():
    looks = [
        np.asarray(picture(Scene(room(theme=3), empty()), camera(yaw=yaw))).mean() for yaw in np.arange(4) * np.pi / 2
    ]
    assert np.abs(np.subtract.outer(looks, looks))[np.triu_indices(4, 1)].min() > 1


def test_themes_are_clearly_different():
    images = [np.asarray(picture(Scene(room(theme=n), empty()), camera())).astype(int) for n in range(len(THEMES))]
    for n, one in enumerate(images):
        for other in images[:n]:
            assert np.abs(one - other).mean() > 15


def test_a_theme_is_a_row_of_numbers():
    assert textures.table().shape == (len(THEMES), 2 * textures.NUMBERS + 3)
    assert np.isfinite(textures.table()).all()


def test_a_pixel_that_is_larger_than_cells_shows_their_mean():
    floor_n = textures.table()[THEMES.index("checks"), textures.NUMBERS : 2 * textures.NUMBERS]
    number, place = [jnp.float32(x) for x in floor_n], jnp.float32(0.4)
    pattern = textures.THEMES["checks"].floor
    near, far = (textures.paint(place, place, jnp.float32(blur), number) for blur in (0.01, 5.0))
    np.testing.assert_allclose(np.array(near) * 255, pattern.colors[0], atol=1)
    np.testing.assert_allclose(np.array(far) * 255, np.mean(pattern.colors[:2], axis=0), atol=1)
