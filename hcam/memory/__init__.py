"""Memories for agents, as pure functions over plain pytrees. The folder needs jax and nothing else: copy it freely.

    from hcam import memory

    mem = memory.make(memory.HCAM(width=128, heads=4, chunk=16, slots=64, top_k=4))
    params, state = mem.init_params(key), mem.init_state()
    state, y_d = mem.step(params, state, x_d, first)            # acting: one step
    state, y_td = mem.unroll(params, state, x_td, first_t)      # learning: T steps at once, the same results

One environment each; `jax.vmap(mem.step, in_axes=(None, 0, 0, 0))` is a batch. `first` marks the first step of an
episode: the memory forgets everything before it. State is carried from unroll to unroll, and no gradient ever flows
into it.

While parameters stay the same, `mem.cached(params, state)` gives a state that also holds keys and values; `step`
extends them by one row at a time. A state without them is read without ever forming them, which halves the bytes and
is the better choice when parameters change with every unroll. Both give the same results.

`mem.prepare(params)` gives parameters that `step` takes as well, with what every step would make of them made once.

`mem.undo(state, after)` takes a step back that was only tried, say for the value of what comes next: drop `state`, go
on with what it returns, and nothing was copied.

Axis letters, in names and in einsum strings:
    B environments, T time, M memory slots (chunks), C steps in a chunk, K recalled chunks, H heads, D features;
    and in this folder Q queries, E and S feature widths that may differ from D, R rows of a ring, W steps of a window,
    V = W - 1 steps before an unroll, J = V + T, U chunks that an unroll completes.
"""

from collections.abc import Callable
from typing import Any

from . import hcam, lstm, trxl
from .hcam import HCAM
from .lstm import LSTM
from .recall import Recalled, choose_form, init_read, read
from .trxl import Local, TrXL
from .types import Memory, Recall

CONFIGS: dict[str, type] = {"hcam": HCAM, "trxl": TrXL, "lstm": LSTM, "none": Local}
MEMORIES = CONFIGS
_BUILDERS: dict[type, Callable[[Any], Memory]] = {
    HCAM: hcam.build,
    TrXL: trxl.build,
    LSTM: lstm.build,
    Local: trxl.build_local,
}

__all__ = [
    "CONFIGS",
    "HCAM",
    "LSTM",
    "Local",
    "Memory",
    "Recall",
    "Recalled",
    "TrXL",
    "choose_form",
    "init_read",
    "make",
    "read",
]


def make(config: HCAM | TrXL | LSTM | Local, *, dtype: str = "float32") -> Memory:
    """The memory that a configuration describes."""
    import dataclasses

    config = dataclasses.replace(config, dtype=dtype)
    if type(config) not in _BUILDERS:
        names = ", ".join(kind.__name__ for kind in _BUILDERS)
        raise TypeError(f"make takes a configuration ({names}), but got {config!r}.")
    return _BUILDERS[type(config)](config)
