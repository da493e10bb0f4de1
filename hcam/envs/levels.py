"""Levels as data: a mixture of them, of which every episode draws one."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

Level = Any  # a pytree of arrays, of one structure for all levels of an environment

# Folded into the key that starts an episode. `jax.random.split` never gives this number, so that an environment may
# split the same key as it likes.
LEVEL_KEY = 2**32 - 1


class Mixture(NamedTuple):
    """L levels and how often each is drawn, relative to the others."""

    weight_l: jax.Array  # float32
    level_l: Level  # leaves with the axis L in front


def mixture(levels: Sequence[Level], weights: Sequence[float] | None = None) -> Mixture:
    """Stacks levels; without weights they are drawn equally often."""
    given = [1.0] * len(levels) if weights is None else [float(weight) for weight in weights]
    if len(given) != len(levels):
        raise ValueError(f"{len(levels)} levels need as many weights, but there are {len(given)}: {given}.")
    if not all(math.isfinite(weight) and weight >= 0 for weight in given) or not any(given):
        raise ValueError(f"weights of levels must be finite, none negative and not all 0, but are {given}.")
    largest = max(given)  # divided in float64: weights of 1e-50 are as good as weights of 1
    weight_l = jnp.array([weight / largest for weight in given], jnp.float32)
    return Mixture(weight_l, jax.tree.map(lambda *leaves: jnp.stack(leaves), *levels))


def draw(key: jax.Array, levels: Mixture) -> jax.Array:
    """The number of a level, int32; `key` may be used again, but not folded with LEVEL_KEY."""
    if levels.weight_l.size == 1:
        return jnp.zeros((), jnp.int32)
    number: jax.Array = jax.random.categorical(jax.random.fold_in(key, LEVEL_KEY), jnp.log(levels.weight_l))
    return jnp.asarray(number, jnp.int32)


def pick(levels: Mixture, number: jax.Array) -> Level:
    """The level of this number."""
    return jax.tree.map(lambda leaf_l: leaf_l[number], levels.level_l)


def level_of(params: Any, state: Any) -> Level:
    """The level of a state's episode: what `advance` and `observe` take. Params that are no mixture are a level."""
    return pick(params, getattr(state, "level", jnp.int32(0))) if isinstance(params, Mixture) else params
