"""A memory as a flax (linen) module: `Memory(HCAM(width=128))`, with its parameters in the "params" collection."""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp

from hcam import memory

try:
    import flax.linen as nn
except ImportError as error:
    raise ImportError('hcam.adapters.flax needs flax, which `pip install "hcam[flax]"` brings.') from error

_make = lru_cache(memory.make)  # a configuration's functions, made once: they keep what they have checked already


class Memory(nn.Module):
    """`__call__` is the memory's unroll, `step` its step, both with any number of batch axes in front."""

    config: memory.HCAM | memory.TrXL | memory.LSTM | memory.Local

    @nn.nowrap
    def initial_state(self, batch_shape: tuple[int, ...] = ()) -> Any:
        """Empty memories. Needs no parameters."""
        state = _make(self.config).init_state()
        return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (*batch_shape, *leaf.shape)), state)

    def setup(self) -> None:
        def by_name(key: jax.Array) -> dict[str, Any]:  # flax walks nested dicts: in a tuple, a layer has no path
            return {f"layer_{n}": layer for n, layer in enumerate(_make(self.config).init_params(key))}

        self.layers = self.param("memory", by_name)

    def __call__(self, state: Any, x: jax.Array, first: jax.Array, *, recall: bool = False) -> Any:
        """x [..., T, D], first [..., T] -> state, y[, Recall]."""
        unroll = partial(_make(self.config).unroll, self._params(), recall=recall)
        return _over_batch(unroll, x.ndim - 2)(state, x, first)

    def step(self, state: Any, x: jax.Array, first: jax.Array, *, recall: bool = False) -> Any:
        """x [..., D], first [...] -> state, y[, Recall]."""
        step = partial(_make(self.config).step, self._params(), recall=recall)
        return _over_batch(step, x.ndim - 1)(state, x, first)

    def cached(self, state: Any) -> Any:
        """The state with keys and values under the present parameters, for `step`: see `hcam.memory`."""
        axes = state[0].ndim - _make(self.config).init_state()[0].ndim
        return _over_batch(partial(_make(self.config).cached, self._params()), axes)(state)

    @nn.nowrap
    def undo(self, before: Any, after: Any) -> Any:
        """As if the step from one state to the other had not been: see `hcam.memory`."""
        return _make(self.config).undo(before, after)

    def _params(self) -> tuple[Any, ...]:
        return tuple(self.layers[f"layer_{n}"] for n in range(self.config.layers))


def _over_batch(function: Callable[..., Any], axes: int) -> Callable[..., Any]:
    return function if axes < 1 else jax.vmap(_over_batch(function, axes - 1))
