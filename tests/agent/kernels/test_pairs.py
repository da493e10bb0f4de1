"""Pairs of pixels in tiles: every pair is read and written, and nothing after the last one."""

import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl

from hcam.agent.kernels import pairs
from hcam.memory.kernels.common import call


def test_what_is_loaded_is_stored_and_nothing_else():
    """Two tiles of four pairs, of which five exist; each has three numbers."""

    def kernel(x, out, seen):
        pair_p = pairs.numbers(pl.program_id(0), 4)
        value_pc = pairs.load(x, pair_p, 3, 5)
        seen[pl.program_id(0)] = value_pc
        pairs.store(out, pair_p, value_pc + 1, 5)

    x = jnp.arange(1, 19, dtype=jnp.float32)  # three numbers too many
    shapes = pairs.outputs(jnp.float32, (18,), (2, 4, 3))
    out, seen = call(kernel, "copy", 0, warps=1, stages=1, grid=(2,), out_shape=shapes)(x)
    np.testing.assert_array_equal(out[:15], x[:15] + 1)
    np.testing.assert_array_equal(np.ravel(seen), np.pad(np.asarray(x[:15]), (0, 9)))
    assert not np.array_equal(out[15:], x[15:] + 1)
