"""Acting's window against its oracle in plain JAX and a slow loop; interpreted where there is no GPU."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.memory.kernels import window_step

WIDTH = 32


def looked(time, heads=4, steps=32, rows=48, dtype="float32", width=WIDTH):
    keys = jax.random.split(jax.random.key(time), 4)
    return (
        jax.random.normal(keys[0], (heads, width)).astype(dtype),
        jax.random.normal(keys[1], (heads, steps)),
        (3 + 2 * jax.random.normal(keys[2], (rows, width))).astype(dtype),
        (5 * jax.random.normal(keys[3], (width,))).astype(dtype),
        jnp.int32(time),
    )


def slow_window(query_hd, age_hw, row_rd, x_d, time):
    query_hd, age_hw, row_rd, x_d = (np.asarray(x, np.float64) for x in (query_hd, age_hw, row_rd, x_d))
    row_rd, time = row_rd.copy(), int(time)
    row_rd[time % len(row_rd)] = x_d
    last = [row_rd[(time - age) % len(row_rd)] for age in range(min(time + 1, age_hw.shape[1]))]
    normal = [(row - row.mean()) / np.sqrt(row.var() + 1e-5) for row in last]
    mixed_hd = np.zeros_like(query_hd)
    for h, query in enumerate(query_hd):
        score = np.array([query @ row + age_hw[h, age] for age, row in enumerate(normal)])
        score = np.exp(score - score.max())
        mixed_hd[h] = (score / score.sum()) @ np.stack(normal)
    return row_rd, mixed_hd


# The first step, less than a window, one that just fills it, one that goes round the ring; one block, and several.
@pytest.mark.parametrize(("heads", "steps", "rows"), [(4, 32, 48), (20, 16, 16), (1, 64, 80)])
@pytest.mark.parametrize("time", [0, 31, 200])
def test_window_equals_the_slow_loop(time, heads, steps, rows):
    case = looked(time, heads, steps, rows)
    for form in (window_step.attend, window_step.plain_attend):
        for found, expected in zip(form(*case), slow_window(*case), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-3, atol=2e-5)


def test_wide_rows_are_looked_at_part_by_part():
    case = looked(60, width=2 * window_step.PART)
    for found, expected in zip(window_step.attend(*case), slow_window(*case), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=2e-5)


def test_windows_of_many_environments_are_one_call():
    cases = [looked(time) for time in (0, 40, 100)]
    found = jax.jit(jax.vmap(window_step.attend))(*(jnp.stack(leaves) for leaves in zip(*cases, strict=True)))
    for n, case in enumerate(cases):
        for one, expected in zip(found, slow_window(*case), strict=True):
            np.testing.assert_allclose(one[n], expected, rtol=1e-3, atol=2e-5)


def test_window_in_bfloat16_is_close_to_the_plain_form():
    case = looked(70, dtype="bfloat16")
    found, plain = (np.asarray(form(*case)[1], np.float32) for form in (window_step.attend, window_step.plain_attend))
    assert np.abs(found - plain).max() < 0.02 * np.abs(plain).max()


def test_gradient_of_the_window_is_that_of_the_plain_form():
    query_hd, *others = looked(9)
    of = lambda form: jax.grad(lambda query_hd: jnp.square(form(query_hd, *others)[1]).sum())(query_hd)  # noqa: E731
    np.testing.assert_allclose(of(window_step.attend), of(window_step.plain_attend), rtol=1e-4, atol=1e-4)
