"""A memory from outside the package: what its author may leave out, and mistakes that are answered in one sentence."""

import pickle
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam import memory
from tests.memory import own_memory
from tests.memory.cases import inputs, starts
from tests.memory.own_memory import Trace

CONFIG = Trace(width=6)
X, FIRST = inputs(0, 12, 6), starts(0, 5, length=12)


@pytest.fixture(scope="module")
def params():
    return memory.make(CONFIG).init_params(jax.random.key(0))


def defined(**changes: Any) -> memory.Memory:
    functions: Any = {name: getattr(own_memory, name) for name in ("init_params", "init_state", "step")} | changes
    bound: Any = {name: partial(function, CONFIG) for name, function in functions.items() if function}
    return memory.define(CONFIG, dtype="float32", **bound)


def by_hand(w: np.ndarray) -> np.ndarray:
    trace, outputs = np.zeros(6), []
    for x, first in zip(X.astype(np.float64), FIRST, strict=True):
        trace = 0.9 * (0 if first else trace) + 0.1 * x
        outputs.append(x + trace @ w)
    return np.array(outputs)


def test_a_step_is_enough(params):
    """The unroll is a scan of it; there is nothing to prepare, to cache or to recall; undo goes back."""
    mem = memory.make(CONFIG)
    state, y_td = mem.unroll(params, mem.init_state(), X, FIRST)
    np.testing.assert_allclose(y_td, by_hand(np.asarray(params["w"], np.float64)), atol=1e-5)
    assert mem.prepare(params) is params
    assert mem.cached(params, state) is state
    after, _ = mem.step(params, state, X[0], False)
    assert mem.undo(state, after) is state
    assert mem.config is CONFIG


def test_it_answers_recall_without_knowing_of_it(params):
    mem = memory.make(CONFIG)
    *_, seen = mem.step(params, mem.init_state(), X[0], True, recall=True)
    assert seen == memory.Recall()
    *_, seen = mem.unroll(params, mem.init_state(), X, FIRST, recall=True)
    assert seen == memory.Recall()


def test_no_gradient_enters_the_state_but_flows_inside_the_unroll(params):
    mem = memory.make(CONFIG)

    def last(state, x_td):
        return mem.unroll(params, state, x_td, starts(length=12))[1][-1].sum()

    into_state, into_x = jax.grad(last, (0, 1))({"trace": jnp.ones(6)}, jnp.asarray(X))
    assert not np.any(into_state["trace"])
    assert (np.abs(into_x).max(-1) > 0).all()


def test_an_unroll_is_enough(params):
    """Then a step is an unroll of one."""

    def unroll(config, params, state, x_td, first_t):
        return jax.lax.scan(lambda s, now: own_memory.step(config, params, s, *now), state, (x_td, first_t))

    mem = defined(step=None, unroll=unroll)
    state, outputs = mem.init_state(), []
    for x_d, first in zip(X, FIRST, strict=True):
        state, y_d, seen = mem.step(params, state, x_d, first, recall=True)
        assert seen == memory.Recall()
        outputs.append(y_d)
    np.testing.assert_allclose(outputs, by_hand(np.asarray(params["w"], np.float64)), atol=1e-5)


