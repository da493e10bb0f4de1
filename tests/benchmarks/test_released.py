"""The yardstick must compute what it is compared with, or the comparison means nothing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam import memory
from hcam.benchmarks.released import released_read


def draw(dtype="float32", slots=7, width=16):
    keys = jax.random.split(jax.random.key(0), 3)
    params = memory.init_read(keys[0], width, width, width)
    content = jax.random.normal(keys[1], (2, slots, 4, width), dtype)
    return params, jax.random.normal(keys[2], (2, 5, width), dtype), content.mean(2), content


@pytest.mark.parametrize("form", ["dense", "gather"])
def test_equals_our_read(form):
    args = draw()
    theirs, ours = released_read(*args, k=3, heads=4), memory.read(*args, k=3, heads=4, form=form)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_equals_our_read_under_a_mask():
    params, query, key, content = draw()
    mask = jax.random.bernoulli(jax.random.key(1), 0.6, (2, 5, 7))
    theirs = released_read(params, query, key, content, mask, k=3, heads=4)
    np.testing.assert_allclose(memory.read(params, query, key, content, mask, k=3, heads=4), theirs, atol=1e-5)


def test_works_in_float32_unless_held_to_its_dtype():
    args = draw("bfloat16")
    assert released_read(*args, k=3, heads=4).dtype == jnp.float32
    assert released_read(*args, k=3, heads=4, keep_dtype=True).dtype == jnp.bfloat16
