"""The kernels against their plain forms on this machine: `python -m tests.memory.kernels.gpu`.

Each kernel runs in bfloat16, forwards and backwards, against its plain form in float32; then `step` runs against
`unroll` for whole memories. On a GPU the sizes are realistic, and compiling the ten programs takes most of the time;
elsewhere the kernels are interpreted, at small sizes. The exit code is 1 if an error exceeds its limit.
"""

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

from hcam.memory import HCAM, TrXL, kernels, make
from hcam.memory.kernels import common
from hcam.memory.relevance import top_weights
from hcam.memory.window import MASKED


class Sizes(NamedTuple):
    batch: int
    width: int
    heads: int
    chunk: int  # and the short window
    long: int  # the long window, of TransformerXL
    slots: int
    top_k: int
    steps: int  # of an unroll
    unrolls: int  # of the sequence on which acting and learning are compared
    layers: int


REALISTIC = Sizes(batch=64, width=512, heads=8, chunk=32, long=320, slots=6, top_k=3, steps=64, unrolls=3, layers=2)
SMALL = Sizes(batch=2, width=32, heads=2, chunk=16, long=64, slots=3, top_k=2, steps=32, unrolls=2, layers=1)


class Result(NamedTuple):
    name: str
    error: float  # the norm of the difference over the norm of what is expected
    limit: float

    @property
    def ok(self) -> bool:
        return self.error < self.limit  # false for NaN


FORWARD, BACKWARD = 0.01, 0.02  # bfloat16 rounds to 0.4 %
AGREEMENT = 0.05  # of acting and learning: both round, and where two chunks are nearly tied they recall either


def results(sizes: Sizes) -> Iterator[Result]:
    """One comparison after the other, each of them one or two small programs."""
    yield from compare_window_step(sizes, sizes.chunk)
    yield from compare_window_step(sizes, sizes.long)
    yield from compare_summarise(sizes)
    yield from compare_recall_step(sizes)
    yield from compare_window_unroll(sizes)
    yield from compare_recall_unroll(sizes)
    shape: Any = {"width": sizes.width, "heads": sizes.heads, "layers": sizes.layers}
    yield compare_acting(sizes, HCAM(**shape, chunk=sizes.chunk, slots=sizes.slots, top_k=sizes.top_k))
    yield compare_acting(sizes, TrXL(**shape, window=sizes.long))


# Inputs are drawn with NumPy: drawing them with JAX would compile a program for each shape.


def normal(seed: int, *shape: int, scale: float = 1.0, dtype: str = "bfloat16") -> np.ndarray:
    return (scale * np.random.default_rng(seed).standard_normal(shape)).astype(jnp.dtype(dtype))


def integers(seed: int, low: int, high: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(low, high, shape, np.int32)


def error(found: Any, expected: Any) -> jax.Array:
    """Over all arrays of a pytree together."""
    pairs = list(zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True))
    difference = sum(jnp.square(one.astype(jnp.float32) - two).sum() for one, two in pairs)
    return jnp.sqrt(difference / sum(jnp.square(two).sum() for _, two in pairs))


def cotangent(result: jax.Array) -> jax.Array:
    """Weights that differ from element to element, as a loss would have them; the same for both forms."""
    weights = jnp.cos(jnp.arange(result.size, dtype=jnp.float32)).astype(jnp.bfloat16)
    return weights.reshape(result.shape).astype(result.dtype)


