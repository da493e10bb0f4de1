"""A scripted walk to one of several boxes: around the others, never into them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.envs.body import FORWARD, Body, move, touched
from hcam.envs.tasks.objects import paths

HALF, RADIUS = 4.0, 0.4
PLACES = jnp.array([[0.0, 0.0], [0.0, 2.0], [2.5, 1.0]], jnp.float32)


@jax.jit
def walk(start, heading, target):
    """The boxes that are touched within 60 steps: bool [60, B]."""
    radius_b, half = jnp.full(3, RADIUS, jnp.float32), jnp.full(2, HALF, jnp.float32)

    def step(body, _):
        action = paths.around(body, PLACES, radius_b, half[0], target)
        body = move(body, action, half, PLACES, radius_b)
        return body, touched(body, PLACES, radius_b)

    return jax.lax.scan(step, Body(start, heading), None, length=60)[1]


@pytest.mark.parametrize("target", [0, 1, 2])
@pytest.mark.parametrize("start", [(0.0, -3.5), (-3.0, 1.0), (0.0, 3.5), (3.5, -3.5)])
def test_the_first_box_that_is_touched_is_the_right_one(start, target):
    touched_tb = np.asarray(walk(jnp.array(start, jnp.float32), jnp.int32(5), jnp.int32(target)))
    first = touched_tb.any(-1).argmax()
    assert touched_tb[first].tolist() == [box == target for box in range(3)]


def test_a_free_way_is_straight():
    body = Body(jnp.array([0.0, -3.0], jnp.float32), jnp.int32(0))
    radius_b, half = jnp.full(3, RADIUS, jnp.float32), jnp.full(2, HALF, jnp.float32)
    assert int(paths.around(body, PLACES, radius_b, half[0], jnp.int32(0))) == FORWARD
