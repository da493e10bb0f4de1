"""Acting, one step of one environment: write a chunk's summary, and recall from chunks.

`window_step.py` comes before it in a layer. In plain JAX each of these copies the rows that it reads; the kernels read
them in place, once.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from .. import ring
from ..layers import broadcast_like, softmax, to_float32
from ..types import Array
from .common import call, padded_heads, product

# Summaries ------------------------------------------------------------------------------------------------------------


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def summarise(chunk: int, row_rd: Array, summary_md: Array, begin: Array, slot: Array, complete: Array) -> Array:
    """The summaries; if `complete`, row `slot` becomes the mean of the `chunk` ring rows that start at `begin`."""
    rows = row_rd.shape[0]

    def body(row: Any, begin: Any, slot: Any, complete: Any, summary: Any, out: Any) -> None:
        from jax.experimental import pallas as pl

        @pl.when(complete[0])
        def _() -> None:
            content_cd = row[(begin[0] + ring.count(chunk)) % rows, :]
            out[slot[0], :] = (to_float32(content_cd).sum(0) / chunk).astype(out.dtype)

    options: dict[str, Any] = {"out_shape": jax.typeof(summary_md), "input_output_aliases": {4: 0}}
    args = (row_rd, begin[None], slot[None], complete[None], summary_md)
    result: Array = call(body, "summarise_step", 0, warps=4, stages=1, **options)(*args)
    return result


def plain_summarise(chunk: int, row_rd: Array, summary_md: Array, begin: Array, slot: Array, complete: Array) -> Array:
    """`summarise` in plain JAX."""
    mean_d = to_float32(row_rd[(begin + ring.count(chunk)) % row_rd.shape[0]]).mean(0).astype(summary_md.dtype)
    return ring.put(summary_md, slot, mean_d, wanted=complete)


@summarise.defjvp
def _summarise_jvp(chunk: int, primals: Any, tangents: Any) -> Any:
    return summarise(chunk, *primals), jax.jvp(partial(plain_summarise, chunk), primals, tangents)[1]


# The read -------------------------------------------------------------------------------------------------------------


@jax.custom_jvp
def recall(
    inner_hd: Array, code_hc: Array, row_rd: Array, begin_k: Array, weight_k: Array, count: Array
) -> tuple[Array, Array]:
    """One query's attention inside k chunks of one ring, summed by relevance.

    The position code of a chunk is not added to its rows: it is the same in all chunks, so the caller adds its part of
    the logits (`code_hc`) before and its part of the answer (from the second result) after.

    Args:
      inner_hd: the query with the key projection applied, one row per head.
      code_hc: the position code's logits for the steps of a chunk, float32.
      row_rd: the ring.
      begin_k: the row at which each chunk begins; it continues at row 0 where the ring ends.
      weight_k: relevances, float32.
      count: how many of the k chunks to read, from the front.

    Returns:
      The weighted sum of rows [H, D], and the total weight of each step of a chunk over all chunks [H, C].
    """
    (heads, width), (rows, _), chunk, most = inner_hd.shape, row_rd.shape, code_hc.shape[1], len(begin_k)

    def body(query: Any, code: Any, row: Any, begin: Any, weight: Any, count: Any, out: Any, seen: Any) -> None:
        head, step_c = ring.count(padded_heads(heads)) % heads, ring.count(chunk)
        query_hd, code_hc = query[head, :], code[head, :]

        def add(k: Array, sums: tuple[Array, Array]) -> tuple[Array, Array]:
            content_cd = row[(begin[k] + step_c) % rows, :]
            logits_hc = product(query_hd, content_cd.T) + code_hc
            exp_hc = jnp.exp(logits_hc - logits_hc.max(-1, keepdims=True))
            within_hc = (exp_hc * (weight[k] / exp_hc.sum(-1, keepdims=True))).astype(content_cd.dtype)
            return sums[0] + product(within_hc, content_cd), sums[1] + to_float32(within_hc)

        zeros = jnp.zeros(query_hd.shape, jnp.float32), jnp.zeros(code_hc.shape, jnp.float32)
        mixed_hd, seen_hc = jax.lax.fori_loop(0, count[0], add, zeros)
        out[head, :], seen[head, :] = mixed_hd.astype(out.dtype), seen_hc.astype(seen.dtype)

    out = jax.typeof(inner_hd)
    result: tuple[Array, Array] = call(
        body,
        "recall_step",
        4 * heads * width * chunk * most,
        warps=4,
        stages=3,
        out_shape=(out, out.update(shape=(heads, chunk))),
    )(inner_hd, code_hc, row_rd, begin_k, weight_k, count[None])
    return result


def plain_recall(
    inner_hd: Array, code_hc: Array, row_rd: Array, begin_k: Array, weight_k: Array, count: Array
) -> tuple[Array, Array]:
    """`recall` in plain JAX."""
    step_c = ring.count(code_hc.shape[1])
    content_kcd = row_rd[(begin_k[:, None] + step_c[None, :]) % row_rd.shape[0]]
    logits_khc = to_float32(jnp.einsum("hd,kcd->khc", inner_hd, content_kcd))
    within_khc = softmax(logits_khc + broadcast_like(code_hc, logits_khc))
    weight_k = jnp.where(ring.count(len(weight_k)) < count, weight_k, 0.0)
    weighted_khc = (within_khc * broadcast_like(weight_k[:, None, None], within_khc)).astype(inner_hd.dtype)
    return jnp.einsum("khc,kcd->hd", weighted_khc, content_kcd), weighted_khc.sum(0)


@recall.defjvp
def _recall_jvp(primals: Any, tangents: Any) -> Any:
    return recall(*primals), jax.jvp(plain_recall, primals, tangents)[1]
