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

# A memory's functions, made once: they keep what they have checked already.
_make: Callable[..., memory.Memory] = lru_cache(memory.make)


class Memory(nn.Module):
    """`__call__` is the memory's unroll, `step` its step, both with any number of batch axes in front."""

    config: memory.MemoryConfig  # hashable, as a frozen dataclass is
    dtype: str = "float32"  # of computation; parameters are float32 in any case

    @property
    def functions(self) -> memory.Memory:
        return _make(self.config, dtype=self.dtype)

    @nn.nowrap
    def initial_state(self, batch_shape: tuple[int, ...] = ()) -> Any:
        """Empty memories. Needs no parameters."""
        state = self.functions.init_state()
        return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (*batch_shape, *leaf.shape)), state)

    def setup(self) -> None:
        def by_name(key: jax.Array) -> Any:  # flax walks nested dicts: in a tuple, a layer has no path
            params = self.functions.init_params(key)
            return {f"layer_{n}": layer for n, layer in enumerate(params)} if isinstance(params, tuple) else params

        self.layers = self.param("memory", by_name)

    def __call__(self, state: Any, x: jax.Array, first: jax.Array, *, recall: bool = False) -> Any:
        """x [..., T, D], first [..., T] -> state, y[, Recall]."""
        unroll = partial(self.functions.unroll, self._params(), recall=recall)
        return _over_batch(unroll, x.ndim - 2)(state, x, first)

    def step(self, state: Any, x: jax.Array, first: jax.Array, *, recall: bool = False) -> Any:
        """x [..., D], first [...] -> state, y[, Recall]."""
        step = partial(self.functions.step, self._params(), recall=recall)
        return _over_batch(step, x.ndim - 1)(state, x, first)

    def cached(self, state: Any) -> Any:
        """The state with keys and values under the present parameters, for `step`: see `hcam.memory`."""
        one, many = (jax.tree.leaves(tree)[0] for tree in (self.functions.init_state(), state))
        return _over_batch(partial(self.functions.cached, self._params()), many.ndim - one.ndim)(state)

    @nn.nowrap
    def undo(self, before: Any, after: Any) -> Any:
        """As if the step from one state to the other had not been: see `hcam.memory`."""
        return self.functions.undo(before, after)

    def _params(self) -> Any:
        names = [f"layer_{n}" for n in range(len(self.layers))]
        return tuple(self.layers[name] for name in names) if set(names) == set(self.layers) else self.layers


def _over_batch(function: Callable[..., Any], axes: int) -> Callable[..., Any]:
    return function if axes < 1 else jax.vmap(_over_batch(function, axes - 1))
