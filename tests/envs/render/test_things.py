import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.envs.render.raycast import Scene, join, render
from hcam.envs.render.things import (
    APPLE_PARTS,
    BOX_PARTS,
    COLORS,
    INSIDE,
    INSIDE_FLOOR,
    PARTS,
    THINGS,
    apple,
    box,
    panel,
    place,
)
from tests.envs.render.scenes import array, at, camera, picture, room


@jax.jit
def gallery(color_n):
    """Every thing at 3 m, looking at the camera from the side."""

    def one(thing, color):
        solids = place(thing, array(0, 2, 0), np.pi - 0.5, 1.0, color)
        return render(Scene(room(), solids), camera(y=-1, pitch=-0.15))

    return jax.vmap(one)(jnp.arange(len(THINGS)), color_n)


@pytest.mark.parametrize("color", ["red", "blue", "white"])
def test_things_of_one_colour_are_clearly_different(color):
    number = list(COLORS).index(color)
    images = np.asarray(gallery(jnp.full(len(THINGS), number))).astype(int)
    assert len(THINGS) >= 32
    for one, other in itertools.combinations(range(len(THINGS)), 2):
        different = (np.abs(images[one] - images[other]).max(-1) > 40).sum()
        assert different > 40, (THINGS[one], THINGS[other], different)


def test_a_things_colour_is_seen():
    red, blue = (np.asarray(gallery(jnp.full(len(THINGS), n))).astype(int) for n in (0, 2))
    changed = (np.abs(red - blue).max(-1) > 40).sum((1, 2))
    assert changed.min() > 25, THINGS[int(changed.argmin())]


def test_things_fit_a_cube_of_a_metre_and_stand_on_the_floor():
    for number, name in enumerate(THINGS):
        solids = place(number, jnp.zeros(3), 0.0, 1.0, 0)
        half_pi = 1 / np.linalg.norm(solids.frame_p33, axis=2)
        reach_pi = np.abs(np.linalg.inv(solids.frame_p33))  # [P, world axis, own axis]: a box around the part
        z_p = np.asarray(solids.center_p3)[:, 2]
        used_p = np.asarray(solids.present_p)
        assert half_pi[used_p].max() <= 0.72, name
        assert np.abs(solids.center_p3)[used_p].max() <= 1.0, name
        assert (z_p + reach_pi[:, 2].sum(-1))[used_p].max() < 1.15, name


def test_the_number_of_solids_is_fixed():
    assert len(place(0, jnp.zeros(3), 0.0, 1.0, 0).present_p) == PARTS
    assert len(box(jnp.zeros(3), 0.0, 1.0, 0.0).present_p) == BOX_PARTS
    assert len(apple(jnp.zeros(3)).present_p) == APPLE_PARTS
    assert len(panel(jnp.zeros(3), 0.0, 1.0, jnp.ones(3)).present_p) == 1


def test_a_thing_turns_with_its_yaw():
    """The beak of a duck that looks east is on the right of a camera that looks north."""
    for yaw, side in ((np.pi / 2, 1), (-np.pi / 2, -1)):
        shown, there = at(place(0, array(0, 2, 0), yaw, 1.0, 2), camera(pitch=-0.3))
        beak = there & (shown[..., 0] > 130) & (shown[..., 2] < 60) & (shown[..., 1] > 40)
        assert beak.sum() > 3
        assert side * (np.nonzero(beak)[1].mean() - 47.5) > 5


def test_scale_is_in_proportion():
    tall = [
        np.nonzero(at(place(26, array(0, 3, 0), 0.0, scale, 3), camera(), theme=3)[1].any(1))[0] for scale in (0.4, 0.8)
    ]
    assert 1.7 < np.ptp(tall[1]) / np.ptp(tall[0]) < 2.4


def inside(thing, yaw, opening):
    solids = join(
        box(array(0.2, 1.0, 0), yaw, 0.9, opening),
        place(thing, array(0.2, 1.0, 0.9 * INSIDE_FLOOR), 1.0, 0.9 * INSIDE, 3),
    )
    return solids


@jax.jit
def closed(view):
    """An empty closed box, and one with each of the things inside."""

    def one(thing, yaw, filled):
        solids = inside(thing, yaw, 0.0)
        shown_p = solids.present_p & (filled | (jnp.arange(len(solids.present_p)) < BOX_PARTS))
        return render(Scene(room(), solids._replace(present_p=shown_p)), view)

    number_n = jnp.arange(len(THINGS))
    yaw_n = number_n.astype(jnp.float32)
    return [jax.vmap(one, (0, 0, None))(number_n, yaw_n, filled) for filled in (False, True)]


@pytest.mark.parametrize("distance", [1.0, 2.0, 4.0])
def test_a_closed_box_shows_nothing_of_its_inside(distance):
    np.testing.assert_array_equal(*closed(camera(y=1.0 - distance, z=1.2, pitch=-0.4)))


def test_an_open_box_that_faces_the_camera_shows_its_inside():
    view = camera(y=-0.5, z=1.2, pitch=-0.4)
    yellow = [
        (image[..., 0] > 120) & (image[..., 2] < 40) & (image[..., 1] > 100)
        for image in (
            np.asarray(picture(Scene(room(), inside(17, np.pi, opening)), view)) for opening in (0.0, 0.5, 1.0)
        )
    ]
    assert yellow[0].sum() == 0
    assert yellow[1].sum() > 10
    assert yellow[2].sum() > 10


def test_a_panel_has_its_colour_and_throws_no_shadow():
    shown, there = at(panel(array(0, 4.95, 1.0), np.pi, 1.0, array(1.0, 0.0, 0.5)), camera())
    red, green, blue = shown[there].T.astype(int)
    assert (green == 0).all()
    assert (red > 80).all()
    assert np.abs(red - 2 * blue).max() <= 2
    assert np.ptp(np.nonzero(there)[1]) + 1 == pytest.approx(48 / np.tan(np.radians(40)) / 4.93, abs=1)


def test_a_thing_that_is_not_present_is_not_seen():
    shown, there = at(place(4, array(0, 2, 0), 0.0, 1.0, 3, present=jnp.array(False)), camera())
    assert not there.any()
    assert shown.shape == (72, 96, 3)


def test_a_thing_darkens_the_floor_around_it():
    shown, there = at(place(12, array(0, 2, 0), 0.0, 1.0, 3), camera(pitch=-0.3), theme=3)
    ground = there[47:] & (shown[47:, :, 2] > 60)  # in front of the lamp's black foot, as wide as its shade
    assert ground.sum() > 20
    bare, _ = at(place(12, array(0, 2, 0), 0.0, 1.0, 3, present=False), camera(pitch=-0.3), theme=3)
    assert (shown[47:][ground] <= bare[47:][ground]).all()
