"""Memories for agents, as pure functions over plain pytrees. The folder needs jax and nothing else: copy it freely.

    from hcam import memory

    mem = memory.make(memory.HCAM(width=128, heads=4, chunk=16, slots=64, top_k=4), dtype="bfloat16")
    params, state = mem.init_params(key), mem.init_state()
    state, y_d = mem.step(params, state, x_d, first)            # acting: one step
    state, y_td = mem.unroll(params, state, x_td, first_t)      # learning: T steps at once, the same results

The functions take one environment; `jax.vmap(mem.step, in_axes=(None, 0, 0, 0))` takes a batch. `first` marks the first
step of an episode: the memory forgets everything before it. The state is carried from unroll to unroll, and no gradient
flows into it.

A step whose input is not finite, or is larger than 1e18, answers NaN and is not remembered; no other step is affected.

`mem.cached(params, state)` is for acting with parameters that stay the same: the state then also holds keys and values,
which `step` extends by one row at a time. Without them, `step` reads the stored inputs and never forms keys or values:
that halves the bytes, and is the better choice when parameters change with every unroll. The results are the same.

`mem.prepare(params)` is for acting, too: it computes once what every `step` would compute from the parameters alone.

`mem.undo(state, after)` takes back the step from `state` to `after`, for example one that was made only for the value
of the next observation. Drop `state` and continue with the result: nothing is copied.

A configuration is a frozen dataclass with a `width` and a method `build(dtype) -> Memory`; yours need not be listed in
`MEMORIES` to work with `make`. `define` makes a `Memory` from as little as a `step`, and `check` tests whether it keeps
the contract (docs/add_a_memory.md).

Axis letters, in names and in einsum strings:
    B environments, T time, M memory slots (chunks), C steps in a chunk, K recalled chunks, H heads, D features;
    and in this folder Q queries, E and S feature widths that may differ from D, R rows of a ring, W steps of a window,
    V = W - 1 steps before an unroll, J = V + T, U chunks that an unroll completes, L layers, G gates.
"""

from typing import Any

from . import checks
from .contract import ContractError, check
from .epn import EPN
from .gru import GRU
from .hcam import HCAM
from .interface import define, unguarded
from .lstm import LSTM
from .projections import init_read
from .recall import Recalled, choose_form, read
from .trxl import Local, TrXL
from .types import Memory, MemoryConfig, Recall

MEMORIES: dict[str, type] = {"hcam": HCAM, "trxl": TrXL, "lstm": LSTM, "gru": GRU, "epn": EPN, "none": Local}

__all__ = [
    "EPN",
    "GRU",
    "HCAM",
    "LSTM",
    "MEMORIES",
    "ContractError",
    "Local",
    "Memory",
    "MemoryConfig",
    "Recall",
    "Recalled",
    "TrXL",
    "check",
    "choose_form",
    "define",
    "init_read",
    "make",
    "read",
    "unguarded",
]


def make(config: MemoryConfig, *, dtype: str = "float32") -> Memory:
    """The memory that a configuration describes, computing in `dtype`; its parameters are float32 in any case."""
    build: Any = getattr(config, "build", None)
    if isinstance(config, type) or not callable(build):
        names = ", ".join(kind.__name__ for kind in MEMORIES.values())
        raise TypeError(
            f"make takes a configuration ({names}, or an object of your own with a width and a method "
            f"build(dtype) -> Memory), but got {config!r}."
        )
    checks.choice(checks.DTYPES, dtype=dtype)
    memory = build(dtype)
    if not isinstance(memory, Memory):
        raise TypeError(f"build of {config!r} must return a Memory (see define), but returned {memory!r}.")
    return memory
