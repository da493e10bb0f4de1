"""Where the kernels are used, and that nothing but speed changes with them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.memory import HCAM, kernel, make


def test_they_are_used_on_a_gpu_where_the_sizes_suit(monkeypatch):
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


@pytest.mark.parametrize(("overlap", "order"), [(0, "softmax_then_top_k"), (3, "top_k_then_softmax")])
def test_the_memory_acts_and_learns_the_same_with_them(monkeypatch, overlap, order):
    """Over several episodes, from the first step, when there is nothing to recall, until the oldest are forgotten."""
    config = HCAM(width=32, layers=2, heads=4, chunk=16, slots=3, top_k=2, window=16, overlap=overlap, order=order)
    memory, first_t = make(config), np.isin(np.arange(150), [0, 20, 30])
    params = memory.init_params(jax.random.key(0))
    x_td = jax.random.normal(jax.random.key(1), (150, 32))

    def lived():
        """Acted step by step, and learned from in two unrolls."""

        def body(state, step):
            state, y_d, recall = memory.step(params, state, *step, recall=True)
            return state, (y_d, recall)

        def loss(params):
            state, first_y = memory.unroll(params, memory.init_state(), x_td[:70], jnp.asarray(first_t[:70]))
            _, then_y = memory.unroll(params, state, x_td[70:], jnp.asarray(first_t[70:]))
            return jnp.square(then_y).mean(), (first_y, then_y)

        run = jax.jit(lambda: jax.lax.scan(body, memory.init_state(), (x_td, jnp.asarray(first_t))))
        return run(), jax.jit(jax.grad(loss, has_aux=True))(params)

    without = lived()
    calls: list[tuple[object, ...]] = []

    def suits(*sizes):
        calls.append(sizes)
        return True

    monkeypatch.setattr(kernel, "suits", suits)
    found = lived()
    assert len(calls) == 2 * 3 + 4  # in two layers: window, summary and read of a step; the read of each unroll
    jax.tree.map(lambda one, two: np.testing.assert_allclose(one, two, rtol=1e-3, atol=3e-5), found, without)
