"""Multi-head attention over the last W steps with TransformerXL's relative positions.

With a window of one chunk it is HCAM's local attention, with a long window it is TransformerXL.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from . import kernels, ring
from .layers import broadcast_like, init_linear, init_norm, layer_norm, linear, sinusoids, to_float32
from .types import Array, Params

MASKED = -1e6  # the released module's value for a masked logit; softmax turns it into an exact zero


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
    """A projection's weights [D, H, D/H], for applying it to one query instead of to many rows."""
    return split_heads(params["w"].astype(dtype), heads)


def masked_softmax(logits: Array, allowed: Array, top_k: int | None) -> Array:
    """Softmax over the last axis; with `top_k`, over the k largest logits alone (ties with the k-th are kept)."""
    logits = jnp.where(allowed, logits, MASKED)
    if top_k is not None and top_k < logits.shape[-1]:
        kth = jax.lax.top_k(jax.lax.stop_gradient(logits), top_k)[0][..., -1:]
        logits = jnp.where(logits >= kth, logits, MASKED)
    return jnp.where(allowed, jax.nn.softmax(logits, axis=-1), 0.0)


def skew(x_htw: Array) -> Array:
    """Shifts row t right by t columns: [H, T, W] -> [H, T, W - 1 + T].

    Its reshapes reinterpret rows of one length as rows of another; every other reshape splits or merges axes.
    """
    heads, steps, window = x_htw.shape
    padded = jnp.pad(x_htw, ((0, 0), (0, 0), (0, steps)))  # rows of W + T, read back as rows of W + T - 1
    return padded.reshape(heads, -1)[:, :-steps].reshape(heads, steps, window + steps - 1)


def unskew(x_htj: Array, window: int) -> Array:
    """The inverse of `skew`: [H, T, W - 1 + T] -> [H, T, W]."""
    heads, steps, _ = x_htj.shape
    padded = jnp.pad(x_htj.reshape(heads, -1), ((0, 0), (0, steps)))
    return padded.reshape(heads, steps, -1)[:, :, :window]


def by_age(attention_htj: Array, window: int) -> Array:
    """The attention that `unroll` returns [H, T, V + T], by age: [T, H, W]."""
    return jnp.flip(unskew(attention_htj, window), -1).swapaxes(0, 1)


def position_keys(params: Params, window: int, heads: int, dtype: DTypeLike) -> Array:
    """The keys of the ages 0..W-1, which do not depend on what is stored: [W, H, D/H]."""
    code_wd = sinusoids(range(window), params["position"]["w"].shape[0]).astype(dtype)
    return split_heads(linear(params["position"], code_wd), heads)


def position_query(params: Params, query_thd: Array) -> Array:
    return query_thd + broadcast_like(params["position_bias"], query_thd)


def content_query(params: Params, query_thd: Array) -> Array:
    return query_thd + broadcast_like(params["content_bias"], query_thd)


