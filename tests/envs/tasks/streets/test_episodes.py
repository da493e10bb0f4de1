"""How episodes are drawn, and episodes in words."""

from typing import Any

import jax
import numpy as np
import pytest

from hcam.envs.tasks.streets.episodes import draw, draw_goal, from_description, to_description
from hcam.envs.tasks.streets.levels import parse
from hcam.envs.tasks.streets.neighbourhoods import STATES

LINE: Any = {"nodes": [[0, 0], [100, 0], [200, 50.5]], "streets": [[0, 1], [1, 2]], "start": [0, 1], "goal": [2, 1]}


def drawn(name, count):
    params = parse(name).params()
    keys = jax.random.split(jax.random.key(0), count)
    return jax.device_get(jax.jit(jax.vmap(lambda key: draw(key, params, 32)))(keys))


def test_symbols_are_a_fresh_permutation():
    symbol_ns = drawn("train", 400).symbol_s
    assert (np.sort(symbol_ns, axis=1) == np.arange(STATES)).all()
    assert len({tuple(symbol_s) for symbol_s in symbol_ns}) == 400
    assert np.abs(symbol_ns.mean(0) - (STATES - 1) / 2).max() < 5 * np.sqrt(STATES**2 / 12 / 400)


def test_small_neighbourhoods_have_few_symbols():
    """All states have one of the first 14, as large as the neighbourhood is; the others follow, for no state."""
    episode = drawn("quick_train", 400)
    assert (np.sort(episode.symbol_s[:, :14], axis=1) == np.arange(14)).all()
    assert (np.sort(episode.symbol_s, axis=1) == np.arange(STATES)).all()
    assert (episode.map.states <= 14).all()
    assert len({tuple(symbol_s) for symbol_s in episode.symbol_s}) == 400


def test_a_uniform_node_and_then_a_uniform_heading():
    """So a dead end's only state is as likely as all those of a junction together."""
    episode = drawn("quick_liege", 4000)
    tail_n = np.take_along_axis(episode.map.tail_s, episode.start[:, None], 1)[:, 0]
    assert abs((tail_n / (episode.map.nodes - 1)).mean() - 1 / 2) < 0.03
    first_n = np.array([(tail_s == tail).argmax() for tail_s, tail in zip(episode.map.tail_s, tail_n, strict=True)])
    degree_n = np.array(
        [
            (tail_s[:states] == tail).sum()
            for tail_s, tail, states in zip(episode.map.tail_s, tail_n, episode.map.states, strict=True)
        ]
    )
    three = degree_n == 3
    turn_n = (episode.start - first_n)[three]
    assert set(turn_n) == {0, 1, 2}
    assert np.abs(np.bincount(turn_n) / three.sum() - 1 / 3).max() < 4 * np.sqrt(2 / 9 / three.sum())


def test_goals_are_uniform_over_all_other_states():
    at = from_description(LINE).map
    program = jax.jit(jax.vmap(lambda key, state: draw_goal(key, at, state), (0, None)))
    for state in range(4):
        goal_n = np.asarray(program(jax.random.split(jax.random.key(state), 1200), state))
        counts = np.bincount(goal_n, minlength=4)
        assert counts[state] == 0
        assert np.abs(np.delete(counts, state) / 1200 - 1 / 3).max() < 0.06
    episode = drawn("test", 500)
    assert (episode.start != episode.goal).all()


@pytest.mark.parametrize("name", ["train", "quick_test"])
def test_words_and_back(name):
    episodes = drawn(name, 5)
    for row in range(5):
        one = jax.tree.map(lambda array, row=row: array[row], episodes)
        again = jax.device_get(from_description(to_description(one)))
        jax.tree.map(np.testing.assert_array_equal, again, one)
        assert jax.tree.map(lambda a: a.dtype, again) == jax.tree.map(lambda a: a.dtype, one)


def test_what_is_left_out_is_the_published_one():
    told = to_description(jax.device_get(from_description(LINE)))
    assert told == LINE | {"symbols": list(range(60)), "steps": 200}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"nodes": "here"}, "nodes must be 2 to 31 places"),
        ({"nodes": [[0, 0]]}, "nodes must be 2 to 31 places"),
        ({"nodes": [[0, 0], [1, float("nan")], [2, 2]]}, "nodes must be 2 to 31 places"),
        ({"nodes": [[0, 0], [0, 0.01], [2, 2]]}, "at least a decimetre apart"),
        ({"streets": []}, "streets must be pairs of two of the 3 nodes"),
        ({"streets": [[0, 0], [1, 2]]}, "streets must be pairs of two of the 3 nodes"),
        ({"streets": [[0, 3]]}, "streets must be pairs of two of the 3 nodes"),
        ({"streets": [[0, 1]]}, "from node 0 there is no way to node 2"),
        ({"start": [0, 2]}, "start must be the two ends of a street"),
        ({"goal": 3}, "goal must be the two ends of a street"),
        ({"goal": [0, 1]}, "goal must be another state than start"),
        ({"city": "paris"}, "city must be one of auckland"),
        ({"symbols": [0] * 60}, "symbols must be an order of the numbers 0 to 59"),
        ({"steps": 0.5}, "steps must be a whole number"),
        ({"time": 3}, "an episode is described by nodes, streets, start, goal and may have city"),
    ],
)
def test_bad_descriptions_are_refused_in_one_sentence(change, words):
    with pytest.raises(ValueError, match=words):
        from_description(LINE | change)


def test_more_streets_than_symbols_are_refused():
    nodes = [[x, x * x] for x in range(9)]
    streets = [[a, b] for a in range(9) for b in range(a)]
    with pytest.raises(ValueError, match="at most 30 streets, but there are 36"):
        from_description(LINE | {"nodes": nodes, "streets": streets})
    nothing: Any = 7
    with pytest.raises(ValueError, match="but was given 7"):
        from_description(nothing)
