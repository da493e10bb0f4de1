"""What the agent sees of the colour squares, and where the pads are."""

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.envs.tasks.match import Match, rooms
from hcam.envs.tasks.match.levels import PALETTE, Level

FOUR = {"colors": ["red", "green", "yellow", "white"], "target": 2, "delay": 30, "apples": []}


@lru_cache
def observer(env):
    return jax.jit(lambda state: env.observe(state, None)["image"])


@pytest.mark.parametrize(
    ("options", "depth", "x", "y"), [(4, 4, [3, 1, -1, -3], -2.0), (3, 2, [2, 0, -2], -1.0), (2, 3, [1, -1], -1.5)]
)
def test_pads_are_before_every_second_cell_of_the_south_wall(options, depth, x, y):
    rules = Level(options=options, depth=depth).rules()
    assert rooms.pads(rules)[:options].tolist() == [[place, y] for place in x]
    width, length = (2 * rooms.half(rules, jnp.int32(rooms.CHOOSE))).tolist()
    assert (width, length) == (2 * options - 1, depth + 1)


@pytest.mark.parametrize("color", PALETTE)
def test_squares_have_the_published_colors_in_both_rooms(color):
    env = Match()
    others = [name for name in PALETTE if name != color][:3]
    state = env.episode(FOUR | {"colors": [*others, color], "target": 3, "delay": 0})
    image = np.asarray(observer(env)(state))
    shown = (image == np.array(PALETTE[color])).all(-1).sum()
    assert shown >= 250  # 16 x 16 pixels
    state = state._replace(time=jnp.int32(20), body=rooms.spawn(state.episode.rules, jnp.int32(2)))
    image = np.asarray(observer(env)(state))
    for name in (*others, color):
        assert (image == np.array(PALETTE[name])).all(-1).sum() >= 60, name
