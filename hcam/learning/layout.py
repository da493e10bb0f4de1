"""What is there for XLA and GPUs alone: where bytes lie and when they are copied. No result depends on this file.

docs/log has what each of these brought.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from hcam.types import Array, Params, TrainState

# Transitions ----------------------------------------------------------------------------------------------------------


def split_minibatches(tree_b: Any, minibatches: int) -> Any:
    """[B] -> [N, B/N]."""
    return jax.tree.map(lambda leaf_b: leaf_b.reshape(minibatches, -1, *leaf_b.shape[1:]), tree_b)


def scan_minibatches(
    step: Callable[[Any, Array], tuple[Any, Any]], carry: Any, steps: int, minibatches: int
) -> tuple[Any, Any]:
    """`jax.lax.scan` over `steps` time steps of which each returns a pytree [B]; stacks them to [N, T, B/N].

    Each minibatch is contiguous, so that a GPU copies the next one while it computes; sliced out of [T, B] it would be
    waited for. `scan` itself would first fill the result with zeros, gigabytes of them where there are images.
    """

    def split(carry: Any, t: Array | int) -> tuple[Any, Any]:
        carry, tree_b = step(carry, jnp.asarray(t))
        return carry, split_minibatches(tree_b, minibatches)

    def body(state: tuple[Any, Any], t: Array) -> tuple[tuple[Any, Any], None]:
        carry, words_ntb = state
        carry, tree_nb = split(carry, t)
        put = partial(jax.lax.dynamic_update_index_in_dim, index=t, axis=1)
        return (carry, jax.tree.map(put, words_ntb, jax.tree.map(pack_words, tree_nb))), None

    kinds = jax.eval_shape(split, carry, 0)[1]
    words = jax.eval_shape(partial(jax.tree.map, pack_words), kinds)
    empty: Any = jax.lax.empty
    buffers = jax.tree.map(lambda leaf: empty((leaf.shape[0], steps, *leaf.shape[1:]), leaf.dtype), words)
    carry, words_ntb = jax.lax.scan(body, (carry, buffers), jnp.arange(steps, dtype=jnp.int32))[0]
    return carry, jax.tree.map(lambda kind, leaf: unpack_words(leaf, kind.dtype), kinds, words_ntb)


def pack_words(x: Array) -> Array:
    """Bytes as words of four, where they fill such: XLA copies as many words at a time as bytes."""
    if x.dtype.itemsize > 1 or x.dtype == bool or x.ndim == 0 or x.shape[-1] % 4:
        return x
    return jax.lax.bitcast_convert_type(x.reshape(*x.shape[:-1], -1, 4), jnp.int32)


def unpack_words(x: Array, dtype: Any) -> Array:
    """Undo `pack_words`."""
    if x.dtype == dtype:
        return x
    return jax.lax.bitcast_convert_type(x, dtype).reshape(*x.shape[:-1], -1)


# Memories -------------------------------------------------------------------------------------------------------------


def snapshot_memory(state: TrainState) -> tuple[Any, TrainState]:
    """A copy of the memories, for learning, made before acting writes into them; and the state to act with.

    Left to itself XLA copies them twice: for acting to write into, and back to where the caller wants them.
    """
    always = state.updates >= 0  # the compiler does not know that this is true, and so keeps the copy
    memory_b = jax.tree.map(lambda leaf: jnp.where(always, leaf, jnp.zeros((), leaf.dtype)), state.actors_b.memory)
    barrier: Any = jax.lax.optimization_barrier
    memory_b, actors_b = barrier((memory_b, state.actors_b))
    return memory_b, state._replace(actors_b=actors_b)


# Parameters -----------------------------------------------------------------------------------------------------------


def flatten(params: Params, optimiser_state: Any) -> tuple[Array, Any, Callable[[Array], Params]]:
    """Parameters as one vector, the optimiser's state likewise, and the way back for parameters.

    Clipping and Adam are then a few kernels over one array, and not a few for each of a hundred arrays.
    """
    params_p, unflatten = ravel_pytree(params)
    return params_p, _where_like(params, lambda tree: ravel_pytree(tree)[0], optimiser_state), unflatten


def unflatten_state(params: Params, flat_state: Any, named_state: Any) -> Any:
    """Undo `flatten` for the optimiser's state: each array gets back the name of its parameter."""
    unflatten = ravel_pytree(params)[1]
    vectors = iter(jax.tree.leaves(flat_state))
    return _where_like(params, lambda _: unflatten(next(vectors)), named_state, lambda _: next(vectors))


def _where_like(
    params: Params, change: Callable[[Any], Any], tree: Any, other: Callable[[Any], Any] = lambda leaf: leaf
) -> Any:
    """Changes the subtrees that have the structure of the parameters, and all other leaves by `other`."""
    structure = jax.tree.structure(params)

    def is_like(part: Any) -> bool:
        found: Any = jax.tree.structure(part)
        return bool(found == structure)

    return jax.tree.map(lambda part: change(part) if is_like(part) else other(part), tree, is_leaf=is_like)


# Seeds ----------------------------------------------------------------------------------------------------------------


def vmap_seeds(run: Callable[[TrainState], tuple[TrainState, Any]], seeds: int) -> Callable[[TrainState], Any]:
    """The same for several states at once, their axis first.

    A single one is unwrapped: under `vmap` XLA would lay out all frames anew for a gradient.
    """
    if seeds > 1:
        return jax.vmap(run)
    return lambda state_s: jax.tree.map(lambda leaf: leaf[None], run(jax.tree.map(lambda leaf: leaf[0], state_s)))
