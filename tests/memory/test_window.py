"""Attention over the last W steps: all at once, one by one and from keys and values, against the slow version."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.memory import window
from tests.memory import oracle
from tests.memory.cases import noisy

WIDTH, HEADS, STEPS = 8, 2, 10
every_size = pytest.mark.parametrize(("size", "top_k"), [(1, None), (4, None), (4, 2), (12, None), (12, 3), (4, 4)])


def make_params() -> dict:
    shapes = jax.eval_shape(lambda key: window.init_window(key, WIDTH, HEADS), jax.random.key(0))
    return noisy(shapes, seed=1)


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def slow(rows: np.ndarray, top_k: int | None) -> tuple[np.ndarray, np.ndarray]:
    return oracle.attend_window(oracle.to_float64(make_params()), list(rows.astype(np.float64)), HEADS, top_k)[:2]


@pytest.mark.parametrize(("steps", "size"), [(1, 1), (1, 4), (3, 4), (5, 1), (6, 2)])
def test_skew_shifts_each_row_by_its_number(steps, size):
    x = np.arange(1, 2 * steps * size + 1, dtype=np.float32).reshape(2, steps, size)
    skewed = np.asarray(window.skew(jnp.asarray(x)))
    assert skewed.shape == (2, steps, size - 1 + steps)
    for t in range(steps):
        np.testing.assert_array_equal(skewed[:, t, t : t + size], x[:, t])
        assert np.count_nonzero(skewed[:, t]) == 2 * size
    np.testing.assert_array_equal(window.unskew(jnp.asarray(skewed), size), x)


@every_size
def test_unroll_is_the_slow_attention_at_every_step(size, top_k):
    """Rows before the unroll, and an episode that starts inside it; the rows of what is older are never reached."""
    stored, x, start = random(size - 1, WIDTH), random(STEPS, WIDTH, seed=1), 6
    # The unroll's first episode began 2 steps before it.
    start_t = np.where(np.arange(STEPS) < start, -2, start)
    run = jax.jit(partial(window.unroll, heads=HEADS, top_k=top_k, recall=True))
    answer, attention = run(make_params(), stored, x, start_t)
    every_row = np.concatenate([stored, x])
    for t in range(STEPS):
        oldest = max(start_t[t], t - size + 1, -(size - 1))
        rows = every_row[oldest + size - 1 : t + size]
        expected, by_age = slow(rows, top_k)
        np.testing.assert_allclose(answer[t], expected, rtol=1e-4, atol=1e-5)
        by_index = np.asarray(attention)[:, t, t + size - 1 :: -1][:, : len(rows)]  # from the step itself backwards
        np.testing.assert_allclose(by_index, by_age, atol=1e-5)
        assert np.count_nonzero(np.asarray(attention)[:, t]) == np.count_nonzero(by_age)


@every_size
def test_steps_with_and_without_keys_and_values(size, top_k):
    """An episode from its start, longer than the window."""
    x, params = random(STEPS, WIDTH, seed=1), make_params()
    step = jax.jit(partial(window.step, top_k=top_k, recall=True))
    prepared = window.prepare(params, window=size, heads=HEADS, dtype="float32")
    row_rd = jnp.full((size + 2, WIDTH), 1e3)  # likewise
    step_cached = jax.jit(partial(window.step_cached, heads=HEADS, top_k=top_k, recall=True))
    cache = window.init_cache(params, 1e3 * jnp.asarray(random(size, WIDTH)), HEADS)  # nothing of it is of the episode
    for t in range(STEPS):
        rows = x[max(0, t - size + 1) : t + 1]
        expected, by_age = slow(rows, top_k)
        by_age = np.pad(by_age, ((0, 0), (0, size - len(rows))))
        row_rd, answer, attention = step(params, prepared, row_rd, x[t], jnp.array(t))
        cache, from_cache, attention_from_cache = step_cached(params, x[t], cache, jnp.array(t))
        for found in (answer, from_cache):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
        for found in (attention, attention_from_cache):
            np.testing.assert_allclose(found, by_age, atol=1e-5)


def test_a_cache_of_stored_rows_is_the_one_that_steps_make():
    x, params, size = random(7, WIDTH, seed=1), make_params(), 4
    cache = window.init_cache(params, jnp.zeros((size, WIDTH)), HEADS)
    for t in range(7):
        cache = window.step_cached(params, jnp.asarray(x[t]), cache, jnp.array(t), heads=HEADS)[0]
    # Times 4, 5, 6 have replaced 0, 1, 2; time 3 is still there.
    stored = window.init_cache(params, jnp.asarray(x[[4, 5, 6, 3]]), HEADS)
    for mine, expected in zip(cache, stored, strict=True):
        np.testing.assert_allclose(mine, expected, atol=1e-5)


def test_masked_softmax_keeps_the_k_largest():
    logits, allowed = jnp.array([3.0, 1.0, 2.0, 5.0]), jnp.array([True, True, True, False])
    np.testing.assert_allclose(
        window.masked_softmax(logits, allowed, None), [*oracle.softmax(np.array([3.0, 1, 2])), 0], atol=1e-6
    )
    # Of the two largest, 3 and 2: e / (e + 1) = 0.731059.
    np.testing.assert_allclose(window.masked_softmax(logits, allowed, 2), [0.731059, 0, 0.268941, 0], atol=1e-6)
    # More than are allowed: all of those, and exactly nothing elsewhere.
    np.testing.assert_allclose(
        window.masked_softmax(logits, jnp.array([True, False, False, False]), 3), [1, 0, 0, 0], atol=0
    )


def test_masked_softmax_keeps_what_ties_with_the_last():
    found = window.masked_softmax(jnp.array([1.0, 2.0, 1.0, 0.0]), jnp.ones(4, bool), 2)
    np.testing.assert_allclose(found, [*oracle.softmax(np.array([1.0, 2, 1])), 0], atol=1e-6)


def test_heads_are_parts_of_the_width():
    x = jnp.arange(12.0).reshape(2, 6)
    np.testing.assert_array_equal(window.split_heads(x, 3)[1], [[6, 7], [8, 9], [10, 11]])
    np.testing.assert_array_equal(window.weights_by_head({"w": x}, 3, jnp.float32)[0, 2], [4, 5])
