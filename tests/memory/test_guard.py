"""A step with an unusable input answers NaN itself, and is to all other steps as if its input had been zero.

Without the guard (`interface.LARGEST_INPUT`), NaN reaches earlier steps, later episodes and later unrolls of a stack,
since masked weights multiply it (0 * NaN), and the gradients of every memory.
"""

from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam import memory
from hcam.memory.interface import LARGEST_INPUT
from tests.memory.cases import CONFIGS, WIDTH, float_leaves, inputs, noisy, starts
from tests.memory.own_memory import Trace

STEPS, BAD = 20, 9
FIRST = starts(0, 6, 13, length=STEPS)  # the unusable step lies in the second of three episodes
NEXT = starts(3, length=STEPS)  # of the unroll after it, which goes on with the third
VALUES = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf, "3e38": 3e38, "-3e38": -3e38}
MEMORIES: dict[str, Any] = {
    name: CONFIGS[name] for name in ("hcam", "hcam-overlap", "hcam-gather", "trxl", "trxl-sparse")
}
MEMORIES |= {"lstm": CONFIGS["lstm"], "gru": CONFIGS["gru"], "own": Trace(width=WIDTH)}
CASES = [(name, "float32") for name in MEMORIES] + [("hcam", "bfloat16"), ("hcam", "float16"), ("lstm", "bfloat16")]
every_case = pytest.mark.parametrize(("name", "dtype"), CASES)


@lru_cache
def built(name: str, dtype: str) -> tuple[memory.Memory, Any, Any, Any]:
    """The memory, parameters, and programs that are compiled once for all values."""
    mem = memory.make(MEMORIES[name], dtype=dtype)
    params = noisy(jax.eval_shape(mem.init_params, jax.random.key(0)), seed=0)
    compiled = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
    return mem, params, compiled(mem.unroll), compiled(mem.step)


def spoilt(value: float, whole: bool) -> np.ndarray:
    """The inputs with one row, or one feature of it, unusable."""
    x = inputs(3, STEPS)
    x[BAD, slice(None) if whole else 3] = value
    return x


def replaced() -> np.ndarray:
    x = inputs(3, STEPS)
    x[BAD] = 0
    return x


def assert_identical(found: Any, expected: Any) -> None:
    jax.tree.map(np.testing.assert_array_equal, found, expected)


def assert_finite(tree: Any) -> None:
    assert all(np.isfinite(np.asarray(leaf, np.float32)).all() for leaf in float_leaves(tree))


OTHERS = np.arange(STEPS) != BAD


@every_case
def test_unroll_is_as_with_zeros_but_for_the_step_itself(name, dtype):
    mem, params, unroll, _ = built(name, dtype)
    expected_state, expected = unroll(params, mem.init_state(), replaced(), FIRST)
    expected_next = unroll(params, expected_state, inputs(4, STEPS), NEXT)
    assert_finite((expected, expected_next))
    for value in VALUES.values():
        for whole in (True, False):
            state, y = unroll(params, mem.init_state(), spoilt(value, whole), FIRST)
            assert np.isnan(y[BAD]).all()
            assert_identical((state, y[OTHERS]), (expected_state, expected[OTHERS]))
            assert_identical(unroll(params, state, inputs(4, STEPS), NEXT), expected_next)


@every_case
def test_steps_are_as_with_zeros_but_for_the_step_itself(name, dtype):
    mem, params, _, step = built(name, dtype)
    for empty in (mem.init_state(), mem.cached(params, mem.init_state())):

        def run(x: np.ndarray, empty: Any = empty) -> Any:
            state, outputs = empty, []
            for x_d, first in zip(x, FIRST, strict=True):
                state, y_d = step(params, state, x_d, first)
                outputs.append(np.asarray(y_d))
            return state, np.stack(outputs)

        expected_state, expected = run(replaced())
        assert_finite((expected_state, expected))
        for value in VALUES.values():
            state, y = run(spoilt(value, whole=False))
            assert np.isnan(y[BAD]).all()
            assert_identical((state, y[OTHERS]), (expected_state, expected[OTHERS]))


