"""The relevance of chunks to a query: attention over their summaries, cut off after the k largest weights."""

import math

import jax
import jax.numpy as jnp

from . import ring
from .layers import linear, softmax, to_float32
from .types import Array, Params
from .window import MASKED

ORDERS = ("top_k_then_softmax", "softmax_then_top_k")
COUNTING_LIMIT = 64  # up to this many chunks, ranking each by counting the better ones is faster than a sort


def relevance_logits(params: Params, query_qe: Array, key_md: Array, mask_qm: Array | None) -> Array:
    """Relevance logits [Q, M], float32. The key projection applies to whichever side has fewer rows."""
    query_qs = linear(params["relevance_query"], query_qe)
    key_weight = params["relevance_key"]["w"].astype(query_qe.dtype)
    scale = 1 / math.sqrt(query_qs.shape[-1])
    if query_qe.shape[0] < key_md.shape[0]:
        logits_qm = jnp.einsum("qd,md->qm", query_qs @ key_weight.T, key_md)
    else:
        logits_qm = jnp.einsum("qs,ms->qm", query_qs, key_md @ key_weight)
    logits_qm = to_float32(logits_qm) * scale
    return logits_qm if mask_qm is None else jnp.where(mask_qm, logits_qm, MASKED)


def top_chunks(logits_qm: Array, k: int, order: str) -> tuple[Array, Array]:
    """The k most relevant chunks and their weights, [Q, K] each; ties go to the lower index."""
    if order == "softmax_then_top_k":
        weight_qk, chunk_qk = jax.lax.top_k(jax.nn.softmax(logits_qm, axis=-1), k)
        return chunk_qk, weight_qk
    logits_qk, chunk_qk = jax.lax.top_k(logits_qm, k)
    return chunk_qk, jax.nn.softmax(logits_qk, axis=-1)


def top_weights(logits_qm: Array, k: int, order: str) -> Array:
    """The same weights at the chunks' own places, [Q, M], zero outside the top k."""
    slots = logits_qm.shape[-1]
    if slots > COUNTING_LIMIT:
        chunk_qk, weight_qk = top_chunks(logits_qm, k, order)
        return jnp.zeros_like(logits_qm).at[ring.count(chunk_qk.shape[0])[:, None], chunk_qk].set(weight_qk)
    fixed_qm = jax.lax.stop_gradient(logits_qm)
    mine, other = fixed_qm[:, :, None], fixed_qm[:, None, :]
    earlier = jnp.broadcast_to(jnp.tri(slots, k=-1, dtype=bool), (logits_qm.shape[0], slots, slots))
    chosen_qm = ((other > mine) | ((other == mine) & earlier)).sum(-1) < k
    if order == "softmax_then_top_k":
        return jnp.where(chosen_qm, softmax(logits_qm), 0.0)
    # Adding -inf, unlike selecting, leaves a gradient that needs the weights alone: the ranking is not computed again.
    return softmax(logits_qm + jnp.where(chosen_qm, 0.0, -jnp.inf))
