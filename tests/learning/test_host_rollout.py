"""Acting for halves of the environments gives what acting for all of them in one program gives."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hcam.learning.host_rollout import Unroll, join
from hcam.learning.layout import split_minibatches

# What the programs of a half come to is tested with the update that calls them: tests/learning/test_host_update.py.


def test_halves_make_the_minibatches_of_one_program():
    transitions_tb: Any = {"reward": jnp.arange(3 * 8).reshape(3, 8), "image": jnp.arange(3 * 8 * 2).reshape(3, 8, 2)}
    memory_b, value_b = jnp.arange(8 * 2).reshape(8, 2), jnp.arange(8)
    halves = [
        Unroll(memory_b[part], jax.tree.map(lambda leaf, part=part: leaf[:, part], transitions_tb), value_b[part])
        for part in (slice(0, 4), slice(4, 8))
    ]
    for minibatches in (1, 2, 8):
        found = join(halves, minibatches)
        seen: Any = found.transitions_tb
        np.testing.assert_array_equal(found.memory_b, split_minibatches(memory_b, minibatches))
        np.testing.assert_array_equal(found.bootstrap_value_b, split_minibatches(value_b, minibatches))
        for name, leaf in transitions_tb.items():
            stacked = jnp.stack([split_minibatches(step_b, minibatches) for step_b in leaf], axis=1)
            np.testing.assert_array_equal(stacked, seen[name])
