"""Relative attention of episodes whose attention is known, and against a slow computation in plain Python."""

from typing import Any

import numpy as np
import pytest

from hcam.envs.environment import Event
from hcam.runs.recording import Attention, Episode, Step
from hcam.runs.relative import Layout, asked_before, chunks_of, pieces, sample

CHUNK = Layout(chunk=4, stride=4)
STEPS, QUESTION = 28, 26  # six chunks are whole then
DANCES = [Event(4 * n, 4 * n + 3, f"dance {n}") for n in range(5)]  # a chunk each, the last step of which is a pause


def asked_for(number: int, events: list[Event] = DANCES) -> list[Event]:
    target = events[number]._replace(matters=True, asked=((QUESTION, STEPS),))
    return [*events[:number], target, *events[number + 1 :]]


def episode(attention: Attention, *, solved: bool = True) -> Episode:
    success = np.zeros(STEPS, bool)
    success[-1] = solved
    parts: Any = [np.zeros(STEPS, np.int32), None, None, attention, None, None, None, success]
    step = Step(*parts)
    return Episode(0, step, None)


def by_chunk(weigh: Any, layers: int = 2, slots: int = 8, layout: Layout = CHUNK) -> Episode:
    """An episode with the weights `weigh(layer, step, numbers)` of the chunks that can be recalled, oldest first."""
    relevance_lm = np.zeros((layers, STEPS, slots), np.float32)
    for t in range(STEPS):
        done = max(0, (t - layout.chunk) // layout.stride + 1)
        numbers = list(range(max(0, done - slots), done))
        for layer in range(layers):
            weights = np.array(weigh(layer, t, numbers), float)
            relevance_lm[layer, t, : len(numbers)] = (weights / weights.sum() if len(numbers) else weights)[::-1]
    none: Any = None
    return episode(Attention(none, none, none, none, tuple(relevance_lm)))


def only(wanted: int) -> Any:
    return lambda layer, t, numbers: [float(number == wanted or wanted not in numbers) for number in numbers]


def test_all_weight_on_the_right_chunk_is_the_number_of_chunks():
    found = sample(by_chunk(only(2)), asked_for(2), CHUNK)
    assert found is not None
    assert found.solved
    assert found.asked_l.tolist() == pytest.approx([6, 6])
    assert found.other_l.tolist() == [0, 0]


def test_all_alike_is_one_in_every_layer_and_at_every_step():
    found = sample(by_chunk(lambda layer, t, numbers: [1.0] * len(numbers)), asked_for(2), CHUNK)
    assert found is not None
    for part in (found.asked_l, found.other_l, found.asked_first_l, found.other_first_l):
        np.testing.assert_allclose(part, 1, atol=1e-6)
    known = ~np.isnan(found.profile_ln)
    np.testing.assert_allclose(found.profile_ln[known], 1, atol=1e-6)
    assert CHUNK.offsets[known[0]].tolist() == list(range(-8, 24 - 8))  # the steps of six chunks
    assert np.isnan(found.earlier_l).all()


def slow(one: Episode, events: list[Event], layout: Layout) -> list[list[tuple[float, float]]]:
    """By question step and layer: relative attention to what matters and to the rest, from numbers of chunks."""
    attention, found = one.steps_t.attention, []
    matters = {s for event in events if event.matters for s in range(event.begin, event.end)}
    alike = [e for e in events if not e.matters and e.kind in {m.kind for m in events if m.matters}]
    rest = {s for event in alike for s in range(event.begin, event.end)} or set(range(STEPS)) - matters
    for t in range(QUESTION, STEPS):
        line = []
        for layer in range(2):
            weight = {}  # by the steps that a piece holds
            if attention.relevance_m is not None:
                numbers = [n for n in range(STEPS) if n * layout.stride + layout.chunk <= t]
                for age, number in enumerate(numbers[::-1][: attention.relevance_m[layer].shape[1]]):
                    begin = number * layout.stride
                    weight[tuple(range(begin, begin + layout.chunk))] = float(attention.relevance_m[layer][t, age])
            else:
                assert attention.window_w is not None
                for age in range(min(t + 1, attention.window_w[layer].shape[1])):
                    weight[t - age,] = float(attention.window_w[layer][t, age])
            average = sum(weight.values()) / len(weight)
            relative = {}
            for step in range(STEPS):
                holding = [w / average for held, w in weight.items() if step in held]
                if holding:
                    relative[step] = sum(holding) / len(holding)
            beside = {s for held in weight if set(held) & matters for s in held}
            parts = [[relative[s] for s in some if s in relative] for some in (matters, rest - beside)]
            line.append((np.mean(parts[0]), np.mean(parts[1])))
        found.append(line)
    return found  # type: ignore[return-value]


RANDOM = np.random.default_rng(0)
LAYOUTS = {"plain": (CHUNK, 8), "overlapping": (Layout(4, 3), 9), "forgetful": (CHUNK, 5)}


@pytest.mark.parametrize("name", [*LAYOUTS, "window", "no others"])
def test_it_is_what_a_slow_computation_says(name):
    events = [event._replace(begin=event.begin + 2, end=event.end + 3) for event in asked_for(3)]
    events.append(Event(0, 1, "something else", kind="other"))
    layout, slots = LAYOUTS.get(name, (CHUNK, 8))
    one = by_chunk(lambda layer, t, numbers: RANDOM.random(len(numbers)), slots=slots, layout=layout)
    if name == "window":
        layout, weights = Layout(1, 1), RANDOM.random((2, STEPS, 20)).astype(np.float32)
        weights *= np.arange(20)[None, None] <= np.arange(STEPS)[None, :, None]
        none: Any = None
        one = episode(Attention(tuple(weights / weights.sum(-1, keepdims=True)), *[none] * 4))
    if name == "no others":
        events = [event for event in events if event.matters or event.kind]
    found, expected = sample(one, events, layout), np.array(slow(one, events, layout))
    assert found is not None
    np.testing.assert_allclose([found.asked_l, found.other_l], expected.mean(0).T, rtol=1e-5)
    np.testing.assert_allclose([found.asked_first_l, found.other_first_l], expected[0].T, rtol=1e-5)
    assert found.alike == (name != "no others")
    assert found.steps == 4


def test_what_shares_a_chunk_with_the_moment_is_nothing_to_compare_it_with():
    """The dance beside it is in the same chunk; the only other one is elsewhere."""
    events = [Event(8, 10, "a", True, asked=((QUESTION, STEPS),)), Event(10, 12, "b"), Event(16, 20, "c")]
    found = sample(by_chunk(lambda layer, t, numbers: [3.0 * (n == 2) + 1 for n in numbers]), events, CHUNK)
    assert found is not None
    assert found.asked_l / found.other_l == pytest.approx([4, 4])


def test_where_all_others_are_in_the_same_chunk_it_is_compared_with_all_else():
    events = [Event(8, 10, "a", True, asked=((QUESTION, STEPS),)), Event(10, 12, "b")]
    found = sample(by_chunk(lambda layer, t, numbers: [5.0 * (n == 2) + 1 for n in numbers]), events, CHUNK)
    assert found is not None
    assert not found.alike
    assert found.asked_l / found.other_l == pytest.approx([6, 6])


def test_steps_without_anything_else_in_reach_do_not_count():
    """At step 26 the only chunk that is whole is the right one; a second one is whole at step 27."""
    wide = Layout(chunk=13, stride=14)
    events = [Event(0, 3, "a", True, asked=((26, 28),)), Event(15, 18, "b")]
    one = by_chunk(lambda layer, t, numbers: [1.0 + 4 * (n == 0) for n in numbers], layout=wide)
    found = sample(one, events, wide)
    assert found is not None
    assert found.asked_l == pytest.approx([5 / 3] * 2)
    assert found.other_l == pytest.approx([1 / 3] * 2)
    assert np.isnan(found.asked_first_l).all()
    alone = sample(one, events[:1], Layout(26, 26))
    assert alone is not None
    assert alone.asked_l == pytest.approx([1, 1])


def test_what_is_forgotten_or_not_in_a_chunk_yet_is_left_out():
    few = by_chunk(only(5), slots=3)
    assert sample(few, asked_for(1), CHUNK) is None
    late = [*DANCES, Event(25, 26, "just now", True, asked=((QUESTION, STEPS),))]
    assert sample(by_chunk(only(5)), late, CHUNK) is None
    assert sample(by_chunk(only(2)), DANCES, CHUNK) is None  # nothing is asked for


def test_the_same_moment_while_something_else_was_asked_for():
    """As in the paper: the first lesson in the last test, against the last test before that about another lesson."""
    events = [
        Event(0, 3, "one", True, asked=((QUESTION, STEPS),)),
        Event(1, 2, "beside", asked=((24, 26),)),  # in the same chunk: no control
        Event(8, 11, "two", asked=((14, 16), (20, 22))),
        Event(12, 15, "three", kind="other", asked=((16, 18),)),
    ]
    assert asked_before(events, (QUESTION, STEPS), CHUNK) == (20, 22)
    found = sample(
        by_chunk(lambda layer, t, n: [(5.0 if t >= QUESTION else 2.0) * (m == 0) + 1 for m in n]), events, CHUNK
    )
    assert found is not None
    assert found.asked_l == pytest.approx([6 / (11 / 6)] * 2)
    assert found.earlier_l == pytest.approx([3 / (7 / 5)] * 2)  # five chunks are whole at 20 and 21
    assert asked_before(asked_for(2), (QUESTION, STEPS), CHUNK) is None


def test_chunks_of_an_event():
    overlapping = Layout(4, 3)
    for begin in range(8):
        event = Event(begin, begin + 3, "e")
        for layout in (CHUNK, overlapping):
            holding = {
                n for n in range(9) if set(range(begin, begin + 3)) & {*range(n * layout.stride, n * layout.stride + 4)}
            }
            assert chunks_of(event, layout) == holding


def test_a_profile_has_eight_points_in_a_chunk():
    assert Layout(32, 32).offsets.tolist() == list(range(-160, 161, 4))
    assert Layout(1, 1).offsets.tolist() == list(range(-160, 161))


def test_pieces_are_oldest_first():
    one = by_chunk(lambda layer, t, numbers: [n + 1.0 for n in numbers])
    begins, (first, _) = pieces(one.steps_t.attention, 13, CHUNK)
    assert begins == [0, 4, 8]
    assert first == pytest.approx([0.5, 1, 1.5])
    assert pieces(one.steps_t.attention, 3, CHUNK)[0] == []
