"""A recorded episode prepared for the eye: its frames and events, what was recalled at each step, where to open it.

Pages (`page.py`) and films (`strip.py`) are made from this alone, so that both show the same.
"""

from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from hcam.envs.environment import Environment, Event
from hcam.runs.recording import Attention, Episode, Step
from hcam.viewer.frames import Frame, frame_of, matters

Floats = NDArray[np.float32]
Numbers = NDArray[np.int32]


class Chunks(NamedTuple):
    """What a memory of chunks recalled at each step and layer. Chunk n holds steps [n stride, n stride + C)."""

    number_tlk: Numbers  # of the recalled chunks, best first; -1: nothing to recall
    weight_tlk: Floats
    within_tlkc: Floats
    relevance_tln: Floats  # of each of the episode's N chunks, before the top k; 0: not there to be recalled
    stride: int
    window: int  # steps of the present that the memory sees anyway; 0: not known

    @property
    def length(self) -> int:
        return int(self.within_tlkc.shape[-1])

    def span(self, number: int) -> tuple[int, int]:
        """The steps of a chunk: its first, and one past its last."""
        return number * self.stride, number * self.stride + self.length


class Window(NamedTuple):
    """What a memory of single steps attended to, by age: age 0 is the step itself."""

    weight_tlw: Floats


class Playback(NamedTuple):
    frames: list[Frame]  # T + 1
    steps_t: Step
    recall: Chunks | Window | None
    events: list[Event]
    question: int | None  # the step from which on what matters is asked for
    opening: int  # the step that a page opens at
    layer: int  # the layer that is shown first

    @property
    def length(self) -> int:
        return len(self.steps_t.action)

    @property
    def success(self) -> bool:
        return bool(self.steps_t.success[-1])


def prepare(env: Environment, episode: Episode, stride: int | None = None) -> Playback:
    """`stride`: the new steps of each chunk, from the memory's settings; None: chunks do not overlap."""
    if episode.moments_t is None:
        raise ValueError("this episode was recorded without what the environment showed: record it with its moments.")
    steps_t = episode.steps_t
    states = [jax.tree.map(lambda leaf, t=t: leaf[t], episode.moments_t.state) for t in range(episode.length + 1)]
    frames = list(_frames(env, episode, states))
    recall = recall_of(steps_t.attention, stride)
    known = matters(env, states[-1]) if env.is_saved else None  # an agent may decide when it is asked
    events = env.events(states) if env.is_saved else []
    question = None if known is None else min(max(int(known.question), 0), episode.length - 1)
    opening = question if question is not None else _turning_point(frames, steps_t)
    layer = _best_layer(recall, events, opening)
    return Playback(frames, steps_t, recall, events, question, opening, layer)


def _frames(env: Environment, episode: Episode, states: list[Any]) -> Any:
    assert episode.moments_t is not None
    reward_t = np.concatenate([[0.0], np.cumsum(episode.steps_t.reward)])
    for t in range(episode.length + 1):
        seen = jax.tree.map(lambda leaf, t=t: leaf[t], episode.moments_t.observation)
        over = t == episode.length
        ending = ("done" if episode.steps_t.terminated[-1] else "time is up") if over else ""
        yield frame_of(env, seen, states[: t + 1], float(reward_t[t]), ending)


def recall_of(attention: Attention, stride: int | None) -> Chunks | Window | None:
    """The attention of an episode's T steps, with the layers in an axis of their own; None: nothing was reported."""
    if attention.chunk_k is not None and attention.within_kc is not None and attention.relevance_k is not None:
        number_tlk, weight_tlk, within_tlkc = (
            np.stack(layers, 1) for layers in (attention.chunk_k, attention.relevance_k, attention.within_kc)
        )
        stride = within_tlkc.shape[-1] if stride is None else stride
        newest_first = None if attention.relevance_m is None else np.stack(attention.relevance_m, 1)
        relevance_tln = by_number(number_tlk, weight_tlk, newest_first, within_tlkc.shape[-1], stride)
        window = 0 if attention.window_w is None else attention.window_w[0].shape[-1]
        return Chunks(number_tlk, weight_tlk, within_tlkc, relevance_tln, stride, window)
    if attention.window_w is not None:
        return Window(np.stack(attention.window_w, 1))
    return None


