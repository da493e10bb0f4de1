"""The types of the interface: a memory, its configuration, and what it reports about a recall."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax

Array = jax.Array
Params = Any  # nested dicts and tuples of arrays
State = Any  # a named tuple of arrays, a type of its own per memory


class Memory(NamedTuple):
    """A memory as pure functions over plain pytrees, written for one environment: `jax.vmap` makes a batch.

    `step` is for acting and `unroll` for learning. Scanning `step` gives what `unroll` gives, for any pattern of
    episode starts and any way of cutting a sequence into unrolls. Gradients flow through the inputs of a call, never
    into `state`. `hcam.memory.define` makes a `Memory` from an author's functions and ensures what holds for all.
    """

    config: Any
    init_params: Callable[[Array], Params]  # key -> params, float32
    init_state: Callable[[], State]  # the empty memory of one environment
    prepare: Callable[[Params], Params]  # params with whatever `step` derives from them alone computed once
    step: Callable[..., Any]  # params (prepared or not), state, x_d, first, *, recall=False -> state, y_d[, Recall]
    unroll: Callable[..., Any]  # params, state, x_td, first_t, *, recall=False -> state, y_td[, Recall]
    cached: Callable[[Params, State], State]  # the same memory with its keys and values computed: see `hcam.memory`
    undo: Callable[[State, State], State]  # state before a step, state after it -> a state without that step
    definition: Any = None  # what `define` made this from, for `unguarded`; None: made without `define`


class MemoryConfig(Protocol):
    """What `hcam.memory.make` takes. Write it as a frozen dataclass whose fields are the memory's options."""

    @property
    def width(self) -> int:
        """The number of features of an input and of an output."""

    def build(self, dtype: str) -> Memory:
        """The memory that these options describe, computing in `dtype`; made with `hcam.memory.define`."""


class Recall(NamedTuple):
    """What a call attended to, one entry per layer; `unroll` adds a time axis in front. None: no such part."""

    window_hw: tuple[Array, ...] | None = None  # attention over the last W steps by age; age 0 is the step itself
    chunk_k: tuple[Array, ...] | None = None  # numbers of the recalled chunks in their episode; -1: nothing to recall
    relevance_k: tuple[Array, ...] | None = None  # the weight of each, best first; 0 where chunk_k is -1
    within_khc: tuple[Array, ...] | None = None  # attention over the C steps inside each recalled chunk
    relevance_m: tuple[Array, ...] | None = None  # of every chunk, before the top k, newest first; 0: no such chunk
