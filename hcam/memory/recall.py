"""The HCAM read: how relevant is each chunk, attend inside the k most relevant, add up by relevance.

The released module projects every recalled step to a key and a value anew for every query. Here nothing stored is ever
projected: q . (K x) is (K^T q) . x, and the sum of a V x is V (sum of a x): both projections move to the query's side.

What remains has two forms with the same results. *Dense* lets all queries attend inside all chunks and gives chunks
outside the top k a weight of zero: large matrix products, for many queries over dozens of chunks, as in learning.
*Gather* fetches k chunks for each query: it touches only what is recalled, for one query, or for thousands of chunks.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from . import checks, kernels
from .layers import barrier, broadcast_like, init_linear, linear, position_code, softmax
from .relevance import ORDERS, relevance_logits, top_chunks, top_weights
from .types import Array, Params
from .window import split_heads, weights_by_head

FORMS = ("auto", "dense", "gather")
READ_PARAMS = ("relevance_query", "relevance_key", "query", "key", "value", "out")
QUERIES_PER_GATHER = 8  # bounds the scratch memory of the gather form


class Recalled(NamedTuple):
    """What a read attended to, best chunk first."""

    chunk_qk: Array  # index along the chunk axis
    weight_qk: Array  # relevance
    within_qkhc: Array  # attention inside the chunk


def init_read(key: Array, query_width: int, memory_width: int, width: int) -> Params:
    """Parameters of `read`, initialised as in the released module (variance 2/fan_in)."""
    keys = dict(zip(READ_PARAMS, jax.random.split(key, len(READ_PARAMS)), strict=True))
    fan_in = {"relevance_query": query_width, "query": query_width, "out": width}
    return {
        name: init_linear(
            keys[name], fan_in.get(name, memory_width), width, bias=not name.startswith("relevance"), scale=2.0
        )
        for name in READ_PARAMS
    }


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
    recall: bool = False,
) -> Array | tuple[Array, Recalled]:
    """Recall from chunks: the released attention module as one pure function.

    Args:
      params: dicts `relevance_query`, `relevance_key` with `w`, and `query`, `key`, `value`, `out` with `w` and `b`.
      queries: [..., Q, E]. Any number of leading batch axes, the same for all arguments.
      keys: chunk summaries [..., M, D]. No gradient flows into keys or contents.
      contents: the chunks [..., M, C, D], oldest step first.
      mask: boolean [..., Q, M]; True where the query may recall the chunk. A row without any True answers with the
        first k chunks in equal parts, as the released module does; the HCAM block gates such an answer to zero.
      k: how many chunks each query recalls.
      heads: attention heads inside chunks; relevance has one.
      positions: add a sinusoidal code to the steps of a chunk, counted backwards from its newest.
      order: `top_k_then_softmax` (released code: weights sum to one) or `softmax_then_top_k` (the paper's text).
      form: `dense`, `gather`, or `auto`, which chooses from the sizes (`choose_form`).
      recall: also return what was recalled, as a `Recalled`.

    Returns:
      [..., Q, S], S being the width of `out`; with `recall`, a pair of that and a `Recalled`.
    """
    queries, keys, contents = (jnp.asarray(x) for x in (queries, keys, contents))
    params = jax.tree.map(jnp.asarray, params)
    mask = None if mask is None else jnp.asarray(mask)
    _check(params, queries, keys, contents, mask, k=k, heads=heads, positions=positions, order=order, form=form)
    one = partial(read_chunks, k=k, heads=heads, positions=positions, order=order, form=form)
    for _ in queries.shape[:-2]:
        one = jax.vmap(one, in_axes=(None, 0, 0, 0, None if mask is None else 0))
    output, recalled = one(params, queries, keys, (contents,), mask)  # what is not asked for, the compiler leaves out
    return (output, recalled) if recall else output


def choose_form(queries: int, slots: int, k: int) -> str:
    """Dense while attending in vain costs less than copying k chunks per query: measured, see docs/performance.md."""
    balance = 16 if jax.default_backend() == "cpu" else 4  # matrix products are dearer on a CPU, copies on a GPU
    return "dense" if balance * slots <= k * queries else "gather"


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
) -> tuple[Array, Recalled]:
    """`read` without the checks, for one environment, from chunks that may lie in several places."""
    key_md, *rest = (jax.lax.stop_gradient(x).astype(query_qe.dtype) for x in (key_md, *parts))
    parts, (chunk, width) = tuple(rest), rest[0].shape[1:]
    fused = form == "auto" and kernels.common.supported(chunk, width, query_qe.dtype)
    form = choose_form(query_qe.shape[0], key_md.shape[0], k) if form == "auto" else form
    logits_qm = relevance_logits(params, query_qe, key_md, mask_qm)
    code_cd = position_code(chunk, width, positions, query_qe.dtype)
    if form == "dense":
        code = code_keys_values(params, code_cd, heads)
        return attend_dense(params, query_qe, logits_qm, parts, code, k=k, order=order, fused=fused)
    content_mcd = jnp.concatenate(parts)

    def fetch(chunk_qk: Array) -> Array:
        fetched = content_mcd[chunk_qk]
        return fetched + broadcast_like(code_cd, fetched)

    return attend_gathered(params, query_qe, logits_qm, fetch, k=k, heads=heads, order=order)


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
) -> tuple[Array, Recalled]:
    """All queries inside all chunks; those outside the top k are weighted zero, and not even looked at if `fused`."""
    key_chs, value_chs = code
    inner_qhd, code_qhc = coded_queries(params, query_qe, key_chs)
    weight_qm, (chunk_qk, weight_qk) = top_weights(logits_qm, k, order), top_chunks(logits_qm, k, order)
    look = partial(kernels.unroll.recall, k) if fused else kernels.unroll.plain_recall
    mixed_qhd, seen_qhc = look(inner_qhd, code_qhc, parts, weight_qm)
    within_qhmc = kernels.unroll.plain_within(inner_qhd, code_qhc, jnp.concatenate(parts))  # for those who ask
    within_qkhc = jax.vmap(lambda within_hmc, chunk_k: within_hmc[:, chunk_k])(within_qhmc, chunk_qk).swapaxes(1, 2)
    return coded_answers(params, mixed_qhd, weight_qm, seen_qhc, value_chs), Recalled(chunk_qk, weight_qk, within_qkhc)


def attend_gathered(
    params: Params,
    query_qe: Array,
    logits_qm: Array,
    fetch: Callable[[Array], Array],
    *,
    k: int,
    heads: int,
    order: str,
) -> tuple[Array, Recalled]:
    """Each query inside its own k chunks, which `fetch` brings, [Q, K] -> [Q, K, C, D].

    Many queries go a few at a time and fetch again in the backward pass, so that scratch memory does not grow.
    """
    chunk_qk, weight_qk = top_chunks(logits_qm, k, order)

    def attend(block: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        inner_qhd, chunk_qk, weight_qk = block
        content_qkcd = fetch(chunk_qk)
        within_qkhc = softmax(jnp.einsum("qhd,qkcd->qkhc", inner_qhd, content_qkcd))
        weighted = within_qkhc * broadcast_like(weight_qk[:, :, None, None], within_qkhc)
        return jnp.einsum("qkhc,qkcd->qhd", weighted, content_qkcd), within_qkhc

    block = (inner_queries(params, own_queries(params, query_qe, heads)), chunk_qk, weight_qk)
    mixed_qhd, within_qkhc = attend(block) if len(query_qe) <= QUERIES_PER_GATHER else in_blocks(attend, block)
    return outer_answers(params, mixed_qhd, weight_qk), Recalled(chunk_qk, weight_qk, within_qkhc)


def own_queries(params: Params, query_qe: Array, heads: int) -> Array:
    """Queries by head, scaled: [Q, E] -> [Q, H, S/H]."""
    query_qhs = split_heads(linear(params["query"], query_qe), heads)
    return query_qhs / math.sqrt(query_qhs.shape[-1])


def inner_queries(params: Params, query_qhs: Array) -> Array:
    """`own_queries` as they meet stored steps, key projection included: [Q, H, D].

    The key's bias would add the same to all steps of a chunk, which softmax does not see.
    """
    key_dhs = weights_by_head(params["key"], query_qhs.shape[1], query_qhs.dtype)
    return jnp.einsum("qhs,dhs->qhd", query_qhs, key_dhs)


def outer_answers(params: Params, mixed_qhd: Array, weight: Array, more_qhs: Array | None = None) -> Array:
    """Value and output projection of what was attended to, [Q, H, D] -> [Q, S]; `weight` [Q, any] holds the relevances.

    `more_qhs` are values that were attended to besides. The biases come once per chunk, so they count as often as the
    relevances sum to.
    """
    value_dhs = weights_by_head(params["value"], mixed_qhd.shape[1], mixed_qhd.dtype)
    value_qhs = jnp.einsum("qhd,dhs->qhs", mixed_qhd, value_dhs)
    value_qhs = value_qhs if more_qhs is None else value_qhs + barrier(more_qhs)
    total_q1, value_qs = weight.sum(-1, keepdims=True).astype(mixed_qhd.dtype), value_qhs.reshape(len(mixed_qhd), -1)
    value_qs += broadcast_like(params["value"]["b"], value_qs) * total_q1
    output_qs = linear({"w": params["out"]["w"]}, value_qs)
    return output_qs + broadcast_like(params["out"]["b"], output_qs) * total_q1


def coded_queries(params: Params, query_qe: Array, key_chs: Array) -> tuple[Array, Array]:
    """`inner_queries`, and how well they fit the keys of a position code that is not added to what is stored."""
    query_qhs = own_queries(params, query_qe, key_chs.shape[1])
    return inner_queries(params, query_qhs), jnp.einsum("qhs,chs->qhc", barrier(query_qhs), key_chs)


def coded_answers(params: Params, mixed_qhd: Array, weight: Array, seen_qhc: Array, value_chs: Array) -> Array:
    """`outer_answers`, with what was seen of the code."""
    return outer_answers(params, mixed_qhd, weight, jnp.einsum("qhc,chs->qhs", seen_qhc, value_chs))


def code_keys_values(params: Params, code_cd: Array, heads: int) -> tuple[Array, Array]:
    """What a position code adds to the keys and values of a chunk's steps, each [C, H, S/H]: no biases."""
    return keys_values({name: {"w": params[name]["w"]} for name in ("key", "value")}, code_cd, heads)


def keys_values(params: Params, content: Array, heads: int) -> tuple[Array, Array]:
    """The keys and values of stored steps [..., D], each [..., H, S/H]: for those who keep them."""
    return split_heads(linear(params["key"], content), heads), split_heads(linear(params["value"], content), heads)


def attend_cached(
    params: Params, query_qe: Array, weight_qk: Array, key_qkchs: Array, value_qkchs: Array
) -> tuple[Array, Array]:
    """Each query inside chunks of which there are keys and values, their relevances given: answer and `within_qkhc`."""
    query_qhs = split_heads(linear(params["query"], query_qe), key_qkchs.shape[-2])
    within_qkhc = softmax(jnp.einsum("qhs,qkchs->qkhc", query_qhs, key_qkchs) / math.sqrt(query_qhs.shape[-1]))
    weighted = within_qkhc * broadcast_like(weight_qk[:, :, None, None], within_qkhc)
    value_qs = jnp.einsum("qkhc,qkchs->qhs", weighted, value_qkchs).reshape(len(query_qe), -1)
    output_qs = linear({"w": params["out"]["w"]}, value_qs)
    total_q1 = weight_qk.sum(-1, keepdims=True).astype(output_qs.dtype)
    return output_qs + broadcast_like(params["out"]["b"], output_qs) * total_q1, within_qkhc


def in_blocks(attend: Callable[..., tuple[Array, Array]], block: tuple[Array, ...]) -> tuple[Array, Array]:
    """`attend` over blocks of queries, one after the other, the last filled up; recomputed in the backward pass."""
    queries = block[0].shape[0]

    def fold(x: Array) -> Array:
        filled = jnp.pad(x, ((0, -queries % QUERIES_PER_GATHER),) + ((0, 0),) * (x.ndim - 1))
        return filled.reshape(-1, QUERIES_PER_GATHER, *x.shape[1:])

    folded = jax.lax.map(jax.checkpoint(attend), jax.tree.map(fold, block))
    mixed, within = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[:queries], folded)
    return mixed, within


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
