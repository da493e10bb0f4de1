"""HCAM: cut the past into chunks, keep a summary of each, recall in two steps (section 2 of the paper).

This file is the block around the read, with the write side that was never published: which layer inputs make up a
chunk, when it can be recalled, what its summary is, and what happens at an episode's start.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from . import checks, chunks, kernels, ring, stack
from .layers import broadcast_like, init_norm, layer_norm, position_code, softmax, to_float32
from .projections import code_keys_values, coded_answers, coded_queries, init_read, keys_values
from .recall import FORMS, Recalled, attend_cached, attend_dense, attend_gathered, read_chunks
from .relevance import ORDERS, relevance_logits, top_chunks, top_weights
from .types import Array, Memory, Params


@dataclass(frozen=True, kw_only=True)
class HCAM:
    """Hierarchical Chunk Attention Memory. Each option says where the paper ("Towards mental time travel") has it."""

    width: int = 512  # "memory dimension", appendix A.2, table of hyper-parameters
    layers: int = 4  # "memory layers", same table
    heads: int = 8  # "memory num. heads", same table; of the window and inside chunks, relevance has one
    chunk: int = 32  # "HCAM chunk size", same table (its first task); varied in appendix "Varying chunk sizes"
    overlap: int = 0  # "HCAM chunk overlap", same table (1 in Streets): steps shared with the chunk before
    slots: int = 64  # "total num. chunks", same table: beyond the longest episode; a full memory forgets its oldest
    top_k: int = 8  # "HCAM top-k", same table; varied in appendix "Varying k for memory selection"
    window: int | None = None  # steps of local attention, own step included; None: one chunk. Unspecified in the paper
    order: str = "top_k_then_softmax"  # as in the released code; "softmax_then_top_k" is the formula of section 2
    positions: bool = True  # sinusoids inside chunks: in the released code, not in the text
    gated: bool = False  # GRU gating of each layer, appendix "Memory layer gating": not beneficial, so off
    mlp: int = 4  # hidden width of a layer's MLP over `width`. Unspecified in the paper
    form: str = "auto"  # how `read` computes: "dense", "gather", or chosen from the sizes. The results are the same

    def __post_init__(self) -> None:
        checks.sizes(self, "width", "layers", "heads", "chunk", "slots", "top_k", "mlp")
        checks.depth(layers=self.layers)
        if self.window is not None:
            checks.sizes(self, "window")
        checks.overlap_fits(self)
        checks.heads_divide(self.width, self.heads)
        checks.even_width(self.width, "position codes")
        checks.top_k_fits(self.top_k, self.slots)
        checks.switch(positions=self.positions, gated=self.gated)
        checks.choice(ORDERS, order=self.order)
        checks.choice(FORMS, form=self.form)

    @property
    def stride(self) -> int:
        """New steps per chunk."""
        return self.chunk - self.overlap

    def slots_for(self, steps: int) -> int:
        """The slots that hold all chunks of an episode of so many steps, and never fewer than there are."""
        return max(self.slots, 1 + (steps - self.chunk) // self.stride)

    @property
    def window_steps(self) -> int:
        return self.chunk if self.window is None else self.window

    def build(self, dtype: str) -> Memory:
        block = stack.Block(
            rows=self.slots * self.stride + self.chunk,  # the recallable chunks and the one being filled
            init_params=partial(init_block, self),
            init_summary=partial(jnp.zeros, (self.slots + 1, self.width), dtype),
            prepare=partial(prepare, self, dtype),
            init_cache=partial(init_cache, self, dtype),
            unroll=partial(unroll_block, self),
            step=partial(step_block, self),
        )
        return stack.build(stack.Stack(self, dtype, self.window_steps, top_k=None, block=block))


class Prepared(NamedTuple):
    """The keys and values of the position code."""

    code_key_chs: Array
    code_value_chs: Array


class Cache(NamedTuple):
    """The keys and values of every stored step, without positions, and those of the position code."""

    key_rhd: Array
    value_rhd: Array
    code_key_chd: Array
    code_value_chd: Array


def init_block(config: HCAM, key: Array) -> Params:
    return {"norm": init_norm(config.width), "read": init_read(key, config.width, config.width, config.width)}


def prepare(config: HCAM, dtype: str, params: Params) -> Prepared:
    return Prepared(*code_keys_values(params["read"], _code(config, dtype), config.heads))


def init_cache(config: HCAM, dtype: str, params: Params, row_rd: Array) -> Cache:
    return Cache(*keys_values(params["read"], row_rd, config.heads), *prepare(config, dtype, params))


def unroll_block(
    config: HCAM,
    params: Params,
    row_rd: Array,
    summary_md: Array,
    x_td: Array,
    query_td: Array,
    clock: Array,
    start_t: Array,
    *,
    recall: bool,
) -> tuple[Array, Array, Array, Recalled | None]:
    """All steps of an unroll recall at once, from the chunks in the state and from those that the unroll completes.

    Args:
      x_td: the layer's inputs, which are stored.
      query_td: the stream after local attention, which the queries are made from.

    Returns:
      The answers, whether each step had nothing to recall, the summaries after the unroll, and what was recalled.
    """
    chunk, stride, slots = config.chunk, config.stride, config.slots
    # Stored chunks, and the indices at which they end, counted from the unroll's first step: they are negative.
    number_m = ring.latest(ring.complete(clock, chunk, stride) - 1, slots + 1)
    stored_mcd = chunks.stored(row_rd, number_m, chunk, stride)
    stored_end_m = number_m * stride + chunk - 1 - clock
    # New chunks: slices of the last stored steps followed by this unroll's.
    end_u = ring.chunk_ends(ring.count(x_td.shape[0]) - start_t, chunk, stride)
    new_ucd = chunks.completed(row_rd, jax.lax.stop_gradient(x_td), clock, end_u, chunk)
    new_summary_ud = chunks.summarise(new_ucd)

    end_m = jnp.concatenate([stored_end_m, end_u])
    mask_tm, number_tm = ring.readable_chunks(end_m, start_t, chunk, stride, slots)
    answer_td, recalled = read_chunks(
        params["read"],
        layer_norm(params["norm"], query_td),
        jnp.concatenate([summary_md, new_summary_ud]),
        (stored_mcd, new_ucd),
        mask_tm,
        k=config.top_k,
        heads=config.heads,
        positions=config.positions,
        order=config.order,
        form=config.form,
        recall=recall,
    )
    summary_md = chunks.update_summaries(summary_md, new_summary_ud, start_t, chunk, stride)
    return answer_td, ~mask_tm.any(-1), summary_md, _by_number(recalled, mask_tm, number_tm, slots)


def step_block(
    config: HCAM,
    params: Params,
    prepared: Prepared,
    row_rd: Array,
    summary_md: Array,
    cache: Cache | None,
    x_d: Array,
    query_d: Array,
    time: Array,
    *,
    recall: bool,
) -> tuple[Array, Array, Array, Cache | None, Recalled | None]:
    """One step recalls. `row_rd` already holds its layer input; results as those of `unroll_block`, with the cache."""
    chunk, stride, slots, rows = config.chunk, config.stride, config.slots, row_rd.shape[0]
    done = ring.complete(time, chunk, stride)
    number_m = ring.latest(done - 1, slots + 1)
    mask_m = number_m >= jnp.maximum(0, done - slots)
    query_qd = layer_norm(params["norm"], query_d)[None]

    # The step that completes a chunk writes its summary; no step reads that slot before.
    complete = ring.complete(time + 1, chunk, stride) > done
    begin = (time - chunk + 1) % rows
    write = kernels.step.summarise if _fused(config, row_rd.dtype) else kernels.step.plain_summarise
    summary_md = write(chunk, jax.lax.stop_gradient(row_rd), summary_md, begin, done % (slots + 1), complete)

    if cache is None:
        read = partial(_read_rows, config, params["read"], prepared, jax.lax.stop_gradient(row_rd))
    else:
        key_hd, value_hd = keys_values(params["read"], x_d, config.heads)
        cache = cache._replace(
            key_rhd=ring.put(cache.key_rhd, time, key_hd), value_rhd=ring.put(cache.value_rhd, time, value_hd)
        )
        read = partial(_read_cache, config, params["read"], cache)
    logits_qm = relevance_logits(params["read"], query_qd, jax.lax.stop_gradient(summary_md), mask_m[None])
    answer_qd, recalled = read(query_qd, logits_qm, number_m, mask_m, recall)
    recalled = _by_number(recalled, mask_m[None], number_m[None], slots)
    one = None if recalled is None else Recalled(*(entry_q[0] for entry_q in recalled))
    return answer_qd[0], ~mask_m.any(), summary_md, cache, one


def _read_rows(
    config: HCAM,
    params: Params,
    prepared: Prepared,
    row_rd: Array,
    query_qd: Array,
    logits_qm: Array,
    number_m: Array,
    mask_m: Array,
    recall: bool,
) -> tuple[Array, Recalled | None]:
    """One query's read from the layer inputs themselves. Unless told otherwise (`form`), one query gathers."""
    chunk, stride, k = config.chunk, config.stride, config.top_k
    if config.form == "dense":
        parts = (chunks.stored(row_rd, number_m, chunk, stride),)
        return attend_dense(params, query_qd, logits_qm, parts, prepared, k=k, order=config.order, recall=recall)
    chunk_qk, weight_qk = top_chunks(logits_qm, k, config.order)
    code_cd, fused, within_qkhc = _code(config, row_rd.dtype), _fused(config, row_rd.dtype), None

    def fetch(chunk_qk: Array) -> Array:
        fetched = row_rd[chunks.rows_of(number_m[chunk_qk], chunk, stride, len(row_rd))]
        return fetched + broadcast_like(code_cd, fetched)

    if fused:
        begin_k = number_m[chunk_qk[0]] * stride % len(row_rd)
        count = jnp.minimum(mask_m.sum(dtype=jnp.int32), k)
        inner_qhd, code_qhc = coded_queries(params, query_qd, prepared.code_key_chs)
        mixed_hd, seen_hc = kernels.step.recall(
            inner_qhd[0], to_float32(code_qhc[0]), row_rd, begin_k, weight_qk[0], count
        )
        answer_qd = coded_answers(params, mixed_hd[None], weight_qk, seen_hc[None], prepared.code_value_chs)
    if recall or not fused:
        plain_qd, within_qkhc = attend_gathered(
            params, query_qd, chunk_qk, weight_qk, fetch, heads=config.heads, recall=recall
        )
        answer_qd = answer_qd if fused else plain_qd
    return answer_qd, None if within_qkhc is None else Recalled(chunk_qk, weight_qk, within_qkhc, softmax(logits_qm))


