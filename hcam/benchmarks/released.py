"""The read as the released module works it out, literally: the yardstick of `hcam bench memory`, and used nowhere else.

Every query takes a copy of its k chunks, adds positions to them, and projects all of them to keys and values for
itself. The order of work is the released module's as `docs/memory.md` describes it; the code is our own.
"""

import math

import jax
import jax.numpy as jnp

from hcam.memory.layers import broadcast_like, linear, sinusoids, to_float32
from hcam.memory.types import Array, Params
from hcam.memory.window import MASKED, split_heads


def released_read(
    params: Params,
    query_bqe: Array,
    key_bmd: Array,
    content_bmcd: Array,
    mask_bqm: Array | None = None,
    *,
    k: int,
    heads: int,
    keep_dtype: bool = False,
) -> Array:
    """`hcam.memory.read` with positions on and top-k before softmax.

    The released module adds its position code as float32, so everything inside chunks is worked out in float32 whatever
    it is given; `keep_dtype` spares it that and lets it compute in bfloat16.
    """
    key_bmd = jax.lax.stop_gradient(key_bmd)
    relevance_bqs = linear(params["relevance_query"], query_bqe)
    summary_bms = linear(params["relevance_key"], key_bmd)
    logits_bqm = to_float32(jnp.einsum("bqs,bms->bqm", relevance_bqs, summary_bms)) / math.sqrt(relevance_bqs.shape[-1])
    if mask_bqm is not None:
        logits_bqm = jnp.where(mask_bqm, logits_bqm, MASKED)
    best_bqk, chunk_bqk = jax.lax.top_k(logits_bqm, k)
    weight_bqk = jax.nn.softmax(best_bqk, axis=-1)

    if not keep_dtype:
        query_bqe, content_bmcd = to_float32(query_bqe), to_float32(content_bmcd)
    code_cd = sinusoids(range(content_bmcd.shape[-2] - 1, -1, -1), content_bmcd.shape[-1])
    content_bmcd = jax.lax.stop_gradient(content_bmcd + broadcast_like(code_cd, content_bmcd))
    recalled_bqkcd = jax.vmap(lambda content_mcd, chunk_qk: content_mcd[chunk_qk])(content_bmcd, chunk_bqk)
    repeated_bqke = jnp.repeat(query_bqe[:, :, None], k, axis=2)  # the query is projected anew for each of its chunks
    attend = jax.vmap(jax.vmap(jax.vmap(_attend, (None, 0, 0, None)), (None, 0, 0, None)), (None, 0, 0, None))
    answer_bqks = attend(params, repeated_bqke, recalled_bqkcd, heads)
    return jnp.einsum("bqk,bqks->bqs", weight_bqk.astype(answer_bqks.dtype), answer_bqks)


def _attend(params: Params, query_e: Array, content_cd: Array, heads: int) -> Array:
    """Multi-head attention of one query inside one chunk."""
    query_hs = split_heads(linear(params["query"], query_e), heads)
    key_chs, value_chs = (split_heads(linear(params[name], content_cd), heads) for name in ("key", "value"))
    logits_hc = jnp.einsum("hs,chs->hc", query_hs, key_chs) / math.sqrt(query_hs.shape[-1])
    attention_hc = jax.nn.softmax(to_float32(logits_hc), axis=-1).astype(query_e.dtype)
    return linear(params["out"], jnp.einsum("hc,chs->hs", attention_hc, value_chs).reshape(-1))
