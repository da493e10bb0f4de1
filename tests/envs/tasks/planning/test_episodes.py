import jax
import numpy as np
import pytest

from hcam.envs.tasks.planning.episodes import draw, from_description, to_description
from hcam.envs.tasks.planning.levels import Level

GOOD = {"symbols": [[3, 0], [1, 7]], "start": [0, 1], "goal": [1, 1], "steps": 9, "placed": True}


def test_a_description_is_the_way_there_and_back():
    episode = from_description(GOOD, 16)
    assert to_description(jax.device_get(episode)) == GOOD
    assert sorted(np.asarray(episode.symbol_n).tolist()) == list(range(16))


def test_a_drawn_episode_can_be_described():
    episode = jax.device_get(draw(jax.random.key(3), Level(side=3).rules(), 16))
    again = jax.device_get(from_description(to_description(episode), 16))
    np.testing.assert_array_equal(again.symbol_n[:9], episode.symbol_n[:9])
    assert (again.start, again.goal) == (episode.start, episode.goal)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"symbols": [[0, 1], [2, 2]]}, "symbols must be 2 rows of 2 different numbers from 0 to 15"),
        ({"symbols": [[0, 1], [2, 16]]}, "symbols must be 2 rows"),
        ({"symbols": [[0, 1], [2]]}, "symbols must be 2 rows"),
        ({"symbols": [5, 6]}, "symbols must be 2 rows"),
        ({"symbols": 7}, "side must be a whole number of cells"),
        ({"start": [0, 2]}, r"start must be a cell \[x, y\], each from 0 to 1, but is \[0, 2\]"),
        ({"goal": "01"}, "goal must be a cell"),
        ({"goal": [0, 1]}, r"goal must be another cell than start, but both are \[0, 1\]"),
        ({"steps": True}, "steps must be a whole number"),
        ({"color": "red"}, "an episode is described by symbols, start, goal and may have steps, placed, but was given"),
    ],
)
def test_what_is_no_episode_is_refused_in_a_sentence(change, sentence):
    with pytest.raises(ValueError, match=sentence):
        from_description(GOOD | change, 16)


def test_what_is_no_description_is_refused():
    with pytest.raises(ValueError, match="but was given 'torus'"):
        from_description("torus", 16)  # type: ignore[arg-type]
