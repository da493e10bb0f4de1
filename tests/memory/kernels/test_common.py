"""Where the kernels are used, and that nothing but speed changes with them.

What needs a GPU runs without pytest as well: `python -m tests.memory.kernels.test_common` prints the figures.
"""

from dataclasses import replace
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.memory import HCAM, TrXL, make
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


# On a GPU, where they really run

CASES = {
    "hcam 512": HCAM(layers=2, slots=3, top_k=2),
    "hcam 128": HCAM(width=128, layers=2, chunk=16, slots=6, top_k=4, overlap=2),
    "trxl 256": TrXL(width=256, layers=2, window=96),
}
BATCH, STEPS, UNROLL = 64, 192, 64  # several unrolls, longer than the rings, of several episodes


def figures(config: Any) -> dict[str, float]:
    """How far acting and learning are from float32, with kernels and without, and with kernels from each other."""
    keys = jax.random.split(jax.random.key(0), 3)
    x_btd = jax.random.normal(keys[0], (BATCH, STEPS, config.width))
    first_bt = (jax.random.uniform(keys[1], (BATCH, STEPS)) < 1 / 150).at[:, 0].set(True)
    params = make(config).init_params(keys[2])

    def acted(config: Any) -> Any:
        memory = make(config)

        def one(x_td: Any, first_t: Any) -> Any:
            _, y_td = jax.lax.scan(
                lambda state, seen: memory.step(params, state, *seen), memory.init_state(), (x_td, first_t)
            )
            return y_td

        return jax.jit(jax.vmap(one))(x_btd, first_bt)

    def learned(config: Any) -> Any:
        memory = make(config)

        def loss(params: Any) -> Any:
            def one(x_td: Any, first_t: Any) -> Any:
                state, found = memory.init_state(), []
                for begin in range(0, STEPS, UNROLL):
                    part = slice(begin, begin + UNROLL)
                    state, y_td = memory.unroll(params, state, x_td[part], first_t[part])
                    found.append(y_td)
                return jnp.concatenate(found)

            y_btd = jax.vmap(one)(x_btd, first_bt)
            return jnp.square(y_btd).mean(), y_btd

        gradient, y_btd = jax.jit(jax.grad(loss, has_aux=True))(params)
        return y_btd, jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(gradient)])

    def off(one: Any, other: Any) -> float:
        one, other = (np.asarray(x, np.float64) for x in (one, other))
        return float(np.linalg.norm(one - other) / np.linalg.norm(other))

    with jax.default_matmul_precision("highest"):
        exact = learned(replace(config, dtype="float32"))
    with mock.patch.object(common, "supported", return_value=False):
        plain, plain_acted = learned(config), acted(config)
    fused, fused_acted = learned(config), acted(config)
    return {
        "acting": off(fused_acted, exact[0]),
        "acting, plain": off(plain_acted, exact[0]),
        "learning": off(fused[0], exact[0]),
        "learning, plain": off(plain[0], exact[0]),
        "gradient": off(fused[1], exact[1]),
        "gradient, plain": off(plain[1], exact[1]),
        "acting against learning": off(fused_acted, fused[0]),
    }


@pytest.mark.skipif(jax.default_backend() != "gpu", reason="there is no GPU here")
@pytest.mark.parametrize("name", CASES)
def test_kernels_are_as_right_as_the_plain_form(name: str) -> None:
    found = figures(CASES[name])
    for what in ("acting", "learning", "gradient"):
        assert found[what] < 1.3 * found[f"{what}, plain"] + 1e-3
    assert found["acting against learning"] < 0.05


if __name__ == "__main__":
    for name, config in CASES.items():
        print(name, {what: f"{value:.2e}" for what, value in figures(config).items()}, flush=True)
