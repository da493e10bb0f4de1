"""Seven cities: intersections and the streets between them, from OpenStreetMap, read from the file beside this one.

(c) OpenStreetMap contributors, under the Open Database License: cities.LICENSE.txt. tools/cities.py makes the file.
"""

from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FILE = Path(__file__).with_name("cities.npz")

TRAIN_CITIES = ("auckland", "salt_lake_city", "liege", "bucaramanga", "wuhan")
TEST_CITIES = ("douala", "aleppo")
CITIES = (*TRAIN_CITIES, *TEST_CITIES)
TITLES = {
    "auckland": "Auckland",
    "salt_lake_city": "Salt Lake City",
    "liege": "Liège",
    "bucaramanga": "Bucaramanga",
    "wuhan": "Wuhan",
    "douala": "Douala",
    "aleppo": "Aleppo",
}

Ints = NDArray[np.int64]


class City(NamedTuple):
    """A graph whose nodes are intersections and dead ends."""

    node_n2: Ints  # decimetres east and north of the south-western corner
    way_nd: Ints  # the neighbours of each node, by rising bearing; -1 where there are no more

    @property
    def degree_n(self) -> Ints:
        return np.asarray((self.way_nd >= 0).sum(1))


def bearing(offset_n2: NDArray[np.integer]) -> NDArray[np.float64]:
    """The compass bearing of a way, from metres east and north: radians in (-pi, pi], clockwise from north."""
    east_n, north_n = np.moveaxis(np.asarray(offset_n2, np.float64), -1, 0)
    return np.asarray(
        np.arctan2(east_n + 0.0, north_n)
    )  # + 0.0: south is pi, never -pi, which a negative zero would give


@cache
def load(name: str) -> City:
    with np.load(FILE, allow_pickle=False) as arrays:
        node_n2, street_e2 = (arrays[f"{name}_{part}"].astype(np.int64) for part in ("node", "street"))
    return city(node_n2, street_e2)


def city(node_n2: Ints, street_e2: Ints) -> City:
    """A city from its nodes and streets. Streets of equal bearing are in the order of the nodes they lead to."""
    way_w2 = np.concatenate([street_e2, street_e2[:, ::-1]])
    tail_w, head_w = way_w2.T
    way_w2 = way_w2[np.lexsort((head_w, bearing(node_n2[head_w] - node_n2[tail_w]), tail_w))]
    degree_n = np.bincount(tail_w, minlength=len(node_n2))
    place_w = np.arange(len(way_w2)) - np.repeat(np.cumsum(degree_n) - degree_n, degree_n)
    way_nd = np.full((len(node_n2), degree_n.max()), -1, np.int64)
    way_nd[way_w2[:, 0], place_w] = way_w2[:, 1]
    return City(node_n2, way_nd)
