"""Reading words: the textbook's LSTM, padding, and an embedding whose gradient adds up in one product."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.agent import words

WORDS = 4  # that are known, padding among them


@pytest.fixture(scope="module")
def read():
    params = words.init(jax.random.key(0), WORDS, 4, 8)
    run = jax.jit(lambda token_l: words.read(params, token_l, "float32"))
    return lambda text: np.asarray(run(jnp.array(text, jnp.int32)))


def test_padding_says_nothing(read):
    # The first place has no product with what was said before, so the last bit may differ.
    np.testing.assert_allclose(read([2, 3, 0, 0, 0]), read([0, 2, 0, 0, 3]), rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(read([0] * 5), np.zeros(8))


def test_words_and_their_order_matter(read):
    codes = [read(text) for text in ([1, 2, 3, 0, 0], [2, 1, 3, 0, 0], [1, 2, 0, 0, 0], [1, 2, 2, 0, 0])]
    for n, one in enumerate(codes):
        assert all(np.abs(one - other).max() > 1e-3 for other in codes[:n])


def test_the_lstm_is_the_textbook_one(read):
    params = jax.tree.map(np.asarray, words.init(jax.random.key(0), WORDS, 4, 8))
    sigmoid = lambda x: 1 / (1 + np.exp(-x))  # noqa: E731
    hidden, cell = np.zeros(8), np.zeros(8)
    for word in (1, 3):
        gates = params["word"][word] @ params["lstm"]["in"]["w"] + hidden @ params["lstm"]["hidden"]["w"]
        keep_in, forget, candidate, out = np.split(gates, 4)
        cell = sigmoid(forget + 1) * cell + sigmoid(keep_in) * np.tanh(candidate)
        hidden = sigmoid(out) * np.tanh(cell)
    np.testing.assert_allclose(read([1, 3, 0, 0, 0]), hidden, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_embedding_words_is_indexing_and_so_is_its_gradient(monkeypatch, dtype):
    """With an LSTM that hands on each word as it is, of which the last stays."""
    monkeypatch.setattr(
        words, "lstm_cell", lambda _, carry, word_d: (word_d if carry is None else carry[0] + word_d, word_d)
    )
    word = jax.random.normal(jax.random.key(0), (WORDS, 8))
    params = {"word": word, "lstm": {"hidden": {"w": jnp.zeros((8, 32))}}}
    token_l, up_d = jnp.array([3, 1, 3, 3, 0], jnp.int32), jax.random.normal(jax.random.key(1), (8,), dtype)

    def ours(word):
        return words.read(params | {"word": word}, token_l, dtype)

    def plain(word):
        said_ld = word.astype(dtype)[token_l]
        return said_ld[0] + said_ld[1] + said_ld[2] + said_ld[3]

    np.testing.assert_array_equal(ours(word), plain(word))
    found, expected = (jax.grad(lambda word, run=run: (run(word) * up_d).sum())(word) for run in (ours, plain))
    np.testing.assert_allclose(found, expected, rtol=1e-6 if dtype == "float32" else 0.02)
    assert not found[0].any()
    assert not found[2].any()


def test_many_that_say_the_same_word_are_not_added_up_one_by_one():
    """The gradient of indexing is a scatter, which a GPU serialises where words are few."""
    params, token_l = words.init(jax.random.key(0), WORDS, 4, 8), jnp.ones(5, jnp.int32)
    learn = jax.grad(lambda params: words.read(params, token_l, "float32").sum())
    assert "scatter" not in str(jax.make_jaxpr(learn)(params))
