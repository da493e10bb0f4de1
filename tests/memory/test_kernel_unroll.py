"""The kernels of learning against their oracles in plain JAX; interpreted where there is no GPU: the same, slowly."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.memory import kernel_unroll, window
from hcam.memory.relevance import top_weights

CHUNK, WIDTH = 16, 32


def recalled(seed, queries=20, heads=4, slots=6, k=3, dtype="float32"):
    """Queries, chunks, and what becomes of their weights: as in an episode, later queries may recall more of them."""
    keys = jax.random.split(jax.random.key(seed), 3)
    inner_qhd = jax.random.normal(keys[0], (queries, heads, WIDTH)).astype(dtype)
    content_mcd = jax.random.normal(keys[1], (slots, CHUNK, WIDTH)).astype(dtype)
    there_qm = jnp.arange(slots)[None, :] * 4 <= jnp.arange(queries)[:, None]
    logits_qm = jnp.where(there_qm, 2 * jax.random.normal(keys[2], (queries, slots)), window.MASKED)
    return inner_qhd, content_mcd, logits_qm, lambda logits_qm: top_weights(logits_qm, k, "top_k_then_softmax")


fused, plain = partial(kernel_unroll.unroll, 3), kernel_unroll.plain_unroll


def gradients(form, inner_qhd, content_mcd, logits_qm, weigh):
    def total(inner_qhd, logits_qm):
        return jnp.square(form(inner_qhd, content_mcd, weigh(logits_qm)).astype(jnp.float32)).sum()

    return jax.grad(total, (0, 1))(inner_qhd, logits_qm)


# Rows that fill a block, that need several, that leave one half empty, and heads that lie in two blocks.
@pytest.mark.parametrize(("queries", "heads"), [pytest.param(32, 8, marks=pytest.mark.slow), (5, 4), (43, 3)])
def test_answers_and_gradients_equal_those_of_the_plain_form(queries, heads):
    inner_qhd, content_mcd, logits_qm, weigh = recalled(queries, queries, heads)
    args = inner_qhd, content_mcd, weigh(logits_qm)
    np.testing.assert_allclose(fused(*args), plain(*args), rtol=1e-4, atol=1e-5)
    case = inner_qhd, content_mcd, logits_qm, weigh
    for found, expected in zip(gradients(fused, *case), gradients(plain, *case), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max() + 1e-6)


def test_chunks_without_a_weight_are_not_looked_at():
    """Not even if there is nothing sensible in them: a ring's rows are never cleared."""
    inner_qhd, content_mcd, logits_qm, weigh = recalled(3)
    weight_qm = weigh(jnp.where(jnp.arange(6)[None] == 2, window.MASKED, logits_qm))
    spoilt_mcd = content_mcd.at[2].set(jnp.nan)
    expected = plain(inner_qhd, content_mcd, weight_qm)
    found, pull = jax.vjp(lambda *args: fused(args[0], spoilt_mcd, args[1]), inner_qhd, weight_qm)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert all(np.isfinite(leaf).all() for leaf in pull(jnp.ones_like(found)))


def test_no_gradient_goes_into_what_is_stored():
    inner_qhd, content_mcd, logits_qm, weigh = recalled(4)
    gradient = jax.grad(lambda content_mcd: fused(inner_qhd, content_mcd, weigh(logits_qm)).sum())(content_mcd)
    assert not gradient.any()


def test_in_bfloat16_it_is_no_further_from_float32_than_the_plain_form():
    for seed in range(2):
        case = recalled(seed, dtype="bfloat16")
        inner_qhd, content_mcd, logits_qm, weigh = case
        exact = gradients(plain, inner_qhd.astype("float32"), content_mcd.astype("float32"), logits_qm, weigh)
        off = [
            [np.linalg.norm(np.float64(one) - two) for one, two in zip(gradients(form, *case), exact, strict=True)]
            for form in (fused, plain)
        ]
        assert (np.array(off[0]) < 1.3 * np.array(off[1])).all()
        assert (np.array(off[0]) < 0.1 * np.array([np.linalg.norm(leaf) for leaf in exact])).all()


def test_learning_from_many_environments_is_one_call():
    *case, weigh = recalled(6)
    two = [jnp.stack([leaf, 0.5 * leaf]) for leaf in case]

    def of(form):
        return jax.vmap(lambda inner, content, logits: gradients(form, inner, content, logits, weigh))

    found, expected = jax.jit(of(fused))(*two), of(plain)(*two)
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3), found, expected)
