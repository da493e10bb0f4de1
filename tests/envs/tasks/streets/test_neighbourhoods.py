"""Neighbourhoods against a plain Python version of the released sampling, and statistics of the real cities."""

from collections import deque

import numpy as np
import pytest

from hcam.envs.tasks.streets import cities, neighbourhoods
from hcam.envs.tasks.streets.cities import CITIES, bearing, load
from hcam.envs.tasks.streets.neighbourhoods import STATES, centres, of_city, sample


def breadth_first(city, centre, junctions):
    """The same, one neighbourhood at a time: nodes in the order in which they were met, and streets between them."""
    streets: set[frozenset[int]] = set()
    nodes, queue = [centre], deque([centre])
    while sum(sum(node in street for street in streets) > 2 for node in nodes) < junctions:
        tail = queue.popleft()
        for head in (int(way) for way in city.way_nd[tail] if way >= 0):
            if head not in nodes:
                nodes.append(head)
                queue.append(head)
            streets.add(frozenset((tail, head)))
    return nodes, streets


@pytest.mark.parametrize("junctions", [2, 5])
@pytest.mark.parametrize("name", ["bucaramanga", "wuhan"])
def test_all_at_once_is_one_at_a_time(name, junctions):
    city = load(name)
    centre_r = centres(city)[::300]
    made = sample(city, centre_r, junctions)
    for row, centre in enumerate(centre_r):
        nodes, streets = breadth_first(city, centre, junctions)
        assert made.nodes_r[row] == len(nodes)
        assert (made.node_rn2[row, : len(nodes)] == city.node_n2[nodes]).all()
        count = made.states_r[row]
        found = [
            (nodes[a], nodes[b]) for a, b in zip(made.tail_rs[row, :count], made.head_rs[row, :count], strict=True)
        ]
        assert len(found) == len(set(found)) == 2 * len(streets)
        assert {frozenset(way) for way in found} == streets


def test_states_are_sorted_and_forward_is_the_closest_bearing():
    made = of_city("liege", 5, 30)
    for row in range(30):
        count = made.states_r[row]
        tail_s, head_s, forward_s = (array[row, :count] for array in (made.tail_rs, made.head_rs, made.forward_rs))
        bearing_s = bearing(made.node_rn2[row, head_s] - made.node_rn2[row, tail_s])
        keys = list(zip(tail_s.tolist(), bearing_s.tolist(), strict=True))
        assert keys == sorted(keys)
        for state in range(count):
            there = [other for other in range(count) if tail_s[other] == head_s[state]]
            away = [abs(bearing_s[other] - bearing_s[state]) for other in there]
            assert forward_s[state] == there[int(np.argmin(away))]


def test_a_whole_lattice_gives_13_nodes_and_16_streets():
    """Around a crossing with all its neighbours: as measured on the released code, the most that a lattice gives."""
    side = 9
    xy = np.array([(x, y) for x in range(side) for y in range(side)])
    number = {tuple(place): index for index, place in enumerate(xy.tolist())}
    streets = [
        (number[x, y], number[x + dx, y + dy])
        for x, y in number
        for dx, dy in ((1, 0), (0, 1))
        if (x + dx, y + dy) in number
    ]
    made = sample(cities.city(xy * 1000, np.array(streets)), np.array([number[4, 4]]), 5)
    assert (made.nodes_r[0], made.states_r[0]) == (13, 32)


def test_what_an_observation_cannot_tell_apart_is_left_out():
    """A junction of 31 streets has 62 states, two more than symbols."""
    turn = 2 * np.pi * np.arange(31) / 31
    star = np.concatenate([[[0, 0]], np.round(1000 * np.stack([np.cos(turn), np.sin(turn)], -1)).astype(int)])
    for streets, left in ((31, 0), (30, 1)):
        city = cities.city(star[: streets + 1], np.array([(0, n) for n in range(1, streets + 1)]))
        assert len(sample(city, np.array([0]), 1).states_r) == left


@pytest.mark.parametrize("name", CITIES)
def test_real_neighbourhoods_have_the_size_of_the_released_ones(name):
    """On a lattice the release has 9 to 13 nodes and 22 to 32 states; real streets are less regular."""
    made = of_city(name, 5, 256)
    assert 7 <= made.nodes_r.min() <= made.nodes_r.max() <= 19
    assert 18 <= made.states_r.min() <= made.states_r.max() <= 40 < STATES
    assert 22 < made.states_r.mean() < 26
    degree_rn = np.stack([(made.tail_rs == n).sum(1) for n in range(1, 19)], 1)  # not 0, which fills up
    assert (degree_rn > 2).sum(1).max() <= 6
    assert len({tuple(place) for place in made.node_rn2[:, 0].tolist()}) == 256  # all around different junctions


def test_they_are_the_same_every_time():
    again = neighbourhoods.of_city.__wrapped__("douala", 2, 16)
    assert all((a == b).all() for a, b in zip(of_city("douala", 2, 16), again, strict=True))
