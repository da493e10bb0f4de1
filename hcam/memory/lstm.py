"""LSTM: the recurrent baseline of the paper."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from . import checks, recurrent
from .types import Array, Memory


@dataclass(frozen=True, kw_only=True)
class LSTM:
    """LSTM layers, each of which adds its output to its input, as the layers of the other memories do.

    Section 2 of the paper, which gives no layout: four layers of 512, as for the others.
    """

    width: int = 512
    layers: int = 4
    max_timescale: int = 128  # cells start with time scales from 1 to this many steps. Unspecified in the paper

    def __post_init__(self) -> None:
        checks.sizes(self, "width", "layers", "max_timescale")
        checks.depth(layers=self.layers)

    def build(self, dtype: str) -> Memory:
        return recurrent.build(CELL, self, dtype)


class LSTMState(NamedTuple):
    hidden_ld: Array
    cell_ld: Array


def chrono_init(width: int, max_timescale: int) -> Array:
    """The biases of the gates (in, forget, candidate, out), [4 D]: a cell takes in as much as it forgets."""
    keep_d = recurrent.chrono_bias(width, max_timescale)
    zeros_d = jnp.zeros_like(keep_d)
    return jnp.concatenate([-keep_d, keep_d, zeros_d, zeros_d])


def update(carry: recurrent.Carry, input_d: Array, hidden_d: Array) -> recurrent.Carry:
    """The textbook's LSTM: (hidden, cell) after a step, from gates [4 D] in the order in, forget, candidate, out."""
    _, cell_d = carry
    in_d, forget_d, candidate_d, out_d = jnp.split(input_d + hidden_d, 4)
    cell_d = jax.nn.sigmoid(forget_d) * cell_d + jax.nn.sigmoid(in_d) * jnp.tanh(candidate_d)
    return jax.nn.sigmoid(out_d) * jnp.tanh(cell_d), cell_d


CELL = recurrent.Cell(LSTMState, chrono_init, update)
