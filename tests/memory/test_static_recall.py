"""`recall` is static: without it, nothing is traced that only a report of the recall would need."""

from collections import Counter
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.extend.core import ClosedJaxpr, Jaxpr
from jax.interpreters.partial_eval import dce_jaxpr

from hcam import memory
from hcam.memory import HCAM, Local, read
from hcam.memory.kernels import common
from tests.memory.cases import CONFIGS, WIDTH, params_of

# What costs something; the rest is index arithmetic.
COSTLY = ("dot_general", "exp", "top_k", "sort", "gather", "reduce_sum", "reduce_max", "concatenate", "pallas_call")
STACKS = [name for name in CONFIGS if name not in ("lstm", "gru")]
FUSED: dict[str, Any] = {
    "hcam": HCAM(width=32, layers=1, heads=4, chunk=16, slots=3, top_k=2),
    "hcam-overlap": HCAM(width=32, layers=1, heads=4, chunk=16, overlap=3, slots=3, top_k=2),
    "local": Local(width=32, layers=1, heads=2, window=16),
}


def primitives(jaxpr: Jaxpr) -> Counter[str]:
    """How often each primitive occurs, in called functions as well, but not inside kernels."""
    found: Counter[str] = Counter()
    for equation in jaxpr.eqns:
        found[equation.primitive.name] += 1
        if equation.primitive.name == "pallas_call":
            continue
        values = [part for v in equation.params.values() for part in (v if isinstance(v, tuple | list) else [v])]
        for part in values:
            if isinstance(part, ClosedJaxpr | Jaxpr):
                found += primitives(part.jaxpr if isinstance(part, ClosedJaxpr) else part)
    return found


def traced(function: Any, *args: Any) -> tuple[Counter[str], Counter[str]]:
    """The costly primitives of a function as it was traced, and of those the ones that some result depends on."""
    jaxpr = jax.make_jaxpr(function)(*args).jaxpr
    needed = dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))[0]
    every = (primitives(part) for part in (jaxpr, needed))
    one, other = (Counter({name: found[name] for name in COSTLY if found[name]}) for found in every)
    return one, other


def calls(config: Any, width: int, steps: int) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """Every function that takes `recall`, with arguments; a cached state as well."""
    mem, params = memory.make(config), params_of(config)
    state = mem.init_state()
    full = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(mem.cached, params, state))
    x, first = jnp.ones((steps, width)), jnp.zeros(steps, bool)
    ready = mem.prepare(params)
    return {
        "unroll": (mem.unroll, (params, state, x, first)),
        "step": (mem.step, (ready, state, x[0], first[0])),
        "step on a cache": (mem.step, (ready, full, x[0], first[0])),
    }


def check(function: Any, args: tuple[Any, ...]) -> None:
    plain, needed = traced(partial(function, recall=False), *args)
    assert plain == needed, f"traced in vain: {plain - needed}"
    reported, _ = traced(partial(function, recall=True), *args)
    assert reported.total() >= plain.total()


@pytest.mark.parametrize("name", STACKS)
def test_nothing_is_traced_in_vain(name):
    for function, args in calls(CONFIGS[name], WIDTH, 40).values():
        check(function, args)


@pytest.mark.parametrize("name", FUSED)
def test_nothing_is_traced_beside_the_kernels(monkeypatch, name):
    """There the plain form would be computed for its attention alone."""
    monkeypatch.setattr(common, "supported", lambda *sizes: True)
    for kind, (function, args) in calls(FUSED[name], 32, 64).items():
        check(function, args)
        if kind == "step on a cache":
            continue
        without, _ = traced(partial(function, recall=False), *args)
        with_recall, _ = traced(partial(function, recall=True), *args)
        assert without["pallas_call"] == with_recall["pallas_call"] > 0
        assert without["dot_general"] < with_recall["dot_general"]


def test_a_dense_read_sorts_nothing_unless_it_reports(monkeypatch):
    params = memory.init_read(jax.random.key(0), 8, 8, 8)
    args = (params, jnp.ones((20, 8)), jnp.ones((6, 8)), jnp.ones((6, 4, 8)))
    for form in ("dense", "gather"):
        check(partial(read, k=2, heads=2, form=form), args)
    dense = partial(read, k=2, heads=2, form="dense")
    assert traced(dense, *args)[0]["top_k"] == 0
    assert traced(partial(dense, recall=True), *args)[0]["top_k"] == 1
