"""An episode prepared for the eye shows the frames, the chunks and the weights that the recording has."""

from typing import Any

import numpy as np
import pytest

from hcam.envs import make
from hcam.envs.environment import Event
from hcam.memory import chunks as memory_chunks
from hcam.runs.recording import Attention
from hcam.viewer import playback
from hcam.viewer.playback import Chunks, Window
from tests.viewer import episodes


def test_chunks_are_numbered_as_the_memory_numbers_them():
    """The rows of chunk n in a ring that never wraps are the steps of the episode."""
    recall = episodes.chunks(40, length=6, overlap=2)
    for number in range(recall.relevance_tln.shape[-1]):
        rows: Any = memory_chunks.rows_of(np.int32(number), 6, 4, 10_000)  # type: ignore[arg-type]
        assert recall.span(number) == (rows[0], rows[-1] + 1)


@pytest.mark.parametrize("slots", [2, 9])
def test_relevance_by_age_becomes_relevance_by_number(slots):
    """Newest first, and a memory with few slots forgets the oldest: they have no relevance."""
    steps, chunk, stride = 12, 3, 2
    number_tlk = np.full((steps, 1, 1), -1)
    age_tlm = np.zeros((steps, 1, slots), np.float32)
    for t in range(chunk, steps):
        there = (t - chunk) // stride + 1
        for age in range(min(there, slots)):
            age_tlm[t, 0, age] = 100 * t + (there - 1 - age)  # names the chunk
    found = playback.by_number(number_tlk, number_tlk, age_tlm, chunk, stride)
    assert found.shape == (steps, 1, 5)
    for t in range(steps):
        there = max(0, (t - chunk) // stride + 1)
        for number in range(5):
            kept = there - slots <= number < there
            assert found[t, 0, number] == (100 * t + number if kept else 0)


def test_without_relevance_of_all_chunks_that_of_the_recalled_is_shown():
    made = episodes.chunks(20, layers=1, length=4, top=2)
    entries: Any = [(leaf[:, 0],) for leaf in (made.number_tlk, made.weight_tlk, made.within_tlkc)]
    found = playback.recall_of(Attention(*[None, *entries, None]), None)
    assert isinstance(found, Chunks)
    assert found.stride == 4
    for t, n, w in zip(range(20), made.number_tlk[:, 0], made.weight_tlk[:, 0], strict=True):
        shown = found.relevance_tln[t, 0]
        assert dict(zip(n[n >= 0].tolist(), w[n >= 0].tolist(), strict=True)) == {
            k: shown[k] for k in np.flatnonzero(shown).tolist()
        }


def test_a_memory_that_reports_nothing_has_no_recall():
    assert playback.recall_of(Attention(*[None] * 5), None) is None
    assert playback.layers(None) == 0


def test_the_share_of_what_matters_counts_single_steps():
    """Half of the weight on chunk 1, of whose four steps the event has the last two, and a tenth beside it."""
    within: Any = np.array([[[[0, 0.1, 0.6, 0.3], [1, 0, 0, 0]]]])
    recall = Chunks(np.array([[[1, 0]]], np.int32), np.full((1, 1, 2), 0.5, np.float32), within, within[0], 4, 0)
    assert playback.share(recall, [Event(6, 20, "x", True), Event(0, 2, "y")], 0) == pytest.approx(0.45)
    steps = Window(np.array([[[0.1, 0.2, 0.7]]] * 5))
    assert playback.share(steps, [Event(2, 4, "x", True)], 4) == pytest.approx(0.9)
    assert playback.share(steps, [], 4) == 0


def test_the_steps_attended_to_most_are_of_this_episode():
    one = episodes.played(Window(np.array([[[0.1, 0.2, 0.7]]] * 5)), 5)
    assert [step for step, _ in playback.most_attended(one, 4, 0, 2)] == [2, 3]
    assert [step for step, _ in playback.most_attended(one, 1, 0, 9)] == [0, 1]


def test_events_go_with_the_chunk_that_has_most_of_them():
    events = [Event(0, 6, "one"), Event(6, 30, "two")]
    assert playback.event_in(events, 0, 8) == events[0]
    assert playback.event_in(events, 4, 9) == events[1]
    assert playback.event_in(events, 30, 40) is None
    assert playback.event_in([], 0, 9) is None


def test_pages_open_at_the_last_new_instruction_else_the_last_reward_or_step():
    steps_t: Any = episodes.played(None, 10).steps_t
    steps_t = steps_t._replace(reward=np.array([0, 0, 1, 0, 1, 0, 0, 0, 0, 0]))
    words = [episodes.frame(0, text, 4) for text in "aabbbccccc" + "c"]
    assert playback._turning_point(words, steps_t) == 5
    assert playback._turning_point(words[:1] * 11, steps_t) == 4
    assert playback._turning_point(words[:1] * 11, steps_t._replace(reward=np.zeros(10))) == 9


def test_an_episode_without_its_moments_is_refused():
    from hcam.runs.recording import Episode

    with pytest.raises(ValueError, match="record it with its moments"):
        playback.prepare(make("echo"), Episode(0, episodes.played(None, 4).steps_t, None))
