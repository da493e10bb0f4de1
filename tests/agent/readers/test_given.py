"""What holds for every reader: rows are a set, padding is nothing, the memory matters, and what cannot be read."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam import agent, envs
from hcam.agent import AgentConfig, memories
from hcam.agent.readers import READERS as BY_NAME
from hcam.agent.readers import HCAMReader, given
from hcam.envs.spaces import Box, Discrete
from tests.agent.readers.cases import FILLED, READERS, SPACE, answer, built, observation


@pytest.mark.parametrize("name", READERS)
def test_the_order_of_rows_does_not_matter(name):
    made, params = built(name)
    seen = observation()
    order = jnp.array([2, 0, 3, 1, 4, 5])
    one, two = (answer(made, params, value) for value in (seen, seen | {"memory": seen["memory"][order]}))
    np.testing.assert_allclose(one.logits, two.logits, atol=2e-5)
    assert np.abs(one.logits).max() > 1e-2


@pytest.mark.parametrize("name", READERS)
def test_rows_beyond_the_last_pair_do_not_matter(name):
    made, params = built(name)
    seen = observation()
    one, two = (answer(made, params, value) for value in (seen, seen | {"memory": seen["memory"].at[FILLED:].set(3.0)}))
    np.testing.assert_allclose(one.logits, two.logits, atol=1e-6)
    if one.penalty is not None:
        np.testing.assert_allclose(one.penalty, two.penalty, atol=1e-6)


@pytest.mark.parametrize("name", READERS)
def test_every_row_and_the_place_in_a_pair_matter(name):
    """With top-k, rows that are not recalled do not: then at least one of them does."""
    made, params = built(name)
    seen = observation()
    before = answer(made, params, seen).logits
    changed = [answer(made, params, seen | {"memory": seen["memory"].at[row].add(1.0)}).logits for row in range(FILLED)]
    moved = [np.abs(after - before).max() > 1e-4 for after in changed]
    assert any(moved) if name == "hcam" else all(moved)
    partner = seen["memory"].at[0, 1].set(seen["memory"][1, 1]).at[1, 1].set(seen["memory"][0, 1])
    assert np.abs(answer(made, params, seen | {"memory": partner}).logits - before).max() > 1e-4


@pytest.mark.parametrize("name", ["hcam", "hcam_all", "ut", "ut_fixed"])
def test_options_that_change_places_change_their_logits(name):
    """The query is a cue and a set of options. MEMO's query has a place for each of its items."""
    made, params = built(name)
    seen = observation()
    one, two = (answer(made, params, value) for value in (seen, seen | {"query": seen["query"][jnp.array([0, 2, 1])]}))
    np.testing.assert_allclose(one.logits[::-1], two.logits, atol=2e-5)
    cue = answer(made, params, seen | {"query": seen["query"][jnp.array([1, 0, 2])]})
    assert np.abs(cue.logits - one.logits).max() > 1e-3


@pytest.mark.parametrize("name", ["hcam", "hcam_all", "ut", "memo"])
def test_gradients_are_finite_and_reach_all_that_is_used(name):
    made, params = built(name)

    def loss(params):
        output = made.network.answer(params["network"], observation())
        return -jax.nn.log_softmax(output.logits)[0] + output.value + (0 if output.penalty is None else output.penalty)

    gradient = jax.jit(jax.grad(loss))(params)["network"]
    for path, leaf in jax.tree_util.tree_leaves_with_path(gradient):
        assert np.isfinite(leaf).all(), path
        unused = "'key']['b']" in jax.tree_util.keystr(path)
        assert unused or np.abs(leaf).max() > 0, path  # a key's bias is the same for all that attention chooses from


@pytest.mark.parametrize("name", ["hcam", "ut", "memo"])
def test_bfloat16_gives_nearly_the_same(name):
    seen = observation()
    (one, params), (two, _) = built(name), built(name, "bfloat16")
    near, exact = answer(two, two.prepare(params), seen), answer(one, params, seen)
    assert near.logits.dtype == near.value.dtype == jnp.float32
    np.testing.assert_allclose(near.logits, exact.logits, atol=0.3)


def test_memory_and_query_share_one_embedding():
    _, params = built("hcam")
    seen = observation()
    seen |= {"query": seen["query"].at[0].set(seen["memory"][1, 0])}
    found = given.embed(params["network"], seen, "float32")
    np.testing.assert_allclose(found.query_qd[0], found.content_mcd[1, 0], atol=1e-6)
    assert found.known_m.tolist() == [True] * FILLED + [False] * 2


def test_logits_are_dot_products_with_the_options():
    _, params = built("hcam")
    own, query_qd, y_d = params["network"], jnp.arange(48.0).reshape(3, 16), jnp.ones(16)
    output_d = np.asarray(y_d @ own["output"]["w"] + own["output"]["b"])
    np.testing.assert_allclose(
        given.answer(own, y_d, query_qd).logits, [query_qd[1] @ output_d / 4, query_qd[2] @ output_d / 4], rtol=1e-4
    )


def test_readers_have_names():
    for name, kind in BY_NAME.items():
        assert memories.find(name) is kind
        assert memories.name_of(kind()) == name


OTHERS = [
    (SPACE | {"image": Box((8, 8, 3), 0, 255, "uint8")}, 2, "this task shows memory"),
    (Box((3,), 0, 1), 2, "this task shows a single array"),
    (SPACE | {"query": Box((3, 9), -6, 6)}, 2, "items of one size"),
    (SPACE | {"filled": Discrete(3)}, 2, "`filled` from 0 to the number of chunks"),
    (SPACE, 3, "an action for each option"),
]


@pytest.mark.parametrize(("space", "actions", "words"), OTHERS)
def test_what_cannot_be_read_is_told_in_one_sentence(space, actions, words):
    with pytest.raises(ValueError, match=re.escape(words)) as error:
        given.sizes("ut", space, actions)
    assert str(error.value).count(". ") == 0


def test_a_task_without_a_memory_is_refused():
    with pytest.raises(ValueError, match="hcam_reader reads observations that have a memory"):
        agent.make(AgentConfig(memory=HCAMReader()), envs.make("ballet"))


@pytest.mark.parametrize("kind", BY_NAME.values())
def test_bad_options_are_told_in_one_sentence(kind):
    for options, words in (
        ({"width": 0}, "width must be"),
        ({"width": 15, "heads": 5}, "width 15 is odd"),
        ({"heads": 3}, "is not divisible by heads 3"),
        ({"mlp": "x"}, "mlp must be a whole number"),
    ):
        with pytest.raises(ValueError, match=words):
            kind(**options)
