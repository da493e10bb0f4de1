"""How episodes are drawn, and episodes in words."""

import jax
import numpy as np
import pytest

from hcam.envs.tasks.match import Match
from hcam.envs.tasks.match.episodes import draw, from_description, to_description
from hcam.envs.tasks.match.levels import COLORS, PALETTE, QUICK, Level, cells, unbits

FOUR = {"colors": ["red", "green", "yellow", "white"], "target": 2, "delay": 30, "apples": [[5, 9], [0, 0]]}


def drawn(level, count):
    params = level.params()
    return jax.device_get(jax.jit(jax.vmap(lambda key: draw(key, params)))(jax.random.split(jax.random.key(0), count)))


def test_four_different_colors_each_as_often_in_each_place():
    color_no = drawn(Level(), 8000).color_o
    assert all(len(set(color_o)) == 4 for color_o in color_no)
    counts_ox = np.stack([np.bincount(color_n, minlength=16) for color_n in color_no.T])
    assert np.abs(counts_ox / 8000 - 1 / 16).max() < 4.5 * np.sqrt(1 / 16 * 15 / 16 / 8000)


def test_the_target_is_in_any_place_whatever_the_colors():
    episode = drawn(Level(), 8000)
    counts = np.bincount(episode.target, minlength=4)
    assert np.abs(counts / 8000 - 1 / 4).max() < 4 * np.sqrt(3 / 16 / 8000)
    brightest = np.array([sum(PALETTE[COLORS[color]]) for color in range(16)])[episode.color_o].argmax(1)
    assert abs((brightest == episode.target).mean() - 1 / 4) < 4 * np.sqrt(3 / 16 / 8000)


def test_a_small_level_offers_two_of_its_own_colors():
    episode = drawn(QUICK, 2000)
    assert set(episode.target) == {0, 1}
    assert {COLORS[color] for color in episode.color_o[:, :2].ravel()} == set(QUICK.colors)


@pytest.mark.parametrize(("level", "chance"), [(Level(), 0.3), (Level(apples=0.75, side=4), 0.75)])
def test_apples_are_there_with_their_probability_in_every_cell_but_the_first(level, chance):
    count = 4000
    found_n = [unbits(bits_w) for bits_w in drawn(level, count).apples_w]
    counts = dict.fromkeys(cells(level.side), 0)
    for cell in (cell for found in found_n for cell in found):
        counts[cell] += 1  # a KeyError: an apple outside, or where the agent appears
    assert len(counts) == level.side**2 - 1
    shares = np.array(list(counts.values())) / count
    assert np.abs(shares - chance).max() < 5 * np.sqrt(chance * (1 - chance) / count)
    assert abs(shares.mean() - chance) < 5 * np.sqrt(chance * (1 - chance) / count / len(counts))
    sizes = np.array([len(found) for found in found_n])  # independent: the variance of a sum
    assert 0.9 < sizes.var() / (len(counts) * chance * (1 - chance)) < 1.1


@pytest.mark.parametrize(("apples", "many"), [(0, 0), (1, 120)])
def test_no_apples_and_all_of_them(apples, many):
    assert {len(unbits(bits_w)) for bits_w in drawn(Level(apples=apples), 50).apples_w} == {many}


@pytest.mark.parametrize("level", ["delay30", "delay0.25", "quick_delay2"])
def test_a_description_gives_the_same_episode_again(level):
    env = Match(width=16, height=12)
    reset = jax.jit(env.reset)
    for seed in range(5):
        _, state = reset(jax.random.key(seed), env.params(level))
        told = env.describe(state)
        again = env.episode(told)
        assert env.describe(again) == told
        offered = int(state.episode.rules.options)
        for one, two in zip(jax.tree.leaves(state), jax.tree.leaves(again), strict=True):
            few = slice(offered) if one.shape == (4,) and one.dtype == np.int32 else ...
            np.testing.assert_array_equal(one[few], two[few])


def test_a_description_may_leave_out_what_is_as_published():
    full = to_description(jax.device_get(from_description(FOUR)))
    assert full == FOUR | {"apples": [[0, 0], [5, 9]], "explore": 5, "limit": 5, "side": 11, "depth": 4}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"colors": ["red"]}, "colors must be 2 to 4 different"),
        ({"colors": ["red", "red"]}, "colors must be 2 to 4 different"),
        ({"colors": ["red", "pink"]}, "colors must be 2 to 4 different"),
        ({"colors": 3}, "colors must be 2 to 4 different"),
        ({"target": 4}, "target must be the place of a colour, 0 to 3"),
        ({"target": True}, "target must be the place of a colour"),
        ({"delay": 0.1}, "delay must be whole quarters of a second"),
        ({"delay": -1}, "delay must be whole quarters of a second"),
        ({"explore": 0}, "explore must be whole quarters of a second"),
        ({"limit": "5"}, "limit must be whole quarters of a second"),
        ({"side": 12}, "side must be a whole number from 3 to 11"),
        ({"depth": 1}, "depth must be a whole number from 2 to 8"),
        ({"apples": [[11, 0]]}, r"apples must be cells .* but \(11, 0\) is none"),
        ({"apples": [[5, 10]]}, "where the agent appears"),
        ({"apples": "all"}, "apples must be cells"),
        ({"apples": [3]}, "but 3 is none"),
        ({"size": 3}, "an episode is described by colors, target, delay, apples"),
    ],
)
def test_bad_descriptions_are_told_in_one_sentence(change, words):
    with pytest.raises(ValueError, match=words) as error:
        from_description(FOUR | change)
    assert str(error.value).count(". ") == 0
