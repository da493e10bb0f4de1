"""The acting kernel against its oracle in plain JAX. Without a GPU it is interpreted: the same program, slowly."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.memory import HCAM, kernel, make

ROWS, CHUNK, WIDTH, K = 80, 16, 32, 4


def drawn(seed, heads=8, dtype="float32"):
    keys = jax.random.split(jax.random.key(seed), 5)
    return {
        "inner_hd": jax.random.normal(keys[0], (heads, WIDTH)).astype(dtype),
        "row_rd": jax.random.normal(keys[1], (ROWS, WIDTH)).astype(dtype),
        "begin_k": jax.random.randint(keys[2], (K,), 0, ROWS),
        "weight_k": jax.nn.softmax(jax.random.normal(keys[3], (K,))),
        "count": jnp.int32(K),
        "code_cd": jax.random.normal(keys[4], (CHUNK, WIDTH)).astype(dtype),
    }


def slow(inner_hd, row_rd, begin_k, weight_k, count, code_cd):
    """In NumPy, a step at a time."""
    inner_hd, row_rd, weight_k, code_cd = (np.asarray(x, np.float64) for x in (inner_hd, row_rd, weight_k, code_cd))
    mixed_hd = np.zeros_like(inner_hd)
    for k in range(int(count)):
        content = np.stack([row_rd[(int(begin_k[k]) + c) % ROWS] + code_cd[c] for c in range(CHUNK)])
        for h, query in enumerate(inner_hd):
            score = np.exp(content @ query - (content @ query).max())
            mixed_hd[h] += weight_k[k] * (score / score.sum()) @ content
    return mixed_hd


@pytest.mark.parametrize("heads", [1, 8, 16, 20])
@pytest.mark.parametrize("count", [0, 1, 3, K])
def test_kernel_and_plain_form_equal_the_slow_loop(heads, count):
    case = drawn(heads, heads) | {"count": jnp.int32(count)}
    expected = slow(**case)
    np.testing.assert_allclose(kernel.attend(*case.values()), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(kernel.plain(*case.values()), expected, rtol=1e-4, atol=1e-5)


def test_a_chunk_goes_on_at_the_start_of_its_ring():
    case = drawn(1) | {"begin_k": jnp.array([ROWS - 5, 0, ROWS - 1, 7], jnp.int32)}
    np.testing.assert_allclose(kernel.attend(*case.values()), slow(**case), rtol=1e-4, atol=1e-5)


def test_bfloat16_rounds_where_the_plain_form_does():
    for seed in range(5):
        case = drawn(seed, dtype="bfloat16")
        found, plain = (np.asarray(form(*case.values()), np.float32) for form in (kernel.attend, kernel.plain))
        assert np.abs(found - plain).max() < 2**-7 * np.abs(plain).max()
        assert np.mean(found == plain) > 0.9  # what differs is the last bit of a sum


def test_many_environments_are_one_call():
    cases = [drawn(seed) | {"count": jnp.int32(seed)} for seed in range(3)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *cases)
    found = jax.jit(jax.vmap(lambda case: kernel.attend(**case)))(stacked)
    for case, one in zip(cases, found, strict=True):
        np.testing.assert_allclose(one, slow(**case), rtol=1e-4, atol=1e-5)


def test_its_gradient_is_that_of_the_plain_form():
    case = drawn(2)
    of = lambda form: jax.grad(lambda inner_hd: jnp.square(form(inner_hd, *list(case.values())[1:])).sum())  # noqa: E731
    np.testing.assert_allclose(of(kernel.attend)(case["inner_hd"]), of(kernel.plain)(case["inner_hd"]), rtol=1e-4)


def test_it_is_used_on_a_gpu_where_the_sizes_suit(monkeypatch):
    assert not kernel.suits(32, 512, "bfloat16")  # a CPU
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert kernel.suits(32, 512, "bfloat16")
    assert kernel.suits(16, 128, "bfloat16")
    for chunk, width, dtype in (
        (32, 512, "float32"),
        (8, 512, "bfloat16"),
        (24, 512, "bfloat16"),
        (32, 96, "bfloat16"),
    ):
        assert not kernel.suits(chunk, width, dtype)


@pytest.mark.parametrize("overlap", [0, 3])
@pytest.mark.parametrize("order", ["top_k_then_softmax", "softmax_then_top_k"])
def test_the_memory_acts_the_same_with_it(monkeypatch, overlap, order):
    """Over several episodes, from the first step, when there is nothing to recall, until the oldest are forgotten."""
    config = HCAM(width=32, layers=2, heads=4, chunk=16, slots=3, top_k=2, window=4, overlap=overlap, order=order)
    memory, first_t = make(config), np.isin(np.arange(150), [0, 20, 30])
    params = memory.init_params(jax.random.key(0))
    x_td = jax.random.normal(jax.random.key(1), (150, 32))

    def acted():
        def body(state, step):
            state, y_d, recall = memory.step(params, state, *step, recall=True)
            return state, (y_d, recall)

        return jax.jit(lambda: jax.lax.scan(body, memory.init_state(), (x_td, jnp.asarray(first_t))))()

    without = acted()
    calls: list[tuple[object, ...]] = []

    def suits(*sizes):
        calls.append(sizes)
        return True

    monkeypatch.setattr(kernel, "suits", suits)
    found = acted()
    assert calls == [(16, 32, "float32")] * 2
    jax.tree.map(lambda one, two: np.testing.assert_allclose(one, two, rtol=2e-4, atol=2e-5), found, without)
