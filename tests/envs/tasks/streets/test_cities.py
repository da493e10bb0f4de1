"""The file of seven cities, and bearings."""

import zipfile
from math import pi

import numpy as np
import pytest

from hcam.envs.tasks.streets import cities
from hcam.envs.tasks.streets.cities import CITIES, FILE, TEST_CITIES, TITLES, TRAIN_CITIES, bearing, load


def test_bearings_are_clockwise_from_north_and_south_is_pi():
    ways = np.array([[0, 1], [1, 1], [1, 0], [0, -1], [-1, -1], [-1, 0], [-1, 1]])
    np.testing.assert_allclose(bearing(ways), np.array([0, 1, 2, 4, -3, -2, -1]) * pi / 4)
    assert bearing(np.array([-0.0, -1.0])) == pi


@pytest.mark.parametrize(
    ("name", "nodes", "streets"), [("auckland", 6519, 8199), ("liege", 9555, 12297), ("aleppo", 26372, 39333)]
)
def test_cities_are_whole(name, nodes, streets):
    city = load(name)
    assert len(city.node_n2) == nodes
    assert city.degree_n.sum() == 2 * streets
    assert city.degree_n.min() >= 1
    assert city.node_n2.min(0).tolist() == [0, 0]
    assert 10_000 < city.node_n2.max() / 10 < 100_000  # tens of kilometres
    reached, queue = {0}, [0]
    while queue:
        new = {int(n) for n in city.way_nd[queue.pop()] if n >= 0} - reached
        reached |= new
        queue += new
    assert len(reached) == nodes


@pytest.mark.parametrize("name", CITIES)
def test_ways_are_by_rising_bearing_go_both_ways_and_none_twice(name):
    city = load(name)
    tail_w, place_w = np.nonzero(city.way_nd >= 0)
    head_w = city.way_nd[tail_w, place_w]
    bearing_w = bearing(city.node_n2[head_w] - city.node_n2[tail_w])
    same_w = tail_w[1:] == tail_w[:-1]
    assert (np.diff(bearing_w)[same_w] >= 0).all()
    ways = set(zip(tail_w.tolist(), head_w.tolist(), strict=True))
    assert len(ways) == len(tail_w)
    assert ways == {(b, a) for a, b in ways}
    assert not any(a == b for a, b in ways)


def test_splits_are_disjoint_and_all_have_titles():
    assert not set(TRAIN_CITIES) & set(TEST_CITIES)
    assert set(TITLES) == set(CITIES)


def test_the_file_ships_its_licence_and_no_code():
    """Arrays alone; a pickle inside would be refused by `load`, which allows none."""
    with zipfile.ZipFile(FILE) as archive:
        assert set(archive.namelist()) == {f"{c}_{part}.npy" for c in CITIES for part in ("node", "street")}
    text = cities.FILE.with_name("cities.LICENSE.txt").read_text(encoding="utf-8")
    assert "OpenStreetMap contributors" in text
    assert "Open Database License" in text
