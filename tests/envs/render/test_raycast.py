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
