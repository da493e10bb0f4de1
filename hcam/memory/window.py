"""Short-term memory: multi-head attention over the last W steps with TransformerXL's relative positions.

With a window of a chunk it is HCAM's local attention; with a long one it is TransformerXL.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from . import kernels, ring
from .kernels.window_step import BLOCK
from .layers import broadcast_like, init_linear, init_norm, layer_norm, linear, sinusoids, to_float32
from .types import Array, Params

MASKED = -1e6  # what the released module puts in place of a masked logit; softmax turns it into an exact zero


def init_window(key: Array, width: int, heads: int) -> Params:
    names = ("query", "key", "value", "position", "out")
    keys = dict(zip(names, jax.random.split(key, len(names)), strict=True))
    return {
        "norm": init_norm(width),
        **{name: init_linear(keys[name], width, width, bias=False) for name in names},
        "content_bias": jnp.zeros((heads, width // heads), jnp.float32),
        "position_bias": jnp.zeros((heads, width // heads), jnp.float32),
    }


def split_heads(x: Array, heads: int) -> Array:
    """[..., D] -> [..., H, D/H]."""
    return x.reshape(*x.shape[:-1], heads, -1)


def weights_by_head(params: Params, heads: int, dtype: DTypeLike) -> Array:
    """A projection's weights [D, H, D/H], for moving it from the many rows to the one query."""
    return split_heads(params["w"].astype(dtype), heads)


def masked_softmax(logits: Array, allowed: Array, top_k: int | None) -> Array:
    """Softmax over the last axis; with `top_k`, over the k largest logits alone (all that tie with the k-th stay)."""
    logits = jnp.where(allowed, logits, MASKED)
    if top_k is not None and top_k < logits.shape[-1]:
        kth = jax.lax.top_k(jax.lax.stop_gradient(logits), top_k)[0][..., -1:]
        logits = jnp.where(logits >= kth, logits, MASKED)
    return jnp.where(allowed, jax.nn.softmax(logits, axis=-1), 0.0)


def skew(x_htw: Array) -> Array:
    """Shift row t right by t columns: [H, T, W] -> [H, T, W - 1 + T]. The one reshape that is no split or merge."""
    heads, steps, window = x_htw.shape
    padded = jnp.pad(x_htw, ((0, 0), (0, 0), (0, steps)))  # rows of W + T, read back as rows of W + T - 1
    return padded.reshape(heads, -1)[:, :-steps].reshape(heads, steps, window + steps - 1)


def unskew(x_htj: Array, window: int) -> Array:
    """Undo `skew`: [H, T, W - 1 + T] -> [H, T, W]."""
    heads, steps, _ = x_htj.shape
    padded = jnp.pad(x_htj.reshape(heads, -1), ((0, 0), (0, steps)))
    return padded.reshape(heads, steps, -1)[:, :, :window]


def position_keys(params: Params, window: int, heads: int, dtype: DTypeLike) -> Array:
    """The keys of the ages 0..W-1, whatever happened then: [W, H, D/H]."""
    code_wd = sinusoids(range(window), params["position"]["w"].shape[0]).astype(dtype)
    return split_heads(linear(params["position"], code_wd), heads)


def position_query(params: Params, query_thd: Array) -> Array:
    return query_thd + broadcast_like(params["position_bias"], query_thd)


def content_query(params: Params, query_thd: Array) -> Array:
    return query_thd + broadcast_like(params["content_bias"], query_thd)