def against_plain(name: str, forms: Iterable[Any], floats: Sequence[Any], fixed: Sequence[Any]) -> Iterator[Result]:
    """A kernel for a batch against its plain form: the results, and the gradients with respect to `floats`.

    `forms` are the kernel and its plain form; `fixed` are the arguments after `floats`, which no gradient flows into.
    All of it is one program.
    """

    def both(form: Any, floats: Any, fixed: Any) -> tuple[Any, Any]:
        found, pull = jax.vjp(lambda *args: jax.vmap(form)(*args, *fixed), *floats)
        return found, pull(jax.tree.map(cotangent, found))

    def exact(tree: Any) -> Any:
        return jax.tree.map(lambda leaf: leaf.astype(jnp.float32) if leaf.dtype == jnp.bfloat16 else leaf, tree)

    fused, plain = forms

    def program(floats: Any, fixed: Any) -> tuple[jax.Array, jax.Array]:
        found = both(fused, floats, fixed)
        with jax.default_matmul_precision("highest"):
            expected = both(plain, exact(floats), exact(fixed))
        return error(found[0], expected[0]), error(found[1], expected[1])

    forward, backward = jax.jit(program)(tuple(floats), tuple(fixed))
    yield Result(name, float(forward), FORWARD)
    yield Result(f"{name}, gradient", float(backward), BACKWARD)


def compare_window_step(sizes: Sizes, window: int) -> Iterator[Result]:
    """The first step of an episode, one that fills the window and one that has gone round the ring, among others."""
    batch, heads, width, rows = sizes.batch, sizes.heads, sizes.width, window + sizes.chunk
    query, x = normal(0, batch, heads, width, scale=width**-0.5), normal(2, batch, width)
    age, row = normal(1, batch, heads, window, dtype="float32"), normal(3, batch, rows, width)
    now = integers(4, 0, 3 * rows, batch)
    now[:2] = 0, window - 1

    def attended(form: Any) -> Any:
        return lambda query, age, row, x, time: form(query, age, row, x, time)[1]

    forms: Any = map(attended, (kernels.window_step.attend, kernels.window_step.plain_attend))
    yield from against_plain(f"window_step.attend, window {window}", forms, (query, age), (row, x, now))


def compare_summarise(sizes: Sizes) -> Iterator[Result]:
    """Chunks that are complete and some that are not, also across the end of the ring."""
    batch, rows = sizes.batch, sizes.slots * sizes.chunk
    row, summary = normal(0, batch, rows, sizes.width), normal(1, batch, sizes.slots, sizes.width)
    begin, slot = integers(2, 0, rows, batch), integers(3, 0, sizes.slots, batch)
    args = (row, summary, begin, slot, np.arange(batch) % 3 != 1)

    def program(*args: Any) -> jax.Array:
        found = jax.vmap(partial(kernels.step.summarise, sizes.chunk))(*args)
        exact = (leaf.astype(jnp.float32) for leaf in args[:2])
        return error(found, jax.vmap(partial(kernels.step.plain_summarise, sizes.chunk))(*exact, *args[2:]))

    yield Result("step.summarise", float(jax.jit(program)(*args)), FORWARD)


def compare_recall_step(sizes: Sizes) -> Iterator[Result]:
    batch, rows = sizes.batch, (sizes.slots + 1) * sizes.chunk
    inner = normal(0, batch, sizes.heads, sizes.width, scale=sizes.width**-0.5)
    code = normal(1, batch, sizes.heads, sizes.chunk, dtype="float32")
    weight = np.abs(normal(3, batch, sizes.top_k, dtype="float32"))
    weight /= weight.sum(-1, keepdims=True)
    begin, count = integers(4, 0, rows, batch, sizes.top_k), integers(5, 0, sizes.top_k + 1, batch)
    row = normal(2, batch, rows, sizes.width)

    def reordered(form: Any) -> Any:
        return lambda inner, code, weight, row, begin, count: form(inner, code, row, begin, weight, count)

    forms: Any = map(reordered, (kernels.step.recall, kernels.step.plain_recall))
    yield from against_plain("step.recall", forms, (inner, code, weight), (row, begin, count))


