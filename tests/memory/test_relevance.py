"""Which chunks matter: scores against a loop, and two ways of choosing the k best that must choose alike."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.memory.relevance import ORDERS, relevance_logits, top_chunks, top_weights
from tests.memory import oracle

every_order = pytest.mark.parametrize("order", ORDERS)


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(("queries", "slots"), [(2, 5), (5, 2), (3, 3)])  # the projection goes to the smaller side
def test_logits_are_scaled_products_of_projections(queries, slots):
    params = {"relevance_query": {"w": random(3, 6)}, "relevance_key": {"w": random(4, 6, seed=1)}}
    query, key, mask = random(queries, 3, seed=2), random(slots, 4, seed=3), random(queries, slots, seed=4) > 0
    found = relevance_logits(jax.tree.map(jnp.asarray, params), jnp.asarray(query), jnp.asarray(key), jnp.asarray(mask))
    for q, m in np.ndindex(queries, slots):
        product = (query[q] @ params["relevance_query"]["w"]) @ (key[m] @ params["relevance_key"]["w"])
        expected = product / math.sqrt(6) if mask[q, m] else -1e6  # the full width, not a head's
        np.testing.assert_allclose(found[q, m], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("slots", "k"), [(1, 1), (5, 3), (5, 5), (60, 7), (200, 7)])
@every_order
def test_both_ways_of_choosing_agree_with_sorting(slots, k, order):
    logits = random(4, slots, seed=slots)
    logits[1, slots // 2 :] = -1e6  # half masked; with one slot, all of it
    logits[2] = np.round(logits[2])  # many ties
    logits[3] = 0.0  # nothing but ties
    chunk_qk, weight_qk = jax.jit(partial(top_chunks, k=k, order=order))(logits)
    weight_qm = np.asarray(jax.jit(partial(top_weights, k=k, order=order))(logits))
    for q, row in enumerate(logits.astype(np.float64)):
        chosen = oracle.best_first(row, k)
        weights = oracle.softmax(row[chosen]) if order == "top_k_then_softmax" else oracle.softmax(row)[chosen]
        in_place = np.zeros(slots)
        in_place[chosen] = weights
        np.testing.assert_allclose(weight_qk[q], weights, atol=1e-6)
        np.testing.assert_allclose(weight_qm[q], in_place, atol=1e-6)
        if order == "top_k_then_softmax":
            np.testing.assert_array_equal(chunk_qk[q], chosen)
        else:  # softmax may round two weights to the same number, which only their order may show
            np.testing.assert_allclose(in_place[chunk_qk[q]], weights, atol=1e-6)


def test_masked_chunks_weigh_exactly_nothing():
    logits = jnp.asarray([[0.3, -1e6, 0.1, -1e6]])
    np.testing.assert_array_equal(np.asarray(top_weights(logits, 3, "top_k_then_softmax"))[0, [1, 3]], 0.0)
    assert top_chunks(logits, 3, "top_k_then_softmax")[1][0, 2] == 0.0


@every_order
@pytest.mark.parametrize("slots", [6, 150])
def test_both_ways_have_the_same_gradient(slots, order):
    logits, pull = jnp.asarray(random(2, slots)), jnp.asarray(random(slots, seed=1))

    def by_index(logits_qm):
        chunk_qk, weight_qk = top_chunks(logits_qm, 3, order)
        return (weight_qk * pull[chunk_qk]).sum()

    def in_place(logits_qm):
        return (top_weights(logits_qm, 3, order) * pull[None]).sum()

    one, other = (jax.jit(jax.grad(loss))(logits) for loss in (by_index, in_place))
    np.testing.assert_allclose(one, other, atol=1e-6)
    assert np.isfinite(one).all()
    assert np.count_nonzero(np.asarray(one)[0]) == (3 if order == "top_k_then_softmax" else slots)
