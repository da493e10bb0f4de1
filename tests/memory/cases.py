"""The configurations that the tests share, parameters with nothing at its resting value, one compile per program."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hcam import memory
from hcam.memory import EPN, GRU, HCAM, LSTM, Local, TrXL
from tests.memory.oracle import Recalled, SlowStack

WIDTH = 8
LENGTH = 45  # steps of the long sequences: with 3 slots and chunks of 4, the memory overflows after 16

small_hcam = partial(HCAM, width=WIDTH, layers=1, heads=2, chunk=4, slots=3, top_k=2, mlp=1)
small_trxl = partial(TrXL, width=WIDTH, layers=2, heads=2, window=6, mlp=1)

# Every option of every memory at least once, several at a time: a configuration costs half a dozen compilations.
CONFIGS: dict[str, Any] = {
    "hcam": small_hcam(layers=2),
    "hcam-overlap": small_hcam(overlap=1, window=1, gated=True, order="softmax_then_top_k"),
    "hcam-overlap-most": small_hcam(overlap=3, window=7, form="dense", top_k=3),
    "hcam-gather": small_hcam(form="gather", chunk=5, overlap=2, slots=5, top_k=1, positions=False),
    "hcam-one-step": small_hcam(form="dense", chunk=1, slots=6, window=2, heads=1, order="softmax_then_top_k"),
    "hcam-one-slot": small_hcam(form="gather", slots=1, top_k=1, window=23),  # the window needs the most rows
    "trxl": small_trxl(),
    "trxl-sparse": small_trxl(top_k=2, window=9, layers=1, gated=False),
    "lstm": LSTM(width=WIDTH, layers=2),
    "gru": GRU(width=WIDTH, layers=2),
    "epn": EPN(width=WIDTH, heads=2, items=6, iterations=2, mlp=1),
    "local": Local(width=WIDTH, layers=2, heads=2, window=4, mlp=1),
}
# One of each kind, for what does not depend on the options.
KINDS = ("hcam", "hcam-overlap", "trxl-sparse", "lstm", "gru", "epn")
RECURRENT = ("lstm", "gru")
NO_STACK = (*RECURRENT, "epn")  # they have a slow version of their own, recall nothing and cache nothing


class Programs(NamedTuple):
    """A memory's functions, compiled, always with `recall`. Each new length of an unroll compiles once."""

    step: Any
    unroll: Any
    cached: Any


@lru_cache
def programs(config: Any, dtype: str = "float32") -> Programs:
    mem = memory.make(config, dtype=dtype)
    # Compiling is nearly all that these tests do: machine code that is not polished saves a quarter of it.
    compiled = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
    step, unroll = partial(mem.step, recall=True), partial(mem.unroll, recall=True)
    return Programs(compiled(step), compiled(unroll), compiled(mem.cached))


def shapes_of_params(config: Any) -> Any:
    return jax.eval_shape(memory.make(config).init_params, jax.random.key(0))


def noisy(shapes: Any, seed: int) -> Any:
    """Parameters of these shapes in which no bias is 0, no scale is 1 and no two numbers are equal."""
    rng = np.random.default_rng(seed)

    def fill(path: Any, leaf: Any) -> jax.Array:
        name = jax.tree_util.keystr(path[-1:])
        around = {"['scale']": 1.0, "['offset']": 0.3}.get(name, 0.0)
        spread = 1 / np.sqrt(leaf.shape[0]) if name == "['w']" else 0.3
        return jnp.asarray(around + spread * rng.standard_normal(leaf.shape), jnp.float32)

    return jax.tree_util.tree_map_with_path(fill, shapes)


@lru_cache
def params_of(config: Any, seed: int = 0) -> Any:
    return noisy(shapes_of_params(config), seed)


def inputs(seed: int, length: int = LENGTH, width: int = WIDTH) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((length, width)).astype(np.float32)


def starts(*at: int, length: int = LENGTH) -> np.ndarray:
    """The `first` flags of a sequence whose episodes start at these steps."""
    return np.isin(np.arange(length), at)


def garbage(state: Any, seed: int = 0, clock: int | None = None) -> Any:
    """The state with every stored number replaced by one around a thousand; the clock only where it is given."""
    rng = np.random.default_rng(seed)

    def spoil(leaf: Any) -> jax.Array:
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            return jnp.asarray(leaf if clock is None else np.full(leaf.shape, clock), leaf.dtype)
        return jnp.asarray(1e3 * rng.standard_normal(leaf.shape), leaf.dtype)

    return jax.tree.map(spoil, state)


