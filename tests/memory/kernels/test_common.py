"""Where the kernels are used, and that nothing but speed changes with them.

`python -m tests.memory.kernels.gpu` compares them on a real GPU.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.memory import HCAM, make
from hcam.memory.kernels import common


def test_they_are_used_on_a_gpu_where_the_sizes_suit(monkeypatch):
    assert not common.supported(32, 512, "bfloat16")  # a CPU
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert common.supported(32, 512, "bfloat16")
    assert common.supported(16, 128, "bfloat16")
    for chunk, width, dtype in (
        (32, 512, "float32"),
        (8, 512, "bfloat16"),
        (24, 512, "bfloat16"),
        (32, 96, "bfloat16"),
    ):
        assert not common.supported(chunk, width, dtype)


@pytest.mark.parametrize(
    ("overlap", "order"),
    [(3, "top_k_then_softmax"), pytest.param(0, "softmax_then_top_k", marks=pytest.mark.slow)],
)
def test_the_memory_acts_and_learns_the_same_with_them(monkeypatch, overlap, order):
    """Over several episodes, from the first step, when there is nothing to recall, until the oldest are forgotten."""
    config = HCAM(width=32, layers=2, heads=4, chunk=16, slots=3, top_k=2, window=16, overlap=overlap, order=order)
    memory, first_t = make(config), np.isin(np.arange(128), [0, 20, 30])
    params = memory.init_params(jax.random.key(0))
    x_td = jax.random.normal(jax.random.key(1), (128, 32))

    def lived():
        """Acted step by step, and learned from in two unrolls."""

        def body(state, step):
            state, y_d, recall = memory.step(params, state, *step, recall=True)
            return state, (y_d, recall)

        def loss(params):
            state, first_y = memory.unroll(params, memory.init_state(), x_td[:64], jnp.asarray(first_t[:64]))
            _, then_y = memory.unroll(params, state, x_td[64:], jnp.asarray(first_t[64:]))
            return jnp.square(then_y).mean(), (first_y, then_y)

        run = jax.jit(lambda: jax.lax.scan(body, memory.init_state(), (x_td, jnp.asarray(first_t))))
        return run(), jax.jit(jax.grad(loss, has_aux=True))(params)

    without = lived()
    calls: list[tuple[object, ...]] = []

    def supported(*sizes):
        calls.append(sizes)
        return True

    monkeypatch.setattr(common, "supported", supported)
    found = lived()
    # In two layers: window, summary and read of a step; of each unroll the read, and both sizes of the window.
    assert len(calls) == 2 * 3 + 2 * 2 * 3
    jax.tree.map(lambda one, two: np.testing.assert_allclose(one, two, rtol=1e-3, atol=3e-5), found, without)