@pytest.mark.parametrize("name", MEMORIES)
def test_gradients_are_those_of_the_other_steps(name):
    """With respect to parameters and inputs, and also if the loss takes in the step that answers NaN."""
    mem, params, *_ = built(name, "float32")

    def loss(params, x_td, weight_t):
        y_td = mem.unroll(params, mem.init_state(), x_td, FIRST)[1]
        return (weight_t[:, None] * jnp.square(y_td)).sum()

    gradient = jax.jit(jax.grad(loss, (0, 1)), compiler_options={"xla_backend_optimization_level": 0})
    others, every = OTHERS.astype(np.float32), np.ones(STEPS, np.float32)
    by_params, by_x = gradient(params, replaced(), others)
    assert_finite((by_params, by_x))
    by_x = np.where(OTHERS[:, None], by_x, 0.0)  # the input that was replaced has no influence
    for value in VALUES.values():
        for weight in (others, every):
            found = gradient(params, spoilt(value, whole=False), weight)
            assert_identical(found, (by_params, by_x))


@pytest.mark.parametrize("name", MEMORIES)
def test_a_step_s_gradient_is_finite(name):
    mem, params, *_ = built(name, "float32")

    def loss(params, x_d):
        return jnp.square(mem.step(params, mem.init_state(), x_d, True)[1]).sum()

    found = jax.jit(jax.grad(loss, (0, 1)))(params, jnp.full(WIDTH, jnp.nan))
    assert all(not np.any(leaf) for leaf in jax.tree.leaves(found))


@pytest.mark.parametrize("name", MEMORIES)
def test_what_is_just_small_enough_is_finite_and_gone_after_a_reset(name):
    mem, params, unroll, _ = built(name, "float32")
    x = inputs(3, STEPS)
    x[BAD] = 0.99 * LARGEST_INPUT["float32"] * np.sign(x[BAD])
    state, y = unroll(params, mem.init_state(), x, FIRST)
    assert_finite((state, y))
    np.testing.assert_array_equal(y[13:], unroll(params, mem.init_state(), replaced(), FIRST)[1][13:])

    def later(params, x_td):
        return jnp.square(mem.unroll(params, mem.init_state(), x_td, FIRST)[1][13:]).sum()

    gradient = jax.jit(jax.grad(later, (0, 1)), compiler_options={"xla_backend_optimization_level": 0})
    assert_identical(gradient(params, x), gradient(params, replaced()))


def test_the_limit_leaves_room_for_squares():
    for dtype, limit in LARGEST_INPUT.items():
        assert limit < float(jnp.finfo(dtype).max)
        if dtype != "float16":  # norms and softmax are float32 in any case
            assert np.isfinite(np.float32(limit) * np.float32(limit))


def test_an_input_of_lower_precision_is_judged_by_its_value():
    """Compared in its own dtype, infinity would not exceed a limit that float16 rounds to infinity."""
    mem, params, *_ = built("lstm", "float32")
    x = jnp.asarray(spoilt(np.inf, whole=False), jnp.float16)
    y = mem.unroll(params, mem.init_state(), x, FIRST)[1]
    assert y.dtype == jnp.float16
    assert np.isnan(y[BAD]).all()
    assert np.isfinite(y[OTHERS]).all()


@pytest.mark.parametrize("name", MEMORIES)
def test_a_memory_without_the_guard_gives_the_same_for_usable_inputs(name):
    mem, params, unroll, step = built(name, "float32")
    free, usable = memory.unguarded(mem), inputs(3, STEPS)
    found = jax.jit(free.unroll)(params, free.init_state(), usable, FIRST)
    jax.tree.map(
        partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-5),
        found,
        unroll(params, mem.init_state(), usable, FIRST),
    )
    acted = jax.jit(free.step)(params, free.init_state(), usable[0], True)[1]
    np.testing.assert_allclose(acted, step(params, mem.init_state(), usable[0], True)[1], rtol=1e-5, atol=1e-5)


def test_only_the_guard_keeps_nan_out():
    mem, params, *_ = built("hcam", "float32")
    free = memory.unguarded(mem)
    y = jax.jit(free.unroll)(params, free.init_state(), spoilt(np.nan, whole=True), FIRST)[1]
    assert np.isnan(y[OTHERS]).any()


def test_a_memory_that_was_made_without_define_has_no_guard_to_lose():
    mem, *_ = built("lstm", "float32")
    own = mem._replace(definition=None)
    assert memory.unguarded(own) is own
