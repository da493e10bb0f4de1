import jax
import numpy as np
import pytest

from hcam.envs.spaces import Box, Discrete, Tokens

SPACES = [Discrete(3), Box((2, 3), -1.0, 1.0), Box((4,), 0, 255, "uint8"), Tokens(("", "go", "left"), length=2)]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_samples_are_inside_and_reach_the_bounds(space):
    samples = jax.vmap(space.sample)(jax.random.split(jax.random.key(0), 4000))
    assert all(space.contains(sample) for sample in samples[:50])
    bounds = {"Discrete": (0, 2), "Tokens": (1, 2), "Box": (getattr(space, "low", 0), getattr(space, "high", 0))}
    low, high = bounds[type(space).__name__]
    np.testing.assert_allclose([samples.min(), samples.max()], [low, high], atol=0.01)


@pytest.mark.parametrize(
    ("space", "value"),
    [
        (Discrete(3), np.int32(3)),
        (Discrete(3), np.int32(-1)),
        (Discrete(3), np.float32(1)),
        (Discrete(3), np.zeros(1, np.int32)),
        (Box((2,), 0.0, 1.0), np.array([0, 1.5], np.float32)),
        (Box((2,), 0.0, 1.0), np.array([0, np.nan], np.float32)),
        (Box((2,), 0.0, 1.0), np.zeros(3, np.float32)),
        (Box((2,), 0, 255, "uint8"), np.zeros(2, np.int32)),
        (Tokens(("", "go")), np.array([2], np.int32)),
        (Tokens(("", "go")), np.array([-1], np.int32)),
    ],
)
def test_what_is_outside(space, value):
    assert not space.contains(value)


def test_sentences_are_token_ids():
    space = Tokens(("", "go", "left"), length=3)
    assert space.ids("go left").tolist() == [1, 2, 0]
    assert space.text(space.ids("go left")) == "go left"
    with pytest.raises(ValueError, match=r"at most 3 of the words go, left, but is 'go right'"):
        space.ids("go right")
    with pytest.raises(ValueError, match="at most 3"):
        space.ids("go go go go")
