"""What must hold for chains, rows, queries and lures; and episodes in words."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.envs.tasks.pai import PairedInference
from hcam.envs.tasks.pai.episodes import asked, draw, draw_items, rows, shuffled
from hcam.envs.tasks.pai.levels import Level

N, L = 5, 4
POOLS = {"train": (0, 200), "valid": (200, 50), "test": (250, 70)}


def drawn(level, count=2000):
    params = level.params(POOLS)
    one = jax.jit(jax.vmap(lambda key: draw(key, params, N, L)))
    return jax.device_get(one(jax.random.split(jax.random.key(0), count)))


def of(episodes, number):
    return jax.tree.map(lambda leaf: leaf[number], episodes)


@pytest.mark.parametrize("level", [Level(3), Level(4), Level(3, "valid"), Level(4, "test")])
def test_items_are_different_and_of_their_pool(level):
    item_xs = drawn(level).item_nl.reshape(2000, -1)
    first, count = POOLS[level.pool]
    assert all(len(set(item_s)) == N * L for item_s in item_xs)
    assert (item_xs >= first).all()
    assert (item_xs < first + count).all()


def test_every_item_is_as_likely_in_every_place():
    item_xs = jax.vmap(lambda key: draw_items(key, jnp.int32(10), jnp.int32(45), 10))(
        jax.random.split(jax.random.key(0), 8000)
    )
    counts = np.stack([np.bincount(item_x, minlength=60) for item_x in np.asarray(item_xs).T])
    assert not counts[:, :10].any()
    assert not counts[:, 50:].any()  # 40 items are the most that ten classes can have
    assert np.abs(counts[:, 10:50] / 8000 - 1 / 40).max() < 5 * np.sqrt(1 / 40 / 8000)


@pytest.mark.parametrize("length", [3, 4])
def test_rows_are_all_adjacent_pairs_in_random_order(length):
    episodes = drawn(Level(length), 400)
    orders = set()
    for number in range(400):
        episode = of(episodes, number)
        place_r2, filled = rows(episode)
        assert filled == N * (length - 1)
        found = [tuple(row) for row in np.asarray(place_r2)[: int(filled)].tolist()]
        assert set(found) == {(n * L + letter, n * L + letter + 1) for n in range(N) for letter in range(length - 1)}
        assert len(set(found)) == len(found)
        orders.add(tuple(found))
    assert len(orders) == 400


def test_every_pair_is_as_likely_in_every_row():
    episodes = drawn(Level(4), 4000)
    counts = np.stack([np.bincount(pair_x, minlength=15) for pair_x in episodes.pair_r.T])
    assert np.abs(counts / 4000 - 1 / 15).max() < 4.5 * np.sqrt(1 / 15 / 4000)


def test_the_lure_has_the_letter_of_the_match_and_is_of_another_chain():
    episodes = drawn(Level(4))
    assert (episodes.lure != episodes.chain).all()
    for number in range(100):
        episode = of(episodes, number)
        cue, *options = np.asarray(asked(episode)).tolist()
        match, lure = options[int(episode.answer)], options[1 - int(episode.answer)]
        assert cue == episode.chain * L + episode.cue
        assert match // L == cue // L
        assert match % L == lure % L == episode.match > episode.cue
        assert lure // L == episode.lure


def test_chains_lures_and_places_are_uniform():
    episodes = drawn(Level(3), 8000)
    for values, choices in ((episodes.chain, N), (episodes.lure, N), (episodes.answer, 2)):
        assert np.abs(np.bincount(values, minlength=choices) / 8000 - 1 / choices).max() < 4 * 0.5 / np.sqrt(8000)
    ahead = (episodes.lure - episodes.chain) % N
    assert np.abs(np.bincount(ahead, minlength=N)[1:] / 8000 - 1 / (N - 1)).max() < 4 * 0.5 / np.sqrt(8000)
    for other in (episodes.chain, episodes.lure, episodes.cue):  # the place of the match depends on nothing
        for value in set(other):
            share = episodes.answer[other == value]
            assert abs(share.mean() - 0.5) < 4 * 0.5 / np.sqrt(len(share))


@pytest.mark.parametrize(("length", "direct"), [(3, 0.5), (4, 0.5)])
def test_half_of_the_queries_are_direct(length, direct):
    episodes = drawn(Level(length), 8000)
    assert (episodes.match < length).all()
    near = episodes.match - episodes.cue == 1
    assert abs(near.mean() - direct) < 4 * 0.5 / np.sqrt(8000)
    kinds = {(int(cue), int(match)) for cue, match in zip(episodes.cue, episodes.match, strict=True)}
    assert len(kinds) == length * (length - 1) // 2


def test_shuffled_puts_some_first():
    first = np.array([False, True, False, True, True])
    for seed in range(20):
        order = np.asarray(shuffled(jax.random.key(seed), jnp.asarray(first)))
        assert set(order[:3]) == {1, 3, 4}
        assert set(order[3:]) == {0, 2}


# Episodes in words ----------------------------------------------------------------------------------------------------

ENV: Any = PairedInference(sequences=2, longest=4, features=8)
TWO = {"sequences": [[4, 8, 15], [16, 23, 42]], "query": "ac", "chain": 0, "lure": 1}


@pytest.mark.parametrize("level", ["length3", "length4_valid", "length4_test_ad"])
def test_a_description_gives_the_same_episode_again(level):
    params = ENV.params(level)
    for seed in range(5):
        seen, state = ENV.reset(jax.random.key(seed), params)
        told = ENV.describe(state)
        again = ENV.episode(told)
        assert ENV.describe(again) == told
        for name, value in ENV.observe(again, None).items():
            np.testing.assert_array_equal(value, seen[name])


def test_a_description_may_leave_out_the_order():
    full = ENV.describe(ENV.episode(TWO))
    assert full == TWO | {"answer": 0, "pool": "train", "rows": [[0, "a"], [0, "b"], [1, "a"], [1, "b"]]}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sequences": [[4, 8, 15]]}, "sequences must be 2 chains of one length from 3 to 4"),
        ({"sequences": [[4, 8, 15], [1, 2]]}, "sequences must be 2 chains of one length"),
        ({"sequences": 7}, "sequences must be 2 chains"),
        ({"sequences": [[4, 8, 15], [16, 23, 4]]}, "no item may occur twice"),
        ({"sequences": [[4, 8, -1], [16, 23, 42]]}, "items must be whole numbers from 0 to 999,999, but -1 is none"),
        ({"query": "ca"}, "query must be one of ab, ac, bc"),
        ({"query": "ad"}, "query must be one of ab, ac, bc"),
        ({"chain": 2}, "chain must be a whole number from 0 to 1"),
        ({"lure": 0}, "the lure must be of another chain"),
        ({"answer": True}, "answer must be a whole number from 0 to 1"),
        ({"pool": "exam"}, "pool must be one of train, valid, test"),
        ({"rows": [[0, "a"]]}, "rows must be all 4 pairs"),
        ({"rows": "ab"}, "rows must be all 4 pairs"),
        ({"size": 3}, "an episode is described by sequences, query, chain, lure"),
    ],
)
def test_bad_descriptions_are_told_in_one_sentence(change, words):
    with pytest.raises(ValueError, match=words) as error:
        ENV.episode(TWO | change)
    assert str(error.value).count(". ") == 0