def _read_cache(
    config: HCAM,
    params: Params,
    cache: Cache,
    query_qd: Array,
    logits_qm: Array,
    number_m: Array,
    mask_m: Array,
    recall: bool,
) -> tuple[Array, Recalled | None]:
    """One query's read from cached keys and values."""
    k, order, rows = config.top_k, config.order, len(cache.key_rhd)

    def read(weight: Array, number: Array) -> tuple[Array, Array]:
        index = chunks.rows_of(number, config.chunk, config.stride, rows)
        key, value = cache.key_rhd[index], cache.value_rhd[index]
        key, value = key + broadcast_like(cache.code_key_chd, key), value + broadcast_like(cache.code_value_chd, value)
        return attend_cached(params, query_qd, weight, key, value)

    if config.form == "dense":
        answer_qd, within_qmhc = read(top_weights(logits_qm, k, order), number_m[None])
        if not recall:
            return answer_qd, None
        chunk_qk, weight_qk = top_chunks(logits_qm, k, order)
        return answer_qd, Recalled(chunk_qk, weight_qk, within_qmhc[:, chunk_qk[0]], softmax(logits_qm))
    chunk_qk, weight_qk = top_chunks(logits_qm, k, order)
    answer_qd, within_qkhc = read(weight_qk, number_m[chunk_qk])
    return answer_qd, Recalled(chunk_qk, weight_qk, within_qkhc, softmax(logits_qm)) if recall else None


