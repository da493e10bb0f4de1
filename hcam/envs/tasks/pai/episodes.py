"""The episodes of paired associative inference: which items form chains, how pairs are ordered, what is asked.

Axis letters: N chains, L letters, S = N L items, R pairs (rows of the memory).
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hcam.envs.tasks.pai.levels import LETTERS, LONGEST, SHORTEST, LevelParams, Pools, queries
from hcam.envs.values import is_whole


class Episode(NamedTuple):
    """What is drawn once per episode. Letters beyond `length` and rows beyond the last pair are never shown."""

    item_nl: jax.Array  # int32, numbers of items
    pair_r: jax.Array  # int32, the pair in each row: chain * (L - 1) + its first letter
    length: jax.Array  # int32, letters of a chain
    cue: jax.Array  # int32, a letter
    match: jax.Array  # int32, a later letter of the same chain
    chain: jax.Array  # int32, of cue and match
    lure: jax.Array  # int32, another chain: its item at the letter of the match is the lure
    answer: jax.Array  # int32, which of the two options is the match


def draw(key: jax.Array, level: LevelParams, sequences: int, longest: int) -> Episode:
    """Items without replacement, pairs in random order, a query by its weight about a uniform chain."""
    key_item, key_row, key_query, key_chain = jax.random.split(key, 4)
    pair_r = jnp.arange(sequences * (longest - 1), dtype=jnp.int32)
    known_r = pair_r % (longest - 1) < level.length - 1
    query = jax.random.categorical(key_query, jnp.log(level.weight_x)).astype(jnp.int32)
    chain, away, answer = jax.random.randint(key_chain, (3,), 0, jnp.array([sequences, sequences - 1, 2]))
    return Episode(
        draw_items(key_item, level.first, level.size, sequences * longest).reshape(sequences, longest),
        shuffled(key_row, known_r),
        level.length,
        query // LONGEST,
        query % LONGEST,
        chain.astype(jnp.int32),
        ((chain + 1 + away) % sequences).astype(jnp.int32),
        answer.astype(jnp.int32),
    )


def draw_items(key: jax.Array, first: jax.Array, count: jax.Array, items: int) -> jax.Array:
    """Different numbers from `first` on, int32 [S]: each from a residue class of its own, in random order.

    All items of the pool are equally likely in every place, but for the up to S - 1 last ones, which are never drawn.
    """
    key_class, key_number = jax.random.split(key)
    class_s = shuffled(key_class, jnp.ones(items, bool))
    number_s = jax.random.randint(key_number, (items,), 0, count // items)
    return (first + number_s * items + class_s).astype(jnp.int32)


def shuffled(key: jax.Array, first_n: jax.Array) -> jax.Array:
    """Numbers from 0 in random order, int32 [N]; those for which `first_n` is true come before all others.

    Ranks by counting, not by sorting: XLA sorts slowly. The lowest bits are the number itself: no two are equal.
    """
    number_n = jnp.arange(first_n.size, dtype=jnp.uint32)
    drawn_n = (jax.random.bits(key, first_n.shape, jnp.uint32) >> 8 << 7) | number_n
    drawn_n = jnp.where(first_n, drawn_n, drawn_n | jnp.uint32(1 << 31))
    rank_n = (drawn_n[None, :] < drawn_n[:, None]).sum(axis=1, dtype=jnp.int32)
    placed_nn = rank_n[None, :] == number_n.astype(jnp.int32)[:, None]
    return jnp.where(placed_nn, number_n.astype(jnp.int32)[None, :], 0).sum(1, dtype=jnp.int32)


def rows(episode: Episode) -> tuple[jax.Array, jax.Array]:
    """The places of both items of each row in `item_nl`, flat [R, 2], and how many rows there are."""
    sequences, longest = episode.item_nl.shape
    chain_r, letter_r = episode.pair_r // (longest - 1), episode.pair_r % (longest - 1)
    place_r = chain_r * longest + letter_r
    return jnp.stack([place_r, place_r + 1], -1), sequences * (episode.length - 1)


def asked(episode: Episode) -> jax.Array:
    """The places of the cue and of the two options in `item_nl`, flat [3]."""
    longest = episode.item_nl.shape[1]
    cue, match, lure = (
        episode.chain * longest + episode.cue,
        episode.chain * longest + episode.match,
        episode.lure * longest + episode.match,
    )
    is_first = episode.answer == 0
    return jnp.stack([cue, jnp.where(is_first, match, lure), jnp.where(is_first, lure, match)])


# Episodes in words ----------------------------------------------------------------------------------------------------

_NEEDED, _OPTIONAL = ("sequences", "query", "chain", "lure"), ("answer", "pool", "rows")


def from_description(description: Mapping[str, Any], pools: Pools, sequences: int, longest: int) -> Episode:
    """The episode that `{"sequences": [[4, 8, 15], ...], "query": "ac", "chain": i, "lure": j}` describes.

    Items are numbered from 0 in their `pool` (train, if left out). `answer` is the place of the match among the options
    (0), and `rows` the order of the pairs, as [chain, letter] (chain by chain).
    """
    if not isinstance(description, Mapping) or not set(_NEEDED) <= set(description) <= {*_NEEDED, *_OPTIONAL}:
        found = ", ".join(map(str, description)) if isinstance(description, Mapping) else repr(description)
        raise ValueError(
            f"an episode is described by {', '.join(_NEEDED)} and may have {', '.join(_OPTIONAL)}, but was given "
            f"{found}."
        )
    pool = description.get("pool", "train")
    if pool not in pools:
        raise ValueError(f"pool must be one of {', '.join(pools)}, but is {pool!r}.")
    items = _items(description["sequences"], pools[pool][1], sequences, longest)
    length, query = len(items[0]), description["query"]
    if query not in queries(length):
        raise ValueError(f"query must be one of {', '.join(queries(length))}, but is {query!r}.")
    chain, lure, answer = description["chain"], description["lure"], description.get("answer", 0)
    for name, value, most in (("chain", chain, sequences - 1), ("lure", lure, sequences - 1), ("answer", answer, 1)):
        if not is_whole(value, 0, most):
            raise ValueError(f"{name} must be a whole number from 0 to {most}, but is {value!r}.")
    if chain == lure:
        raise ValueError(f"the lure must be of another chain than the match, but both are {chain}.")
    item_nl = np.zeros((sequences, longest), np.int32)
    item_nl[:, :length] = np.asarray(items) + pools[pool][0]
    pair_r = np.zeros(sequences * (longest - 1), np.int32)
    order = _rows(description.get("rows"), sequences, length)
    pair_r[: len(order)] = [row[0] * (longest - 1) + LETTERS.index(row[1]) for row in order]
    letters = [LETTERS.index(letter) for letter in query]
    numbers = (length, *letters, chain, lure, answer)
    return Episode(jnp.asarray(item_nl), jnp.asarray(pair_r), *(jnp.int32(number) for number in numbers))


def to_description(episode: Episode, pools: Pools) -> dict[str, Any]:
    """What `from_description` takes, for an episode of NumPy arrays."""
    length, longest = int(episode.length), episode.item_nl.shape[1]
    least = int(episode.item_nl[0, 0])
    pool = next(name for name, (first, count) in pools.items() if first <= least < first + count)
    known = len(episode.item_nl) * (length - 1)
    return {
        "sequences": (episode.item_nl[:, :length] - pools[pool][0]).tolist(),
        "query": LETTERS[int(episode.cue)] + LETTERS[int(episode.match)],
        "chain": int(episode.chain),
        "lure": int(episode.lure),
        "answer": int(episode.answer),
        "pool": pool,
        "rows": [[int(pair) // (longest - 1), LETTERS[int(pair) % (longest - 1)]] for pair in episode.pair_r[:known]],
    }


def _items(chains: Any, count: int, sequences: int, longest: int) -> list[list[int]]:
    is_table = _is_list(chains) and len(chains) == sequences and all(_is_list(chain) for chain in chains)
    lengths = {len(chain) for chain in chains} if is_table else set()
    if len(lengths) != 1 or not SHORTEST <= max(lengths) <= longest:
        raise ValueError(
            f"sequences must be {sequences} chains of one length from {SHORTEST} to {longest}, but are {chains!r}."
        )
    flat = [item for chain in chains for item in chain]
    if wrong := [item for item in flat if not is_whole(item, 0, count - 1)]:
        raise ValueError(f"items must be whole numbers from 0 to {count - 1:,}, but {wrong[0]!r} is none.")
    if len(set(flat)) < len(flat):
        raise ValueError("no item may occur twice in an episode: choose different numbers.")
    return [list(chain) for chain in chains]


def _rows(order: Any, sequences: int, length: int) -> list[tuple[int, str]]:
    every = [(chain, letter) for chain in range(sequences) for letter in LETTERS[: length - 1]]
    if order is None:
        return every
    found = [tuple(row) for row in order] if _is_list(order) and all(_is_list(row) for row in order) else []
    if len(found) != len(every) or set(found) != set(every):
        raise ValueError(
            f"rows must be all {len(every)} pairs in some order, each [chain, first letter] such as [0, 'a'], but are "
            f"{order!r}."
        )
    return found


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)
