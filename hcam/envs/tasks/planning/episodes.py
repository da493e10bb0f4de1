"""The episodes of the Memory&Planning Game: which symbol each cell shows, where the agent starts, and its first goal.

A cell has two coordinates and is numbered row by row: (0, 0), (0, 1), ... The number of the symbols (axis N) is that of
the environment, and a torus with fewer cells leaves some of them out.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from hcam.envs.tasks.planning.levels import STEPS, Level, Rules
from hcam.envs.values import is_whole


class Episode(NamedTuple):
    """What is drawn once per episode."""

    symbol_n: jax.Array  # int32, the symbol of each cell; a permutation
    start: jax.Array  # int32, a cell
    goal: jax.Array  # int32, the first one
    rules: Rules


def draw(key: jax.Array, rules: Rules, symbols: int) -> Episode:
    key_symbols, key_start, key_goal = jax.random.split(key, 3)
    start = jax.random.randint(key_start, (), 0, rules.side**2, jnp.int32)
    return Episode(draw_symbols(key_symbols, symbols), start, draw_goal(key_goal, start, rules), rules)


def draw_goal(key: jax.Array, place: jax.Array, rules: Rules) -> jax.Array:
    """A cell that is not this one, each as likely as any other."""
    other = jax.random.randint(key, (), 0, rules.side**2 - 1, jnp.int32)
    return other + (other >= place).astype(jnp.int32)


def draw_symbols(key: jax.Array, symbols: int) -> jax.Array:
    """A random permutation: the rank of each of so many random numbers.

    Counting, not sorting: XLA sorts slowly, and an episode is drawn at every step in case the old one ends. The lowest
    bits are the index, so that no two numbers are equal.
    """
    number_n = (jax.random.bits(key, (symbols,)) >> 8 << 8) | jnp.arange(symbols, dtype=jnp.uint32)
    return (number_n[None, :] < number_n[:, None]).sum(axis=1, dtype=jnp.int32)


# Episodes in words ----------------------------------------------------------------------------------------------------

_NEEDED, _OPTIONAL = ("symbols", "start", "goal"), ("steps", "placed")


def from_description(description: Mapping[str, Any], symbols: int) -> Episode:
    """The episode that `{"symbols": [[...], ...], "start": [x, y], "goal": [x, y]}` describes.

    `symbols` has a row for each x and an entry for each y. The goals after the first are drawn from the keys of the
    steps that collect. `steps` and `placed` are those of `Level`, and the published ones where they are left out.
    """
    if not isinstance(description, Mapping) or not set(_NEEDED) <= set(description) <= {*_NEEDED, *_OPTIONAL}:
        found = ", ".join(map(str, description)) if isinstance(description, Mapping) else repr(description)
        raise ValueError(
            f"an episode is described by {', '.join(_NEEDED)} and may have {', '.join(_OPTIONAL)}, but was given "
            f"{found}."
        )
    rows = description["symbols"]
    level = Level(len(rows) if _is_list(rows) else 0, description.get("steps", STEPS), description.get("placed", False))
    shown = _checked_symbols(rows, level.side, symbols)
    start, goal = (_cell(description[name], name, level.side) for name in ("start", "goal"))
    if start == goal:
        raise ValueError(f"goal must be another cell than start, but both are {list(description['goal'])}.")
    rest = [symbol for symbol in range(symbols) if symbol not in shown]
    return Episode(jnp.array(shown + rest, jnp.int32), jnp.int32(start), jnp.int32(goal), level.rules())


def to_description(episode: Episode) -> dict[str, Any]:
    """What `from_description` takes, for an episode of NumPy arrays."""
    side = int(episode.rules.side)
    return {
        "symbols": episode.symbol_n[: side**2].reshape(side, side).tolist(),
        "start": list(divmod(int(episode.start), side)),
        "goal": list(divmod(int(episode.goal), side)),
        "steps": int(episode.rules.steps),
        "placed": bool(episode.rules.placed),
    }


def _checked_symbols(rows: Any, side: int, symbols: int) -> list[int]:
    shown = [symbol for row in rows for symbol in (row if _is_list(row) else [None])]
    fits = all(_is_list(row) and len(row) == side for row in rows) and all(is_whole(s, 0, symbols - 1) for s in shown)
    if not fits or len(set(shown)) < len(shown):
        raise ValueError(
            f"symbols must be {side} rows of {side} different numbers from 0 to {symbols - 1}, but are {rows!r}."
        )
    return [int(symbol) for symbol in shown if symbol is not None]


def _cell(value: Any, name: str, side: int) -> int:
    if not (_is_list(value) and len(value) == 2 and all(is_whole(part, 0, side - 1) for part in value)):
        raise ValueError(f"{name} must be a cell [x, y], each from 0 to {side - 1}, but is {value!r}.")
    return int(value[0]) * side + int(value[1])


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)
