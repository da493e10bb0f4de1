"""HCAM: cut the past into chunks, keep a summary of each, recall in two steps (section 2 of the paper).

This file is the block around `read`, with the write side that was never published: which layer inputs make up a
chunk, when it can be recalled, what its summary is, and what happens at an episode's start.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from . import checks, kernels, ring, stack
from .layers import broadcast_like, init_norm, layer_norm, position_code, to_float32
from .recall import (
    FORMS,
    Recalled,
    attend_cached,
    attend_dense,
    attend_gathered,
    code_keys_values,
    coded_answers,
    coded_queries,
    init_read,
    keys_values,
    read_chunks,
)
from .relevance import ORDERS, relevance_logits, top_chunks, top_weights
from .types import Array, Memory, Params


@dataclass(frozen=True, kw_only=True)
class HCAM:
    """Hierarchical Chunk Attention Memory. Each option says where the paper ("Towards mental time travel") has it."""

    width: int = 512  # "memory dimension", appendix A.2, table of hyper-parameters
    layers: int = 4  # "memory layers", same table
    heads: int = 8  # "memory num. heads", same table; of the window and inside chunks, relevance has one
    chunk: int = 32  # "HCAM chunk size", same table (Ballet); varied in appendix "Varying chunk sizes"
    overlap: int = (
        0  # "HCAM chunk overlap", same table (1 in Streets): steps that a chunk shares with the one before it
    )
    slots: int = (
        64  # "total num. chunks", same table: more than the longest episode needs; the oldest is forgotten when full
    )
    top_k: int = 8  # "HCAM top-k", same table; varied in appendix "Varying k for memory selection"
    window: int | None = None  # steps of local attention, own step included; None: one chunk. Unspecified in the paper
    order: str = "top_k_then_softmax"  # as in the released code; "softmax_then_top_k" is the formula of section 2
    positions: bool = True  # sinusoids inside chunks: in the released code, not in the text
    gated: bool = False  # GRU gating of each layer, appendix "Memory layer gating": not beneficial, so off
    mlp: int = 4  # hidden width of a layer's MLP over `width`. Unspecified in the paper
    form: str = "auto"  # how `read` computes: "dense", "gather", or whichever suits the sizes. The results are the same
    dtype: str = "float32"  # of computation and of the stored memory; "bfloat16" on accelerators

    def __post_init__(self) -> None:
        sizes = ("width", "layers", "heads", "chunk", "slots", "top_k", "mlp")
        checks.positive(**{name: getattr(self, name) for name in sizes}, window=self.window_steps)
        if isinstance(self.overlap, bool) or not isinstance(self.overlap, int) or not 0 <= self.overlap < self.chunk:
            raise ValueError(
                f"overlap must be a whole number from 0 to chunk - 1 = {self.chunk - 1}, but is {self.overlap!r}."
            )
        checks.heads_divide(self.width, self.heads)
        checks.even_width(self.width, "position codes")
        checks.top_k_fits(self.top_k, self.slots)
        checks.switch(positions=self.positions, gated=self.gated)
        checks.choice(ORDERS, order=self.order)
        checks.choice(FORMS, form=self.form)
        checks.choice(checks.DTYPES, dtype=self.dtype)

    @property
    def stride(self) -> int:
        """New steps per chunk."""
        return self.chunk - self.overlap

    @property
    def window_steps(self) -> int:
        return self.chunk if self.window is None else self.window


class Prepared(NamedTuple):
    """What the position code is to the projections, whatever is stored."""

    code_key_chs: Array
    code_value_chs: Array


class Cache(NamedTuple):
    """Every stored step as key and value, without positions, and the positions' own keys and values."""

    key_rhd: Array
    value_rhd: Array
    code_key_chd: Array
    code_value_chd: Array


def build(config: HCAM) -> Memory:
    """The memory as functions."""
    block = stack.Block(
        rows=config.slots * config.stride + config.chunk,  # the readable chunks and the one being filled
        init_params=partial(init_block, config),
        init_summary=lambda: jnp.zeros((config.slots + 1, config.width), config.dtype),
        prepare=partial(prepare, config),
        init_cache=partial(init_cache, config),
        unroll=partial(unroll_block, config),
        step=partial(step_block, config),
    )
    return stack.build(stack.Stack(config, config.window_steps, None, block))


