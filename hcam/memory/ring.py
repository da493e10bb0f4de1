"""The arithmetic of episode time, rings and chunks. Everything that a memory masks is decided here.

A layer's memory is a ring of rows, and the row of a step is its *episode time* modulo the ring's size. A reset sets
the clock to zero and clears nothing: no step asks for a time before the start of its episode.

Inside an unroll, steps are counted from its first one: step i has index i, and rows stored before it have negative
indices, -1 being the newest. An episode is identified by the index at which it starts (negative for the one that the
state brings along). Then one rule covers stored and new rows, within and across episodes: step i may see index j only
if start_i <= j <= i.
"""

import jax
import jax.numpy as jnp

from .types import Array


def count(size: int) -> Array:
    """0, 1, ... size - 1 as int32, also if JAX runs with 64 bits: the clock keeps its dtype."""
    return jnp.arange(size, dtype=jnp.int32)


def latest(newest: Array, size: int) -> Array:
    """For each row of a ring, the latest number up to `newest` that is stored there; negative: none yet."""
    return newest - (newest - count(size)) % size


def complete(clock: Array, chunk: int, stride: int) -> Array:
    """How many chunks `clock` steps of an episode have completed; chunk n holds times [n stride, n stride + chunk)."""
    return jnp.maximum(0, (clock - chunk) // stride + 1)


def episode_starts(first_t: Array, clock: Array) -> Array:
    """The index at which each step's episode starts."""
    index_t = count(first_t.shape[0])
    return jax.lax.cummax(jnp.where(first_t, index_t, -clock))


def tail(row_rd: Array, clock: Array, length: int) -> Array:
    """The last `length` stored rows, oldest first. The caller must mask rows from before the episode."""
    return row_rd[(clock - length + count(length)) % row_rd.shape[0]]


def put(row: Array, number: Array, x: Array, wanted: Array | None = None) -> Array:
    """The ring with one row replaced, if `wanted`; in place if the caller donates the ring.

    The second index is out of range and is dropped. It keeps XLA from fusing a write of one row into the reads that
    follow, for which it would copy the whole ring: acting would slow down with the length of the past.
    """
    size = row.shape[0]
    outside = jnp.full_like(number, size)
    index = jnp.stack([number % size if wanted is None else jnp.where(wanted, number % size, outside), outside])
    return row.at[index].set(jnp.stack([x, x]), mode="drop")


def write(row_rd: Array, x_td: Array, clock: Array) -> Array:
    """The ring after an unroll whose last step leaves the clock at `clock`; the newest rows of a long unroll remain."""
    size, steps = row_rd.shape[0], x_td.shape[0]
    index_r = steps - clock + latest(clock - 1, size)  # the index in the unroll of each row's step; negative: before it
    fresh_rd = x_td.astype(row_rd.dtype)[jnp.clip(index_r, 0, steps - 1)]
    return jnp.where((index_r >= 0)[:, None], fresh_rd, row_rd)


def chunk_ends(time_t: Array, chunk: int, stride: int) -> Array:
    """The index at which each chunk that this unroll completes ends [U]; T where there is none.

    Two ends are at least one stride apart, in one episode or across a reset, so every block of `stride` steps holds at
    most one: U = ceil(T / stride) slots suffice, however many episodes the unroll holds.
    """
    steps = time_t.shape[0]
    ends_t = (time_t + 1 >= chunk) & ((time_t + 1 - chunk) % stride == 0)
    ends_us = jnp.pad(ends_t, (0, -steps % stride)).reshape(-1, stride)
    index_u = count(ends_us.shape[0]) * stride + jnp.argmax(ends_us, axis=-1).astype(jnp.int32)
    return jnp.where(ends_us.any(-1), index_u, steps)


def readable_chunks(end_m: Array, start_t: Array, chunk: int, stride: int, slots: int) -> tuple[Array, Array]:
    """Which chunks each step may recall, and their numbers in that step's episode, both [T, M].

    A chunk is recallable from its completion until `slots` newer chunks are complete: then it is forgotten, by design.
    """
    index_t = count(start_t.shape[0])
    begin_tm = (end_m - chunk + 1)[None, :] - start_t[:, None]  # in the episode time of the step that recalls
    number_tm = begin_tm // stride
    newest_t = complete(index_t - start_t, chunk, stride)
    kept_tm = number_tm >= (newest_t - slots)[:, None]
    return (begin_tm >= 0) & kept_tm & (end_m[None, :] < index_t[:, None]), number_tm
