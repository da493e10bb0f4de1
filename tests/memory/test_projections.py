"""Projections applied to the query and the answer equal projections of every stored step."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.memory import projections
from hcam.memory.layers import linear, softmax
from tests.memory.cases import noisy

QUERIES, HEADS, CHUNK, E, D, S = 3, 2, 5, 6, 8, 4


@pytest.fixture(scope="module")
def params():
    shapes = jax.eval_shape(partial(projections.init_read, query_width=E, memory_width=D, width=S), jax.random.key(0))
    return noisy(shapes, seed=0)


def random(*shape: int, seed: int = 0) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), jnp.float32)


def usual(params, query_qe, content_cd):
    """Attention in the usual order: every step has a key and a value. The answer and the attention."""
    query_qhs = linear(params["query"], query_qe).reshape(QUERIES, HEADS, -1)
    key_chs, value_chs = projections.keys_values(params, content_cd, HEADS)
    within_qhc = softmax(jnp.einsum("qhs,chs->qhc", query_qhs, key_chs) / math.sqrt(S // HEADS))
    value_qs = jnp.einsum("qhc,chs->qhs", within_qhc, value_chs).reshape(QUERIES, S)
    return linear(params["out"], value_qs), within_qhc


def test_queries_meet_stored_steps_as_they_would_meet_keys(params):
    query_qe, content_cd = random(QUERIES, E), random(CHUNK, D, seed=1)
    inner_qhd = projections.inner_queries(params, projections.own_queries(params, query_qe, HEADS))
    within_qhc = softmax(jnp.einsum("qhd,cd->qhc", inner_qhd, content_cd))
    answer_qs, expected_qhc = usual(params, query_qe, content_cd)
    np.testing.assert_allclose(within_qhc, expected_qhc, atol=1e-5)
    mixed_qhd = jnp.einsum("qhc,cd->qhd", within_qhc, content_cd)
    np.testing.assert_allclose(
        projections.outer_answers(params, mixed_qhd, jnp.ones((QUERIES, 1))), answer_qs, atol=1e-5
    )


def test_a_code_apart_is_a_code_that_was_added(params):
    query_qe, content_cd, code_cd = random(QUERIES, E), random(CHUNK, D, seed=1), random(CHUNK, D, seed=2)
    key_chs, value_chs = projections.code_keys_values(params, code_cd, HEADS)
    inner_qhd, code_qhc = projections.coded_queries(params, query_qe, key_chs)
    within_qhc = softmax(jnp.einsum("qhd,cd->qhc", inner_qhd, content_cd) + code_qhc)
    mixed_qhd = jnp.einsum("qhc,cd->qhd", within_qhc, content_cd)
    found = projections.coded_answers(params, mixed_qhd, jnp.ones((QUERIES, 1)), within_qhc, value_chs)
    np.testing.assert_allclose(found, usual(params, query_qe, content_cd + code_cd)[0], atol=1e-5)


def test_biases_count_as_often_as_the_relevances_sum_to(params):
    """Two chunks of weights 0.5 and 0.2: each answer has the biases once, so the sum has 0.7 of them."""
    query_qe, weight_qk = random(QUERIES, E), jnp.broadcast_to(jnp.array([0.5, 0.2]), (QUERIES, 2))
    contents = [random(CHUNK, D, seed=seed) for seed in (1, 2)]
    answers, mixed = [], []
    for content_cd in contents:
        answer_qs, within_qhc = usual(params, query_qe, content_cd)
        answers.append(answer_qs)
        mixed.append(jnp.einsum("qhc,cd->qhd", within_qhc, content_cd))
    found = projections.outer_answers(params, 0.5 * mixed[0] + 0.2 * mixed[1], weight_qk)
    np.testing.assert_allclose(found, 0.5 * answers[0] + 0.2 * answers[1], atol=1e-5)
