"""LSTM: the recurrent baseline, as many layers as the others have."""

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from . import checks
from .layers import init_linear, linear, to_float32
from .types import Array, Memory, Params, Recall


@dataclass(frozen=True, kw_only=True)
class LSTM:
    """LSTMs, each of which adds to what came in, as the layers of the other memories do.

    Section 2; the paper gives no layout: four layers of 512, as for the others. In a plain stack the last layer sees of
    a frame only what three LSTMs leave of it (docs/training.md).
    """

    width: int = 512
    layers: int = 4
    span: int = 128  # cells begin by holding on for 1 to so many steps. Unspecified in the paper; see `chrono_init`
    dtype: str = "float32"  # of the matrix products; gates and cells stay in float32

    def __post_init__(self) -> None:
        checks.positive(width=self.width, layers=self.layers, span=self.span)
        checks.choice(checks.DTYPES, dtype=self.dtype)


class LSTMState(NamedTuple):
    hidden_ld: Array
    cell_ld: Array


def build(config: LSTM) -> Memory:
    """The memory as functions. There is nothing to prepare or to cache: both give back what they were given."""
    functions = (partial(f, config) for f in (init_params, init_state, prepare, step, unroll, cached, undo))
    return Memory(config, *functions)


def init_params(config: LSTM, key: Array) -> Params:
    def layer(key: Array) -> Params:
        key_in, key_hidden = jax.random.split(key)
        params = {
            "in": init_linear(key_in, config.width, 4 * config.width),
            "hidden": init_linear(key_hidden, config.width, 4 * config.width, bias=False),
        }
        params["in"]["b"] = chrono_init(config)
        return params

    return tuple(layer(layer_key) for layer_key in jax.random.split(key, config.layers))


def chrono_init(config: LSTM) -> Array:
    """The gates' biases, [4 D]: a cell forgets 1 / (1 + n) of itself a step, and takes in as much; n from 1 to `span`.

    With the usual bias of 1 all cells begin by forgetting a quarter a step, and what matters forty steps later is never
    noticed (docs/training.md). After Tallec and Ollivier, "Can recurrent neural networks warp time?"
    """
    part_d = (jnp.arange(config.width, dtype=jnp.float32) + 0.5) / config.width
    held_d = jnp.log(1 + (config.span - 1) * part_d)
    nothing_d = jnp.zeros_like(held_d)
    return jnp.concatenate([-held_d, held_d, nothing_d, nothing_d])


def init_state(config: LSTM) -> LSTMState:
    return LSTMState(*(jnp.zeros((config.layers, config.width), jnp.float32) for _ in LSTMState._fields))


def prepare(config: LSTM, params: Params) -> Params:
    checks.same_structure("params", params, _expected(config)[0], config, dtypes=False)
    return params


def cached(config: LSTM, params: Params, state: LSTMState) -> LSTMState:
    _check(config, params, state)
    return state


def undo(config: LSTM, before: LSTMState, after: LSTMState) -> LSTMState:
    return before


def step(config: LSTM, params: Params, state: LSTMState, x_d: Array, first: Array, *, recall: bool = False) -> Any:
    """One step of one environment: an unroll of one."""
    checks.features("x", x_d, (config.width,), checks.ONE)
    checks.flag("first", first, ())
    state, y_td, *seen = unroll(config, params, state, x_d[None], jnp.asarray(first)[None], recall=recall)
    return state, y_td[0], *seen


def unroll(config: LSTM, params: Params, state: LSTMState, x_td: Array, first_t: Array, *, recall: bool = False) -> Any:
    """T steps of one environment: inputs are projected for all of them at once, only the recurrence is scanned."""
    checks.features("x", x_td, ("T", config.width), checks.ONE)
    checks.flag("first", first_t, x_td.shape[:1])
    checks.positive(T=x_td.shape[0])
    _check(config, params, state)
    state = jax.lax.stop_gradient(state)
    y_td, layers = x_td.astype(config.dtype), []
    for layer, hidden_d, cell_d in zip(params, *state, strict=True):
        gates_td = to_float32(linear(layer["in"], y_td))
        carry, hidden_td = jax.lax.scan(
            partial(_cell, config, layer["hidden"]), (hidden_d, cell_d), (gates_td, first_t)
        )
        layers.append(carry)
        y_td = y_td + hidden_td.astype(config.dtype)
    state, y_td = LSTMState(*map(jnp.stack, zip(*layers, strict=True))), y_td.astype(x_td.dtype)
    return (state, y_td, Recall()) if recall else (state, y_td)


def _cell(config: LSTM, params: Params, carry: tuple[Array, Array], inputs: tuple[Array, Array]) -> Any:
    gates_d, first = inputs
    hidden_d, cell_d = (jnp.where(first, 0.0, entry) for entry in carry)
    gates_d = gates_d + to_float32(linear(params, hidden_d.astype(config.dtype)))
    in_d, forget_d, candidate_d, out_d = jnp.split(gates_d, 4)
    cell_d = jax.nn.sigmoid(forget_d) * cell_d + jax.nn.sigmoid(in_d) * jnp.tanh(candidate_d)
    hidden_d = jax.nn.sigmoid(out_d) * jnp.tanh(cell_d)
    return (hidden_d, cell_d), hidden_d


def _check(config: LSTM, params: Params, state: LSTMState) -> None:
    weights, empty = _expected(config)
    checks.same_structure("params", params, weights, config, dtypes=False)
    checks.same_structure("state", state, empty, config, dtypes=True)


@lru_cache(maxsize=64)
def _expected(config: LSTM) -> tuple[Params, LSTMState]:
    return jax.eval_shape(partial(init_params, config), jax.random.key(0)), jax.eval_shape(partial(init_state, config))