def compare_window_unroll(sizes: Sizes) -> Iterator[Result]:
    """Episodes that began before the unroll, and one that begins in it."""
    batch, steps, heads, window = sizes.batch, sizes.steps, sizes.heads, sizes.chunk
    features = max(common.MIN_SIZE, sizes.width // heads)
    query, pair = normal(0, batch, steps, heads, features), normal(1, batch, window + steps, 2, heads, features)
    age = normal(2, batch, steps, heads, window)
    start = np.where(np.arange(steps) < steps // 3, -integers(3, 0, 50, batch)[:, None], steps // 3)
    scale = features**-0.5
    forms: Any = (partial(form, scale) for form in (kernels.window_unroll.attend, kernels.window_unroll.plain_attend))
    yield from against_plain("window_unroll.attend", forms, (query, pair, age), (start.astype(np.int32),))


def compare_recall_unroll(sizes: Sizes) -> Iterator[Result]:
    """Chunks in two places; later queries may recall more of them."""
    batch, queries, new = sizes.batch, sizes.steps, max(1, sizes.steps // sizes.chunk)
    inner = normal(0, batch, queries, sizes.heads, sizes.width, scale=sizes.width**-0.5)
    code = normal(1, batch, queries, sizes.heads, sizes.chunk)
    chunks = sizes.slots + new
    there = np.arange(chunks)[None, :] * (queries // chunks) <= np.arange(queries)[:, None]
    logits = np.where(there, normal(2, batch, queries, chunks, scale=2, dtype="float32"), np.float32(MASKED))
    parts = [normal(seed, batch, slots, sizes.chunk, sizes.width) for seed, slots in ((3, sizes.slots), (4, new))]

    def weighted(form: Any) -> Any:
        def run(inner: Any, code: Any, logits: Any, *parts: Any) -> Any:
            return form(inner, code, parts, top_weights(logits, sizes.top_k, "top_k_then_softmax"))

        return run

    forms: Any = map(weighted, (partial(kernels.unroll.recall, sizes.top_k), kernels.unroll.plain_recall))
    yield from against_plain("unroll.recall", forms, (inner, code, logits), parts)


def compare_acting(sizes: Sizes, config: Any) -> Result:
    """A memory in bfloat16: scanned steps against unrolls, from the first step until the oldest is forgotten."""
    memory, total = make(config, dtype="bfloat16"), sizes.steps * sizes.unrolls
    params = jax.jit(memory.init_params)(jax.random.key(0))
    x = normal(0, sizes.batch, total, sizes.width, dtype="float32")
    first = np.random.default_rng(1).random((sizes.batch, total)) < 1 / 150

    def cut(leaf_t: jax.Array) -> jax.Array:
        return leaf_t.reshape(sizes.unrolls, sizes.steps, *leaf_t.shape[1:])

    def one(params: Any, x_td: jax.Array, first_t: jax.Array) -> tuple[jax.Array, jax.Array]:
        ready, empty = memory.prepare(params), memory.init_state()
        _, acted = jax.lax.scan(lambda state, now: memory.step(ready, state, *now), empty, (x_td, first_t))
        _, learned = jax.lax.scan(lambda s, now: memory.unroll(params, s, *now), empty, (cut(x_td), cut(first_t)))
        return acted, learned.reshape(acted.shape)

    def program(params: Any, x: Any, first: Any) -> jax.Array:
        return error(*jax.vmap(one, in_axes=(None, 0, 0))(params, x, first))

    difference = jax.jit(program)(params, x, first)
    return Result(f"{type(config).__name__}, step against unroll", float(difference), AGREEMENT)


def main() -> int:
    on_gpu, begun = jax.default_backend() == "gpu", time.perf_counter()
    print(f"{jax.devices()[0].device_kind}: kernels {'compiled' if on_gpu else 'interpreted, small sizes'}", flush=True)
    print(f"{'comparison':40}{'relative error':>14}{'limit':>7}  ok", flush=True)
    wrong = 0
    # Without a GPU, the memories would run their plain forms.
    force: AbstractContextManager[Any] = (
        nullcontext() if on_gpu else mock.patch.object(common, "supported", return_value=True)
    )
    with force:
        for found in results(REALISTIC if on_gpu else SMALL):
            print(f"{found.name:40}{found.error:14.5f}{found.limit:7.2f}  {'yes' if found.ok else 'NO'}", flush=True)
            wrong += not found.ok
    print(f"{wrong} of the comparisons failed, {time.perf_counter() - begun:.0f} s", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
