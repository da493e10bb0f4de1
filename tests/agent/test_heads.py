"""Policy and value: one hidden layer each, a calm start, float32 whatever comes in."""

import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.agent import heads
from hcam.agent.heads import HeadsConfig

WIDTH = 32


@pytest.fixture(scope="module")
def calm():
    return jax.jit(lambda key: heads.init(key, HeadsConfig(hidden=16), actions=8, width=WIDTH))(jax.random.key(0))


def test_the_policy_starts_nearly_uniform_and_the_value_near_zero(calm):
    run, rng = jax.jit(jax.vmap(partial(heads.policy_value, calm))), np.random.default_rng(0)
    for scale in (1.0, 100.0):
        logits, value = run(jnp.asarray(rng.normal(size=(50, WIDTH), scale=scale), jnp.float32))
        assert (logits.shape, value.shape) == ((50, 8), (50,))
        assert np.abs(jax.nn.softmax(logits) - 1 / 8).max() < 0.02
        assert np.abs(value).max() < 0.1
        assert np.abs(logits - logits[:1].repeat(50, 0)).max() > 0  # near, and yet of what is seen


def test_policy_and_value_are_one_hidden_layer_of_relus(calm):
    y = np.random.default_rng(0).normal(size=WIDTH, loc=1, scale=3).astype(np.float32)
    logits, value = heads.policy_value(calm, jnp.asarray(y))
    normal = (y - y.mean()) / np.sqrt(y.var() + 1e-5)
    for name, found in (("policy", logits), ("value", value[None])):
        inner, out = (jax.tree.map(np.asarray, calm[name][part]) for part in ("in", "out"))
        assert inner["w"].shape == (WIDTH, 16)
        expected = np.maximum(normal @ inner["w"] + inner["b"], 0) @ out["w"] + out["b"]
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_logits_and_value_are_float32_whatever_comes_in(calm):
    logits, value = jax.eval_shape(heads.policy_value, calm, jnp.ones(WIDTH, jnp.bfloat16))
    assert (logits.dtype, value.dtype) == (jnp.float32, jnp.float32)


def test_bad_sizes_are_refused():
    with pytest.raises(ValueError, match=re.escape("hidden must be a whole number of at least 1, but is 0.")):
        HeadsConfig(hidden=0)
