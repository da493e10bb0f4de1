"""Kernels of our own for the GPU, where XLA would copy what is stored before it looks at it: what they share.

`window_step.py` and `step.py` have those of acting, `window_unroll.py` and `unroll.py` those of
learning, each beside the same in plain JAX: its oracle, and what runs on other machines. Without a GPU the kernels are
interpreted, for the tests.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp

from ..types import Array

FEWEST = 16  # rows and columns of the smallest product that the GPU's matrix units take
LARGEST = 32 * 512  # elements of a chunk, and
WIDEST = 512  # features: what a program holds must fit into registers and shared memory


def suits(rows: int, width: int, dtype: Any) -> bool:
    """Is there a GPU, and do blocks of so many rows suit it? In float32 its matrix units would round to 10 bits."""
    powers = all(size >= FEWEST and size & (size - 1) == 0 for size in (rows, width))
    fits = width <= WIDEST and rows * width <= LARGEST
    return jax.default_backend() == "gpu" and jnp.dtype(dtype) == jnp.bfloat16 and powers and fits


def call(kernel: Any, name: str, operations: int, *, warps: int, stages: int, **options: Any) -> Any:
    """`operations` is for those who count them (benchmarks/operations.py)."""
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    return pl.pallas_call(
        kernel,
        name=name,
        compiler_params=triton.CompilerParams(num_warps=warps, num_stages=stages),
        cost_estimate=pl.CostEstimate(flops=operations, transcendentals=0, bytes_accessed=0),
        interpret=jax.default_backend() != "gpu",
        **options,
    )


def product(left: Array, right: Array) -> Array:
    """Summed up in float32."""
    found: Array = jnp.dot(left, right, preferred_element_type=jnp.float32)
    return found


def filled(heads: int) -> int:
    """Rows of a block that holds all heads: a power of two, as all sizes in a kernel."""
    return max(FEWEST, 1 << math.ceil(math.log2(heads)))
