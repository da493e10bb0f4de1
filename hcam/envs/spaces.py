"""What an action or an observation may be. An observation's space is one of these, or a dict of them by name."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np


@dataclass(frozen=True)
class Discrete:
    """One of n choices, as an int32."""

    n: int

    @property
    def shape(self) -> tuple[int, ...]:
        return ()

    @property
    def dtype(self) -> str:
        return "int32"

    def sample(self, key: jax.Array) -> jax.Array:
        return jax.random.randint(key, (), 0, self.n)

    def contains(self, value: Any) -> bool:
        return _fits(self, value) and bool((np.asarray(value) >= 0).all() and (np.asarray(value) < self.n).all())


@dataclass(frozen=True)
class Box:
    """An array of numbers between two bounds, which are included."""

    shape: tuple[int, ...]
    low: float
    high: float
    dtype: str = "float32"

    def sample(self, key: jax.Array) -> jax.Array:
        if jnp.issubdtype(jnp.dtype(self.dtype), jnp.floating):
            return jax.random.uniform(key, self.shape, self.dtype, self.low, self.high)
        return jax.random.randint(key, self.shape, int(self.low), int(self.high) + 1).astype(self.dtype)

    def contains(self, value: Any) -> bool:
        array = np.asarray(value)
        return _fits(self, value) and bool((array >= self.low).all() and (array <= self.high).all())


@dataclass(frozen=True)
class Tokens:
    """A sentence: `length` int32 ids into a vocabulary whose entry 0 is padding."""

    vocabulary: tuple[str, ...]
    length: int = 1

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.length,)

    @property
    def dtype(self) -> str:
        return "int32"

    def sample(self, key: jax.Array) -> jax.Array:
        return jax.random.randint(key, self.shape, 1, len(self.vocabulary))

    def contains(self, value: Any) -> bool:
        array = np.asarray(value)
        return _fits(self, value) and bool((array >= 0).all() and (array < len(self.vocabulary)).all())

    def text(self, ids: Any) -> str:
        """The sentence for people: `text([1]) == "watch"`."""
        return " ".join(self.vocabulary[i] for i in np.asarray(ids).tolist() if i != 0)

    def ids(self, text: str) -> np.ndarray[Any, Any]:
        words: Sequence[str] = text.split()
        unknown = [word for word in words if word not in self.vocabulary[1:]]
        if unknown or len(words) > self.length:
            raise ValueError(
                f"an instruction here has at most {self.length} of the words {', '.join(self.vocabulary[1:])}, "
                f"but is {text!r}."
            )
        ids = [self.vocabulary.index(word) for word in words]
        return np.asarray(ids + [0] * (self.length - len(ids)), np.int32)


Space: TypeAlias = Discrete | Box | Tokens
Spaces: TypeAlias = Space | dict[str, Space]


def _fits(space: Space, value: Any) -> bool:
    return jnp.shape(value) == space.shape and jnp.result_type(value) == jnp.dtype(space.dtype)
