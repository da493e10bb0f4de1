"""The three rooms: where the agent appears, what stops it, and the colours of the squares."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.envs.body import BACKWARD, FORWARD, LEFT, RIGHT
from hcam.envs.tasks.match import Match, rooms
from hcam.envs.tasks.match.levels import PALETTE

ENV: Any = Match()
FOUR = {"colors": ["red", "green", "yellow", "white"], "target": 2, "delay": 30, "apples": []}
observe = jax.jit(lambda state: ENV.observe(state, None)["image"])
move = jax.jit(rooms.move)


def walk(phase, actions):
    """The places that a body is at after each of these actions, from where it appears."""
    rules, now = ENV.episode(FOUR).episode.rules, jnp.int32(phase)
    body, places = rooms.spawn(rules, now), []
    for action in actions:
        body = move(body, jnp.int32(action), rules, now)
        places.append(body.position.tolist())
    return places


def test_the_corridor_is_three_cells_long_and_one_wide():
    """A body of radius 0.3 stops 1.2 m south of the middle and 0.2 m beside it; left of one who looks south is east."""
    places = walk(rooms.EXPLORE, [FORWARD] * 8 + [LEFT] * 2 + [RIGHT] * 4)
    np.testing.assert_allclose([places[n] for n in (7, 9, 13)], [[0, -1.2], [0.2, -1.2], [-0.2, -1.2]], atol=1e-6)


def test_the_alcove_has_sides_and_the_room_a_north_wall():
    places = walk(rooms.CHOOSE, [LEFT, LEFT, FORWARD, FORWARD, LEFT, LEFT, BACKWARD, BACKWARD])
    np.testing.assert_allclose([places[n] for n in (1, 5, 7)], [[0.2, 2.0], [1.2, 1.0], [1.2, 1.2]], atol=1e-6)


def test_pads_lie_before_the_squares_from_left_to_right():
    pad_o2 = np.asarray(rooms.pads(ENV.episode(FOUR).episode.rules))
    assert pad_o2.tolist() == [[3, -2], [1, -2], [-1, -2], [-3, -2]]


@pytest.mark.parametrize("color", PALETTE)
def test_squares_have_the_published_colors_in_both_rooms(color):
    others = [name for name in PALETTE if name != color][:3]
    state = ENV.episode(FOUR | {"colors": [*others, color], "target": 3, "delay": 0})
    image = np.asarray(observe(state))
    shown = (image == np.array(PALETTE[color])).all(-1).sum()
    assert shown >= 250  # 16 x 16 pixels
    state = state._replace(time=jnp.int32(20), body=rooms.spawn(state.episode.rules, jnp.int32(2)))
    image = np.asarray(observe(state))
    for name in (*others, color):
        assert (image == np.array(PALETTE[name])).all(-1).sum() >= 60, name
