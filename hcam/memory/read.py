"""The HCAM read: how relevant is each chunk, attend inside the k most relevant, add up by relevance.

Two forms with the same results. *Dense* projects every stored step to a key and a value once, lets all queries attend
inside all chunks, and gives chunks outside the top k a weight of zero. *Gather* fetches k chunks per query and moves
the key and value projections to the query's side, so that nothing stored is ever projected. Dense is matrix products
and suits many queries over dozens of chunks (learning); gather touches only what is recalled and suits one query, or
thousands of chunks.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from . import checks
from .layers import init_linear, linear, sinusoids, spread, wide
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
    output, recalled = one(params, queries, keys, contents, mask)  # what is not asked for, the compiler leaves out
    return (output, recalled) if recall else output


def choose_form(queries: int, slots: int, k: int) -> str:
    """Dense while the chunks it projects in vain cost less than the k chunks per query that gathering copies."""
    return "dense" if 8 * slots <= k * queries else "gather"


def read_chunks(
    params: Params,
    query_qe: Array,
    key_md: Array,
    content_mcd: Array,
    mask_qm: Array | None,
    *,
    k: int,
    heads: int,
    positions: bool,
    order: str,
    form: str,
) -> tuple[Array, Recalled]:
    """`read` without the checks, for one environment."""
    key_md, content_mcd = (jax.lax.stop_gradient(x).astype(query_qe.dtype) for x in (key_md, content_mcd))
    if form == "auto":
        form = choose_form(query_qe.shape[0], key_md.shape[0], k)
    logits_qm = relevance_logits(params, query_qe, key_md, mask_qm)
    code_cd = chunk_positions(*content_mcd.shape[1:]) if positions else None
    if form == "dense":
        key_value = project_chunks(params, add_positions(content_mcd, code_cd), heads)
        return attend_dense(params, query_qe, logits_qm, *key_value, k=k, order=order)

    def fetch(chunk_qk: Array) -> Array:
        return add_positions(content_mcd[chunk_qk], code_cd)

    return attend_gathered(params, query_qe, logits_qm, fetch, k=k, heads=heads, order=order)


def project_chunks(params: Params, content: Array, heads: int) -> tuple[Array, Array]:
    """The keys and values of stored steps [..., D], each [..., H, S/H]."""
    return split_heads(linear(params["key"], content), heads), split_heads(linear(params["value"], content), heads)


def chunk_positions(chunk: int, width: int) -> Array:
    """The position code of a chunk's steps [C, D]; the newest has position 0."""
    return sinusoids(jnp.arange(chunk - 1, -1, -1), width)


def add_positions(content: Array, code_cd: Array | None) -> Array:
    return content if code_cd is None else content + spread(code_cd, content)


