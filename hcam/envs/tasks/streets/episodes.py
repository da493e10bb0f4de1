"""The episodes of One-Shot StreetLearn: a neighbourhood, where the agent starts, its first goal, and its symbols."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hcam.envs.tasks.streets import neighbourhoods
from hcam.envs.tasks.streets.cities import CITIES
from hcam.envs.tasks.streets.levels import STEPS, LevelParams, check_steps, draw_row, table
from hcam.envs.tasks.streets.neighbourhoods import NODES, STATES, Neighbourhoods
from hcam.envs.values import is_number, is_whole

NOWHERE = len(CITIES)  # the city of a neighbourhood that somebody made up
LARGEST = 10**5  # metres


class Map(NamedTuple):
    """A neighbourhood. A state is a directed street; states are sorted by tail, and then by bearing."""

    node_n2: jax.Array  # int32 [NODES, 2], decimetres east and north of the city's south-western corner
    tail_s: jax.Array  # uint8 [STATES], the node at which the agent stands
    head_s: jax.Array  # uint8 [STATES], the node that it faces
    forward_s: jax.Array  # uint8 [STATES], the state after walking forward
    nodes: jax.Array  # int32, how many there are
    states: jax.Array  # int32
    city: jax.Array  # int32


class Episode(NamedTuple):
    """What is drawn once per episode."""

    map: Map
    symbol_s: jax.Array  # uint8 [STATES], a permutation: the place of a state in a one-hot observation
    start: jax.Array  # int32, a state
    goal: jax.Array  # int32, the first of the goals
    steps: jax.Array  # int32, the episode's length


def draw(key: jax.Array, level: LevelParams, count: int) -> Episode:
    """A neighbourhood, symbols, a uniform node and a uniform heading at it, and a goal elsewhere."""
    key_row, key_symbols, key_node, key_heading, key_goal = jax.random.split(key, 5)
    city, row = draw_row(key_row, level, count)
    drawn = _map(jax.tree.map(lambda array: jnp.asarray(array)[row], table(count)), city)
    node = jax.random.randint(key_node, (), 0, drawn.nodes)
    first, degree = group(drawn, node)
    start = first + jax.random.randint(key_heading, (), 0, degree)
    return Episode(drawn, _symbols(key_symbols, level.symbols), start, draw_goal(key_goal, drawn, start), level.steps)


def draw_goal(key: jax.Array, at: Map, state: jax.Array) -> jax.Array:
    """Any state but this one, uniformly: int32."""
    other = jax.random.randint(key, (), 0, at.states - 1)
    return jnp.where(other >= state, other + 1, other)


def group(at: Map, node: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The first state at a node, and how many there are: int32."""
    here_s = (at.tail_s == node.astype(jnp.uint8)) & (jnp.arange(STATES) < at.states)
    return jnp.argmax(here_s).astype(jnp.int32), here_s.sum(dtype=jnp.int32)


def _map(row: Neighbourhoods, city: jax.Array) -> Map:
    """One neighbourhood, without the axis of rows, at full width."""
    node_n2, tail_s, head_s, forward_s, nodes, states = (jnp.asarray(array) for array in row)
    more = (0, STATES - tail_s.size)
    return Map(
        jnp.pad(node_n2, ((0, NODES - len(node_n2)), (0, 0))),
        jnp.pad(tail_s, more),
        jnp.pad(head_s, more),
        jnp.pad(forward_s, more),
        nodes.astype(jnp.int32),
        states.astype(jnp.int32),
        jnp.asarray(city, jnp.int32),
    )


def _symbols(key: jax.Array, known: jax.Array) -> jax.Array:
    """A random permutation of the symbols below `known`, and one of the others after them: ranks among all.

    Counting, not sorting: XLA sorts slowly, and an episode is drawn at every step in case the old one ends. The lowest
    bits are the index, so that no two are equal.
    """
    index_s = jnp.arange(STATES, dtype=jnp.uint32)
    number_s = (jax.random.bits(key, (STATES,)) >> 6 << 6) | index_s
    other_s = index_s >= known.astype(jnp.uint32)
    before_ss = (number_s[None, :] < number_s[:, None]) & (other_s[None, :] == other_s[:, None])
    return before_ss.sum(axis=1, dtype=jnp.uint8) + jnp.where(other_s, known, 0).astype(jnp.uint8)


# Episodes in words ----------------------------------------------------------------------------------------------------

_NEEDED, _OPTIONAL = ("nodes", "streets", "start", "goal"), ("city", "symbols", "steps")