def by_number(number_tlk: Numbers, weight_tlk: Floats, newest_tlm: Floats | None, chunk: int, stride: int) -> Floats:
    """The relevance of each chunk of an episode, [T, L, N], from relevance by age; without it, of those recalled.

    At step t of an episode, chunk n can be recalled if it was complete before: n stride + chunk <= t.
    """
    steps, layers, _ = number_tlk.shape
    count = max(0, (steps - chunk) // stride + 1)
    found_tln = np.zeros((steps, layers, count), np.float32)
    for t in range(chunk, steps):
        newest = (t - chunk) // stride
        if newest_tlm is None:
            for layer in range(layers):
                there = number_tlk[t, layer] >= 0
                found_tln[t, layer, number_tlk[t, layer][there]] = weight_tlk[t, layer][there]
        else:
            shown = min(newest + 1, newest_tlm.shape[-1])
            found_tln[t, :, newest - shown + 1 : newest + 1] = newest_tlm[t, :, :shown][:, ::-1]
    return found_tln


def _turning_point(frames: list[Frame], steps_t: Step) -> int:
    """Where a page opens if nobody says what matters: at the last new instruction, else the last reward or step."""
    new = [t for t in range(1, len(steps_t.action)) if frames[t].text != frames[t - 1].text]
    rewarded = np.flatnonzero(steps_t.reward > 0)
    return new[-1] if new else int(rewarded[-1]) if len(rewarded) else len(steps_t.action) - 1


def layers(recall: Chunks | Window | None) -> int:
    """How many layers said what they recalled."""
    if recall is None:
        return 0
    return int((recall.relevance_tln if isinstance(recall, Chunks) else recall.weight_tlw).shape[1])


def share(recall: Chunks | Window, events: list[Event], step: int) -> Floats:
    """The part of each layer's attention at a step that goes to the steps that matter, [L]."""
    if isinstance(recall, Window):
        seen_w = step - np.arange(recall.weight_tlw.shape[-1])
        return np.asarray((recall.weight_tlw[step] * _among(seen_w, events)).sum(-1))
    seen_lkc = recall.number_tlk[step][..., None] * recall.stride + np.arange(recall.length)
    weight_lkc = recall.weight_tlk[step][..., None] * recall.within_tlkc[step]  # 0 where there is no chunk
    return np.asarray((weight_lkc * _among(seen_lkc, events)).sum((-2, -1)))


def most_attended(playback: Playback, step: int, layer: int, count: int) -> list[tuple[int, float]]:
    """The steps that a memory of single steps attends to most, with their weights."""
    if not isinstance(playback.recall, Window):
        return []
    weight_w = playback.recall.weight_tlw[step, layer, : step + 1]
    ages = np.argsort(-weight_w, kind="stable")[:count].tolist()
    return [(step - age, float(weight_w[age])) for age in ages]


def event_in(events: list[Event], begin: int, end: int) -> Event | None:
    """The event that has most of its steps between two others, if any has."""
    common = [min(end, event.end) - max(begin, event.begin) for event in events]
    return events[int(np.argmax(common))] if common and max(common) > 0 else None


def _among(steps: NDArray[Any], events: list[Event]) -> NDArray[np.bool_]:
    """Which of these steps belong to an event that matters."""
    inside = np.zeros(steps.shape, bool)
    for event in events:
        if event.matters:
            inside |= (event.begin <= steps) & (steps < event.end)
    return inside


def _best_layer(recall: Chunks | Window | None, events: list[Event], step: int) -> int:
    """The layer that gives most of its recall at a step to what matters; if nobody says what does, the last one."""
    if recall is None:
        return 0
    found_l = share(recall, events, step)
    return int(found_l.argmax()) if found_l.any() else len(found_l) - 1