def test_an_author_s_own_functions_are_used(params):
    def prepare(config, params):
        return {"w": params["w"], "twice": 2 * params["w"]}

    def step(config, ready, state, x_d, first, *, recall):
        state, y_d = own_memory.step(config, {"w": ready["twice"] / 2}, state, x_d, first)
        return (state, y_d, memory.Recall(window_hw=(x_d,))) if recall else (state, y_d)

    mem = memory.define(
        CONFIG,
        dtype="float32",
        init_params=partial(own_memory.init_params, CONFIG),
        init_state=partial(own_memory.init_state, CONFIG),
        step=partial(step, CONFIG),
        prepare=partial(prepare, CONFIG),
        recalls=True,
    )
    expected = by_hand(np.asarray(params["w"], np.float64))
    _, y_td, seen = mem.unroll(params, mem.init_state(), X, FIRST, recall=True)
    np.testing.assert_allclose(y_td, expected, atol=1e-5)
    np.testing.assert_array_equal(seen.window_hw[0], X)
    for weights in (params, mem.prepare(params)):
        np.testing.assert_allclose(mem.step(weights, mem.init_state(), X[0], True)[1], expected[0], atol=1e-5)
    with pytest.raises(TypeError, match="prepared params are for `step` alone"):
        mem.unroll(mem.prepare(params), mem.init_state(), X, FIRST)
    wrong = jax.tree.map(lambda leaf: leaf[:2], mem.prepare(params))
    with pytest.raises(ValueError, match="these params were not built for Trace"):
        mem.step(wrong, mem.init_state(), X[0], True)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_inputs_arrive_in_the_dtype_of_computation(params, dtype):
    arrived = []

    def step(config, params, state, x_d, first):
        arrived.append(x_d.dtype)
        return own_memory.step(config, params, state, x_d, first)

    mem = memory.define(
        CONFIG,
        dtype=dtype,
        init_params=partial(own_memory.init_params, CONFIG),
        init_state=partial(own_memory.init_state, CONFIG),
        step=partial(step, CONFIG),
    )
    assert mem.step(params, mem.init_state(), X[0], True)[1].dtype == jnp.float32
    assert mem.unroll(params, mem.init_state(), jnp.asarray(X, jnp.bfloat16), FIRST)[1].dtype == jnp.bfloat16
    assert set(arrived) == {jnp.dtype(dtype)}


def test_it_can_be_pickled(params):
    mem = memory.make(CONFIG)
    again = pickle.loads(pickle.dumps(mem))
    jax.tree.map(
        np.testing.assert_array_equal,
        again.unroll(params, again.init_state(), X, FIRST),
        mem.unroll(params, mem.init_state(), X, FIRST),
    )


# Mistakes of an author ------------------------------------------------------------------------------------------------


def wide(config, params, state, x_d, first):
    return state, jnp.concatenate([x_d, x_d])


def alone(config, params, state, x_d, first):
    return x_d


def renamed(config, params, state, x_d, first):
    return {"average": state["trace"]}, x_d


def widened(config, params, state, x_d, first):
    return {"trace": state["trace"].astype(jnp.float16)}, x_d


@pytest.mark.parametrize(
    ("step", "error", "sentence"),
    [
        (wide, ValueError, r"y of Trace\(.*\) must have the shape of x, \(6,\), but has \(12,\)\."),
        (alone, TypeError, r"the functions of Trace\(.*\) must return \(state, y\), but returned"),
        (renamed, ValueError, r"this returned state was not built for Trace\(.*\['average'\]|\['trace'\]"),
        (widened, ValueError, r"this returned state was not built for Trace\(.*float32, but found \(6,\) float16\."),
    ],
)
def test_what_a_step_returns_is_checked(params, step, error, sentence):
    mem = defined(step=step)
    for call in (
        lambda: mem.step(params, mem.init_state(), X[0], True),
        lambda: mem.unroll(params, mem.init_state(), X, FIRST),
    ):
        with pytest.raises(error, match=sentence):
            call()


def test_a_definition_needs_a_width_and_a_step():
    with pytest.raises(TypeError, match="a configuration must have a width"):
        memory.define("trace", dtype="float32", init_params=None, init_state=None, step=None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="width must be a whole number of at least 1, but is 0"):
        memory.make(Trace(width=0))
    with pytest.raises(TypeError, match="must define step or unroll"):
        defined(step=None)
    with pytest.raises(TypeError, match="must define step for prepare"):
        defined(step=None, unroll=alone, prepare=alone)


class Empty:
    width = 3

    def build(self, dtype):
        return None


def test_build_returns_a_memory():
    with pytest.raises(TypeError, match="must return a Memory"):
        memory.make(Empty())
