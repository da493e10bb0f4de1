"""Acting, one step of one environment: write it down, look at the last steps, summarise, recall.

In plain JAX every one of these copies the rows that it looks at; the kernels read them where they are, once.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from . import ring
from .kernel import call, filled, product
from .layers import EPSILON, normalise, softmax, spread, wide
from .types import Array

BLOCK = 32  # rows that are looked at together in the window
UNSEEN = -1e30  # a logit that leaves nothing of what it stands for


# The window -----------------------------------------------------------------------------------------------------------


@jax.custom_jvp
def window(query_hd: Array, age_hw: Array, row_rd: Array, x_d: Array, time: Array) -> tuple[Array, Array]:
    """Writes a step into the ring and attends to the last W, which are normalised first: the ring, and [H, D].

    Args:
      query_hd: the query as it meets normalised rows, scaled, a row per head.
      age_hw: what is added to the logits, by age; float32.
      row_rd: the ring, which is changed in place where the caller gives it away.
      x_d: this step's row, of age 0.
      time: of this step in its episode; what is older than the episode is not looked at.
    """
    (heads, width), (rows, _), steps = query_hd.shape, row_rd.shape, age_hw.shape[1]
    block, size = min(BLOCK, steps), filled(heads)

    def body(query: Any, age: Any, x: Any, time: Any, row: Any, row_out: Any, out: Any) -> None:
        from jax.experimental import pallas as pl

        head, step_b, now = jnp.arange(size) % heads, jnp.arange(block, dtype=jnp.int32), time[0]
        query_hd, x_d = query[head, :], x[...]
        total_h = wide(query_hd).sum(-1)

        def add(n: Array, carry: tuple[Array, ...]) -> tuple[Array, ...]:
            """Rows enter the products as they are: mean and deviation are taken out of what comes of them."""
            mixed_hd, mean_h, top_h, sum_h = carry
            age_b = n * block + step_b
            row_bd = jnp.where((age_b == 0)[:, None], x_d[None, :], row[(now - age_b + rows) % rows, :])
            mean_b = wide(row_bd).sum(-1) / width
            centred_bd = wide(row_bd) - mean_b[:, None]
            narrow_b = jax.lax.rsqrt((centred_bd * centred_bd).sum(-1) / width + EPSILON)
            logits_hb = (product(query_hd, row_bd.T) - total_h[:, None] * mean_b[None]) * narrow_b[None]
            logits_hb += age[head, pl.dslice(n * block, block)]
            logits_hb = jnp.where((age_b <= now)[None], logits_hb, UNSEEN)
            best_h = jnp.maximum(top_h, logits_hb.max(-1))
            fade_h, weight_hb = jnp.exp(top_h - best_h), jnp.exp(logits_hb - best_h[:, None])
            scaled_hb = weight_hb * narrow_b[None]
            mixed_hd = mixed_hd * fade_h[:, None] + product(scaled_hb.astype(row_bd.dtype), row_bd)
            mean_h = mean_h * fade_h + (scaled_hb * mean_b[None]).sum(-1)
            return mixed_hd, mean_h, best_h, sum_h * fade_h + weight_hb.sum(-1)

        nothing_h = jnp.zeros(size, jnp.float32)
        begin = jnp.zeros((size, width), jnp.float32), nothing_h, nothing_h + UNSEEN, nothing_h
        blocks = jnp.minimum(now // block + 1, steps // block)
        mixed_hd, mean_h, _, sum_h = jax.lax.fori_loop(0, blocks, add, begin)
        out[head, :] = ((mixed_hd - mean_h[:, None]) / sum_h[:, None]).astype(out.dtype)
        row_out[now % rows, :] = x_d

    found: tuple[Array, Array] = call(
        body,
        "window_step",
        4 * heads * width * steps,
        warps=4,
        stages=1,
        out_shape=(jax.typeof(row_rd), jax.typeof(query_hd)),
        input_output_aliases={4: 0},
    )(query_hd, age_hw, x_d.astype(row_rd.dtype), time[None], row_rd)
    return found


def plain_window(query_hd: Array, age_hw: Array, row_rd: Array, x_d: Array, time: Array) -> tuple[Array, Array]:
    row_rd = ring.put(row_rd, time, x_d)
    row_wd, logits_hw, allowed_hw = last_rows(query_hd, age_hw, row_rd, time)
    return row_rd, softmax(jnp.where(allowed_hw, logits_hw, UNSEEN)).astype(row_wd.dtype) @ row_wd


def last_rows(query_hd: Array, age_hw: Array, row_rd: Array, time: Array) -> tuple[Array, Array, Array]:
    """The last W rows, normalised; how well the query fits each, [H, W]; and which of them are of this episode."""
    age_w = ring.count(age_hw.shape[1])
    row_wd = normalise(row_rd[(time - age_w) % row_rd.shape[0]])
    return row_wd, wide(query_hd @ row_wd.T) + age_hw, jnp.broadcast_to(age_w <= time, age_hw.shape)


@window.defjvp
def _window_jvp(primals: Any, tangents: Any) -> Any:
    return window(*primals), jax.jvp(plain_window, primals, tangents)[1]


# Summaries ------------------------------------------------------------------------------------------------------------


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def summarise(chunk: int, row_rd: Array, summary_md: Array, begin: Array, slot: Array, whole: Array) -> Array:
    """The summaries, of which one, if a chunk is `whole`, becomes the mean of the rows from `begin` on."""
    rows = row_rd.shape[0]

    def body(row: Any, begin: Any, slot: Any, whole: Any, summary: Any, out: Any) -> None:
        from jax.experimental import pallas as pl

        @pl.when(whole[0])
        def _() -> None:
            content_cd = row[(begin[0] + jnp.arange(chunk, dtype=jnp.int32)) % rows, :]
            out[slot[0], :] = (wide(content_cd).sum(0) / chunk).astype(out.dtype)

    options: dict[str, Any] = {"out_shape": jax.typeof(summary_md), "input_output_aliases": {4: 0}}
    args = (row_rd, begin[None], slot[None], whole[None], summary_md)
    found: Array = call(body, "summarise_step", 0, warps=4, stages=1, **options)(*args)
    return found


def plain_summarise(chunk: int, row_rd: Array, summary_md: Array, begin: Array, slot: Array, whole: Array) -> Array:
    mean_d = wide(row_rd[(begin + ring.count(chunk)) % row_rd.shape[0]]).mean(0).astype(summary_md.dtype)
    return ring.put(summary_md, slot, mean_d, wanted=whole)


@summarise.defjvp
def _summarise_jvp(chunk: int, primals: Any, tangents: Any) -> Any:
    return summarise(chunk, *primals), jax.jvp(partial(plain_summarise, chunk), primals, tangents)[1]


# The read -------------------------------------------------------------------------------------------------------------


@jax.custom_jvp
def recall(
    inner_hd: Array, code_hc: Array, row_rd: Array, begin_k: Array, weight_k: Array, count: Array
) -> tuple[Array, Array]:
    """One query's heads inside k chunks of one ring, added up by relevance: [H, D], and how each step counted, [H, C].

    A chunk's position code is not added to its rows: it is the same in all chunks, and met before and after them.

    Args:
      inner_hd: the query as it meets stored steps, a row per head.
      code_hc: what its code adds to the logits of a chunk's steps, float32.
      row_rd: the ring.
      begin_k: the row at which each chunk begins; it goes on at row 0 where the ring ends.
      weight_k: relevances, float32.
      count: how many of the k to read, from the front.
    """
    (heads, width), (rows, _), chunk, most = inner_hd.shape, row_rd.shape, code_hc.shape[1], len(begin_k)

    def body(query: Any, code: Any, row: Any, begin: Any, weight: Any, count: Any, out: Any, seen: Any) -> None:
        head, step_c = jnp.arange(filled(heads)) % heads, jnp.arange(chunk, dtype=jnp.int32)
        query_hd, code_hc = query[head, :], code[head, :]

        def add(k: Array, sums: tuple[Array, Array]) -> tuple[Array, Array]:
            content_cd = row[(begin[k] + step_c) % rows, :]
            logits_hc = product(query_hd, content_cd.T) + code_hc
            exp_hc = jnp.exp(logits_hc - logits_hc.max(-1, keepdims=True))
            within_hc = (exp_hc * (weight[k] / exp_hc.sum(-1, keepdims=True))).astype(content_cd.dtype)
            return sums[0] + product(within_hc, content_cd), sums[1] + wide(within_hc)

        nothing = jnp.zeros(query_hd.shape, jnp.float32), jnp.zeros(code_hc.shape, jnp.float32)
        mixed_hd, seen_hc = jax.lax.fori_loop(0, count[0], add, nothing)
        out[head, :], seen[head, :] = mixed_hd.astype(out.dtype), seen_hc.astype(seen.dtype)

    out = jax.typeof(inner_hd)
    found: tuple[Array, Array] = call(
        body,
        "recall_step",
        4 * heads * width * chunk * most,
        warps=4,
        stages=3,
        out_shape=(out, out.update(shape=(heads, chunk))),
    )(inner_hd, code_hc, row_rd, begin_k, weight_k, count[None])
    return found


def plain_recall(
    inner_hd: Array, code_hc: Array, row_rd: Array, begin_k: Array, weight_k: Array, count: Array
) -> tuple[Array, Array]:
    step_c = jnp.arange(code_hc.shape[1], dtype=jnp.int32)
    content_kcd = row_rd[(begin_k[:, None] + step_c[None, :]) % row_rd.shape[0]]
    logits_khc = wide(jnp.einsum("hd,kcd->khc", inner_hd, content_kcd))
    within_khc = softmax(logits_khc + spread(code_hc, logits_khc))
    weight_k = jnp.where(jnp.arange(len(weight_k)) < count, weight_k, 0.0)
    weighted_khc = (within_khc * spread(weight_k[:, None, None], within_khc)).astype(inner_hd.dtype)
    return jnp.einsum("khc,kcd->hd", weighted_khc, content_kcd), weighted_khc.sum(0)


@recall.defjvp
def _recall_jvp(primals: Any, tangents: Any) -> Any:
    return recall(*primals), jax.jvp(plain_recall, primals, tangents)[1]
