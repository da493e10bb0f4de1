"""What the tests of the kernels share."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def params(seed: int, channels_in: int, channels_out: int, dtype: str = "float32") -> Any:
    """Of a 3 x 3 convolution, biases as well."""
    rng = np.random.default_rng(seed)
    w, b = rng.normal(size=(9 * channels_in, channels_out)), rng.normal(size=channels_out)
    return {"w": jnp.asarray(w * (2 / 9 / channels_in) ** 0.5, dtype), "b": jnp.asarray(0.1 * b, dtype)}


def frames(seed: int, *shape: int, dtype: str = "float32") -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), dtype)


def bytes_(seed: int, *shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).integers(0, 256, shape), jnp.uint8)


def with_gradients(form: Any, *args: Any) -> Any:
    """The result and the gradients with respect to all arguments, of a loss that weighs every element differently."""
    y, pull = jax.vjp(form, *args)
    weights = jnp.cos(jnp.arange(y.size, dtype=jnp.float32)).reshape(y.shape).astype(jnp.bfloat16)  # exact in both
    return y, pull(weights.astype(y.dtype))


def close(found: Any, expected: Any, rtol: float = 1e-4) -> None:
    """Each array, in comparison with its largest element."""

    def one(found: Any, expected: Any) -> None:
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        found, expected = np.float32(found), np.float32(expected)
        np.testing.assert_allclose(found, expected, rtol=0, atol=rtol * np.abs(expected).max())

    jax.tree.map(one, found, expected)


def off(found: Any, exact: Any) -> np.ndarray:
    """The relative error of each array."""
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(exact), strict=True)
    return np.array([np.linalg.norm(np.float32(one) - two) / np.linalg.norm(two) for one, two in pairs])
