"""Recurrent layers, each of which adds its output to its input: what `LSTM` and `GRU` share.

In a plain stack of recurrent layers, the last one sees of an input only what the others let through
(docs/log/2026-11-16-lstm.md).
Inputs are projected to gates for all steps of an unroll at once; only the recurrence itself is scanned.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from .interface import define
from .layers import init_linear, linear, to_float32
from .types import Array, Memory, Params

Carry = tuple[Array, ...]  # the vectors that a layer carries from step to step [D], its output first


class Config(Protocol):
    """What the functions below need of a configuration."""

    @property
    def width(self) -> int: ...
    @property
    def layers(self) -> int: ...
    @property
    def max_timescale(self) -> int: ...
    def build(self, dtype: str) -> Memory: ...


class Cell(NamedTuple):
    """The part in which recurrent memories differ. G is the number of its gates."""

    state: Any  # the type of the state, a named tuple with one array [L, D] for each vector of the carry
    init_bias: Callable[[int, int], Array]  # width, max_timescale -> the biases of the gates [G D]
    update: Callable[[Carry, Array, Array], Carry]  # carry, gates from the input, gates from the output before [G D]


def build(cell: Cell, config: Config, dtype: str) -> Memory:
    """The memory. Matrix products are in `dtype`; gates and state are float32, since the state adds up over time."""
    return define(
        config,
        dtype=dtype,
        init_params=partial(init_params, cell, config),
        init_state=partial(init_state, cell, config),
        unroll=partial(unroll, cell, dtype),
    )


def chrono_bias(width: int, max_timescale: int) -> Array:
    """Biases [D] of a gate that keeps n / (1 + n) of its state at each step, with n from 1 to `max_timescale`.

    This is the chrono initialisation of Tallec and Ollivier, "Can recurrent neural networks warp time?". With the usual
    biases all units lose a quarter of their state at every step, and no gradient tells the layer about what will matter
    forty steps later (docs/log/2026-11-16-lstm.md).
    """
    part_d = (jnp.arange(width, dtype=jnp.float32) + 0.5) / width
    return jnp.log(1 + (max_timescale - 1) * part_d)


def init_params(cell: Cell, config: Config, key: Array) -> Params:
    """One dict per layer: `in` (weights and biases of the gates) and `hidden` (the recurrent weights)."""

    def layer(key: Array) -> Params:
        bias = cell.init_bias(config.width, config.max_timescale)
        key_in, key_hidden = jax.random.split(key)
        weights = init_linear(key_in, config.width, bias.size, bias=False)
        hidden = init_linear(key_hidden, config.width, bias.size, bias=False)
        return {"in": weights | {"b": bias}, "hidden": hidden}

    return tuple(layer(layer_key) for layer_key in jax.random.split(key, config.layers))


def init_state(cell: Cell, config: Config) -> Any:
    return cell.state(*(jnp.zeros((config.layers, config.width), jnp.float32) for _ in cell.state._fields))


def unroll(cell: Cell, dtype: str, params: Params, state: Any, x_td: Array, first_t: Array) -> tuple[Any, Array]:
    """T steps: each layer projects all of its inputs at once, then scans over them."""
    y_td, carries = x_td, []
    for layer, *before in zip(params, *state, strict=True):
        gates_td = to_float32(linear(layer["in"], y_td))
        body = partial(_scan_step, cell, dtype, layer["hidden"])
        carry, hidden_td = jax.lax.scan(body, tuple(before), (gates_td, first_t))
        carries.append(carry)
        y_td = y_td + hidden_td.astype(dtype)
    return cell.state(*map(jnp.stack, zip(*carries, strict=True))), y_td


def _scan_step(
    cell: Cell, dtype: str, params: Params, carry: Carry, inputs: tuple[Array, Array]
) -> tuple[Carry, Array]:
    gates_d, first = inputs
    carry = tuple(jnp.where(first, 0.0, entry_d) for entry_d in carry)
    carry = cell.update(carry, gates_d, to_float32(linear(params, carry[0].astype(dtype))))
    return carry, carry[0]
