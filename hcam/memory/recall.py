"""The HCAM read: weight chunks by relevance, attend inside the k most relevant, sum the answers by relevance.

There are two forms with the same results. *Dense*: all queries attend inside all chunks, and chunks outside the top k
have a weight of zero. These are large matrix products, for many queries over dozens of chunks, as in learning.
*Gather*: each query fetches its k chunks. This reads only what is recalled, for one query or for thousands of chunks.

`recall` is a static argument throughout: without it, nothing is computed that only a `Recalled` would need.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from . import checks, kernels
from .layers import broadcast_like, linear, position_code, softmax
from .projections import (
    READ_PARAMS,
    code_keys_values,
    coded_answers,
    coded_queries,
    init_read,
    inner_queries,
    outer_answers,
    own_queries,
)
from .relevance import ORDERS, relevance_logits, top_chunks, top_weights
from .types import Array, Params
from .window import split_heads

FORMS = ("auto", "dense", "gather")
QUERIES_PER_GATHER = 8  # bounds the scratch memory of the gather form


class Recalled(NamedTuple):
    """What a read attended to, best chunk first."""

    chunk_qk: Array  # index along the chunk axis
    weight_qk: Array  # relevance
    within_qkhc: Array  # attention inside the chunk
    weight_qm: Array  # relevance of all chunks, before the top k: these sum to one


def read(
    params: Params,
    queries: Array,
    keys: Array,
    contents: Array,
    mask: Array | None = None,
    *,
    k: int,
    heads: int,
    positions: bool = True,
    order: str = "top_k_then_softmax",
    form: str = "auto",
    gradients: bool = False,
    recall: bool = False,
) -> Array | tuple[Array, Recalled]:
    """Recall from chunks: the released attention module as one pure function.

    Args:
      params: dicts `relevance_query`, `relevance_key` with `w`, and `query`, `key`, `value`, `out` with `w` and `b`.
      queries: [..., Q, E]. Any number of leading batch axes, the same for all arguments.
      keys: chunk summaries [..., M, D].
      contents: the chunks [..., M, C, D], oldest step first.
      mask: boolean [..., Q, M]; True where the query may recall the chunk. A row without any True answers with the
        first k chunks in equal parts, as the released module does; the HCAM block gates such an answer to zero.
      k: how many chunks each query recalls.
      heads: attention heads inside chunks; relevance has one.
      positions: add a sinusoidal code to the steps of a chunk, counted backwards from its newest.
      order: `top_k_then_softmax` (released code: weights sum to one) or `softmax_then_top_k` (the paper's text).
      form: `dense`, `gather`, or `auto`, which chooses from the sizes (`choose_form`).
      gradients: let gradients flow into keys and contents, for chunks that are inputs and not a stored past. By
        default none does, as in the released module.
      recall: also return what was recalled, as a `Recalled`.

    Returns:
      [..., Q, S], S being the width of `out`; with `recall`, a pair of that and a `Recalled`.
    """
    queries, keys, contents = (jnp.asarray(x) for x in (queries, keys, contents))
    params = jax.tree.map(jnp.asarray, params)
    mask = None if mask is None else jnp.asarray(mask)
    _check(params, queries, keys, contents, mask, k=k, heads=heads, positions=positions, order=order, form=form)
    checks.switch(gradients=gradients, recall=recall)
    options: dict[str, Any] = {
        "positions": positions,
        "order": order,
        "form": form,
        "gradients": gradients,
        "recall": recall,
    }
    one: Callable[..., Any] = partial(read_chunks, k=k, heads=heads, **options)
    for _ in queries.shape[:-2]:
        one = jax.vmap(one, in_axes=(None, 0, 0, 0, None if mask is None else 0))
    output, recalled = one(params, queries, keys, (contents,), mask)
    return output if recalled is None else (output, recalled)


def choose_form(queries: int, slots: int, k: int) -> str:
    """Dense while attending inside unneeded chunks costs less than copying k chunks for every query.

    Where all are recalled, none is unneeded. The thresholds were measured (docs/log/2026-11-15-dense-or-gather.md).
    """
    balance = 16 if jax.default_backend() == "cpu" else 4  # products cost more on a CPU, copies more on a GPU
    return "dense" if slots <= k or balance * slots <= k * queries else "gather"


def read_chunks(
    params: Params,
    query_qe: Array,
    key_md: Array,
    parts: kernels.unroll.Parts,
    mask_qm: Array | None,
    *,
    k: int,
    heads: int,
    positions: bool,
    order: str,
    form: str,
    gradients: bool = False,
    recall: bool = False,
) -> tuple[Array, Recalled | None]:
    """`read` without the checks, for one environment, from chunks that may be stored in several places."""
    stored = (key_md, *parts) if gradients else jax.lax.stop_gradient((key_md, *parts))
    key_md, *rest = (x.astype(query_qe.dtype) for x in stored)
    parts, (chunk, width) = tuple(rest), rest[0].shape[1:]
    fused = form == "auto" and kernels.common.supported(chunk, width, query_qe.dtype)
    form = choose_form(query_qe.shape[0], key_md.shape[0], k) if form == "auto" else form
    logits_qm = relevance_logits(params, query_qe, key_md, mask_qm)
    code_cd = position_code(chunk, width, positions, query_qe.dtype)
    if form == "dense":
        code = code_keys_values(params, code_cd, heads)
        return attend_dense(params, query_qe, logits_qm, parts, code, k=k, order=order, fused=fused, recall=recall)
    content_mcd = jnp.concatenate(parts)

    def fetch(chunk_qk: Array) -> Array:
        fetched = content_mcd[chunk_qk]
        return fetched + broadcast_like(code_cd, fetched)

    chunk_qk, weight_qk = top_chunks(logits_qm, k, order)
    output_qs, within = attend_gathered(params, query_qe, chunk_qk, weight_qk, fetch, heads=heads, recall=recall)
    return output_qs, None if within is None else Recalled(chunk_qk, weight_qk, within, softmax(logits_qm))


def attend_dense(
    params: Params,
    query_qe: Array,
    logits_qm: Array,
    parts: kernels.unroll.Parts,
    code: tuple[Array, Array],  # the keys and values of the position code
    *,
    k: int,
    order: str,
    fused: bool = False,
    recall: bool = False,
) -> tuple[Array, Recalled | None]:
    """All queries inside all chunks; those outside the top k have a weight of zero, and `fused` skips them."""
    key_chs, value_chs = code
    inner_qhd, code_qhc = coded_queries(params, query_qe, key_chs)
    weight_qm = top_weights(logits_qm, k, order)
    attend = partial(kernels.unroll.recall, k) if fused else kernels.unroll.plain_recall
    mixed_qhd, seen_qhc = attend(inner_qhd, code_qhc, parts, weight_qm)
    output_qs = coded_answers(params, mixed_qhd, weight_qm, seen_qhc, value_chs)
    if not recall:
        return output_qs, None
    chunk_qk, weight_qk = top_chunks(logits_qm, k, order)
    within_qhmc = kernels.unroll.plain_within(inner_qhd, code_qhc, jnp.concatenate(parts))
    within_qkhc = jax.vmap(lambda within_hmc, chunk_k: within_hmc[:, chunk_k])(within_qhmc, chunk_qk).swapaxes(1, 2)
    return output_qs, Recalled(chunk_qk, weight_qk, within_qkhc, softmax(logits_qm))


def attend_gathered(
    params: Params,
    query_qe: Array,
    chunk_qk: Array,
    weight_qk: Array,
    fetch: Callable[[Array], Array],
    *,
    heads: int,
    recall: bool,
) -> tuple[Array, Array | None]:
    """Each query inside its own k chunks, which `fetch` returns, [Q, K] -> [Q, K, C, D].

    Returns the answer [Q, S] and, with `recall`, the attention [Q, K, H, C]. Many queries are handled a few at a time
    and fetch again in the backward pass, so that scratch memory does not grow.
    """
    inner_qhd = inner_queries(params, own_queries(params, query_qe, heads))
    attend = partial(_attend_fetched, fetch, recall)
    block = (inner_qhd, chunk_qk, weight_qk)
    mixed_qhd, within_qkhc = attend(block) if len(query_qe) <= QUERIES_PER_GATHER else in_blocks(attend, block)
    return outer_answers(params, mixed_qhd, weight_qk), within_qkhc


def _attend_fetched(
    fetch: Callable[[Array], Array], recall: bool, block: tuple[Array, Array, Array]
) -> tuple[Array, Array | None]:
    inner_qhd, chunk_qk, weight_qk = block
    content_qkcd = fetch(chunk_qk)
    within_qkhc = softmax(jnp.einsum("qhd,qkcd->qkhc", inner_qhd, content_qkcd))
    weighted = within_qkhc * broadcast_like(weight_qk[:, :, None, None], within_qkhc)
    return jnp.einsum("qkhc,qkcd->qhd", weighted, content_qkcd), within_qkhc if recall else None


def in_blocks(
    attend: Callable[..., tuple[Array, Array | None]], block: tuple[Array, ...]
) -> tuple[Array, Array | None]:
    """`attend` over blocks of queries, one after the other, the last one padded; recomputed in the backward pass."""
    queries = block[0].shape[0]

    def fold(x: Array) -> Array:
        padded = jnp.pad(x, ((0, -queries % QUERIES_PER_GATHER),) + ((0, 0),) * (x.ndim - 1))
        return padded.reshape(-1, QUERIES_PER_GATHER, *x.shape[1:])

    folded = jax.lax.map(jax.checkpoint(attend), jax.tree.map(fold, block))
    mixed, within = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[:queries], folded)
    return mixed, within


def attend_cached(
    params: Params, query_qe: Array, weight_qk: Array, key_qkchs: Array, value_qkchs: Array
) -> tuple[Array, Array]:
    """Each query inside chunks whose keys and values are given, with relevances `weight_qk`.

    Returns the answer [Q, S] and the attention [Q, K, H, C].
    """
    query_qhs = split_heads(linear(params["query"], query_qe), key_qkchs.shape[-2])
    within_qkhc = softmax(jnp.einsum("qhs,qkchs->qkhc", query_qhs, key_qkchs) / math.sqrt(query_qhs.shape[-1]))
    weighted = within_qkhc * broadcast_like(weight_qk[:, :, None, None], within_qkhc)
    value_qs = jnp.einsum("qkhc,qkchs->qhs", weighted, value_qkchs).reshape(len(query_qe), -1)
    output_qs = linear({"w": params["out"]["w"]}, value_qs)
    total_q1 = weight_qk.sum(-1, keepdims=True).astype(output_qs.dtype)
    return output_qs + broadcast_like(params["out"]["b"], output_qs) * total_q1, within_qkhc


def _check(
    params: Params,
    queries: Array,
    keys: Array,
    contents: Array,
    mask: Array | None,
    *,
    k: int,
    heads: int,
    positions: bool,
    order: str,
    form: str,
) -> None:
    checks.positive(k=k, heads=heads)
    checks.choice(ORDERS, order=order)
    checks.choice(FORMS, form=form)
    if queries.ndim < 2 or keys.ndim < 2 or contents.ndim < 3:
        raise ValueError(
            f"read takes queries [..., Q, E], keys [..., M, D] and contents [..., M, C, D], "
            f"but their shapes are {queries.shape}, {keys.shape} and {contents.shape}."
        )
    missing = [name for name in READ_PARAMS if name not in params]
    if missing:
        raise ValueError(f"params of read must hold {', '.join(READ_PARAMS)}, but lack {', '.join(missing)}.")
    batch, (steps, query_width), (slots, memory_width) = queries.shape[:-2], queries.shape[-2:], keys.shape[-2:]
    checks.features("queries", queries, (*batch, steps, query_width))
    checks.features("keys", keys, (*batch, slots, memory_width))
    checks.features("contents", contents, (*batch, slots, "C", memory_width))
    widths = [jnp.shape(params[name]["w"])[-1] for name in READ_PARAMS if "w" in params[name]]
    width = widths[-1] if widths else heads  # of `out`; if that lacks its weights, the comparison below says so
    checks.positive(slots=slots, queries=steps, chunk=contents.shape[-2])
    checks.top_k_fits(k, slots)
    checks.heads_divide(width, heads)
    if positions:
        checks.even_width(memory_width, "positions inside chunks")
    if mask is not None:
        checks.flag("mask", mask, (*batch, steps, slots))
    sizes = jax.eval_shape(
        partial(init_read, query_width=query_width, memory_width=memory_width, width=width), jax.random.key(0)
    )
    read_sizes = f"read with queries of width {query_width}, memory of width {memory_width} and output of width {width}"
    checks.same_structure("params", params, sizes, read_sizes, dtypes=False)