def _fused(config: HCAM, dtype: DTypeLike) -> bool:
    """True if kernels read this memory's chunks on this machine."""
    return config.form == "auto" and kernels.common.supported(config.chunk, config.width, dtype)


def _code(config: HCAM, dtype: DTypeLike) -> Array:
    return position_code(config.chunk, config.width, config.positions, dtype)


def _by_number(recalled: Recalled | None, mask_qm: Array, number_qm: Array, slots: int) -> Recalled | None:
    """Chunks by their number in the episode; number -1 and no attention where there was nothing to recall."""
    if recalled is None:
        return None
    real_qk = jnp.take_along_axis(mask_qm, recalled.chunk_qk, axis=-1)
    return Recalled(
        chunk_qk=jnp.where(real_qk, jnp.take_along_axis(number_qm, recalled.chunk_qk, axis=-1), -1),
        weight_qk=jnp.where(real_qk, recalled.weight_qk, 0.0),
        within_qkhc=jnp.where(real_qk[:, :, None, None], recalled.within_qkhc, 0.0),
        weight_qm=_newest_first(recalled.weight_qm, mask_qm, number_qm, slots),
    )


def _newest_first(weight_qm: Array, mask_qm: Array, number_qm: Array, slots: int) -> Array:
    """The weights of the chunks that may be recalled, newest first, and zeros after them: [Q, slots]."""
    newest_q1 = jnp.where(mask_qm, number_qm, -1).max(-1, keepdims=True)
    place_qm = jnp.where(mask_qm, newest_q1 - number_qm, slots)  # `slots` is out of range and is dropped
    row_q1 = ring.count(len(weight_qm))[:, None]
    return jnp.zeros((len(weight_qm), slots), weight_qm.dtype).at[row_q1, place_qm].set(weight_qm, mode="drop")
