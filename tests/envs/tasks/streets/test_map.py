"""The map for people: what is drawn where."""

from typing import Any

import jax
import numpy as np

from hcam.envs.tasks.streets import map as maps
from hcam.envs.tasks.streets.episodes import from_description

# West to east: 0, 1, 2. The states are, by node and bearing, 0: 0 -> 1, 1: 1 -> 0, 2: 1 -> 2, 3: 2 -> 1.
LINE: Any = {"nodes": [[0, 0], [100, 0], [200, 0]], "streets": [[0, 1], [1, 2]], "start": [0, 1], "goal": [2, 1]}
AT = jax.device_get(from_description(LINE).map)


def colors(picture):
    return {tuple(rgb) for rgb in picture.reshape(-1, 3).tolist()}


def at(picture, x, y=maps.SIDE // 2):
    return tuple(picture[y, x].tolist())


def test_north_is_up_and_all_nodes_are_inside():
    places = maps.pixels(np.array([[0, 0], [0, 500], [1000, 0]]))
    assert places[1, 1] < places[0, 1]
    assert places[2, 0] > places[0, 0]
    assert places.min() >= maps.MARGIN - 1e-9
    assert places.max() <= maps.SIDE - maps.MARGIN + 1e-9


def test_first_there_are_streets_an_agent_and_a_goal():
    picture = maps.draw(AT, [(0, 3)])
    assert picture.dtype == np.uint8
    assert at(picture, maps.MARGIN) == maps.AGENT
    assert at(picture, maps.SIDE - maps.MARGIN) == maps.GOAL
    assert at(picture, 100) == maps.STREET
    assert maps.WAY not in colors(picture)
    assert maps.FOUND not in colors(picture)


def test_streets_that_were_walked_are_blue_and_turning_walks_none():
    assert maps.walked(AT, [0, 2, 1, 2]) == {0}
    picture = maps.draw(AT, [(0, 3), (2, 3)])
    assert at(picture, 100) == maps.WAY
    assert at(picture, 220) == maps.STREET
    assert at(picture, 160) == maps.AGENT


def test_goals_that_were_collected_are_green():
    walk = [(2, 3), (3, 3), (3, 0), (1, 0)]
    assert maps.collected(walk) == {3}
    picture = maps.draw(AT, walk)
    assert maps.FOUND in colors(picture)
    assert at(picture, maps.MARGIN) == maps.GOAL


def test_views_stand_below_the_map_and_fit():
    picture = maps.draw(AT, [(0, 3)])
    for side in (8, 84, 200):
        both = maps.beside(picture, np.full((side, 2 * side, 3), 7, np.uint8))
        assert both.shape[1] == maps.SIDE
        assert (both[: maps.SIDE] == picture).all()
        assert (both[maps.SIDE :] == 7).any()
