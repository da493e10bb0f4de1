"""Frames of environments that draw a picture for people; test_show.py has the others."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from hcam.envs import make
from hcam.envs.environment import Environment
from hcam.envs.spaces import Discrete
from hcam.viewer import show
from hcam.viewer.frames import frame_of


@dataclass(frozen=True)
class Count(Environment):
    """Counts to three; its picture has a row for every state so far."""

    action_space = Discrete(2)
    observation_space = Discrete(9)

    def start(self, key, level):
        return jnp.int32(0)

    def advance(self, key, state, action, level):
        return state + 1, jnp.float32(1), state >= 2, jnp.bool_(False), {}

    def observe(self, state, level):
        return state

    def picture(self, states):
        return np.stack([np.full((2, 3), int(state), np.uint8) for state in states])


def test_a_picture_takes_the_place_of_the_observation_and_sees_all_states_the_last_included():
    start, frames, _ = show.film(Count(), (), "random", 0)
    assert int(start) == 0
    assert [frame.pixels[:, 0, 0].tolist() for frame in frames] == [[0], [0, 1], [0, 1, 2], [0, 1, 2, 3]]
    assert [frame.ending for frame in frames] == ["", "", "", "done"]
    assert frames[-1].reward == 3


def test_without_a_picture_the_observation_is_shown():
    env = make("echo")
    assert env.picture([]) is None
    frame = frame_of(env, [], jnp.array([0.0, 1, 0, 0]), 0.0, "")
    assert frame.pixels[0, ::12, 0].tolist() == [0, 255, 0, 0]


def test_pictures_are_not_enlarged(tmp_path):
    """One of a map is as large as it should be, whatever the scale of other pictures."""
    options = {"neighbourhoods": 16}
    lines = list(show.show("streets", options, ["quick_liege"], tmp_path / "map.gif", scale=4))
    assert "51 frames" in lines[0]
    from PIL import Image

    with Image.open(tmp_path / "map.gif") as gif:
        assert gif.size[0] == 320
