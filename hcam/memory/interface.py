"""What holds for every memory, in one place: `define` makes a `Memory` from the functions that an author writes.

The author writes what is particular to a memory. `define` adds the rest: it refuses bad arguments in one sentence,
stops gradients at the incoming state, converts to the dtype of computation and back, keeps unusable inputs out (see
`LARGEST_INPUT`), answers `recall=True`, and supplies the functions that the author left out.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from . import checks
from .layers import to_float32
from .types import Array, Memory, MemoryConfig, Params, Recall, State

# A step whose input is not finite, or has a feature beyond this, is not remembered: the memory computes with zeros in
# its place, and that step's own output is NaN. The outputs of all other steps, and their gradients, are as if its input
# had been zero. Otherwise one NaN would reach every step that attends to it, and through products with masked weights
# (0 * NaN) also those that do not, across resets and into later unrolls. Squares of what is left are finite.
LARGEST_INPUT = {"float32": 1e18, "bfloat16": 1e18, "float16": 1e4}


class Prepared(NamedTuple):
    """The result of an author's `prepare`, marked as such: `step` takes it in place of params, nothing else does."""

    value: Any


@dataclass(frozen=True, eq=False)  # hashed by identity, as a key of the caches below
class Definition:
    """An author's functions; None where the default applies."""

    config: Any
    dtype: str
    init_params: Callable[[Array], Params]
    init_state: Callable[[], State]
    step: Callable[..., Any] | None
    unroll: Callable[..., Any] | None
    prepare: Callable[[Params], Any] | None
    cached: Callable[[Params, State], State] | None
    undo: Callable[[State, State], State] | None
    recalls: bool
    guarded: bool = True  # whether unusable inputs are kept out


def define(
    config: MemoryConfig,
    *,
    dtype: str,
    init_params: Callable[[Array], Params],
    init_state: Callable[[], State],
    step: Callable[..., Any] | None = None,
    unroll: Callable[..., Any] | None = None,
    prepare: Callable[[Params], Any] | None = None,
    cached: Callable[[Params, State], State] | None = None,
    undo: Callable[[State, State], State] | None = None,
    recalls: bool = False,
) -> Memory:
    """A memory from functions for one environment. Module-level functions (or `partial`s of them) can be pickled.

    Args:
      config: the configuration; its `width` is the number of features of x and y.
      dtype: of computation. The functions get x in it and may return y in any float dtype.
      init_params: key -> params.
      init_state: () -> state. Its arrays keep their shapes and dtypes from step to step.
      step: params, state, x_d, first -> state, y_d. Where `first` is true, it must forget all of `state`. Default: an
        unroll of one step.
      unroll: params, state, x_td, first_t -> state, y_td, equal to scanning `step`. Default: that scan.
      prepare: params -> anything; `step` then gets the result instead of params. Default: params as they are.
      cached: params, state -> state with more arrays, which `step` takes as well. Default: the state as it is.
      undo: before, after -> a state without the step between them. Default: `before`.
      recalls: True if `step` and `unroll` take `recall=` and, if it is true, return a `Recall` as a third result.
        Default: `recall=True` returns an empty `Recall`.
    """
    if not hasattr(config, "width"):
        raise TypeError(
            f"a configuration must have a width, the number of features of x and y, but {config!r} has none."
        )
    checks.positive(width=config.width)
    checks.choice(checks.DTYPES, dtype=dtype)
    if step is None and (unroll is None or prepare is not None):
        raise TypeError(f"{config!r} must define step{' for prepare' if unroll else ' or unroll'}.")
    return _assemble(Definition(config, dtype, init_params, init_state, step, unroll, prepare, cached, undo, recalls))


def unguarded(memory: Memory) -> Memory:
    """The same memory for inputs that are known to be usable: the pass over them that keeps others out is saved.

    A memory that was made without `define` is returned as it is.
    """
    return memory if memory.definition is None else _assemble(replace(memory.definition, guarded=False))


def _assemble(own: Definition) -> Memory:
    prepare, step, unroll, cached, undo = (partial(f, own) for f in (_prepare, _step, _unroll, _cached, _undo))
    return Memory(own.config, own.init_params, own.init_state, prepare, step, unroll, cached, undo, own)


def _prepare(own: Definition, params: Params) -> Any:
    _check_params(own, params)
    return params if own.prepare is None else Prepared(own.prepare(jax.tree.map(jnp.asarray, params)))


def _step(own: Definition, params: Params, state: State, x_d: Array, first: Array, *, recall: bool = False) -> Any:
    checks.features("x", x_d, (own.config.width,), checks.ONE)
    checks.flag("first", first, ())
    if own.step is None:
        state, *results_t = _unroll(own, params, state, x_d[None], jnp.asarray(first)[None], recall=recall)
        return state, *jax.tree.map(lambda leaf_t: leaf_t[0], results_t)
    ready = _ready(own, params)
    _check_state(own, "state", state)
    return _call(own, own.step, ready, state, x_d, first, recall)