def from_description(description: Mapping[str, Any]) -> Episode:
    """The episode that `{"nodes": [[x, y], ...], "streets": [[0, 1], ...], "start": [0, 1], "goal": [1, 2]}` describes.

    Nodes are in metres east and north, to the decimetre. Streets join two nodes by number. `start` and `goal` are
    states: the node at which one stands, and the node that one faces. Without `symbols`, the n-th state by node and
    bearing is symbol n. Without a `city`, the neighbourhood is in none.
    """
    if not isinstance(description, Mapping) or not set(_NEEDED) <= set(description) <= {*_NEEDED, *_OPTIONAL}:
        found = ", ".join(map(str, description)) if isinstance(description, Mapping) else repr(description)
        raise ValueError(
            f"an episode is described by {', '.join(_NEEDED)} and may have {', '.join(_OPTIONAL)}, but was given "
            f"{found}."
        )
    made = _built(description["nodes"], description["streets"])
    city, steps = description.get("city"), description.get("steps", STEPS)
    if city is not None and city not in CITIES:
        raise ValueError(f"city must be one of {', '.join(CITIES)}, or left out, but is {city!r}.")
    check_steps(steps)
    at = _map(made, jnp.int32(NOWHERE if city is None else CITIES.index(city)))
    start, goal = (_state(made, description[name], name) for name in ("start", "goal"))
    if start == goal:
        raise ValueError(f"goal must be another state than start, but both are {description['goal']!r}.")
    symbol_s = jnp.asarray(_checked_symbols(description.get("symbols", list(range(STATES)))))
    return Episode(at, symbol_s, jnp.int32(start), jnp.int32(goal), jnp.int32(steps))


def to_description(episode: Episode) -> dict[str, Any]:
    """What `from_description` takes, for an episode of NumPy arrays."""
    at = episode.map
    ways = [[int(at.tail_s[state]), int(at.head_s[state])] for state in range(int(at.states))]
    city = {} if at.city == NOWHERE else {"city": CITIES[int(at.city)]}
    return {
        **city,
        "nodes": [[int(x) / 10, int(y) / 10] for x, y in at.node_n2[: int(at.nodes)]],
        "streets": sorted(way for way in ways if way[0] < way[1]),
        "start": ways[int(episode.start)],
        "goal": ways[int(episode.goal)],
        "symbols": [int(symbol) for symbol in episode.symbol_s],
        "steps": int(episode.steps),
    }


def _built(nodes: Any, streets: Any) -> Neighbourhoods:
    """A single neighbourhood, without the axis of rows."""
    node_n2 = np.round(10 * np.array(_checked_nodes(nodes), np.float64)).astype(np.int32)
    link_nn = np.zeros((NODES, NODES), bool)
    for a, b in _checked_streets(streets, len(node_n2)):
        link_nn[a, b] = link_nn[b, a] = True
    reached = {0}
    for _ in range(len(node_n2)):
        reached |= {int(head) for tail in reached for head in np.flatnonzero(link_nn[tail])}
    if alone := set(range(len(node_n2))) - reached:
        raise ValueError(f"streets must connect all nodes, but from node 0 there is no way to node {min(alone)}.")
    if link_nn.sum() > STATES:
        raise ValueError(f"a neighbourhood has at most {STATES // 2} streets, but there are {link_nn.sum() // 2}.")
    node_rn2 = np.pad(node_n2, ((0, NODES - len(node_n2)), (0, 0)))[None]
    made = neighbourhoods.rules(node_rn2.astype(np.int64), link_nn[None])
    dtypes = (np.int32, *[np.uint8] * 5)
    return Neighbourhoods(*(array[0].astype(dtype) for array, dtype in zip(made, dtypes, strict=True)))


def _checked_nodes(nodes: Any) -> list[Any]:
    found = list(nodes) if _is_list(nodes) else []
    fits = [
        _is_list(node) and len(node) == 2 and all(is_number(x) and abs(x) < LARGEST for x in node) for node in found
    ]
    if not 2 <= len(found) <= NODES or not all(fits):
        raise ValueError(f"nodes must be 2 to {NODES} places [x, y] in metres, but are {nodes!r}.")
    if len({tuple(np.round(10 * np.array(node)).tolist()) for node in found}) < len(found):
        raise ValueError(f"nodes must be at least a decimetre apart, but two of {nodes!r} are the same place.")
    return found


def _checked_streets(streets: Any, nodes: int) -> list[Any]:
    found = list(streets) if _is_list(streets) else []
    fits = [
        _is_list(street) and len(street) == 2 and all(is_whole(n, 0, nodes - 1) for n in street) for street in found
    ]
    if not found or not all(fits) or any(street[0] == street[1] for street in found):
        raise ValueError(f"streets must be pairs of two of the {nodes} nodes, counted from 0, but are {streets!r}.")
    return found


def _state(made: Neighbourhoods, way: Any, name: str) -> int:
    ways = list(zip(made.tail_rs.tolist(), made.head_rs.tolist(), strict=True))[: int(made.states_r)]
    if not _is_list(way) or tuple(way) not in ways:
        raise ValueError(f"{name} must be the two ends of a street, where one stands and what one faces, not {way!r}.")
    return ways.index(tuple(way))


def _checked_symbols(symbols: Any) -> Any:
    if not _is_list(symbols) or sorted(symbols, key=repr) != sorted(range(STATES), key=repr):
        raise ValueError(f"symbols must be an order of the numbers 0 to {STATES - 1}, but are {symbols!r}.")
    return np.array(symbols, np.uint8)


def _is_place(value: Any) -> bool:
    return is_number(value) and abs(value) < LARGEST


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)
