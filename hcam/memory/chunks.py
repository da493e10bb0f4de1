"""Chunks as slices of a ring: where their rows are, which ones an unroll completes, and their summaries."""

import jax
import jax.numpy as jnp

from . import ring
from .layers import to_float32
from .types import Array


def summarise(content_mcd: Array) -> Array:
    """A chunk's summary is its mean (section 2: "we average-pool across the chunk")."""
    return to_float32(content_mcd).mean(-2).astype(content_mcd.dtype)


def rows_of(number: Array, chunk: int, stride: int, rows: int) -> Array:
    """The rows of chunk `number` in a ring of `rows` rows: [...] -> [..., C]."""
    step = jax.lax.broadcasted_iota(jnp.int32, (*number.shape, chunk), number.ndim)
    return (number[..., None] * stride + step) % rows


def stored(row_rd: Array, number_m: Array, chunk: int, stride: int) -> Array:
    """The chunks with these numbers, one per slot, [M, C, D].

    Without overlap they are the ring itself, cut into pieces: then nothing is copied.
    """
    if stride == chunk and len(row_rd) == len(number_m) * chunk:
        return row_rd.reshape(len(number_m), chunk, -1)
    return row_rd[rows_of(number_m, chunk, stride, len(row_rd))]


def completed(row_rd: Array, x_td: Array, clock: Array, end_u: Array, chunk: int) -> Array:
    """The chunks that end at the indices `end_u` of an unroll, [U, C, D]; they may begin in the ring."""
    recent_jd = jnp.concatenate([ring.tail(row_rd, clock, chunk - 1), x_td.astype(row_rd.dtype)])
    index_uc = jnp.minimum(end_u[:, None] + ring.count(chunk)[None, :], recent_jd.shape[0] - 1)
    return recent_jd[index_uc]


def update_summaries(summary_md: Array, new_summary_ud: Array, start_t: Array, chunk: int, stride: int) -> Array:
    """The summaries after an unroll: each slot has its latest chunk's, from this unroll if that chunk ended in it."""
    steps, slots = len(start_t), len(summary_md)
    clock = steps - start_t[-1]
    latest_m = ring.latest(ring.complete(clock, chunk, stride) - 1, slots)
    end_m = latest_m * stride + chunk - 1 + start_t[-1]
    fresh_md = new_summary_ud[jnp.clip(end_m, 0, steps - 1) // stride]
    return jnp.where((end_m >= 0)[:, None], fresh_md, summary_md)
