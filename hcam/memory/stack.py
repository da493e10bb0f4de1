"""A transformer as a memory: layers of window attention, an optional block that recalls, and an MLP.

HCAM, TransformerXL and the control without memory are all this stack. The state is one ring of past layer inputs per
layer, which serves the window and the chunks alike; `step` and `unroll` differ only in how they look at it.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from . import checks, ring, window
from .layers import gate, init_gate, init_mlp, mlp
from .recall import Recalled
from .types import Array, Memory, Params, Recall

RESIDUAL_INIT_SCALE = (
    0.1  # what the weights that end a sublayer are drawn with, relative to what would keep the variance
)


class Shape(Protocol):
    """What the stack needs to know of a configuration."""

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
    @property
    def dtype(self) -> str: ...


class Block(NamedTuple):
    """What may stand between a layer's attention and its MLP: a recall from the layer's own past."""

    rows: int  # how many past layer inputs the ring must hold for it
    init_params: Callable[[Array], Params]
    init_summary: Callable[[], Array]
    prepare: Callable[[Params], Any]
    init_cache: Callable[[Params, Array], Any]  # params, row_rd
    unroll: Callable[..., tuple[Array, Array, Array, Recalled]]  # -> answer_td, silent_t, summary_md, recalled
    step: Callable[..., tuple[Array, Array, Array, Any, Recalled]]  # -> answer_d, silent, summary_md, cache, recalled


class Prepared(NamedTuple):
    params: Params
    layers: tuple[tuple[window.Prepared, Any], ...]  # what was made of those of a layer's window and of its block


class LayerCache(NamedTuple):
    window: window.Cache
    block: Any


class LayerState(NamedTuple):
    input_rd: Array  # past layer inputs, the one of time t at row t % R
    summary_md: Array | None  # the mean of chunk n at row n % (slots + 1); None in a stack without chunks
    cache: LayerCache | None  # keys and values under one set of parameters: see `cached`


class StackState(NamedTuple):
    clock: Array  # how many steps of the current episode are stored
    layers: tuple[LayerState, ...]


class Stack(NamedTuple):
    """The numbers and parts that the functions below are closed over."""

    config: Shape
    window: int
    top_k: int | None
    block: Block | None

    @property
    def rows(self) -> int:
        return max(self.window, self.block.rows if self.block else 0)


def build(stack: Stack) -> Memory:
    def bind(function: Callable[..., Any]) -> Callable[..., Any]:
        def bound(*args: Any, **options: Any) -> Any:
            return function(stack, *args, **options)

        bound.__name__, bound.__doc__ = function.__name__, function.__doc__
        return bound

    return Memory(stack.config, *(bind(f) for f in (init_params, init_state, prepare, step, unroll, cached, undo)))


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
    return {name: _quiet(part) for name, part in params.items()}


def _quiet(params: Params) -> Params:
    """A sublayer that adds little at first, as a gate would see to: else what came in is lost under what they add.

    With weights as they are drawn, four layers of 256 leave a correlation of 0.11 between what goes in and what comes
    out, and an agent is at chance after 235 million steps (docs/training.md).
    """
    if "read" in params:
        return params | {"read": _quiet(params["read"])}
    return params | {"out": params["out"] | {"w": RESIDUAL_INIT_SCALE * params["out"]["w"]}}


def init_state(stack: Stack) -> StackState:
    """An empty memory. Its rows are never read before they are written, whatever they hold."""

    def layer() -> LayerState:  # made anew each time: arrays that are shared could not be donated
        input_rd = jnp.zeros((stack.rows, stack.config.width), stack.config.dtype)
        return LayerState(input_rd, stack.block.init_summary() if stack.block else None, cache=None)

    return StackState(jnp.zeros((), jnp.int32), tuple(layer() for _ in range(stack.config.layers)))


def prepare(stack: Stack, params: Params) -> Prepared:
    """The same parameters for many steps: what each would make of them anew is made once. `step` takes either."""
    checks.same_structure("params", params, _expected(stack)[2], stack.config, dtypes=False)
    params, config = jax.tree.map(jnp.asarray, params), stack.config

    def one(layer: Params) -> tuple[window.Prepared, Any]:
        recent = window.prepare(layer["window"], window=stack.window, heads=config.heads, dtype=config.dtype)
        return recent, stack.block.prepare(layer["block"]) if stack.block else None

    return Prepared(params, tuple(map(one, params)))


def cached(stack: Stack, params: Params, state: StackState) -> StackState:
    """The same memory with the keys and values of all that is stored, which `step` then extends by one row at a time.

    They hold for these parameters alone: after a change of parameters call this again, on whatever state you have.
    """
    _check(stack, params, state)
    return _with_cache(stack, *jax.tree.map(jnp.asarray, (params, state)))


def _with_cache(stack: Stack, params: Params, state: StackState) -> StackState:
    time_w = ring.latest(state.clock - 1, stack.window)

    def fill(layer: Params, past: LayerState) -> LayerState:
        recent = window.init_cache(layer["window"], past.input_rd[time_w % stack.rows], stack.config.heads)
        chunks = stack.block.init_cache(layer["block"], past.input_rd) if stack.block else None
        return past._replace(cache=LayerCache(recent, chunks))

    return state._replace(layers=tuple(map(fill, params, state.layers)))


def undo(stack: Stack, before: StackState, after: StackState) -> StackState:
    """As if the step from one to the other had not been; the next one is then an episode's first if that one was.

    Only the clock goes back. The row and the summary that were written are the next step's to write, and until then
    nothing looks there: so no ring has to be kept, or copied, for the sake of a step that was only tried.
    """
    return after._replace(clock=before.clock)


def step(
    stack: Stack, params: Params | Prepared, state: StackState, x_d: Array, first: Array, *, recall: bool = False
) -> Any:
    """One step of one environment: `first` marks an episode's first step, before which everything is forgotten.

    Returns (state, y_d), or with `recall` (state, y_d, Recall). What is stored is constant here: to train, `unroll`.
    """
    checks.features("x", x_d, (stack.config.width,), checks.ONE)
    checks.flag("first", first, ())
    ready = params if isinstance(params, Prepared) else prepare(stack, params)
    _check(stack, ready.params, state)
    ready, state, x_d, first = jax.tree.map(jnp.asarray, (ready, jax.lax.stop_gradient(state), x_d, first))
    time, y_d, layers, seen = jnp.where(first, 0, state.clock), x_d.astype(stack.config.dtype), [], []
    for layer, prepared, past in zip(*ready, state.layers, strict=True):
        y_d, past, attention_hw, recalled = _step_layer(stack, layer, prepared, past, y_d, time)
        layers.append(past)
        seen.append((attention_hw, recalled))
    state, y_d = StackState(time + 1, tuple(layers)), y_d.astype(x_d.dtype)
    return (state, y_d, _recall(seen)) if recall else (state, y_d)


def _step_layer(
    stack: Stack, params: Params, prepared: tuple[window.Prepared, Any], past: LayerState, x_d: Array, time: Array
) -> tuple[Array, LayerState, Array, Recalled | None]:
    """Write, then read: the row of this step replaces one that nothing can see any more."""
    heads, top_k = stack.config.heads, stack.top_k
    with jax.named_scope("window"):
        if past.cache is None:
            row_rd, answer_d, attention_hw = window.step(
                params["window"], prepared[0], past.input_rd, x_d, time, top_k=top_k
            )
            recent, chunks = None, None
        else:
            row_rd = ring.put(past.input_rd, time, x_d)
            recent, answer_d, attention_hw = window.step_cached(
                params["window"], x_d, past.cache.window, time, heads=heads, top_k=top_k
            )
            chunks = past.cache.block
        y_d, summary_md, recalled = gate(params.get("window_gate"), x_d, answer_d), past.summary_md, None
    if stack.block:
        with jax.named_scope("recall"):
            answer_d, silent, summary_md, chunks, recalled = stack.block.step(
                params["block"], prepared[1], row_rd, summary_md, chunks, x_d, y_d, time
            )
            y_d = jnp.where(silent, y_d, gate(params.get("block_gate"), y_d, answer_d))
    with jax.named_scope("mlp"):
        y_d = gate(params.get("mlp_gate"), y_d, mlp(params["mlp"], y_d))
    cache = None if recent is None else LayerCache(recent, chunks)
    return y_d, LayerState(row_rd, summary_md, cache), attention_hw, recalled


def unroll(
    stack: Stack, params: Params, state: StackState, x_td: Array, first_t: Array, *, recall: bool = False
) -> Any:
    """T steps of one environment at once, parallel in time, over any number of episodes.

    Returns (state, y_td), or with `recall` (state, y_td, Recall). A cache in `state` is ignored and not carried on.
    """
    checks.features("x", x_td, ("T", stack.config.width), checks.ONE)
    checks.flag("first", first_t, x_td.shape[:1])
    checks.positive(T=x_td.shape[0])
    _check(stack, params, state)
    params, state, x_td, first_t = jax.tree.map(jnp.asarray, (params, jax.lax.stop_gradient(state), x_td, first_t))
    start_t = ring.episode_starts(first_t, state.clock)
    y_td, layers, seen = x_td.astype(stack.config.dtype), [], []
    for layer, past in zip(params, state.layers, strict=True):
        y_td, past, attention_htj, recalled = _unroll_layer(stack, layer, past, y_td, state.clock, start_t)
        layers.append(past)
        seen.append((attention_htj, recalled))
    state, y_td = StackState(x_td.shape[0] - start_t[-1], tuple(layers)), y_td.astype(x_td.dtype)
    if not recall:
        return state, y_td
    by_age = [
        (jnp.flip(window.unskew(att_htj, stack.window), -1).swapaxes(0, 1), recalled) for att_htj, recalled in seen
    ]
    return state, y_td, _recall(by_age)


def _unroll_layer(
    stack: Stack, params: Params, past: LayerState, x_td: Array, clock: Array, start_t: Array
) -> tuple[Array, LayerState, Array, Recalled | None]:
    stored_vd = ring.tail(past.input_rd, clock, stack.window - 1)
    with jax.named_scope("window"):
        answer_td, attention_htj = window.unroll(
            params["window"], stored_vd, x_td, start_t, heads=stack.config.heads, top_k=stack.top_k
        )
        y_td, summary_md, recalled = gate(params.get("window_gate"), x_td, answer_td), past.summary_md, None
    if stack.block:
        with jax.named_scope("recall"):
            answer_td, silent_t, summary_md, recalled = stack.block.unroll(
                params["block"], past.input_rd, summary_md, x_td, y_td, clock, start_t
            )
            y_td = jnp.where(silent_t[:, None], y_td, gate(params.get("block_gate"), y_td, answer_td))
    with jax.named_scope("mlp"):
        y_td = gate(params.get("mlp_gate"), y_td, mlp(params["mlp"], y_td))
    row_rd = ring.write(past.input_rd, x_td, x_td.shape[0] - start_t[-1])
    return y_td, LayerState(row_rd, summary_md, cache=None), attention_htj, recalled


def _recall(seen: list[tuple[Array, Recalled | None]]) -> Recall:
    windows, recalled = zip(*seen, strict=True)
    if recalled[0] is None:
        return Recall(windows)
    return Recall(windows, *zip(*recalled, strict=True))


def _check(stack: Stack, params: Params, state: StackState) -> None:
    if isinstance(params, Prepared):
        raise TypeError("prepared params are for `step` alone: give those that they were made of.")
    plain, full, weights = _expected(stack)
    checks.same_structure("params", params, weights, stack.config, dtypes=False)
    has_cache = isinstance(state, StackState) and any(layer.cache is not None for layer in state.layers)
    checks.same_structure("state", state, full if has_cache else plain, stack.config, dtypes=True)


@lru_cache(maxsize=64)
def _expected(stack: Stack) -> tuple[StackState, StackState, Params]:
    """The shapes of an empty state, of a cached one, and of the parameters."""
    params = jax.eval_shape(partial(init_params, stack), jax.random.key(0))
    plain = jax.eval_shape(partial(init_state, stack))
    return plain, jax.eval_shape(partial(_with_cache, stack), params, plain), params