def attend_dense(
    params: Params,
    query_qe: Array,
    logits_qm: Array,
    key_mchd: Array,
    value_mchd: Array,
    *,
    k: int,
    order: str,
) -> tuple[Array, Recalled]:
    """All queries inside all chunks, chunks outside the top k weighted zero."""
    heads, dtype = key_mchd.shape[-2], query_qe.dtype
    query_qhd = split_heads(linear(params["query"], query_qe), heads)
    scores = wide(jnp.einsum("qhd,mchd->hqmc", query_qhd, key_mchd)) / math.sqrt(query_qhd.shape[-1])
    within_hqmc = jax.nn.softmax(scores, axis=-1)
    weight_qm = top_weights(logits_qm, k, order)
    mixed = (within_hqmc * weight_qm[None, :, :, None]).astype(dtype)
    answer_qhd = jnp.einsum("hqmc,mchd->qhd", mixed, value_mchd)
    output = project_out(params, answer_qhd, weight_qm)
    chunk_qk, weight_qk = top_chunks(logits_qm, k, order)
    within_qmhc = jnp.moveaxis(within_hqmc, 0, 2)
    return output, Recalled(chunk_qk, weight_qk, jax.vmap(lambda within, chunk: within[chunk])(within_qmhc, chunk_qk))


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
    """Each query inside its own k chunks; `fetch` brings their contents, [Q, K] -> [Q, K, C, D].

    Learning goes a few queries at a time and fetches again in the backward pass, so that scratch memory does not grow.
    """
    chunk_qk, weight_qk = top_chunks(logits_qm, k, order)
    dtype, queries = query_qe.dtype, query_qe.shape[0]
    key_weight, value_weight = (weights_by_head(params[name], heads, dtype) for name in ("key", "value"))
    query_qhd = split_heads(linear(params["query"], query_qe), heads)
    inner_qhd = jnp.einsum("qhs,dhs->qhd", query_qhd, key_weight) / math.sqrt(query_qhd.shape[-1])

    def attend(block: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        inner_qhd, chunk_qk, weight_qk = block
        content_qkcd = fetch(chunk_qk)
        within_qkhc = jax.nn.softmax(wide(jnp.einsum("qhd,qkcd->qkhc", inner_qhd, content_qkcd)), axis=-1)
        mixed = (within_qkhc * weight_qk[:, :, None, None]).astype(dtype)
        return jnp.einsum("qkhc,qkcd->qhd", mixed, content_qkcd), within_qkhc

    block = (inner_qhd, chunk_qk, weight_qk)
    mixed_qhd, within_qkhc = attend(block) if queries <= QUERIES_PER_GATHER else in_blocks(attend, block)
    answer_qhs = jnp.einsum("qhd,dhs->qhs", mixed_qhd, value_weight)
    bias_hs = split_heads(params["value"]["b"].astype(dtype), heads)
    answer_qhs += bias_hs[None] * weight_qk.sum(-1).astype(dtype)[:, None, None]
    output = project_out(params, answer_qhs, weight_qk)
    return output, Recalled(chunk_qk, weight_qk, within_qkhc)


def attend_cached(
    params: Params,
    query_qe: Array,
    logits_qm: Array,
    fetch: Callable[[Array], tuple[Array, Array]],
    *,
    k: int,
    order: str,
) -> tuple[Array, Recalled]:
    """Each query inside its own k chunks; `fetch` brings their keys and values, [Q, K] -> two of [Q, K, C, H, S/H]."""
    chunk_qk, weight_qk = top_chunks(logits_qm, k, order)
    key_qkchd, value_qkchd = fetch(chunk_qk)
    query_qhd = split_heads(linear(params["query"], query_qe), key_qkchd.shape[-2])
    scores = wide(jnp.einsum("qhd,qkchd->qkhc", query_qhd, key_qkchd)) / math.sqrt(query_qhd.shape[-1])
    within_qkhc = jax.nn.softmax(scores, axis=-1)
    mixed = (within_qkhc * weight_qk[:, :, None, None]).astype(query_qe.dtype)
    answer_qhd = jnp.einsum("qkhc,qkchd->qhd", mixed, value_qkchd)
    return project_out(params, answer_qhd, weight_qk), Recalled(chunk_qk, weight_qk, within_qkhc)


def in_blocks(attend: Callable[..., tuple[Array, Array]], block: tuple[Array, ...]) -> tuple[Array, Array]:
    """`attend` over blocks of queries, one after the other, the last filled up; recomputed in the backward pass."""
    queries = block[0].shape[0]

    def fold(x: Array) -> Array:
        filled = jnp.pad(x, ((0, -queries % QUERIES_PER_GATHER),) + ((0, 0),) * (x.ndim - 1))
        return filled.reshape(-1, QUERIES_PER_GATHER, *x.shape[1:])

    folded = jax.lax.map(jax.checkpoint(attend), jax.tree.map(fold, block))
    mixed, within = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[:queries], folded)
    return mixed, within


def project_out(params: Params, answer_qhs: Array, weight: Array) -> Array:
    """The output projection, once per query: its bias counts as often as the weights sum to."""
    flat = answer_qhs.reshape(answer_qhs.shape[0], -1)
    bias = spread(params["out"]["b"], flat) * weight.sum(-1, keepdims=True).astype(flat.dtype)
    return linear({"w": params["out"]["w"]}, flat) + bias


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
    checks.features("keys", keys, (*batch, slots, memory_width))
    checks.features("contents", contents, (*batch, slots, "C", memory_width))
    width = params["out"]["w"].shape[-1]
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
