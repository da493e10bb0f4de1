"""What workers put around environments."""

from typing import Any

import numpy as np
import pytest
from dm_env import specs  # type: ignore[import-untyped]
from gymnasium import spaces

from hcam.host.parts import is_text
from hcam.host.wrappers import FromDmEnv, Named, OneAction, Shrink, _space
from tests.host import toys


def test_dm_env_under_gymnasiums_interface():
    env = FromDmEnv(toys.catch)
    assert env.action_space == spaces.Discrete(2)
    assert env.reset(seed=4)[0]["seed"] == 4
    for action, flags in ((0, (False, True)), (1, (True, False))):
        env.reset()
        steps = [env.step(action) for _ in range(3)]
        assert [step[1] for step in steps] == [0.5, 0.5, 1.0]
        assert [step[2:4] for step in steps] == [(False, False), (False, False), flags]
        assert set(env.reset()[0]) == set(steps[-1][0])
    env.close()


def test_tuples_have_names_and_several_actions_are_one():
    env = OneAction(Named(toys.several()))
    assert env.reset()[0] == {"part_0": 1, "part_1": 2}
    assert [env.action(action).tolist() for action in (0, 2, 5)] == [[0, 0], [0, 2], [1, 2]]


def test_specs_without_a_counterpart():
    assert _space(specs.BoundedArray((2,), np.float32, 0, 1)) == spaces.Box(0, 1, (2,))
    assert is_text(_space(specs.StringArray(())))
    with pytest.raises(ValueError, match="has no counterpart here"):
        _space(specs.Array((), object))


def test_pictures_become_smaller_by_the_mean_of_squares():
    env = Shrink(toys.picture(5), 2)
    image = toys.picture(5).reset()[0]["screen"][:4, :4].astype(int)
    mean = image.reshape(2, 2, 2, 2, 3).sum((1, 3)) // 4
    np.testing.assert_array_equal(env.reset()[0]["screen"], mean)
    space: Any = env.observation_space
    assert space["screen"].shape == (2, 2, 3)
    with pytest.raises(ValueError, match="shrink=2 needs pictures"):
        Shrink(toys.clock(), 2)
