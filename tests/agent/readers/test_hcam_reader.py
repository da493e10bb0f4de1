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
