"""Relative attention in one episode: to what is asked for, and to what could have been asked for instead.

The *relative attention* to a chunk is its relevance before the top k, divided by the mean over all chunks that could be
recalled then: 1 if all were alike. Where a memory attends to single past steps, a step takes the place of a chunk. A
step of the episode has the relative attention of the chunk that it is in, and a moment the mean over its steps.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hcam.envs.environment import Event
from hcam.runs.recording import Attention, Episode

AROUND, POINTS = 160, 8  # steps around the first one of what is asked for that a profile has, and points in a chunk

Numbers = NDArray[np.float64]
Mask = NDArray[np.bool_]


class Layout(NamedTuple):
    """Which steps a memory recalls together. Chunk n holds the steps from n * stride on."""

    chunk: int
    stride: int

    @property
    def offsets(self) -> NDArray[np.int64]:
        """The points of a profile, in steps from the first one of what is asked for."""
        apart = max(1, self.chunk // POINTS)
        return np.arange(-(AROUND // apart), AROUND // apart + 1) * apart


class Sample(NamedTuple):
    """What one episode says: relative attention by layer, NaN where there was nothing to attend to."""

    solved: bool
    asked_l: Numbers  # to what is asked for, the mean over the steps in which it is and something else is in reach
    other_l: Numbers  # to what else could have been, in the same steps
    asked_first_l: Numbers  # the same at the first of these steps
    other_first_l: Numbers
    earlier_l: Numbers  # to the same moment while something else was asked for
    profile_ln: Numbers  # by the distance from the moment's first step
    steps: int  # that the moment takes
    alike: bool  # whether others of its kind were in other chunks; if not, all other chunks are compared with


def asked_at_last(events: Sequence[Event]) -> list[tuple[int, int]]:
    """The last steps in which what matters is asked for; nothing where it never was."""
    return sorted(span for event in events if event.matters for span in event.asked)[-1:]


def sample(episode: Episode, events: Sequence[Event], layout: Layout) -> Sample | None:
    """What an episode says; None where nothing was asked for, or it was not in memory any more, or not yet."""
    spans, kinds = asked_at_last(events), {event.kind for event in events if event.matters}
    if not spans:
        return None
    alike = [event for event in events if not event.matters and event.kind in kinds]
    relevant_t, alike_t = (steps_of(some, episode.length) for some in ([e for e in events if e.matters], alike))
    asked_tl, other_tl, step_tls = _while(episode, spans[0], layout, relevant_t, alike_t)
    if np.isnan(asked_tl).all():
        return None
    comparable = not np.isnan(other_tl).all()
    if not comparable:
        _, other_tl, _ = _while(episode, spans[0], layout, relevant_t, ~relevant_t)
    both_tl = ~np.isnan(asked_tl) & ~np.isnan(other_tl)
    if both_tl.any():  # while there is nothing else to attend to, the attention to what is asked for says nothing
        asked_tl, other_tl = np.where(both_tl, asked_tl, np.nan), np.where(both_tl, other_tl, np.nan)
    at_first = int(np.argmax(relevant_t)) + layout.offsets
    inside_n = (at_first >= 0) & (at_first < episode.length)
    profile_ln = np.full((step_tls.shape[1], len(at_first)), np.nan)
    profile_ln[:, inside_n] = mean(step_tls, 0)[:, at_first[inside_n]]
    earlier_l = np.full(len(asked_tl[0]), np.nan)
    if before := asked_before(events, spans[0], layout):
        earlier_l = mean(_while(episode, before, layout, relevant_t, alike_t)[0], 0)
    return Sample(
        bool(episode.steps_t.success[-1]),
        mean(asked_tl, 0),
        mean(other_tl, 0),
        asked_tl[0],
        other_tl[0],
        earlier_l,
        profile_ln,
        int(relevant_t.sum()),
        comparable,
    )


def asked_before(events: Sequence[Event], last: tuple[int, int], layout: Layout) -> tuple[int, int] | None:
    """The last steps before `last` that asked for something in other chunks, after what matters had happened."""
    matters = [event for event in events if event.matters]
    own = {number for event in matters for number in chunks_of(event, layout)}
    found = [
        span
        for event in events
        if not event.matters and not own & chunks_of(event, layout)
        for span in event.asked
        if max(one.end for one in matters) <= span[0] and span[1] <= last[0]
    ]
    return max(found, default=None)


def chunks_of(event: Event, layout: Layout) -> set[int]:
    """The numbers of the chunks that hold any step of an event."""
    first = max(0, -(-(event.begin - layout.chunk + 1) // layout.stride))
    return set(range(first, (event.end - 1) // layout.stride + 1))


def steps_of(events: Sequence[Event], length: int) -> Mask:
    step_t = np.zeros(length, bool)
    for event in events:
        step_t[event.begin : event.end] = True
    return step_t


def _while(
    episode: Episode, span: tuple[int, int], layout: Layout, relevant_t: Mask, other_t: Mask
) -> tuple[Numbers, Numbers, Numbers]:
    """`_at` all steps of a span, with an axis for them in front."""
    asked_tl, other_tl, step_tls = zip(
        *(_at(episode, t, layout, relevant_t, other_t) for t in range(*span)), strict=True
    )
    return np.stack(asked_tl), np.stack(other_tl), np.stack(step_tls)


def _at(episode: Episode, t: int, layout: Layout, relevant_t: Mask, other_t: Mask) -> tuple[Numbers, Numbers, Numbers]:
    """Relative attention at one step, by layer: to what matters, to the rest outside its chunks, and to each step."""
    relative_ls, beside_s = by_step(episode.steps_t.attention, t, layout, relevant_t)
    return mean(relative_ls[:, relevant_t], 1), mean(relative_ls[:, other_t & ~beside_s], 1), relative_ls


def by_step(attention: Attention, t: int, layout: Layout, relevant_t: Mask) -> tuple[Numbers, Mask]:
    """The relative attention at step t to each step of the episode, NaN where that is out of reach: [L, T].

    Also returns which steps are in a chunk with one that is relevant.
    """
    length = len(relevant_t)
    begins, weights_l = pieces(attention, t, layout)
    total_ls, count_s, beside_s = np.zeros((len(weights_l), length)), np.zeros(length), np.zeros(length, bool)
    for begin, weight_l in zip(begins, np.stack(weights_l, axis=-1), strict=True):
        held = slice(begin, begin + layout.chunk)
        total_ls[:, held] += weight_l[:, None]
        count_s[held] += 1
        beside_s[held] |= relevant_t[held].any()
    return np.where(count_s > 0, total_ls / np.maximum(count_s, 1), np.nan), beside_s


def pieces(attention: Attention, t: int, layout: Layout) -> tuple[list[int], list[Numbers]]:
    """Where each chunk begins that can be recalled at step t, oldest first, and their relative attention by layer."""
    if attention.relevance_m is not None:
        slots = attention.relevance_m[0].shape[-1]
        done = max(0, (t - layout.chunk) // layout.stride + 1)
        begins = [number * layout.stride for number in range(max(0, done - slots), done)]
        newest_first = [np.asarray(layer_tm[t], float) for layer_tm in attention.relevance_m]
    else:
        assert attention.window_w is not None
        begins = list(range(max(0, t + 1 - attention.window_w[0].shape[-1]), t + 1))
        newest_first = [np.asarray(layer_tw[t], float) for layer_tw in attention.window_w]
    weights_l = [layer[: len(begins)][::-1] for layer in newest_first]
    return begins, [weights / weights.mean() if len(weights) else weights for weights in weights_l]


def mean(values: Numbers, axis: int) -> Numbers:
    """The mean of what is not NaN; NaN where nothing is."""
    known = ~np.isnan(values)
    count = known.sum(axis)
    return np.where(count > 0, np.where(known, values, 0).sum(axis) / np.maximum(count, 1), np.nan)
