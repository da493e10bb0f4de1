"""A transformer as a memory: layers of window attention, an optional block that recalls, and an MLP.

HCAM, TransformerXL and the control without memory are all this stack. The state is one ring of past layer inputs per
layer, from which both the window and the chunks are read. `recall` is static: what it reports is only computed with it.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from . import ring, window
from .interface import define
from .layers import gate, init_gate, init_mlp, mlp
from .recall import Recalled
from .types import Array, Memory, Params, Recall

RESIDUAL_INIT_SCALE = 0.1  # the last weights of a sublayer are drawn with this fraction of the usual deviation


class Shape(Protocol):
    """What the stack needs of a configuration."""

    @property
    def width(self) -> int: ...
    @property
    def layers(self) -> int: ...
    @property
    def heads(self) -> int: ...
    @property
    def mlp(self) -> int: ...
    @property
    def gated(self) -> bool: ...
    def build(self, dtype: str) -> Memory: ...


class Block(NamedTuple):
    """An optional sublayer between a layer's attention and its MLP: a recall from the layer's own past."""

    rows: int  # how many past layer inputs the ring must hold for it
    init_params: Callable[[Array], Params]
    init_summary: Callable[[], Array]
    prepare: Callable[[Params], Any]
    init_cache: Callable[[Params, Array], Any]  # params, row_rd
    unroll: Callable[..., tuple[Array, Array, Array, Recalled | None]]  # -> answer_td, empty_t, summary_md, recalled
    step: Callable[
        ..., tuple[Array, Array, Array, Any, Recalled | None]
    ]  # -> answer_d, empty, summary_md, cache, recalled


class Prepared(NamedTuple):
    params: Params
    layers: tuple[tuple[window.Prepared, Any], ...]  # per layer, what its window and its block prepared


class LayerCache(NamedTuple):
    window: window.Cache
    block: Any


class LayerState(NamedTuple):
    input_rd: Array  # past layer inputs, that of time t at row t % R
    summary_md: Array | None  # the mean of chunk n at row n % (slots + 1); None in a stack without chunks
    cache: LayerCache | None  # keys and values under one set of parameters: see `cached`


class StackState(NamedTuple):
    clock: Array  # how many steps of the current episode are stored
    layers: tuple[LayerState, ...]


class Stack(NamedTuple):
    """The numbers and parts that make one memory of this stack."""

    config: Shape
    dtype: str
    window: int
    top_k: int | None
    block: Block | None

    @property
    def rows(self) -> int:
        return max(self.window, self.block.rows if self.block else 0)


def build(stack: Stack) -> Memory:
    return define(
        stack.config,
        dtype=stack.dtype,
        init_params=partial(init_params, stack),
        init_state=partial(init_state, stack),
        step=partial(step, stack),
        unroll=partial(unroll, stack),
        prepare=partial(prepare, stack),
        cached=partial(cached, stack),
        undo=undo,
        recalls=True,
    )


def init_params(stack: Stack, key: Array) -> Params:
    return tuple(_init_layer(stack, layer_key) for layer_key in jax.random.split(key, stack.config.layers))


def _init_layer(stack: Stack, key: Array) -> Params:
    config = stack.config
    names = ("window", "block", "mlp", "window_gate", "block_gate", "mlp_gate")
    keys = dict(zip(names, jax.random.split(key, len(names)), strict=True))
    params = {
        "window": window.init_window(keys["window"], config.width, config.heads),
        "mlp": init_mlp(keys["mlp"], config.width, config.mlp * config.width),
    }
    if stack.block:
        params["block"] = stack.block.init_params(keys["block"])
    if config.gated:
        return params | {f"{name}_gate": init_gate(keys[f"{name}_gate"], config.width) for name in params}
    return {name: scale_down(part) for name, part in params.items()}


def scale_down(params: Params) -> Params:
    """A sublayer that adds little at first, as a gate would ensure: otherwise the input is lost under the sum.

    With weights at their usual scale, four layers of 256 leave a correlation of 0.11 between input and output, and an
    agent is at chance after 235 million steps (docs/log/2026-11-15-residual-initialisation.md).
    """
    if "read" in params:
        return params | {"read": scale_down(params["read"])}
    return params | {"out": params["out"] | {"w": RESIDUAL_INIT_SCALE * params["out"]["w"]}}


def init_state(stack: Stack) -> StackState:
    """An empty memory. Its rows are never read before they are written, whatever they hold."""

    def layer() -> LayerState:  # new arrays for each layer: arrays that are shared could not be donated
        input_rd = jnp.zeros((stack.rows, stack.config.width), stack.dtype)
        return LayerState(input_rd, stack.block.init_summary() if stack.block else None, cache=None)

    return StackState(jnp.zeros((), jnp.int32), tuple(layer() for _ in range(stack.config.layers)))


def prepare(stack: Stack, params: Params) -> Prepared:
    """The parameters, with what `step` computes from them alone."""

    def prepare_layer(layer: Params) -> tuple[window.Prepared, Any]:
        heads = stack.config.heads
        recent = window.prepare(layer["window"], window=stack.window, heads=heads, dtype=stack.dtype)
        return recent, stack.block.prepare(layer["block"]) if stack.block else None

    return Prepared(params, tuple(map(prepare_layer, params)))


def cached(stack: Stack, params: Params, state: StackState) -> StackState:
    """The same memory with the keys and values of everything stored, which `step` extends by one row at a time.

    They hold for these parameters alone: after a change of parameters call this again, on whatever state you have.
    """
    time_w = ring.latest(state.clock - 1, stack.window)

    def fill(layer: Params, past: LayerState) -> LayerState:
        recent = window.init_cache(layer["window"], past.input_rd[time_w % stack.rows], stack.config.heads)
        chunks = stack.block.init_cache(layer["block"], past.input_rd) if stack.block else None
        return past._replace(cache=LayerCache(recent, chunks))

    return state._replace(layers=tuple(map(fill, params, state.layers)))


def undo(before: StackState, after: StackState) -> StackState:
    """`after` without its last step, which the next step then replaces: pass it the same `first`.

    Only the clock goes back. The next step overwrites the row and the summary that were written, and nothing reads them
    until then. So the rings need neither be kept nor copied for the sake of a step that is undone.
    """
    return after._replace(clock=before.clock)


def step(
    stack: Stack, ready: Prepared, state: StackState, x_d: Array, first: Array, *, recall: bool
) -> tuple[Any, ...]:
    """One step. Everything stored is constant here: train with `unroll`."""
    time, y_d, layers, seen = jnp.where(first, 0, state.clock), x_d, [], []
    for layer, prepared, past in zip(*ready, state.layers, strict=True):
        y_d, past, *attended = _step_layer(stack, layer, prepared, past, y_d, time, recall)
        layers.append(past)
        seen.append(attended)
    state = StackState(time + 1, tuple(layers))
    return (state, y_d, _recall(seen)) if recall else (state, y_d)


def _step_layer(
    stack: Stack,
    params: Params,
    prepared: tuple[window.Prepared, Any],
    past: LayerState,
    x_d: Array,
    time: Array,
    recall: bool,
) -> tuple[Array, LayerState, Array | None, Recalled | None]:
    """Write, then read: the row of this step replaces one that is outside every window and every recallable chunk."""
    options: dict[str, Any] = {"top_k": stack.top_k, "recall": recall}
    with jax.named_scope("window"):
        if past.cache is None:
            row_rd, answer_d, attention_hw = window.step(
                params["window"], prepared[0], past.input_rd, x_d, time, **options
            )
            recent, chunks = None, None
        else:
            row_rd = ring.put(past.input_rd, time, x_d)
            recent, answer_d, attention_hw = window.step_cached(
                params["window"], x_d, past.cache.window, time, heads=stack.config.heads, **options
            )
            chunks = past.cache.block
        y_d, summary_md, recalled = gate(params.get("window_gate"), x_d, answer_d), past.summary_md, None
    if stack.block:
        with jax.named_scope("recall"):
            answer_d, empty, summary_md, chunks, recalled = stack.block.step(
                params["block"], prepared[1], row_rd, summary_md, chunks, x_d, y_d, time, recall=recall
            )
            y_d = jnp.where(empty, y_d, gate(params.get("block_gate"), y_d, answer_d))
    with jax.named_scope("mlp"):
        y_d = gate(params.get("mlp_gate"), y_d, mlp(params["mlp"], y_d))
    cache = None if recent is None else LayerCache(recent, chunks)
    return y_d, LayerState(row_rd, summary_md, cache), attention_hw, recalled


def unroll(
    stack: Stack, params: Params, state: StackState, x_td: Array, first_t: Array, *, recall: bool
) -> tuple[Any, ...]:
    """T steps at once, parallel in time, over any number of episodes. A cache in `state` is ignored and dropped."""
    start_t = ring.episode_starts(first_t, state.clock)
    y_td, layers, seen = x_td, [], []
    for layer, past in zip(params, state.layers, strict=True):
        y_td, past, *attended = _unroll_layer(stack, layer, past, y_td, state.clock, start_t, recall)
        layers.append(past)
        seen.append(attended)
    state = StackState(x_td.shape[0] - start_t[-1], tuple(layers))
    return (state, y_td, _recall(seen)) if recall else (state, y_td)


def _unroll_layer(
    stack: Stack, params: Params, past: LayerState, x_td: Array, clock: Array, start_t: Array, recall: bool
) -> tuple[Array, LayerState, Array | None, Recalled | None]:
    stored_vd = ring.tail(past.input_rd, clock, stack.window - 1)
    with jax.named_scope("window"):
        answer_td, attention_htj = window.unroll(
            params["window"], stored_vd, x_td, start_t, heads=stack.config.heads, top_k=stack.top_k, recall=recall
        )
        y_td, summary_md, recalled = gate(params.get("window_gate"), x_td, answer_td), past.summary_md, None
    if stack.block:
        with jax.named_scope("recall"):
            answer_td, empty_t, summary_md, recalled = stack.block.unroll(
                params["block"], past.input_rd, summary_md, x_td, y_td, clock, start_t, recall=recall
            )
            y_td = jnp.where(empty_t[:, None], y_td, gate(params.get("block_gate"), y_td, answer_td))
    with jax.named_scope("mlp"):
        y_td = gate(params.get("mlp_gate"), y_td, mlp(params["mlp"], y_td))
    row_rd = ring.write(past.input_rd, x_td, x_td.shape[0] - start_t[-1])
    attention_thw = None if attention_htj is None else window.by_age(attention_htj, stack.window)
    return y_td, LayerState(row_rd, summary_md, cache=None), attention_thw, recalled


def _recall(seen: list[list[Any]]) -> Recall:
    """One `Recall` from each layer's attention over the window and what its block recalled."""
    windows, recalled = zip(*seen, strict=True)
    if recalled[0] is None:
        return Recall(windows)
    return Recall(windows, *zip(*recalled, strict=True))
