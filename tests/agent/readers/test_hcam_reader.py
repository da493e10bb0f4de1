"""HCAM over a given memory: the package's own read at every layer, its keys, and where gradients stop."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam import memory
from hcam.agent.readers import HCAMReader, given
from hcam.agent.readers.hcam_reader import layer
from hcam.memory.layers import layer_norm, mlp
from tests.agent.readers.cases import FILLED, SIZES, SPACE, answer, built, observation


def test_a_layer_is_local_attention_and_then_the_public_read():
    """Keys are means of pairs, and every layer reads the same memory."""
    config = HCAMReader(width=16, heads=2, mlp=2, layers=2, top_k=3)
    made, params = built("hcam")
    own, seen = params["network"], observation()
    found = given.embed(own, seen, "float32")
    key_md, y_qd = found.content_mcd.mean(1), given.with_roles(own, found.query_qd)
    for n in range(2):
        part = own[f"layer_{n}"]
        local = layer_norm(part["local"]["norm"], y_qd)
        y_qd = y_qd + given.attend(part["local"], local, local, 2)
        read: Any = memory.read(
            part["recall"]["read"],
            layer_norm(part["recall"]["norm"], y_qd),
            key_md,
            found.content_mcd,
            jnp.broadcast_to(found.known_m, (3, 6)),
            k=3,
            heads=2,
        )
        y_qd = y_qd + read
        y_qd = y_qd + mlp(part["mlp"], y_qd)
    np.testing.assert_allclose(
        given.answer(own, y_qd.mean(0), found.query_qd).logits, answer(made, params, seen).logits, rtol=1e-4, atol=1e-5
    )
    assert layer(config, own["layer_0"], y_qd, key_md, found.content_mcd, found.known_m).shape == (3, 16)


@pytest.mark.parametrize(("name", "flows"), [("hcam", False), ("hcam_all", True)])
def test_gradients_reach_the_memory_only_if_asked(name, flows):
    made, params = built(name)

    def logit(memory_mcf):
        return made.network.answer(params["network"], observation() | {"memory": memory_mcf}).logits[0]

    gradient = np.asarray(jax.jit(jax.grad(logit))(observation()["memory"]))
    assert (np.abs(gradient[:FILLED]).max() > 1e-5) == flows
    assert not gradient[FILLED:].any()


def test_the_embedding_learns_in_either_case():
    """Through the query and the options."""
    for name in ("hcam", "hcam_all"):
        made, params = built(name)

        def logit(params, made=made):
            return made.network.answer(params["network"], observation()).logits[0]

        gradient = jax.jit(jax.grad(logit))(params)
        assert np.abs(gradient["network"]["embedding"]["w"]).max() > 1e-3


def test_top_k_is_at_most_all_chunks():
    _, params = built("hcam")
    networks = [HCAMReader(**SIZES, layers=2, top_k=k).network(SPACE, 2, "float32") for k in (6, 32)]
    one, two = (jax.jit(network.answer)(params["network"], observation()).logits for network in networks)
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(
    ("options", "words"),
    [({"top_k": 0}, "top_k must be"), ({"order": "x"}, "order must be one of"), ({"form": "x"}, "form must be one of")],
)
def test_bad_options_are_told_in_one_sentence(options, words):
    with pytest.raises(ValueError, match=words):
        HCAMReader(**options)


@pytest.mark.parametrize("tied", [False, True])
def test_a_tied_start_begins_with_equal_projections(tied):
    """They are two parameters: each learns by itself."""
    network = HCAMReader(**SIZES, layers=2, tied_start=tied).network(SPACE, 2, "float32")
    own = network.init_params(jax.random.key(0))
    for n in range(2):
        read = own[f"layer_{n}"]["recall"]["read"]
        query, key = (np.asarray(read[name]["w"]) for name in ("relevance_query", "relevance_key"))
        assert np.array_equal(query, key) == tied


def test_a_tied_start_recalls_the_pair_that_has_the_item():
    """Before anything is learned, an item of the memory is most relevant to its own pair."""
    config = HCAMReader(width=128, heads=2, layers=1, tied_start=True)
    own = config.network(SPACE, 2, "float32").init_params(jax.random.key(0))
    content_mcd = jax.random.normal(jax.random.key(1), (6, 2, 128))
    read = own["layer_0"]["recall"]["read"]
    found: Any = memory.read(read, content_mcd[:, 0], content_mcd.mean(1), content_mcd, k=6, heads=2, recall=True)
    assert np.asarray(found[1].chunk_qk)[:, 0].tolist() == list(range(6))
    assert (np.asarray(found[1].weight_qk)[:, 0] > 0.9).all()
