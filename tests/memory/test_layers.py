"""The parts, each by hand or against the slow version."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.memory import layers
from tests.memory import oracle
from tests.memory.cases import noisy


def random(*shape: int, seed: int = 0) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), jnp.float32)


@pytest.mark.parametrize(
    ("dtype", "at_least"), [("bfloat16", "float32"), ("float16", "float32"), ("float32", "float32")]
)
def test_wide_is_at_least_float32(dtype, at_least):
    """Under strict promotion too: it is there to say a conversion aloud."""
    assert layers.to_float32(jnp.ones(2, dtype)).dtype == at_least


def test_wide_keeps_float64():
    with jax.enable_x64(True):
        assert layers.to_float32(jnp.ones(2, jnp.float64)).dtype == jnp.float64


def test_spread_repeats_over_leading_axes():
    like = jnp.zeros((2, 3, 4), jnp.bfloat16)
    found = layers.broadcast_like(jnp.arange(4.0), like)
    assert (found.shape, found.dtype) == (like.shape, like.dtype)
    np.testing.assert_array_equal(found[1, 2].astype(jnp.float32), [0, 1, 2, 3])


def test_linear_by_hand():
    """[1, 2] @ [[1, 0, 2], [0, 1, 1]] = [1, 2, 4], plus the bias."""
    params = {"w": jnp.array([[1.0, 0, 2], [0, 1, 1]]), "b": jnp.array([10.0, 20, 30])}
    np.testing.assert_array_equal(layers.linear(params, jnp.array([1.0, 2])), [11, 22, 34])
    np.testing.assert_array_equal(layers.linear({"w": params["w"]}, jnp.array([[1.0, 2]])), [[1, 2, 4]])


def test_linear_starts_with_variance_scale_over_fan_in():
    params = layers.init_linear(jax.random.key(0), 200, 300, scale=3.0)
    np.testing.assert_allclose(np.var(params["w"]), 3 / 200, rtol=0.03)
    np.testing.assert_array_equal(params["b"], np.zeros(300))
    assert "b" not in layers.init_linear(jax.random.key(0), 2, 3, bias=False)


def test_layer_norm_by_hand():
    """[1, 3] has mean 2 and variance 1: it becomes [-1, 1] (less 1e-5 / 2), then scale and offset."""
    params = {"scale": jnp.array([2.0, 3.0]), "offset": jnp.array([10.0, 20.0])}
    np.testing.assert_allclose(layers.layer_norm(params, jnp.array([1.0, 3.0])), [8, 23], atol=1e-4)
    # A constant has no spread to divide by: the offset remains.
    np.testing.assert_allclose(layers.layer_norm(params, jnp.array([5.0, 5.0])), [10, 20], atol=1e-4)


def test_layer_norm_starts_plain_and_sees_neither_shift_nor_scale():
    params, x = layers.init_norm(6), random(3, 6)
    plain = layers.layer_norm(params, x)
    np.testing.assert_allclose(plain.mean(-1), 0, atol=1e-6)
    np.testing.assert_allclose(plain.var(-1), 1, atol=1e-3)
    np.testing.assert_allclose(layers.layer_norm(params, 100 * x + 7), plain, atol=1e-3)


def test_mlp_is_norm_linear_relu_linear():
    params = noisy(jax.eval_shape(lambda key: layers.init_mlp(key, 4, 12), jax.random.key(0)), seed=1)
    assert params["in"]["w"].shape == (4, 12)
    slow = oracle.to_float64(params)
    for x in random(3, 4):
        hidden = np.maximum(oracle.linear(slow["in"], oracle.layer_norm(slow["norm"], np.asarray(x, np.float64))), 0)
        np.testing.assert_allclose(layers.mlp(params, x), oracle.linear(slow["out"], hidden), atol=1e-5)


def test_gate_without_parameters_adds():
    np.testing.assert_array_equal(layers.gate(None, jnp.array([1.0]), jnp.array([2.0])), [3])


def test_gate_is_the_gru_of_the_gated_transformer():
    params = noisy(jax.eval_shape(lambda key: layers.init_gate(key, 4), jax.random.key(0)), seed=2)
    x, y = random(5, 4, seed=3), random(5, 4, seed=4)
    expected = [
        oracle.join(oracle.to_float64(params), np.asarray(a, np.float64), np.asarray(b, np.float64))
        for a, b in zip(x, y, strict=True)
    ]
    np.testing.assert_allclose(layers.gate(params, x, y), expected, atol=1e-5)


def test_gate_starts_nearly_closed():
    """An offset of 2 and nothing else: update = sigmoid(-2) = 0.1192, candidate = tanh(0) = 0, so 0.8808 x is left."""
    params = jax.jit(lambda key: layers.init_gate(key, 4))(jax.random.key(0))
    np.testing.assert_array_equal(params["offset"], [2, 2, 2, 2])
    silent = jax.tree.map(jnp.zeros_like, params) | {"offset": params["offset"]}
    x = random(4)
    np.testing.assert_allclose(layers.gate(silent, x, random(4, seed=1)), 0.880797 * x, atol=1e-5)


def test_sinusoids_are_sines_then_cosines():
    found = np.asarray(layers.sinusoids([0, 1, 31, 319], 6))
    for row, position in zip(found, (0, 1, 31, 319), strict=True):
        np.testing.assert_allclose(row, oracle.position_code(position, 6), atol=1e-4)
    np.testing.assert_array_equal(found[0], [0, 0, 0, 1, 1, 1])
    # Frequencies 1, 10000^(-1/3), 10000^(-2/3) = 1, 0.0464159, 0.00215443.
    np.testing.assert_allclose(found[1, :3], np.sin([1, 0.0464159, 0.00215443]), atol=1e-6)
