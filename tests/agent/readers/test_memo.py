"""MEMO: items kept apart, hops with the same weights, and a mixture of answers by when it stops."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.agent.readers import Memo
from hcam.agent.readers.memo import mixed, stop_probability
from hcam.memory.layers import layer_norm, linear
from hcam.memory.window import split_heads
from hcam.types import Output
from tests.agent.readers.cases import READERS, SPACE, answer, built, observation

WIDE = Memo(width=128, heads=8)


def test_the_places_in_a_pair_have_weights_of_their_own():
    made, params = built("memo")
    assert params["network"]["memory"]["key"]["w"].shape == (2 * 16, 16)
    seen = observation()
    turned = seen | {"memory": seen["memory"][:, ::-1]}
    assert np.abs(answer(made, params, turned).logits - answer(made, params, seen).logits).max() > 1e-3


def test_answers_are_mixed_as_probabilities():
    logits_no = jnp.log(jnp.array([[0.9, 0.1], [0.3, 0.7]]))
    output_n = Output(logits_no, jnp.array([1.0, 3.0]), jnp.eye(2))
    found: Any = mixed(output_n, jnp.array([0.25, 0.75]), jnp.float32(0.5))
    np.testing.assert_allclose(jax.nn.softmax(found.logits), [0.45, 0.55], atol=1e-5)
    assert float(found.value) == pytest.approx(2.5)
    assert float(found.penalty) == 0.5


def test_who_stops_at_once_answers_with_the_first_hop():
    made, params = built("memo")
    own, one = params["network"], replace(READERS["memo_fixed"], hops=1).network(SPACE, 2, "float32")
    unasked = jax.tree.map(jnp.zeros_like, jax.eval_shape(one.init_params, jax.random.key(0))["stop"])
    first = jax.jit(one.answer)(own | {"stop": unasked}, observation())
    at_once = own["stop"] | {"out": {"w": jnp.zeros((32, 1)), "b": jnp.full(1, 50.0)}}
    found = answer(made, {"network": own | {"stop": at_once}}, observation())
    np.testing.assert_allclose(jax.nn.log_softmax(first.logits), found.logits, atol=1e-4)
    assert float(found.penalty) == pytest.approx(READERS["memo"].ponder)


def test_halting_sees_how_much_attention_changes_and_sends_no_gradient_into_it():
    _, params = built("memo")
    own = params["network"]["stop"]
    one, two = jnp.array([[1.0, 0.0]]), jnp.array([[0.5, 0.5]])
    same, other = (stop_probability(own, one, weight, jnp.int32(1), 3) for weight in (one, two))
    assert abs(float(same - other)) > 1e-4
    gradient = jax.grad(lambda weight: stop_probability(own, one, weight, jnp.int32(1), 3))(two)
    assert not np.asarray(gradient).any()


@pytest.mark.parametrize("tied", [False, True])
def test_a_tied_start_attends_to_the_pair_that_has_the_cue(tied):
    """Before anything is learned, at either place of a pair; the options of the query are other items."""
    own = replace(WIDE, tied_start=tied).network(SPACE, 2, "float32").init_params(jax.random.key(0))
    content_mcd = jax.random.normal(jax.random.key(1), (32, 2, 128))
    key_mhs = split_heads(linear(own["memory"]["key"], content_mcd.reshape(32, -1)), WIDE.heads)

    def weight_hm(cue_d, key):
        query_qd = jnp.concatenate([cue_d[None], jax.random.normal(key, (2, 128))])
        normal_d = layer_norm(own["hop"]["norm"], linear(own["begin"], query_qd.reshape(-1)))
        query_hs = split_heads(linear(own["hop"]["query"], normal_d), WIDE.heads)
        return jax.nn.softmax(jnp.einsum("hs,mhs->hm", query_hs, key_mhs) / query_hs.shape[-1] ** 0.5)

    for place in range(2):
        keys = jax.random.split(jax.random.key(2 + place), 32)
        right = jax.vmap(weight_hm)(content_mcd[:, place], keys)[jnp.arange(32), :, jnp.arange(32)].mean()
        assert (float(right) > 2 / 32) == tied


@pytest.mark.parametrize(("options", "words"), [({"hops": 0}, "hops must be"), ({"halting": "x"}, "halting must be")])
def test_bad_options_are_told_in_one_sentence(options, words):
    with pytest.raises(ValueError, match=words):
        Memo(**options)
