"""The Universal Transformer: one layer's weights at every hop, neighbours in a chunk, and hops that are paid for."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from hcam.agent.readers import UniversalTransformer
from hcam.agent.readers.universal import init_near, near_bias
from tests.agent.readers.cases import READERS, SPACE, answer, built, observation


def test_more_hops_need_no_more_weights():
    def shapes(hops):
        network = replace(READERS["ut"], hops=hops).network(SPACE, 2, "float32")
        return jax.eval_shape(network.init_params, jax.random.key(0))

    assert jax.tree.map(lambda leaf: leaf.shape, shapes(2)) == jax.tree.map(lambda leaf: leaf.shape, shapes(7))


def test_items_of_one_chunk_are_near():
    near = np.arange(8.0).reshape(2, 2, 2)
    bias = np.array(near_bias(jax.numpy.asarray(near), chunks=2, query=1))
    assert bias.shape == (2, 5, 5)
    np.testing.assert_array_equal(bias[1, :2, :2], near[1])
    np.testing.assert_array_equal(bias[1, 2:4, 2:4], near[1])
    bias[:, :2, :2] = bias[:, 2:4, 2:4] = 0
    assert not bias.any()


def test_every_other_head_begins_with_the_partner():
    near = np.asarray(init_near(4, 2))
    assert not near[1::2].any()
    assert (near[::2] == 4 * (1 - np.eye(2))).all()


@pytest.mark.parametrize("tied", [False, True])
def test_a_tied_start_attends_to_what_is_alike_in_the_other_heads(tied):
    config = UniversalTransformer(width=32, heads=4, tied_start=tied)
    own = config.network(SPACE, 2, "float32").init_params(jax.random.key(0))["attention"]
    query_dhs, key_dhs = (np.asarray(own[name]["w"]).reshape(32, 4, 8) for name in ("query", "key"))
    same_h = [np.array_equal(query_dhs[:, head], key_dhs[:, head]) for head in range(4)]
    assert same_h == [False, tied, False, tied]


def test_a_hop_costs_its_price():
    _, params = built("ut")
    cost = {}
    for ponder in (0.0, 1.0, 2.0):
        network = replace(READERS["ut"], ponder=ponder).network(SPACE, 2, "float32")
        cost[ponder] = float(jax.jit(network.answer)(params["network"], observation()).penalty)
    assert cost[0.0] == 0
    assert cost[2.0] == pytest.approx(2 * cost[1.0])
    assert 1 <= cost[1.0] <= 4  # three hops, and a remainder of at most 1
    made, params = built("ut_fixed")
    assert answer(made, params, observation()).penalty is None


def test_all_hops_are_made_at_first():
    network = replace(READERS["ut"], hops=6, ponder=1.0).network(SPACE, 2, "float32")
    cost = network.answer(network.init_params(jax.random.key(0)), observation()).penalty
    assert 6 < float(cost) < 7


@pytest.mark.parametrize(("options", "words"), [({"hops": 0}, "hops must be"), ({"halting": "x"}, "halting must be")])
def test_bad_options_are_told_in_one_sentence(options, words):
    with pytest.raises(ValueError, match=words):
        UniversalTransformer(**options)
