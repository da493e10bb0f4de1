"""The smallest task that needs a memory: see a symbol, sit through blanks, then say which symbol it was."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp


class State(NamedTuple):
    symbol: jax.Array
    time: jax.Array  # steps since the episode began


@dataclass(frozen=True)
class FirstSymbol:
    """One environment; `jax.vmap` is a batch. An episode is one symbol, `blanks` blanks, and one cue to answer at."""

    symbols: int = 8
    blanks: int = 20

    @property
    def observations(self) -> int:
        return self.symbols + 2  # an observation is a number: which symbol, or blank, or cue

    @property
    def chance(self) -> float:
        return 1 / self.symbols

    def reset(self, key: jax.Array) -> tuple[jax.Array, State]:
        state = State(jax.random.randint(key, (), 0, self.symbols), jnp.int32(0))
        return self.observe(state), state

    def step(self, key: jax.Array, state: State, action: jax.Array) -> tuple[jax.Array, State, jax.Array, jax.Array]:
        """Returns observation, state, reward, done. After `done`, both belong to a new episode already."""
        done = state.time > self.blanks
        reward = jnp.where(done & (action == state.symbol), 1.0, 0.0)
        _, fresh = self.reset(key)
        going_on = State(state.symbol, state.time + 1)
        state = jax.tree.map(lambda new, old: jnp.where(done, new, old), fresh, going_on)
        return self.observe(state), state, reward, done

    def observe(self, state: State) -> jax.Array:
        later = jnp.where(state.time <= self.blanks, self.symbols, self.symbols + 1)
        return jnp.where(state.time == 0, state.symbol, later)