def run_steps(
    config: Any, params: Any, state: Any, x: np.ndarray, first: np.ndarray, dtype: str = "float32"
) -> tuple[Any, Any, Any]:
    """`step` again and again: the state, and the outputs and recalls stacked over time as `unroll` gives them."""
    step, rows = programs(config, dtype).step, []
    for x_d, at_start in zip(x, first, strict=True):
        state, *row = step(params, state, x_d, at_start)
        rows.append(jax.device_get(row))
    y, recall = jax.tree.map(lambda *entries: np.stack(entries), *rows)
    return state, y, recall


def without_cache(state: Any) -> Any:
    """The state as `unroll` sees it: it ignores a cache, but would be compiled once more for a state that has one."""
    if not hasattr(state, "layers"):
        return state
    return state._replace(layers=tuple(layer._replace(cache=None) for layer in state.layers))


def joined(pieces: list[Any]) -> Any:
    """Results of consecutive calls as those of one."""
    return jax.tree.map(lambda *entries: np.concatenate(entries), *pieces)


def assert_same(found: Any, expected: Any, tolerance: float = 1e-5) -> None:
    """The same structure and, nearly, the same numbers."""

    def compare(f: Any, e: Any) -> None:
        np.testing.assert_allclose(f, e, rtol=tolerance, atol=tolerance)

    jax.tree.map(compare, found, expected)  # raises for another structure


def same(found: Any, expected: Any, tolerance: float = 1e-5) -> bool:
    try:
        assert_same(found, expected, tolerance)
    except AssertionError:
        return False
    return True


def float_leaves(tree: Any) -> list[Any]:
    return [leaf for leaf in jax.tree.leaves(tree) if jnp.issubdtype(leaf.dtype, jnp.floating)]


def split_floats(tree: Any) -> tuple[list[Any], Any]:
    """The floating leaves, and the function that puts such a list back: for differentiating a state with a clock."""
    leaves, structure = jax.tree.flatten(tree)
    where = [i for i, leaf in enumerate(leaves) if jnp.issubdtype(leaf.dtype, jnp.floating)]

    def join(floats: list[Any]) -> Any:
        together = list(leaves)
        for i, leaf in zip(where, floats, strict=True):
            together[i] = leaf
        return jax.tree.unflatten(structure, together)

    return [leaves[i] for i in where], join


def assert_equals_slow_stack(config: Any, seed: int, first: np.ndarray) -> None:
    """Outputs and recalls of `unroll` and of `step` against those of the slow stack."""
    params, x, empty = params_of(config), inputs(seed), memory.make(config).init_state()
    slow = SlowStack(config, params)
    expected = [slow.step(x_d, bool(at_start)) for x_d, at_start in zip(x, first, strict=True)]
    assert slow.gap > 1e-5, "a near tie, in which float32 may choose differently: take another seed"
    unrolled = jax.device_get(programs(config).unroll(params, empty, x, first))
    for _, y, recall in (unrolled, run_steps(config, params, empty, x, first)):
        for t, (y_d, seen) in enumerate(expected):
            np.testing.assert_allclose(y[t], y_d, rtol=1e-4, atol=2e-5)
            for layer, what in enumerate(seen):
                assert_recall_equals(jax.tree.map(lambda entry, t=t: entry[t], recall), layer, what)


def assert_recall_equals(recall: Any, layer: int, expected: Recalled) -> None:
    np.testing.assert_allclose(recall.window_hw[layer], expected.window, atol=2e-5)
    if recall.chunk_k is None:
        return
    found = len(expected.chunk)
    np.testing.assert_array_equal(recall.chunk_k[layer][:found], expected.chunk)
    np.testing.assert_array_equal(recall.chunk_k[layer][found:], -1)
    if found:
        np.testing.assert_allclose(recall.relevance_k[layer][:found], expected.weight, atol=2e-5)
        np.testing.assert_allclose(recall.within_khc[layer][:found], expected.within, atol=2e-5)
    before = np.zeros(recall.relevance_m[layer].shape)
    before[: len(expected.before)] = expected.before
    np.testing.assert_allclose(recall.relevance_m[layer], before, atol=2e-5)


def changed_by(config: Any, at: list[int], first: np.ndarray, scale: float = 1.0) -> np.ndarray:
    """[P, T]: which outputs change when the input of one of these P steps does."""
    mem, params = memory.make(config), params_of(config)
    x_ptd = np.tile(inputs(21), (len(at) + 1, 1, 1))
    for p, t in enumerate(at):
        x_ptd[p, t] += scale * (1 + np.arange(WIDTH) % 3)  # not the same everywhere, which a norm would take away
    unroll = jax.jit(jax.vmap(mem.unroll, (None, None, 0, None)))
    y_ptd = np.asarray(unroll(params, mem.init_state(), x_ptd, first)[1])
    return np.abs(y_ptd[:-1] - y_ptd[-1]).max(-1) > 1e-6
