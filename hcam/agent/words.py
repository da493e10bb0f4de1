"""Words -> features: an LSTM over word embeddings."""

from functools import partial

import jax
import jax.numpy as jnp

from hcam.memory.layers import init_linear, linear
from hcam.types import Array, Params

Carry = tuple[Array, Array]  # hidden state and cell of an LSTM


def init(key: Array, known: int, width_word: int, width: int) -> Params:
    key_word, key_lstm = jax.random.split(key)
    word = jax.random.normal(key_word, (known, width_word), jnp.float32)
    return {"word": word, "lstm": init_lstm(key_lstm, width_word, width)}


def init_lstm(key: Array, width_in: int, width: int) -> Params:
    key_in, key_hidden = jax.random.split(key)
    return {
        "in": init_linear(key_in, width_in, 4 * width),
        "hidden": init_linear(key_hidden, width, 4 * width, bias=False),
    }


def lstm_cell(params: Params, carry: Carry | None, x_d: Array) -> Carry:
    """One step; None is the initial carry of zeros, which needs no product and nothing to forget."""
    gates = linear(params["in"], x_d)
    gates = gates if carry is None else gates + linear(params["hidden"], carry[0])
    in_d, forget_d, candidate_d, out_d = jnp.split(gates, 4)
    cell_d = jax.nn.sigmoid(in_d) * jnp.tanh(candidate_d)
    cell_d = cell_d if carry is None else jax.nn.sigmoid(forget_d + 1) * carry[1] + cell_d
    return jax.nn.sigmoid(out_d) * jnp.tanh(cell_d), cell_d


def read(params: Params, token_l: Array, dtype: str) -> Array:
    """The LSTM's last hidden state; padding (0) leaves it as it is."""
    # A product with a one-hot row gives the bits that indexing gives, and its gradient is a product too. The gradient
    # of indexing is a scatter: where many steps have the same few words, a GPU adds them up one after another.
    table = params["word"].astype(dtype)
    one_hot_lv = jax.nn.one_hot(token_l, len(table), dtype=dtype)
    word_ld = jnp.matmul(one_hot_lv, table, precision="highest")

    def unless_padding(token: Array, after: Carry, before: Carry) -> Carry:
        kept: Carry = jax.tree.map(partial(jnp.where, token != 0), after, before)
        return kept

    def body(carry: Carry, step: tuple[Array, Array]) -> tuple[Carry, None]:
        word_d, token = step
        after = lstm_cell(params["lstm"], carry, word_d)
        return unless_padding(token, after, carry), None

    first = lstm_cell(params["lstm"], None, word_ld[0])
    begun = unless_padding(token_l[0], first, jax.tree.map(jnp.zeros_like, first))
    (hidden_d, _), _ = jax.lax.scan(body, begun, (word_ld[1:], token_l[1:]), unroll=4)
    return hidden_d