def unroll(
    params: Params,
    stored_vd: Array,
    x_td: Array,
    start_t: Array,
    *,
    heads: int,
    top_k: int | None = None,
    recall: bool = False,
) -> tuple[Array, Array | None]:
    """T steps at once, after the V = W - 1 stored before them.

    Returns the answer [T, D] and, with `recall`, the attention [H, T, V + T].
    """
    (before, width), steps = stored_vd.shape, x_td.shape[0]
    fused = top_k is None and kernels.window_unroll.supported(before + 1, steps, width // heads, x_td.dtype)
    # The kernel takes W stored rows, a power of two; the oldest of them is outside every window.
    rows = [jnp.zeros((int(fused), width), x_td.dtype), stored_vd, x_td]
    row_jd = layer_norm(params["norm"], jnp.concatenate(rows))
    query_thd = split_heads(linear(params["query"], row_jd[-steps:]), heads)
    weights = {"w": jnp.concatenate([params[name]["w"] for name in ("key", "value")], axis=1)}
    pair_j2hd = linear(weights, row_jd).reshape(len(row_jd), 2, heads, -1)  # each row's key and value
    age_key_whd = position_keys(params, before + 1, heads, x_td.dtype)
    queries = content_query(params, query_thd), position_query(params, query_thd)

    def attend() -> Array:
        return _attention(*queries, pair_j2hd[int(fused) :, 0], age_key_whd, start_t, top_k)

    if fused:
        age_thw = jnp.einsum("thd,whd->thw", queries[1], age_key_whd)
        answer_thd = kernels.window_unroll.attend(_scale(width // heads), queries[0], pair_j2hd, age_thw, start_t)
        attention_htj = attend() if recall else None
    else:
        attention_htj = attend()
        answer_thd = jnp.einsum("htj,jhd->thd", attention_htj.astype(x_td.dtype), pair_j2hd[:, 1])
    return linear(params["out"], answer_thd.reshape(x_td.shape)), attention_htj if recall else None


def _attention(
    content_thd: Array, position_thd: Array, key_jhd: Array, age_key_whd: Array, start_t: Array, top_k: int | None
) -> Array:
    """The attention of T steps over V + T rows, [H, T, V + T], float32; the two queries meet contents and ages."""
    steps, before = len(start_t), len(age_key_whd) - 1
    content_htj = jnp.einsum("thd,jhd->htj", content_thd, key_jhd)
    by_age_htw = jnp.einsum("thd,whd->htw", position_thd, age_key_whd)
    # Column j of row t holds age t + V - j.
    logits_htj = to_float32(content_htj) + to_float32(skew(jnp.flip(by_age_htw, -1)))
    index_t, index_j = ring.count(steps)[:, None], ring.count(before + steps)[None, :] - before
    allowed_tj = (index_j <= index_t) & (index_j >= jnp.maximum(start_t[:, None], index_t - before))
    scaled_htj = logits_htj * _scale(key_jhd.shape[-1])
    return masked_softmax(scaled_htj, jnp.broadcast_to(allowed_tj, logits_htj.shape), top_k)


def _scale(features: int) -> float:
    """The factor of the logits of a head with this many features."""
    return 1 / math.sqrt(features)


class Prepared(NamedTuple):
    """What `step` computes from the parameters alone."""

    key_ehd: Array  # projections of rows that are normalised but not scaled: the norm's scale is part of them
    value_ehd: Array
    offset_hd: Array  # the part of every value that comes from the norm's offset
    age_key_whd: Array


def prepare(params: Params, *, window: int, heads: int, dtype: DTypeLike) -> Prepared:
    """What `step` needs beside the parameters."""
    norm = params["norm"]
    key_ehd, value_ehd = (_scaled(params[name], norm["scale"], heads, dtype) for name in ("key", "value"))
    offset_hd = split_heads(linear(params["value"], norm["offset"].astype(dtype)), heads)
    return Prepared(key_ehd, value_ehd, offset_hd, position_keys(params, window, heads, dtype))


def step(
    params: Params,
    prepared: Prepared,
    row_rd: Array,
    x_d: Array,
    time: Array,
    *,
    top_k: int | None = None,
    recall: bool = False,
) -> tuple[Array, Array, Array | None]:
    """Writes a step into the ring and attends to the last W steps.

    Returns the ring, the answer [D] and, with `recall`, the attention by age [H, W].

    Keys and values are never formed: q . (K x) is (K^T q) . x, so the projections apply to the query and to the answer.
    So do the norm's scale and offset; an offset adds the same to the logits of all rows, which softmax ignores.
    """
    dtype, (window, heads, features) = row_rd.dtype, prepared.age_key_whd.shape
    query_hd = split_heads(linear(params["query"], layer_norm(params["norm"], x_d)), heads)
    scale, block = _scale(features), min(window, kernels.window_step.BLOCK)
    inner_he = jnp.einsum("hd,ehd->he", content_query(params, query_hd) * jnp.asarray(scale, dtype), prepared.key_ehd)
    age_hw = to_float32(jnp.einsum("hd,whd->hw", position_query(params, query_hd), prepared.age_key_whd)) * scale

    fused = top_k is None and window % block == 0 and kernels.common.supported(block, x_d.shape[0], dtype)
    attention_hw = None
    if fused:
        row_rd, mixed_he = kernels.window_step.attend(inner_he, age_hw, row_rd, x_d, time)
    else:
        row_rd = ring.put(row_rd, time, x_d)
    if recall or not fused:
        row_we, logits_hw, allowed_hw = kernels.window_step.last_rows(inner_he, age_hw, row_rd, time)
        attention_hw = masked_softmax(logits_hw, allowed_hw, top_k)
        mixed_he = mixed_he if fused else attention_hw.astype(dtype) @ row_we
    # Weights sum to 1, so the offset's part is added once.
    answer_hd = jnp.einsum("he,ehd->hd", mixed_he, prepared.value_ehd) + prepared.offset_hd
    return row_rd, linear(params["out"], answer_hd.reshape(-1)), attention_hw if recall else None


def _scaled(params: Params, scale_e: Array, heads: int, dtype: DTypeLike) -> Array:
    """A projection's weights [D, H, D/H] with the norm's scale multiplied in."""
    return (to_float32(weights_by_head(params, heads, dtype)) * to_float32(scale_e)[:, None, None]).astype(dtype)


class Cache(NamedTuple):
    """The keys and values of the last W steps, at row time % W, and the keys of the ages."""

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
    params: Params,
    x_d: Array,
    cache: Cache,
    time: Array,
    *,
    heads: int,
    top_k: int | None = None,
    recall: bool = False,
) -> tuple[Cache, Array, Array | None]:
    """`step` with keys and values in place of the ring: writes one row of each."""
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
    # The index that takes ages to rows also takes rows to ages.
    return cache, linear(params["out"], answer_hd.reshape(x_d.shape)), attention_hw[:, age_w] if recall else None
