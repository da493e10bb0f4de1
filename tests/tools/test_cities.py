"""The tool that made cities.npz: what it does to a network, by hand."""

import numpy as np

from tools.cities import FOLDERS, city, connected, simplified


def test_places_with_two_streets_are_walked_through():
    """0 - 1 - 2 - 3 is one street from 0 to 3, which has two more."""
    links = simplified(np.array([[0, 1], [1, 2], [3, 2], [3, 4], [3, 5]]))
    assert links.tolist() == [[0, 3], [3, 4], [3, 5]]


def test_parallel_streets_become_one_and_loops_none():
    """From 0 to 3 by 1, by 2 and straight; a loop at 3 by 5 and 6; a dead end at 4."""
    links = simplified(np.array([[0, 1], [1, 3], [0, 2], [2, 3], [0, 3], [3, 5], [5, 6], [6, 3], [0, 4]]))
    assert links.tolist() == [[0, 3], [0, 4]]


def test_only_the_largest_part_is_kept():
    links = np.array([[9, 8], [8, 7], [1, 2], [7, 3], [3, 9]])
    assert connected(links).tolist() == [[9, 8], [8, 7], [7, 3], [3, 9]]


def test_a_city_is_in_decimetres_from_its_corner():
    """A star of three streets, and two lines far away that are not connected with it."""
    middle = [1000.04, 2000.0]
    ends = [[middle, [1010.0, 2000.0]], [[1000.0, 2020.0], middle], [middle, [990.0, 1990.0]]]
    made = city(np.array([*ends, [[0.0, 0.0], [1.0, 1.0]]]))
    assert made["node"].tolist() == [[0, 0], [100, 100], [100, 300], [200, 100]]
    assert sorted(map(sorted, made["street"].tolist())) == [[0, 1], [1, 2], [1, 3]]


def test_every_city_has_a_folder():
    from hcam.envs.tasks.streets.cities import CITIES

    assert tuple(FOLDERS) == CITIES