def fused(config: HCAM) -> bool:
    """Are there kernels for this memory, here?"""
    return config.form == "auto" and kernels.common.supported(config.chunk, config.width, config.dtype)


def init_block(config: HCAM, key: Array) -> Params:
    return {"norm": init_norm(config.width), "read": init_read(key, config.width, config.width, config.width)}


def summarise(content_mcd: Array) -> Array:
    """A chunk's summary is its mean (section 2: "we average-pool across the chunk")."""
    return to_float32(content_mcd).mean(-2).astype(content_mcd.dtype)


def chunk_rows(config: HCAM, number: Array, rows: int) -> Array:
    """Where in a ring of `rows` rows the steps of chunk `number` lie: [...] -> [..., C]."""
    step = jax.lax.broadcasted_iota(jnp.int32, (*number.shape, config.chunk), number.ndim)
    return (number[..., None] * config.stride + step) % rows


def stored_chunks(config: HCAM, row_rd: Array, number_m: Array) -> Array:
    """The chunks of each slot, [M, C, D]. Where they do not overlap, they are the ring itself, cut into pieces."""
    if config.overlap == 0 and len(row_rd) == len(number_m) * config.chunk:
        return row_rd.reshape(len(number_m), config.chunk, -1)
    return row_rd[chunk_rows(config, number_m, len(row_rd))]


def unroll_block(
    config: HCAM,
    params: Params,
    row_rd: Array,
    summary_md: Array,
    x_td: Array,
    query_td: Array,
    clock: Array,
    start_t: Array,
) -> tuple[Array, Array, Array, Recalled]:
    """All steps of an unroll recall at once, from the chunks that came with the state and those the unroll completes.

    `x_td` are the layer inputs, which are stored; `query_td` is what the layer's attention made of them.
    """
    steps, chunk, stride, slots = x_td.shape[0], config.chunk, config.stride, config.slots
    time_t = ring.count(steps) - start_t

    # Stored chunks, and where their ends lie in this unroll's count of steps (before it, at negative indices).
    number_m = ring.latest(ring.complete(clock, chunk, stride) - 1, slots + 1)
    stored_mcd = stored_chunks(config, row_rd, number_m)
    stored_end_m = number_m * stride + chunk - 1 - clock

    # New chunks: slices of the last stored steps followed by this unroll's.
    end_u = ring.chunk_ends(time_t, chunk, stride)
    recent_jd = jnp.concatenate([ring.tail(row_rd, clock, chunk - 1), jax.lax.stop_gradient(x_td).astype(row_rd.dtype)])
    index_uc = jnp.minimum(end_u[:, None] + ring.count(chunk)[None, :], recent_jd.shape[0] - 1)
    new_ucd = recent_jd[index_uc]
    new_summary_ud = summarise(new_ucd)

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
    )

    # The summaries after the unroll: of each slot's latest chunk, new if it ended inside the unroll.
    clock = steps - start_t[-1]
    latest_m = ring.latest(ring.complete(clock, chunk, stride) - 1, slots + 1)
    latest_end_m = latest_m * stride + chunk - 1 + start_t[-1]
    fresh_md = new_summary_ud[jnp.clip(latest_end_m, 0, steps - 1) // stride]
    summary_md = jnp.where((latest_end_m >= 0)[:, None], fresh_md, summary_md)
    return answer_td, ~mask_tm.any(-1), summary_md, _by_number(recalled, mask_tm, number_tm)


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
) -> tuple[Array, Array, Array, Cache | None, Recalled]:
    """One step recalls; `row_rd` holds its own layer input already."""
    chunk, stride, slots, rows = config.chunk, config.stride, config.slots, row_rd.shape[0]
    done = ring.complete(time, chunk, stride)
    number_m = ring.latest(done - 1, slots + 1)
    mask_m = number_m >= jnp.maximum(0, done - slots)
    query_qd = layer_norm(params["norm"], query_d)[None]

    # The step that completes a chunk writes its summary; nobody reads the slot before.
    whole = ring.complete(time + 1, chunk, stride) > done
    begin = (time - chunk + 1) % rows
    write = kernels.step.summarise if fused(config) else kernels.step.plain_summarise
    summary_md = write(chunk, jax.lax.stop_gradient(row_rd), summary_md, begin, done % (slots + 1), whole)

    if cache is not None:
        key_hd, value_hd = keys_values(params["read"], x_d, config.heads)
        cache = cache._replace(
            key_rhd=ring.put(cache.key_rhd, time, key_hd), value_rhd=ring.put(cache.value_rhd, time, value_hd)
        )
    answer_qd, recalled = _recall_step(
        config, params["read"], prepared, row_rd, summary_md, cache, query_qd, number_m, mask_m[None]
    )
    recalled = _by_number(recalled, mask_m[None], number_m[None])
    return answer_qd[0], ~mask_m.any(), summary_md, cache, Recalled(*(entry[0] for entry in recalled))


