"""The projections of the read. Nothing stored is ever projected, unless a cache keeps the result.

q . (K x) is (K^T q) . x, and the sum of a V x is V (sum of a x): the key projection applies to the query and the value
projection to the answer, of which there are far fewer than stored steps. The released module instead projects every
recalled step to a key and a value for every query.

A position code is the same in all chunks. So it need not be added to the stored steps either: its keys give an extra
term of the logits, and its values an extra term of the answer.
"""

import math

import jax
import jax.numpy as jnp

from .layers import barrier, broadcast_like, init_linear, linear
from .types import Array, Params
from .window import split_heads, weights_by_head

READ_PARAMS = ("relevance_query", "relevance_key", "query", "key", "value", "out")


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


def own_queries(params: Params, query_qe: Array, heads: int) -> Array:
    """Queries by head, scaled: [Q, E] -> [Q, H, S/H]."""
    query_qhs = split_heads(linear(params["query"], query_qe), heads)
    return query_qhs / math.sqrt(query_qhs.shape[-1])


def inner_queries(params: Params, query_qhs: Array) -> Array:
    """`own_queries` with the key projection applied, ready for products with stored steps: [Q, H, D].

    The key's bias is left out: it would add the same to the logits of all steps of a chunk, which softmax ignores.
    """
    key_dhs = weights_by_head(params["key"], query_qhs.shape[1], query_qhs.dtype)
    return jnp.einsum("qhs,dhs->qhd", query_qhs, key_dhs)


def outer_answers(params: Params, mixed_qhd: Array, weight: Array, more_qhs: Array | None = None) -> Array:
    """Applies the value and output projections to weighted sums of stored steps, [Q, H, D] -> [Q, S].

    `weight` [Q, any] holds the relevances. Each chunk's answer has the biases once, so the sum has them as often as the
    relevances sum to. `more_qhs` is a term to add to the values.
    """
    value_dhs = weights_by_head(params["value"], mixed_qhd.shape[1], mixed_qhd.dtype)
    value_qhs = jnp.einsum("qhd,dhs->qhs", mixed_qhd, value_dhs)
    value_qhs = value_qhs if more_qhs is None else value_qhs + barrier(more_qhs)
    total_q1, value_qs = weight.sum(-1, keepdims=True).astype(mixed_qhd.dtype), value_qhs.reshape(len(mixed_qhd), -1)
    value_qs += broadcast_like(params["value"]["b"], value_qs) * total_q1
    output_qs = linear({"w": params["out"]["w"]}, value_qs)
    return output_qs + broadcast_like(params["out"]["b"], output_qs) * total_q1


def coded_queries(params: Params, query_qe: Array, key_chs: Array) -> tuple[Array, Array]:
    """`inner_queries`, and the logits [Q, H, C] of a position code whose keys are `key_chs`."""
    query_qhs = own_queries(params, query_qe, key_chs.shape[1])
    return inner_queries(params, query_qhs), jnp.einsum("qhs,chs->qhc", barrier(query_qhs), key_chs)


def coded_answers(params: Params, mixed_qhd: Array, weight: Array, seen_qhc: Array, value_chs: Array) -> Array:
    """`outer_answers`, with the values of a position code by their total weights `seen_qhc`."""
    return outer_answers(params, mixed_qhd, weight, jnp.einsum("qhc,chs->qhs", seen_qhc, value_chs))


def code_keys_values(params: Params, code_cd: Array, heads: int) -> tuple[Array, Array]:
    """The keys and values of a position code, without biases, each [C, H, S/H]."""
    return keys_values({name: {"w": params[name]["w"]} for name in ("key", "value")}, code_cd, heads)


def keys_values(params: Params, content: Array, heads: int) -> tuple[Array, Array]:
    """The keys and values of stored steps [..., D], each [..., H, S/H], for a cache."""
    return split_heads(linear(params["key"], content), heads), split_heads(linear(params["value"], content), heads)
