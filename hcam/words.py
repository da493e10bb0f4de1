"""Words -> features: an LSTM over word embeddings."""

from functools import partial

import jax
import jax.numpy as jnp

from hcam.memory.layers import init_linear, linear
from hcam.memory.types import Array, Params


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


def lstm_cell(params: Params, carry: tuple[Array, Array], x_d: Array) -> tuple[Array, Array]:
    hidden_d, cell_d = carry
    gates = linear(params["in"], x_d) + linear(params["hidden"], hidden_d)
    in_d, forget_d, candidate_d, out_d = jnp.split(gates, 4)
    cell_d = jax.nn.sigmoid(forget_d + 1) * cell_d + jax.nn.sigmoid(in_d) * jnp.tanh(candidate_d)
    return jax.nn.sigmoid(out_d) * jnp.tanh(cell_d), cell_d


def read(params: Params, token_l: Array, dtype: str) -> Array:
    """The LSTM's last hidden state; padding (0) leaves it as it is."""
    # A product with a one-hot row is what indexing gives, to the bit, and its gradient is a product as well. That of
    # indexing adds up row by row, and where few words are said by many, a GPU waits for each of them in turn.
    table = params["word"].astype(dtype)
    said_lv = jax.nn.one_hot(token_l, len(table), dtype=dtype)
    word_ld = jnp.matmul(said_lv, table, precision="highest")
    nothing_d = jnp.zeros(params["lstm"]["hidden"]["w"].shape[0], dtype)

    def body(carry: tuple[Array, Array], step: tuple[Array, Array]) -> tuple[tuple[Array, Array], None]:
        word_d, token = step
        after = lstm_cell(params["lstm"], carry, word_d)
        return jax.tree.map(partial(jnp.where, token != 0), after, carry), None

    (hidden_d, _), _ = jax.lax.scan(body, (nothing_d, nothing_d), (word_ld, token_l), unroll=min(4, len(token_l)))
    return hidden_d
