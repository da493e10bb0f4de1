"""The residual pair's kernels against their oracle in plain JAX; interpreted where there is no GPU."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.agent.kernels import residual
from tests.agent.kernels.cases import close, frames, off, params, with_gradients


def plain(first, second, x):
    return residual.plain_add(first, second, x, 3)


def case(images, height, width, channels, dtype="float32"):
    return (
        params(1, channels, channels),
        params(2, channels, channels),
        frames(0, images, height, width, channels, dtype=dtype),
    )


@pytest.mark.parametrize(
    "shape",
    [
        (3, 7, 10, 16),  # 105 pairs of pixels in two tiles of 64
        (1, 1, 2, 16),  # one pair, whose window is outside on all sides
        (2, 5, 6, 32),
    ],
)
def test_values_and_gradients_equal_those_of_the_plain_form(shape):
    args = case(*shape)
    found = jax.jit(partial(with_gradients, residual.fused_add))(*args)
    close(found, jax.jit(partial(with_gradients, plain))(*args))


def test_programs_of_several_tiles_sum_the_gradient_over_them(monkeypatch):
    """Eight tiles for three programs, one of which has nothing left to do at the end."""
    monkeypatch.setitem(residual.TILINGS, 16, residual.TILINGS[16]._replace(pairs=16, programs=3))
    args = case(3, 7, 12, 16)
    found = jax.jit(partial(with_gradients, residual.fused_add))(*args)
    close(found, with_gradients(plain, *args))


def test_in_bfloat16_it_is_no_further_from_float32_than_the_plain_form():
    first, second, x = case(2, 6, 8, 16, dtype="bfloat16")
    exact = with_gradients(plain, first, second, x.astype("float32"))
    errors, usual = (
        off(jax.jit(partial(with_gradients, form))(first, second, x), exact) for form in (residual.fused_add, plain)
    )
    assert (errors < 1.3 * usual + 1e-3).all()
    assert (errors < 0.05).all()


def test_under_vmap_it_is_the_same():
    """Over images, as in acting, and over parameters, as when several seeds train at once."""
    first, second, x = case(2, 4, 6, 16)

    def summed(form):
        return with_gradients(lambda *args: jax.vmap(form, in_axes=(None, None, 0))(*args), first, second, x[:, None])

    close(summed(residual.fused_add), summed(plain))
    both = jax.tree.map(lambda *leaves: jnp.stack(leaves), (first, second), (second, first))
    close(
        *(jax.jit(jax.vmap(partial(with_gradients, form)))(*both, x[:, None]) for form in (residual.fused_add, plain))
    )


def test_any_leading_axes_are_images(monkeypatch):
    first, second, x = case(6, 4, 6, 16)
    found = residual.add(first, second, x.reshape(2, 3, *x.shape[1:]), 3)
    close(found, plain(first, second, x).reshape(found.shape))
    monkeypatch.setattr(residual, "supported", lambda *args: True)
    close(residual.add(first, second, x.reshape(2, 3, *x.shape[1:]), 3), found)
    close(residual.add(first, second, x[0], 3), found[0, 0])


def test_where_it_is_used(monkeypatch):
    shape = (8, 36, 48, 16)
    assert not residual.supported(shape, 3, "bfloat16")  # a CPU
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert residual.supported(shape, 3, "bfloat16")
    assert residual.supported((9, 12, 32), 3, "bfloat16")
    for other, size, dtype in (
        (shape, 3, "float32"),
        (shape, 5, "bfloat16"),
        ((8, 36, 47, 16), 3, "bfloat16"),  # an odd width
        ((8, 36, 48, 24), 3, "bfloat16"),
        ((8, 36, 48, 64), 3, "bfloat16"),
        ((2**18, 36, 48, 16), 3, "bfloat16"),  # too many to count
    ):
        assert not residual.supported(other, size, dtype)


def test_what_does_not_fit_is_left_to_the_library(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    first, second, x = case(1, 4, 5, 16, dtype="bfloat16")
    np.testing.assert_array_equal(residual.add(first, second, x, 3), plain(first, second, x))
