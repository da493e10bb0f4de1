import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.envs.render import raycast, textures
from hcam.envs.render.raycast import Scene, join, render
from hcam.envs.render.things import apple, box, panel, place
from tests.envs.render.scenes import array, at, camera, empty, picture, pictures, room

THEMES = list(textures.THEMES)


def middle(mask):
    """Mean row and column of what is lit."""
    return [float(index.mean()) for index in np.nonzero(mask)]


def ball(x, y, z=0.6):
    return place(16, array(x, y, z), 0.0, 1.0, 0)


@pytest.mark.parametrize(("yaw", "x", "y"), [(0, 0, 3), (np.pi / 2, 3, 0), (np.pi, 0, -3), (-np.pi / 2, -3, 0)])
def test_yaw_is_clockwise_from_north(yaw, x, y):
    row, column = middle(at(ball(x, y), camera(yaw=yaw))[1][:40])
    assert abs(column - 47.5) < 1.0
    assert abs(row - 35.5) < 3.0


def test_what_is_east_is_on_the_right_of_a_camera_that_looks_north():
    assert middle(at(ball(1.5, 3), camera())[1])[1] > 60
    assert middle(at(ball(-1.5, 3), camera())[1])[1] < 35


def test_a_camera_that_looks_up_sees_things_lower():
    row_of = [middle(at(ball(0, 3), camera(pitch=pitch))[1])[0] for pitch in (-0.3, 0.0, 0.3)]
    assert row_of[0] < row_of[1] - 10 < row_of[2] - 20


def test_a_pixels_place_follows_from_the_field_of_view():
    """A small apple at the edge of 80 degrees, and one 0.1 radians above the horizon."""

    def middle_of_apple(x, z):
        shown = at(apple(array(x, 3, z - 0.14)), camera(), theme=3)[0].astype(int)
        return middle(shown[..., 0] > shown[..., 2] + 40)

    pixels = 48 / np.tan(np.radians(40))
    assert abs(middle_of_apple(3 * np.tan(np.radians(37)), 1.0)[1] - (47.5 + pixels * np.tan(np.radians(37)))) < 1.0
    assert abs(middle_of_apple(0, 1 + 3 * np.tan(0.1))[0] - (35.5 - pixels * np.tan(0.1))) < 1.0


def test_the_nearer_thing_hides_the_farther():
    near, far = panel(array(0, 2, 1), np.pi, 0.5, array(1, 0, 0)), panel(array(0, 3, 1), np.pi, 0.5, array(0, 0, 1))
    for both in (join(near, far), join(far, near)):
        pixel = picture(Scene(room(), both), camera())[36, 48]
        assert int(pixel[0]) > 50
        assert int(pixel[2]) == 0


# Walls: points computed by hand -------------------------------------------------------------------------------------


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


# Bits ---------------------------------------------------------------------------------------------------------------


def some_scene(n):
    return Scene(
        room(theme=n % len(THEMES)),
        join(
            place(n, array(-1, 2, 0), 0.3 * n, 0.8, n % 12),
            place(3 * n + 1, array(0.7, 1.5 + 0.1 * n, 0), 2.0, 1.0, 5),
            box(array(0.5, 3, 0), np.pi, 0.8, 0.2 * n),
            apple(array(-0.5, 1.0, 0)),
            panel(array(1, 4.97, 1.5), np.pi, 1.0, array(0.9, 0.1, 0.8)),
        ),
    )


def stacked(items):
    return jax.tree.map(lambda *x: jnp.stack(x), *items)


def test_a_picture_is_the_same_at_every_place_of_a_batch_and_alone():
    scenes, views = [some_scene(n) for n in range(5)], [camera(yaw=0.1 * n, pitch=-0.15) for n in range(5)]
    together = np.asarray(pictures(stacked(scenes), stacked(views)))
    turned = np.asarray(pictures(stacked(scenes[::-1]), stacked(views[::-1])))
    np.testing.assert_array_equal(together, turned[::-1])
    for n in range(5):
        np.testing.assert_array_equal(together[n], picture(scenes[n], views[n]))
    assert len({image.tobytes() for image in together}) == 5


@pytest.mark.parametrize("front", [True, False])
@pytest.mark.parametrize("count", [1, 4, 7])
def test_absent_solids_do_not_change_a_bit(front, count):
    scene, view = some_scene(2), camera(pitch=-0.15)
    more = jax.tree.map(lambda x_p: jnp.concatenate([x_p] * 2)[:count], place(5, array(0, 1, 0), 0.2, 1.0, 3))
    more = more._replace(present_p=jnp.zeros_like(more.present_p))
    solids = join(more, scene.solids) if front else join(scene.solids, more)
    np.testing.assert_array_equal(picture(scene._replace(solids=solids), view), picture(scene, view))


def test_any_size_can_be_drawn_and_shows_the_same():
    small, large = (np.asarray(picture(some_scene(1), camera(), h, w)).astype(int) for h, w in [(30, 41), (90, 123)])
    assert small.shape == (30, 41, 3)
    assert np.abs(large[1::3, 1::3] - small).mean() < 6


def test_a_scene_with_too_many_solids_is_refused():
    many = join(*[empty()] * 50)
    with pytest.raises(ValueError, match="must have 1 to 255 solids, but this one has 300"):
        render(Scene(room(), many), camera())


def test_the_camera_can_be_near_a_thing_and_inside_its_shadow():
    image, there = at(place(17, array(0, 0.7, 0), 0.0, 1.0, 2), camera())
    assert there[60].sum() > 50
    assert image[60, 48, 2] > image[60, 48, 0] + 50


def test_views_are_right_handed_and_of_unit_length():
    basis = np.array([[float(x) for x in vector] for vector in raycast.view(camera(yaw=0.7, pitch=0.4))])
    np.testing.assert_allclose(basis @ basis.T, np.eye(3), atol=1e-6)
    np.testing.assert_allclose(np.cross(basis[1], basis[0]), basis[2], atol=1e-6)
