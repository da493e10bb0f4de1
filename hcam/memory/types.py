"""The one interface that every memory offers, and the value that says what was recalled."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

Array = jax.Array
Params = Any  # nested dicts and tuples of arrays
State = Any  # a named tuple of arrays, its own type per memory


class Memory(NamedTuple):
    """A memory as pure functions over plain pytrees, written for one environment: `jax.vmap` is the batch.

    `step` is for acting, `unroll` for learning; scanning `step` gives what `unroll` gives, for any pattern of episode
    starts and any way of cutting a sequence. Gradients flow through the inputs of a call, never into `state`.
    """

    config: Any
    init_params: Callable[[Array], Params]  # key -> params, float32
    init_state: Callable[[], State]  # the memory of one environment that has lived through nothing
    prepare: Callable[[Params], Params]  # the same for many steps, what each would make of them made once
    step: Callable[..., Any]  # params, prepared or not, state, x_d, first, *, recall=False -> state, y_d[, Recall]
    unroll: Callable[..., Any]  # params, state, x_td, first_t, *, recall=False -> state, y_td[, Recall]
    cached: Callable[[Params, State], State]  # the same memory with keys and values computed: see `hcam.memory`
    undo: Callable[[State, State], State]  # before a step, after it -> as if it had not been; see `hcam.memory`


class Recall(NamedTuple):
    """What a call attended to, per layer; `unroll` puts a time axis in front. None: the memory has no such part."""

    window_hw: tuple[Array, ...] | None = None  # attention over the last W steps by age; age 0 is the step itself
    chunk_k: tuple[Array, ...] | None = None  # numbers of the recalled chunks in their episode; -1: nothing to recall
    relevance_k: tuple[Array, ...] | None = None  # the weight of each, best first; 0 where chunk_k is -1
    within_khc: tuple[Array, ...] | None = None  # attention over the C steps inside each recalled chunk