def _unroll(own: Definition, params: Params, state: State, x_td: Array, first_t: Array, *, recall: bool = False) -> Any:
    checks.features("x", x_td, ("T", own.config.width), checks.ONE)
    checks.flag("first", first_t, x_td.shape[:1])
    checks.positive(T=x_td.shape[0])
    _check_params(own, params)
    _check_state(own, "state", state)
    return _call(own, own.unroll or partial(_scan, own), params, state, x_td, first_t, recall)


def _cached(own: Definition, params: Params, state: State) -> State:
    _check_params(own, params)
    _check_state(own, "state", state)
    return state if own.cached is None else own.cached(*jax.tree.map(jnp.asarray, (params, state)))


def _undo(own: Definition, before: State, after: State) -> State:
    for state in (before, after):
        _check_state(own, "state", state, any_batch=True)  # a batch needs no vmap here
    return before if own.undo is None else own.undo(before, after)


def _call(
    own: Definition, function: Callable[..., Any], ready: Any, state: State, x: Array, first: Array, recall: bool
) -> Any:
    """Calls an author's `step` or `unroll` with checked arguments, unusable inputs replaced by zeros."""
    ready, state, x, first = jax.tree.map(jnp.asarray, (ready, jax.lax.stop_gradient(state), x, first))
    usable = (jnp.abs(to_float32(x)) <= LARGEST_INPUT[own.dtype]).all(-1, keepdims=True)  # false for NaN, too
    options = {"recall": recall} if own.recalls else {}
    kept = jnp.where(usable, x, 0.0) if own.guarded else x
    result = function(ready, state, kept.astype(own.dtype), first, **options)
    state, y, *seen = _check_result(own, result, x.shape, 2 + (own.recalls and recall))
    y = jnp.where(usable, y.astype(x.dtype), jnp.nan) if own.guarded else y.astype(x.dtype)
    return (state, y, *(seen or [Recall()])) if recall else (state, y)


def _scan(own: Definition, params: Params, state: State, x_td: Array, first_t: Array, **options: Any) -> Any:
    """The default `unroll`."""
    assert own.step is not None
    step = own.step
    ready = params if own.prepare is None else own.prepare(params)

    def body(state: State, now: tuple[Array, Array]) -> tuple[State, Any]:
        result = step(ready, state, *now, **options)
        state, *rest = _check_result(own, result, now[0].shape, 2 + options.get("recall", False))
        return state, rest

    state, rest = jax.lax.scan(body, state, (x_td, first_t))
    return state, *rest


def _ready(own: Definition, params: Params) -> Any:
    """What the author's `step` gets: prepared parameters if there is a `prepare`."""
    if own.prepare is not None and isinstance(params, Prepared):
        checks.same_structure("params", params, _shapes_of_prepared(own), own.config, dtypes=False)
    else:
        params = _prepare(own, params)
    return params.value if isinstance(params, Prepared) else params


def _check_params(own: Definition, params: Params) -> None:
    if isinstance(params, Prepared):
        raise TypeError("prepared params are for `step` alone: pass the params that they were made from.")
    checks.same_structure("params", params, _shapes_of_params(own), own.config, dtypes=False)


def _check_state(own: Definition, what: str, state: State, any_batch: bool = False) -> None:
    full = None if own.cached is None else _shapes_of_cached(own)
    plain = _shapes_of_state(own)
    checks.same_structure(what, state, plain, own.config, dtypes=True, any_batch=any_batch, full=full)


def _check_result(own: Definition, result: Any, shape: tuple[int, ...], length: int) -> Any:
    """The result of an author's function, if it is well formed: a mistake here is the author's, not the user's."""
    if not isinstance(result, tuple) or len(result) != length:
        wanted = "(state, y)" if length == 2 else "(state, y, Recall)"
        raise TypeError(f"the functions of {own.config} must return {wanted}, but returned {type(result).__name__}.")
    _check_state(own, "returned state", result[0])
    if jnp.shape(result[1]) != shape:
        raise ValueError(f"y of {own.config} must have the shape of x, {shape}, but has {jnp.shape(result[1])}.")
    return result


@lru_cache(maxsize=64)
def _shapes_of_params(own: Definition) -> Params:
    return jax.eval_shape(own.init_params, jax.random.key(0))


@lru_cache(maxsize=64)
def _shapes_of_prepared(own: Definition) -> Any:
    return jax.eval_shape(partial(_prepare, own), _shapes_of_params(own))


@lru_cache(maxsize=64)
def _shapes_of_state(own: Definition) -> State:
    return jax.eval_shape(own.init_state)


@lru_cache(maxsize=64)
def _shapes_of_cached(own: Definition) -> State:
    assert own.cached is not None
    return jax.eval_shape(own.cached, _shapes_of_params(own), _shapes_of_state(own))
