"""GRU: a recurrent memory with one vector of state per layer."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from . import checks, recurrent
from .types import Array, Memory


@dataclass(frozen=True, kw_only=True)
class GRU:
    """GRU layers (Cho et al. 2014), each of which adds its output to its input. Not in the paper."""

    width: int = 512
    layers: int = 4
    max_timescale: int = 128  # units start with time scales from 1 to this many steps

    def __post_init__(self) -> None:
        checks.sizes(self, "width", "layers", "max_timescale")
        checks.depth(layers=self.layers)

    def build(self, dtype: str) -> Memory:
        return recurrent.build(CELL, self, dtype)


class GRUState(NamedTuple):
    hidden_ld: Array


def chrono_init(width: int, max_timescale: int) -> Array:
    """The biases of the gates (reset, update, candidate), [3 D]."""
    keep_d = recurrent.chrono_bias(width, max_timescale)
    zeros_d = jnp.zeros_like(keep_d)
    return jnp.concatenate([zeros_d, -keep_d, zeros_d])


def update(carry: recurrent.Carry, input_d: Array, hidden_d: Array) -> recurrent.Carry:
    """The hidden state after a step, from gates [3 D] in the order reset, update, candidate.

    The reset gate applies after the recurrent product, as in cuDNN, so that one product serves all three gates.
    """
    (state_d,) = carry
    reset_d, update_d, candidate_d = jnp.split(input_d, 3)
    from_reset_d, from_update_d, from_candidate_d = jnp.split(hidden_d, 3)
    candidate_d = jnp.tanh(candidate_d + jax.nn.sigmoid(reset_d + from_reset_d) * from_candidate_d)
    update_d = jax.nn.sigmoid(update_d + from_update_d)
    return (state_d + update_d * (candidate_d - state_d),)


CELL = recurrent.Cell(GRUState, chrono_init, update)