def _recall_step(
    config: HCAM,
    params: Params,
    prepared: Prepared,
    row_rd: Array,
    summary_md: Array,
    cache: Cache | None,
    query_qd: Array,
    number_m: Array,
    mask_qm: Array,
) -> tuple[Array, Recalled]:
    """One query's read, from keys and values where they are cached, else from the layer inputs themselves."""
    stored_rd, key_md = jax.lax.stop_gradient((row_rd, summary_md))
    logits_qm = relevance_logits(params, query_qd, key_md, mask_qm)
    dense, k, heads, order = config.form == "dense", config.top_k, config.heads, config.order  # auto: one query gathers
    code_cd = _code(config, row_rd.dtype)
    every_m = ring.count(config.slots + 1)

    def index(chunk: Array) -> Array:
        return chunk_rows(config, number_m[chunk], row_rd.shape[0])

    def fetch(chunk: Array) -> Array:
        fetched = stored_rd[index(chunk)]
        return fetched + broadcast_like(code_cd, fetched)

    if cache is None and dense:
        parts = (stored_rd[index(every_m)],)
        return attend_dense(params, query_qd, logits_qm, parts, prepared, k=k, order=order)
    if cache is None:
        answer_qd, recalled = attend_gathered(params, query_qd, logits_qm, fetch, k=k, heads=heads, order=order)
        if fused(config):
            # What the plain form would answer is then left out by the compiler, and what it attended to as well
            # where nobody asks.
            begin_k = chunk_rows(config, number_m[recalled.chunk_qk[0]], row_rd.shape[0])[:, 0]
            count = jnp.minimum(mask_qm[0].sum(dtype=jnp.int32), k)
            inner_qhd, code_qhc = coded_queries(params, query_qd, prepared.code_key_chs)
            mixed_hd, seen_hc = kernels.step.recall(
                inner_qhd[0], to_float32(code_qhc[0]), stored_rd, begin_k, recalled.weight_qk[0], count
            )
            answer_qd = coded_answers(
                params, mixed_hd[None], recalled.weight_qk, seen_hc[None], prepared.code_value_chs
            )
        return answer_qd, recalled

    chunk_qk, weight_qk = top_chunks(logits_qm, k, order)
    where = index(every_m[None] if dense else chunk_qk)
    key, value = cache.key_rhd[where], cache.value_rhd[where]
    key, value = key + broadcast_like(cache.code_key_chd, key), value + broadcast_like(cache.code_value_chd, value)
    weight = top_weights(logits_qm, k, order) if dense else weight_qk
    answer_qd, within = attend_cached(params, query_qd, weight, key, value)
    return answer_qd, Recalled(chunk_qk, weight_qk, within[:, chunk_qk[0]] if dense else within)


def _code(config: HCAM, dtype: DTypeLike) -> Array:
    return position_code(config.chunk, config.width, config.positions, dtype)


def _by_number(recalled: Recalled, mask_qm: Array, number_qm: Array) -> Recalled:
    """Chunks by their number in the episode; number -1 and no attention where there was nothing to recall."""
    real_qk = jnp.take_along_axis(mask_qm, recalled.chunk_qk, axis=-1)
    return Recalled(
        chunk_qk=jnp.where(real_qk, jnp.take_along_axis(number_qm, recalled.chunk_qk, axis=-1), -1),
        weight_qk=jnp.where(real_qk, recalled.weight_qk, 0.0),
        within_qkhc=jnp.where(real_qk[:, :, None, None], recalled.within_qkhc, 0.0),
    )


def prepare(config: HCAM, params: Params) -> Prepared:
    return Prepared(*code_keys_values(params["read"], _code(config, config.dtype), config.heads))


def init_cache(config: HCAM, params: Params, row_rd: Array) -> Cache:
    return Cache(*keys_values(params["read"], row_rd, config.heads), *prepare(config, params))