def unroll(
    params: Params, stored_vd: Array, x_td: Array, start_t: Array, *, heads: int, top_k: int | None = None
) -> tuple[Array, Array]:
    """T steps at once, after the V = W - 1 that came before: the answer [T, D] and the attention [H, T, V + T]."""
    (before, width), steps = stored_vd.shape, x_td.shape[0]
    fused = top_k is None and kernels.window_unroll.supported(before + 1, steps, width // heads, x_td.dtype)
    rows = [jnp.zeros((int(fused), width), x_td.dtype), stored_vd, x_td]  # as many as the window, out of reach or not
    row_jd = layer_norm(params["norm"], jnp.concatenate(rows))
    query_thd = split_heads(linear(params["query"], row_jd[-steps:]), heads)
    weights = {"w": jnp.concatenate([params[name]["w"] for name in ("key", "value")], axis=1)}
    pair_j2hd = linear(weights, row_jd).reshape(len(row_jd), 2, heads, -1)  # each row's key and value
    age_key_whd = position_keys(params, before + 1, heads, x_td.dtype)
    by_content_thd, by_position_thd = content_query(params, query_thd), position_query(params, query_thd)
    scale = 1 / math.sqrt(width // heads)
    if fused:
        age_thw = jnp.einsum("thd,whd->thw", by_position_thd, age_key_whd)
        fused_thd = kernels.window_unroll.attend(scale, by_content_thd, pair_j2hd, age_thw, start_t)

    key_jhd, value_jhd = pair_j2hd[int(fused) :, 0], pair_j2hd[int(fused) :, 1]
    content_htj = jnp.einsum("thd,jhd->htj", by_content_thd, key_jhd)
    by_age_htw = jnp.einsum("thd,whd->htw", by_position_thd, age_key_whd)
    logits_htj = to_float32(content_htj) + to_float32(
        skew(jnp.flip(by_age_htw, -1))
    )  # column j of row t holds age t + V - j

    index_t, index_j = ring.count(steps)[:, None], ring.count(before + steps)[None, :] - before
    allowed_tj = (index_j <= index_t) & (index_j >= jnp.maximum(start_t[:, None], index_t - before))
    attention_htj = masked_softmax(logits_htj * scale, jnp.broadcast_to(allowed_tj, logits_htj.shape), top_k)
    plain_thd = jnp.einsum("htj,jhd->thd", attention_htj.astype(x_td.dtype), value_jhd)
    answer_thd = fused_thd if fused else plain_thd  # the attention is then for those who ask
    return linear(params["out"], answer_thd.reshape(x_td.shape)), attention_htj


class Prepared(NamedTuple):
    """What `step` makes of the parameters, whatever it is given."""

    key_ehd: Array  # projections of rows that were normalised and not scaled yet
    value_ehd: Array
    offset_hd: Array  # what the norm's offset adds to every value
    age_key_whd: Array


def prepare(params: Params, *, window: int, heads: int, dtype: DTypeLike) -> Prepared:
    norm = params["norm"]
    key_ehd, value_ehd = (_scaled(params[name], norm["scale"], heads, dtype) for name in ("key", "value"))
    offset_hd = split_heads(linear(params["value"], norm["offset"].astype(dtype)), heads)
    return Prepared(key_ehd, value_ehd, offset_hd, position_keys(params, window, heads, dtype))


def step(
    params: Params, prepared: Prepared, row_rd: Array, x_d: Array, time: Array, *, top_k: int | None = None
) -> tuple[Array, Array, Array]:
    """Writes a step into the ring and attends to the last W: the ring, the answer [D] and the attention [H, W] by age.

    Keys and values are never formed: q . (K x) is (K^T q) . x, so the projections move to the query and the answer,
    and with them the norm's scale and offset, of which softmax does not see what it adds to all rows alike.
    """
    dtype, (window, heads, _) = row_rd.dtype, prepared.age_key_whd.shape
    query_hd = split_heads(linear(params["query"], layer_norm(params["norm"], x_d)), heads)
    scale = 1 / math.sqrt(query_hd.shape[-1])
    inner_he = jnp.einsum("hd,ehd->he", content_query(params, query_hd) * jnp.asarray(scale, dtype), prepared.key_ehd)
    age_hw = to_float32(jnp.einsum("hd,whd->hw", position_query(params, query_hd), prepared.age_key_whd)) * scale

    fused = (
        top_k is None
        and window % min(window, BLOCK) == 0
        and kernels.common.supported(min(window, BLOCK), x_d.shape[0], dtype)
    )
    if fused:
        row_rd, mixed_he = kernels.window_step.attend(inner_he, age_hw, row_rd, x_d, time)
    else:
        row_rd = ring.put(row_rd, time, x_d)
    row_we, logits_hw, allowed_hw = kernels.window_step.last_rows(inner_he, age_hw, row_rd, time)
    attention_hw = masked_softmax(logits_hw, allowed_hw, top_k)  # for those who ask, if fused
    if not fused:
        mixed_he = attention_hw.astype(dtype) @ row_we
    # Weights sum to 1: the offset comes once.
    answer_hd = jnp.einsum("he,ehd->hd", mixed_he, prepared.value_ehd) + prepared.offset_hd
    return row_rd, linear(params["out"], answer_hd.reshape(-1)), attention_hw


def _scaled(params: Params, scale_e: Array, heads: int, dtype: DTypeLike) -> Array:
    """A projection [D, H, D/H] of rows that were normalised and not scaled yet."""
    return (to_float32(weights_by_head(params, heads, dtype)) * to_float32(scale_e)[:, None, None]).astype(dtype)


class Cache(NamedTuple):
    """The last W steps as keys and values, at row time % W, and the keys of the ages."""

    key_whd: Array
    value_whd: Array
    age_key_whd: Array


def keys_values(params: Params, row: Array, heads: int) -> tuple[Array, Array]:
    """The keys and values of layer inputs [..., D], each [..., H, D/H]."""
    normal = layer_norm(params["norm"], row)
    return split_heads(linear(params["key"], normal), heads), split_heads(linear(params["value"], normal), heads)


def init_cache(params: Params, row_wd: Array, heads: int) -> Cache:
    """`row_wd` holds the stored layer inputs at row time % W."""
    return Cache(*keys_values(params, row_wd, heads), position_keys(params, row_wd.shape[0], heads, row_wd.dtype))


def step_cached(
    params: Params, x_d: Array, cache: Cache, time: Array, *, heads: int, top_k: int | None = None
) -> tuple[Cache, Array, Array]:
    """The same step, extending keys and values that are already there by one row."""
    window = cache.key_whd.shape[0]
    key_hd, value_hd = keys_values(params, x_d, heads)
    cache = cache._replace(
        key_whd=ring.put(cache.key_whd, time, key_hd), value_whd=ring.put(cache.value_whd, time, value_hd)
    )
    query_hd = split_heads(linear(params["query"], layer_norm(params["norm"], x_d)), heads)
    content_hw = jnp.einsum("hd,whd->hw", content_query(params, query_hd), cache.key_whd)
    age_w = (time - ring.count(window)) % window
    by_age_hw = jnp.einsum("hd,whd->hw", position_query(params, query_hd), cache.age_key_whd)
    logits_hw = (to_float32(content_hw) + to_float32(by_age_hw[:, age_w])) / math.sqrt(query_hd.shape[-1])
    attention_hw = masked_softmax(logits_hw, jnp.broadcast_to(age_w <= time, logits_hw.shape), top_k)
    answer_hd = jnp.einsum("hw,whd->hd", attention_hw.astype(x_d.dtype), cache.value_whd)
    # From rows to ages is the same turn of the ring as from ages to rows.
    return cache, linear(params["out"], answer_hd.reshape(x_d.shape)), attention_hw[:, age_w]
