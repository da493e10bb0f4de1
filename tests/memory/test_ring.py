"""The arithmetic of time, each function against a loop that lives through the steps one by one."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hcam.memory import ring

LENGTH = 14
shapes = st.sampled_from([(4, 4), (4, 3), (4, 1), (1, 1), (5, 2), (7, 7)])  # chunk, stride
flags = st.lists(st.booleans() | st.just(False), min_size=LENGTH, max_size=LENGTH).map(np.array)


def chunks_of(length: int, chunk: int, stride: int) -> list[range]:
    """The times of each complete chunk of an episode of this length."""
    return [range(s, s + chunk) for s in range(0, length, stride) if s + chunk <= length]


def episodes_of(first: np.ndarray, clock: int) -> list[int]:
    """The index at which each step's episode starts, -clock for the one that was going on."""
    found, start = [], -clock
    for i, at_start in enumerate(first):
        start = i if at_start else start
        found.append(start)
    return found


def test_latest_by_hand():
    """A ring of 4 after numbers 0..5: rows 0 and 1 hold 4 and 5 by now, rows 2 and 3 still 2 and 3."""
    np.testing.assert_array_equal(ring.latest(jnp.array(5), 4), [4, 5, 2, 3])
    # After number 1, rows 2 and 3 hold nothing: their numbers, -2 and -1, are negative.
    np.testing.assert_array_equal(ring.latest(jnp.array(1), 4), [0, 1, -2, -1])
    assert (np.asarray(ring.latest(jnp.array(-1), 4)) < 0).all()


@pytest.mark.parametrize("size", [1, 2, 5])
def test_latest_is_what_writing_leaves_behind(size):
    rows = [-1] * size
    for number in range(13):
        rows[number % size] = number
        found = np.asarray(ring.latest(jnp.array(number), size))
        np.testing.assert_array_equal(np.where(found < 0, -1, found), rows)


@settings(max_examples=30)
@given(shape=shapes, clock=st.integers(0, 40))
@example(shape=(4, 4), clock=3)  # one short of a chunk
@example(shape=(4, 4), clock=4)
def test_complete_counts_the_chunks(shape, clock):
    assert ring.complete(jnp.array(clock), *shape) == len(chunks_of(clock, *shape))


@settings(max_examples=30)
@given(first=flags, clock=st.integers(0, 30))
def test_episode_starts(first, clock):
    found = ring.episode_starts(jnp.asarray(first), jnp.array(clock, jnp.int32))
    np.testing.assert_array_equal(found, episodes_of(first, clock))


@settings(max_examples=30)
@given(clock=st.integers(0, 30), size=st.sampled_from([6, 14, 20]), length=st.sampled_from([1, 14]))
def test_write_and_tail_are_a_list_of_which_the_end_is_kept(clock, size, length):
    """An episode of `clock` steps is stored, then an unroll is written that started with it or went on with it."""
    past = [np.full(2, i, np.float32) for i in range(clock)]
    rows = np.full((size, 2), -1, np.float32)
    for i, x in enumerate(past):
        rows[i % size] = x
    new = [np.full(2, 100 + i, np.float32) for i in range(length)]
    now = clock + length
    found = np.asarray(ring.write(jnp.asarray(rows), jnp.asarray(new), jnp.array(now)))
    for time in range(max(0, now - size), now):
        np.testing.assert_array_equal(found[time % size], (past + new)[time])
    tail = np.asarray(ring.tail(jnp.asarray(found), jnp.array(now), 5))  # oldest first
    kept = min(5, now)
    np.testing.assert_array_equal(tail[5 - kept :], (past + new)[now - kept :])


def test_put_replaces_one_row():
    rows = jnp.zeros((4, 2))
    for number in range(6):
        rows = ring.put(rows, jnp.array(number), jnp.full(2, 1.0 + number))
    np.testing.assert_array_equal(rows[:, 0], [5, 6, 3, 4])


def test_write_keeps_only_the_last_episode():
    """An unroll of 5 whose last episode is 2 steps long: they are times 0 and 1."""
    rows, new = np.zeros((4, 1), np.float32), np.arange(10, 15, dtype=np.float32)[:, None]
    found = ring.write(jnp.asarray(rows), jnp.asarray(new), jnp.array(2))
    np.testing.assert_array_equal(np.asarray(found)[:2, 0], [13, 14])


def test_write_takes_the_dtype_of_the_ring():
    found = ring.write(jnp.zeros((4, 1), jnp.bfloat16), jnp.ones((2, 1)), jnp.array(2))
    assert found.dtype == jnp.bfloat16


@settings(max_examples=60)
@given(shape=shapes, first=flags, clock=st.integers(0, 20))
@example(shape=(4, 3), first=np.ones(LENGTH, bool), clock=0)
def test_chunk_ends_are_where_chunks_are_completed(shape, first, clock):
    chunk, stride = shape
    start = np.array(episodes_of(first, clock))
    time = np.arange(LENGTH) - start
    expected = [i for i in range(LENGTH) if len(chunks_of(time[i] + 1, *shape)) > len(chunks_of(time[i], *shape))]
    found = np.asarray(ring.chunk_ends(jnp.asarray(time), chunk, stride))
    assert len(found) == -(-LENGTH // stride)
    assert sorted(found[found < LENGTH]) == expected
    assert (found[found >= LENGTH] == LENGTH).all()
    # A chunk is found again by its end: slot = end // stride.
    for end in expected:
        assert found[end // stride] == end


@settings(max_examples=60)
@given(shape=shapes, first=flags, clock=st.integers(0, 20), slots=st.sampled_from([1, 2, 5]))
def test_readable_chunks_are_complete_recent_and_of_the_same_episode(shape, first, clock, slots):
    start = np.array(episodes_of(first, clock))
    # Every chunk that any episode completes: (start of the episode, number in it, index of its last step).
    chunks = [
        (int(s), number, int(s) + times[-1])
        for s in np.unique(start)
        for number, times in enumerate(chunks_of(int(np.flatnonzero(start == s)[-1]) + 1 - int(s), *shape))
    ]
    # `chunk_ends` gives LENGTH where there is no chunk; always 40 in all, lest each example compile anew.
    end_m = jnp.array([end for *_, end in chunks] + [LENGTH] * (40 - len(chunks)))
    mask_tm, number_tm = map(np.asarray, ring.readable_chunks(end_m, jnp.asarray(start), shape[0], shape[1], slots))
    for i in range(LENGTH):
        complete = [n for s, n, end in chunks if s == start[i] and end < i]
        for m, (s, number, end) in enumerate(chunks):
            assert mask_tm[i, m] == (s == start[i] and end < i and number in complete[-slots:])
            assert not mask_tm[i, m] or number_tm[i, m] == number
        assert not mask_tm[i, len(chunks) :].any()
