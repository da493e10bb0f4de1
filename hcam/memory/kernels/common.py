"""What the kernels share: where they are used, how they are called, and products with float32 sums."""

import math
from typing import Any

import jax
import jax.numpy as jnp

from ..types import Array

MIN_SIZE = 16  # rows and columns of the smallest product that the GPU's matrix units take
MAX_BLOCK = 32 * 512  # elements of one block of rows: a program's values must fit into registers and shared memory
MAX_WIDTH = 512  # features of a row, for the same reason
MASKED_LOGIT = -1e30  # softmax turns it into an exact zero


def supported(rows: int, width: int, dtype: Any) -> bool:
    """True on a GPU, in bfloat16, for blocks of `rows` x `width` that fit.

    Not in float32: the matrix units would round its products to 10 bits.
    """
    powers_of_two = all(size >= MIN_SIZE and size & (size - 1) == 0 for size in (rows, width))
    fits = width <= MAX_WIDTH and rows * width <= MAX_BLOCK
    return jax.default_backend() == "gpu" and jnp.dtype(dtype) == jnp.bfloat16 and powers_of_two and fits


def call(kernel: Any, name: str, operations: int, *, warps: int, stages: int, **options: Any) -> Any:
    """`pallas_call` for Triton. `operations` is the kernel's cost estimate, which `hcam.benchmarks` reads."""
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
    """The matrix product, summed in float32."""
    result: Array = jnp.dot(left, right, preferred_element_type=jnp.float32)
    return result


def padded_heads(heads: int) -> int:
    """Rows of a block that holds all heads: a power of two, as every size in a kernel must be."""
    return max(MIN_SIZE, 1 << math.ceil(math.log2(heads)))
