"""What a pixel does with its frame: where its ray leaves the room, and what colour a surface has there."""

import jax.numpy as jnp
import numpy as np
import pytest

from hcam.envs.render import pixels, raycast
from hcam.envs.render.raycast import Scene
from tests.envs.render.scenes import camera, empty, room


def background(u, v, **view):
    scene = Scene(room(), empty())
    frame = raycast.frame(scene, camera(**view), 96)
    return scene.room, pixels.background(list(frame.view_n), jnp.float32(u), jnp.float32(v))


@pytest.mark.parametrize(("yaw", "side", "axis"), [(0.0, 1, 1), (np.pi / 2, 0, 0), (np.pi, 1, 1), (-np.pi / 2, 0, 0)])
def test_a_ray_straight_ahead_leaves_through_the_wall(yaw, side, axis):
    hall, found = background(0.0, 0.0, yaw=yaw)
    assert int(found.side) == side
    np.testing.assert_allclose(abs(float(found.point[axis])), float(hall.half[axis]), rtol=1e-5)


@pytest.mark.parametrize(("v", "side"), [(-5.0, 2), (5.0, 3)])
def test_a_steep_ray_meets_floor_or_ceiling(v, side):
    hall, found = background(0.0, v)
    assert int(found.side) == side
    np.testing.assert_allclose(found.point[2], 0.0 if side == 2 else hall.height, atol=1e-5)


def test_a_word_holds_red_green_and_blue():
    word_hw = jnp.array([[1 | 2 << 8 | 3 << 16, 255 | 254 << 8 | 253 << 16]], jnp.int32)
    assert np.asarray(pixels.split(word_hw)).tolist() == [[[1, 2, 3], [255, 254, 253]]]
