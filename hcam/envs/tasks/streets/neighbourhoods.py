"""Neighbourhoods: small graphs around a junction of a city, sampled breadth first as in the release.

A state is a directed street: the agent stands at its tail and faces its head. States are sorted by tail and then by
bearing, so that turning is a step inside the group of a tail. Everything here runs once, on the host.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hcam.envs.tasks.streets import cities
from hcam.envs.tasks.streets.cities import City, Ints, bearing

STATES = 60  # the longest that a one-hot observation can tell apart
NODES = STATES // 2 + 1  # a connected graph with this many directed streets has no more

NONE = -1


class Neighbourhoods(NamedTuple):
    """R neighbourhoods; what a neighbourhood does not need of its row is 0."""

    node_rn2: Ints  # [R, NODES, 2], decimetres east and north
    tail_rs: Ints  # [R, STATES], numbers of nodes inside the neighbourhood
    head_rs: Ints
    forward_rs: Ints  # the state after walking forward
    nodes_r: Ints  # how many there are
    states_r: Ints


def centres(city: City) -> Ints:
    """The nodes around which there can be a neighbourhood: those of degree > 2."""
    return np.flatnonzero(city.degree_n > 2)


def sample(city: City, centre_r: Ints, junctions: int) -> Neighbourhoods:
    """The neighbourhoods around these nodes, all at once; those with too many streets for an observation are left out.

    Breadth first: each node that is taken from the queue gets all its streets, until at least `junctions` nodes of the
    neighbourhood have more than two.
    """
    rows, degree = len(centre_r), city.way_nd.shape[1]
    node_rn = np.full((rows, NODES + degree), NONE)  # the queue, which is also the list of nodes
    node_rn[:, 0], nodes_r = centre_r, np.ones(rows, np.int64)
    link_rnn = np.zeros((rows, NODES + degree, NODES + degree), bool)
    alive_r = np.ones(rows, bool)
    for taken in range(NODES):
        alive_r &= (nodes_r > taken) & (nodes_r <= NODES)
        enough_r = ((link_rnn.sum(2) > 2).sum(1) >= junctions) | (link_rnn.sum((1, 2)) > STATES)
        going = np.flatnonzero(alive_r & ~enough_r)
        if not going.size:
            break
        for way in range(degree):
            _add(node_rn, nodes_r, link_rnn, going, taken, city.way_nd[node_rn[going, taken], way])
    fits = np.flatnonzero((nodes_r <= NODES) & (link_rnn.sum((1, 2)) <= STATES))
    position_rn2 = np.where(node_rn[..., None] == NONE, 0, city.node_n2[node_rn])
    return rules(position_rn2[fits, :NODES], link_rnn[fits, :NODES, :NODES])


def _add(node_rn: Ints, nodes_r: Ints, link_rnn: NDArray[np.bool_], rows: Ints, taken: int, head_r: Ints) -> None:
    """Adds a street from the node that was taken, and the node at its other end where it is new."""
    rows, head_r = rows[head_r != NONE], head_r[head_r != NONE]
    known_rn = node_rn[rows] == head_r[:, None]
    place_r = np.where(known_rn.any(1), known_rn.argmax(1), nodes_r[rows])
    nodes_r[rows] += ~known_rn.any(1)
    node_rn[rows, place_r] = head_r
    link_rnn[rows, taken, place_r] = link_rnn[rows, place_r, taken] = True


def rules(node_rn2: Ints, link_rnn: NDArray[np.bool_]) -> Neighbourhoods:
    """Graphs as states, and what walking forward does.

    The new heading is the street whose bearing is closest to the one travelled, by the plain absolute difference.
    """
    rows = len(node_rn2)
    row_w, tail_w, head_w = np.nonzero(link_rnn)
    bearing_w = bearing(node_rn2[row_w, head_w] - node_rn2[row_w, tail_w])
    order = np.lexsort((head_w, bearing_w, tail_w, row_w))
    row_w, tail_w, head_w, bearing_w = row_w[order], tail_w[order], head_w[order], bearing_w[order]
    states_r = np.bincount(row_w, minlength=rows)
    place_w = np.arange(len(row_w)) - np.repeat(np.cumsum(states_r) - states_r, states_r)
    tail_rs, head_rs = (np.full((rows, STATES), NONE) for _ in range(2))
    bearing_rs = np.zeros((rows, STATES))
    tail_rs[row_w, place_w], head_rs[row_w, place_w], bearing_rs[row_w, place_w] = tail_w, head_w, bearing_w
    forward_rs = np.zeros((rows, STATES), np.int64)
    for state in range(int(states_r.max(initial=0))):
        away_rs = np.abs(bearing_rs - bearing_rs[:, state, None])
        forward_rs[:, state] = np.where(tail_rs == head_rs[:, state, None], away_rs, np.inf).argmin(1)
    there_rs = tail_rs != NONE
    nodes_r = link_rnn.any(2).sum(1)
    return Neighbourhoods(
        node_rn2,
        np.where(there_rs, tail_rs, 0),
        np.where(there_rs, head_rs, 0),
        np.where(there_rs, forward_rs, 0),
        nodes_r,
        states_r,
    )


@cache
def of_city(name: str, junctions: int, count: int) -> Neighbourhoods:
    """`count` neighbourhoods of a city, always the same ones: around different junctions as far as there are enough."""
    city = cities.load(name)
    centre_r = np.random.default_rng(0).permutation(centres(city))
    found = sample(city, centre_r[:count], junctions)
    chosen_r = np.arange(count) % len(found.states_r)
    return Neighbourhoods(*(array[chosen_r] for array in found))
