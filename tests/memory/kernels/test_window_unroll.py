"""The window's kernels of learning against their oracle in plain JAX; interpreted where there is no GPU."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.memory.kernels import window_unroll

SCALE = 0.2
fused, plain = partial(window_unroll.attend, SCALE), partial(window_unroll.plain_attend, SCALE)


def case(seed, steps=32, size=16, heads=2, features=16, dtype="float32"):
    """The unroll's first episode began 5 steps before it, the next at its step 9, and one at its last step."""
    keys = jax.random.split(jax.random.key(seed), 3)
    shapes = (steps, heads, features), (size + steps, 2, heads, features), (steps, heads, size)
    arrays = [(2 * jax.random.normal(key, shape)).astype(dtype) for key, shape in zip(keys, shapes, strict=True)]
    start_t = np.where(np.arange(steps) < 9, -5, 9)
    start_t[-1] = steps - 1
    return *arrays, jnp.asarray(start_t, jnp.int32)


def gradients(form, case):
    *arrays, start_t = case

    def total(*arrays):
        return jnp.square(form(*arrays, start_t).astype(jnp.float32)).sum()

    return jax.grad(total, (0, 1, 2))(*arrays)


@pytest.mark.parametrize(("steps", "size", "features"), [(16, 32, 32), (64, 32, 16)])
def test_answers_and_gradients_equal_those_of_the_plain_form(steps, size, features):
    args = case(steps, steps, size, features=features)
    np.testing.assert_allclose(fused(*args), plain(*args), rtol=1e-4, atol=1e-5)
    for one, two in zip(gradients(fused, args), gradients(plain, args), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-3, atol=1e-4)


def test_a_step_sees_its_window_and_its_episode_alone():
    """What lies outside may be anything that is a number: a ring's rows are never cleared."""
    query, pair, age, start_t = case(1)
    steps, size = age.shape[0], age.shape[2]
    jacobian = jax.jit(jax.jacrev(lambda pair: fused(query, pair, age, start_t).sum((1, 2))))(pair)
    seen = np.asarray(jacobian)[:, :, 1, 0, 0] != 0  # of the values
    index_j = np.arange(size + steps) - size
    for t in range(steps):
        oldest = max(t - size + 1, int(start_t[t]))
        np.testing.assert_array_equal(seen[t], (index_j >= oldest) & (index_j <= t))


def test_in_bfloat16_it_is_no_further_from_float32_than_the_plain_form():
    args = case(2, dtype="bfloat16")
    exact = gradients(plain, [leaf.astype("float32") if leaf.dtype == jnp.bfloat16 else leaf for leaf in args])

    def off(form):
        return [np.linalg.norm(np.float64(one) - two) for one, two in zip(gradients(form, args), exact, strict=True)]

    assert (np.array(off(fused)) < 1.3 * np.array(off(plain))).all()
    assert (np.array(off(fused)) < 0.05 * np.array([np.linalg.norm(leaf) for leaf in exact])).all()


def test_many_environments_are_one_call():
    args = [jnp.stack(leaves) for leaves in zip(case(3), case(4), strict=True)]
    together = jax.vmap(fused)(*args)
    np.testing.assert_allclose(together[0], fused(*case(3)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(together[1], fused(*case(4)), rtol=1e-5, atol=1e-6)
    assert str(jax.make_jaxpr(jax.vmap(fused))(*args)).count("pallas_call") == 1


def test_where_it_is_used(monkeypatch):
    assert not window_unroll.supported(32, 64, 64, "bfloat16")  # a CPU
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert window_unroll.supported(32, 64, 64, "bfloat16")
    assert window_unroll.supported(16, 64, 32, "bfloat16")
    for window, steps, features, dtype in (
        (320, 64, 64, "bfloat16"),  # TransformerXL's: it would need a loop
        (32, 128, 64, "bfloat16"),
        (32, 48, 64, "bfloat16"),
        (31, 64, 64, "bfloat16"),
        (32, 64, 8, "bfloat16"),
        (32, 64, 64, "float32"),
    ):
        assert not window_unroll.supported(window, steps, features, dtype)
