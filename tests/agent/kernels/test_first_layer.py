"""The first layer's kernels against their oracle in plain JAX; interpreted where there is no GPU."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.agent.kernels import first_layer
from tests.agent.kernels.cases import bytes_, close, off, params, with_gradients


def fused(seen, dtype="float32"):
    return lambda own: first_layer.fused_embed(255, dtype, own, seen)


def plain(seen, dtype="float32"):
    return lambda own: first_layer.plain_embed(own, 255, seen, 3, 2, dtype)


@pytest.mark.parametrize(
    ("shape", "outs"),
    [
        ((3, 12, 24, 3), 16),  # 108 pairs of neighbours in a tile of 128
        ((5, 12, 24, 3), 32),  # 180, in two
        ((1, 2, 4, 3), 16),
        ((2, 4, 8, 1), 16),
    ],
)
def test_values_and_gradients_equal_those_of_the_plain_form(shape, outs):
    own, seen = params(1, shape[-1], outs), bytes_(0, *shape)
    found = jax.jit(partial(with_gradients, fused(seen)))(own)
    close(found, with_gradients(plain(seen), own))


def test_programs_of_several_tiles_sum_the_gradient_over_them(monkeypatch):
    monkeypatch.setattr(first_layer, "PAIRS", 16)
    monkeypatch.setattr(first_layer, "PROGRAMS", 3)
    own, seen = params(1, 3, 16), bytes_(0, 3, 12, 28, 3)
    close(jax.jit(partial(with_gradients, fused(seen)))(own), with_gradients(plain(seen), own))


def test_in_bfloat16_it_is_no_further_from_float32_than_the_plain_form():
    own, seen = params(1, 3, 16), bytes_(0, 2, 8, 16, 3)
    exact = with_gradients(plain(seen), own)
    errors, usual = (off(with_gradients(form(seen, "bfloat16"), own), exact) for form in (fused, plain))
    assert (errors < 1.3 * usual + 1e-3).all()
    assert (errors < 0.02).all()


def test_under_vmap_it_is_the_same():
    """Over images, as in acting, and over parameters, as when several seeds train at once."""
    own, seen = params(1, 3, 16), bytes_(0, 2, 4, 8, 3)
    one = jax.vmap(lambda seen: first_layer.fused_embed(255, "float32", own, seen[None])[0])(seen)
    close(one, plain(seen)(own))
    both = jax.tree.map(lambda *leaves: jnp.stack(leaves), own, params(2, 3, 16))

    def seeds(form):
        return jax.vmap(lambda own, seen: with_gradients(form(seen), own))(both, jnp.stack([seen, seen ^ 255]))

    close(seeds(fused), seeds(plain))


def test_any_leading_axes_are_images(monkeypatch):
    own, seen = params(1, 3, 16), bytes_(0, 2, 3, 4, 8, 3)
    found = first_layer.embed(own, 255, seen, 3, 2, "float32")
    assert found.shape == (2, 3, 2, 4, 16)
    monkeypatch.setattr(first_layer, "supported", lambda *args: True)
    close(first_layer.embed(own, 255, seen, 3, 2, "float32"), found)
    close(first_layer.embed(own, 255, seen[0, 0], 3, 2, "float32"), found[0, 0])


def test_where_it_is_used(monkeypatch):
    usual: list[Any] = [(8, 72, 96, 3), "uint8", 16, 3, 2, "bfloat16"]
    assert not first_layer.supported(*usual)  # a CPU
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert first_layer.supported(*usual)
    assert first_layer.supported((72, 96, 1), "uint8", 32, 3, 2, "bfloat16")
    others: list[tuple[int, Any]] = [
        (0, (8, 71, 96, 3)),
        (0, (8, 72, 98, 3)),
        (0, (8, 72, 96, 4)),
        (0, (2**17, 72, 96, 3)),  # too many to count
        (1, "float32"),
        (2, 64),
        (3, 5),
        (4, 1),
        (5, "float32"),
    ]
    for place, other in others:
        changed = usual.copy()
        changed[place] = other
        assert not first_layer.supported(*changed)


def test_what_does_not_fit_is_left_to_the_library(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    own, seen = params(1, 3, 16), bytes_(0, 1, 5, 8, 3)
    found = first_layer.embed(own, 255, seen, 3, 2, "bfloat16")
    np.testing.assert_array_equal(found, plain(seen, "bfloat16")(own))
