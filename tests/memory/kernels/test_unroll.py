"""The kernels of learning against their oracles in plain JAX; interpreted where there is no GPU: the same, slowly."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.memory import window
from hcam.memory.kernels import unroll
from hcam.memory.relevance import top_weights

CHUNK, WIDTH = 16, 32


def recalled(seed, queries=20, heads=4, slots=6, k=3, dtype="float32"):
    """Queries, chunks in two places, and what becomes of their weights: later queries may recall more of them."""
    keys = jax.random.split(jax.random.key(seed), 4)
    inner_qhd = jax.random.normal(keys[0], (queries, heads, WIDTH)).astype(dtype)
    code_qhc = jax.random.normal(keys[3], (queries, heads, CHUNK)).astype(dtype)
    content_mcd = jax.random.normal(keys[1], (slots, CHUNK, WIDTH)).astype(dtype)
    there_qm = jnp.arange(slots)[None, :] * 4 <= jnp.arange(queries)[:, None]
    logits_qm = jnp.where(there_qm, 2 * jax.random.normal(keys[2], (queries, slots)), window.MASKED)
    parts = content_mcd[:4], content_mcd[4:]
    return (inner_qhd, code_qhc, parts, logits_qm), lambda logits_qm: top_weights(logits_qm, k, "top_k_then_softmax")


fused, plain = partial(unroll.recall, 3), unroll.plain_recall


def gradients(form, case, weigh):
    *_, parts, logits_qm = case

    def total(inner_qhd, code_qhc, logits_qm):
        found = form(inner_qhd, code_qhc, parts, weigh(logits_qm))
        return sum(jnp.square(x.astype(jnp.float32)).sum() for x in found)

    return jax.grad(total, (0, 1, 2))(*case[:2], logits_qm)


def close(found, expected, rtol, atol):
    jax.tree.map(
        lambda one, two: np.testing.assert_allclose(one, two, rtol=rtol, atol=atol * (1 + np.abs(two).max())),
        found,
        expected,
    )


# Rows that fill blocks, that leave most of one empty, and a query whose heads lie in two blocks.
@pytest.mark.parametrize(
    ("queries", "heads"),
    [pytest.param(32, 8, marks=pytest.mark.slow), pytest.param(5, 4, marks=pytest.mark.slow), (43, 3)],
)
def test_answers_and_gradients_equal_those_of_the_plain_form(queries, heads):
    case, weigh = recalled(queries, queries, heads)
    args = *case[:3], weigh(case[3])
    close(fused(*args), plain(*args), rtol=1e-4, atol=1e-5)
    close(gradients(fused, case, weigh), gradients(plain, case, weigh), rtol=1e-3, atol=1e-4)


def test_a_wide_answer_is_added_up_in_pieces(monkeypatch):
    """By several programs, of which each has all of the query and one writes what they have in common."""
    monkeypatch.setattr(unroll, "COLUMNS", WIDTH // 2)
    case, weigh = recalled(1)
    args = *case[:3], weigh(case[3])
    close(fused(*args), plain(*args), rtol=1e-4, atol=1e-5)
    close(gradients(fused, case, weigh), gradients(plain, case, weigh), rtol=1e-3, atol=1e-4)


def test_it_does_not_matter_where_chunks_lie():
    (inner_qhd, code_qhc, parts, logits_qm), weigh = recalled(2)
    one = fused(inner_qhd, code_qhc, (jnp.concatenate(parts),), weigh(logits_qm))
    close(fused(inner_qhd, code_qhc, parts, weigh(logits_qm)), one, rtol=1e-5, atol=1e-6)


def test_the_code_counts_as_if_it_were_added_to_the_rows():
    """Queries meet it as they meet rows, and what they see of it is as much as they see of its rows."""
    (inner_qhd, _, parts, logits_qm), weigh = recalled(5)
    code_cd = jax.random.normal(jax.random.key(9), (CHUNK, WIDTH))
    code_qhc, nothing_qhc = jnp.einsum("qhd,cd->qhc", inner_qhd, code_cd), jnp.zeros((*inner_qhd.shape[:2], CHUNK))
    mixed_qhd, seen_qhc = fused(inner_qhd, code_qhc, parts, weigh(logits_qm))
    coded = tuple(content_mcd + code_cd[None] for content_mcd in parts)
    expected_qhd, _ = plain(inner_qhd, nothing_qhc, coded, weigh(logits_qm))
    close(mixed_qhd + jnp.einsum("qhc,cd->qhd", seen_qhc, code_cd), expected_qhd, rtol=1e-4, atol=1e-5)


def test_chunks_without_a_weight_are_not_looked_at():
    """Not even if there is nothing sensible in them: a ring's rows are never cleared."""
    (inner_qhd, code_qhc, parts, logits_qm), weigh = recalled(3)
    weight_qm = weigh(jnp.where(jnp.arange(6)[None] == 2, window.MASKED, logits_qm))
    spoilt = parts[0].at[2].set(jnp.nan), parts[1]
    expected = plain(inner_qhd, code_qhc, parts, weight_qm)
    found, pull = jax.vjp(lambda *args: fused(*args[:2], spoilt, args[2]), inner_qhd, code_qhc, weight_qm)
    close(found, expected, rtol=1e-4, atol=1e-5)
    assert all(np.isfinite(leaf).all() for leaf in pull(jax.tree.map(jnp.ones_like, found)))


def test_no_gradient_goes_into_what_is_stored():
    (inner_qhd, code_qhc, parts, logits_qm), weigh = recalled(4)
    gradient = jax.grad(lambda parts: fused(inner_qhd, code_qhc, parts, weigh(logits_qm))[0].sum())(parts)
    assert not any(leaf.any() for leaf in gradient)


def test_in_bfloat16_it_is_no_further_from_float32_than_the_plain_form():
    for seed in range(2):
        case, weigh = recalled(seed, dtype="bfloat16")
        exact = gradients(plain, jax.tree.map(lambda leaf: leaf.astype("float32"), case), weigh)
        off = [
            [
                np.linalg.norm(np.float64(one) - two)
                for one, two in zip(gradients(form, case, weigh), exact, strict=True)
            ]
            for form in (fused, plain)
        ]
        assert (np.array(off[0]) < 1.3 * np.array(off[1])).all()
        assert (np.array(off[0]) < 0.1 * np.array([np.linalg.norm(leaf) for leaf in exact])).all()


def test_learning_from_many_environments_is_one_call():
    case, weigh = recalled(6)
    two = jax.tree.map(lambda leaf: jnp.stack([leaf, 0.5 * leaf]), case)

    def of(form):
        return jax.vmap(lambda *case: gradients(form, case, weigh))

    close(jax.jit(of(fused))(*two), of(plain)(*two), rtol=1e-3, atol=1e-3)
