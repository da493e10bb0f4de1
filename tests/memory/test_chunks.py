"""Chunks as slices of a ring, against plain lists."""

import jax.numpy as jnp
import numpy as np
import pytest

from hcam.memory import chunks, ring

every_shape = pytest.mark.parametrize(("chunk", "stride", "slots"), [(4, 4, 3), (4, 3, 3), (4, 1, 5), (1, 1, 4)])


def lived(chunk: int, stride: int, slots: int, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows for every step of an episode, and the ring that holds the last of them."""
    x = np.random.default_rng(steps).standard_normal((steps, 2)).astype(np.float32)
    row_rd = np.full((slots * stride + chunk, 2), np.nan, np.float32)
    for time, x_d in enumerate(x):
        row_rd[time % len(row_rd)] = x_d
    return x, row_rd


@every_shape
@pytest.mark.parametrize("steps", [9, 30])
def test_stored_chunks_are_slices_of_the_episode(chunk, stride, slots, steps):
    x, row_rd = lived(chunk, stride, slots, steps)
    done = int(ring.complete(jnp.array(steps), chunk, stride))
    number_m = ring.latest(jnp.array(done - 1), slots + 1)
    found = np.asarray(chunks.stored(jnp.asarray(row_rd), number_m, chunk, stride))
    for number in range(max(0, done - slots), done):
        (slot,) = np.flatnonzero(number_m == number)
        np.testing.assert_array_equal(found[slot], x[number * stride : number * stride + chunk])


@every_shape
def test_rows_go_round_the_ring(chunk, stride, slots):
    rows = slots * stride + chunk
    found = np.asarray(chunks.rows_of(jnp.array([[0, 7]]), chunk, stride, rows))
    assert found.shape == (1, 2, chunk)
    np.testing.assert_array_equal(found[0, 1], (7 * stride + np.arange(chunk)) % rows)


@every_shape
def test_completed_chunks_may_begin_in_the_ring(chunk, stride, slots):
    x, row_rd = lived(chunk, stride, slots, steps=10)
    new = np.random.default_rng(1).standard_normal((7, 2)).astype(np.float32)
    every, clock = np.concatenate([x, new]), jnp.array(10)
    end_u = ring.chunk_ends(10 + jnp.arange(7), chunk, stride)
    found = np.asarray(chunks.completed(jnp.asarray(row_rd), jnp.asarray(new), clock, end_u, chunk))
    for end, content in zip(np.asarray(end_u), found, strict=True):
        if end < 7:
            np.testing.assert_array_equal(content, every[10 + end - chunk + 1 : 10 + end + 1])


def test_a_summary_is_a_mean_taken_in_float32():
    content = jnp.asarray([[[1.0], [256.0], [1.0], [1.0]]], jnp.bfloat16)
    found = chunks.summarise(content)
    assert found.dtype == jnp.bfloat16
    assert float(found[0, 0]) == float(jnp.asarray(259 / 4, jnp.bfloat16))


@every_shape
def test_summaries_after_an_unroll_are_those_of_the_latest_chunks(chunk, stride, slots):
    """The episode of the unroll started 6 steps before it; slots whose chunk is older keep their summary."""
    before, steps = 6, 8
    start_t = jnp.full(steps, -before)
    end_u = ring.chunk_ends(jnp.arange(steps) - start_t, chunk, stride)
    new_ud = jnp.arange(100, 100 + len(end_u), dtype=jnp.float32)[:, None]
    old_md = jnp.arange(slots + 1, dtype=jnp.float32)[:, None]
    found = np.asarray(chunks.update_summaries(old_md, new_ud, start_t, chunk, stride))[:, 0]
    done = int(ring.complete(jnp.array(before + steps), chunk, stride))
    for number in range(max(0, done - slots - 1), done):
        end = number * stride + chunk - 1 - before
        slot = number % (slots + 1)
        expected = float(new_ud[list(np.asarray(end_u)).index(end), 0]) if end >= 0 else float(slot)
        assert found[slot] == expected
