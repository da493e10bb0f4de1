"""What happens in an episode of rapid word learning: names are heard, distractors are lifted, and names are asked for.

A name that is heard in several frames in a row is one event. It is asked for in the tests of its own lesson's word.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hcam.envs.environment import Event
from hcam.envs.render.things import THINGS
from hcam.envs.tasks.words import room
from hcam.envs.tasks.words.episodes import DISTRACTOR, LEARNING, TEST, is_final, kind_of, lesson_of
from hcam.envs.tasks.words.levels import DISTRACTORS, OBJECTS, WORDS

PADDED = 128  # frames: `_read` is compiled for multiples of it


class Frame(NamedTuple):
    """What a frame is about."""

    phase: Any
    kind: Any  # LEARNING, DISTRACTOR or TEST
    final: Any  # bool
    taught: Any  # the number of an object among all that are taught: heard in a learning phase, asked for in a test
    asked: Any  # the object that is asked for in a distractor phase


def events(states: Sequence[Any]) -> list[Event]:
    """All but the last state are of frames in which the agent acted."""
    frames, episode = _frames(states[:-1] or states), states[0].episode
    phases = _spans(frames, lambda one: int(one.phase))
    tests = [(begin, end, frames[begin]) for begin, end in phases if frames[begin].kind == TEST]
    final = [int(one.taught) for _, _, one in tests if one.final]
    found = []
    for begin, end in _spans(frames, lambda one: int(one.taught) if one.kind == LEARNING else -1):
        if frames[begin].kind == LEARNING and frames[begin].taught >= 0:
            taught = int(frames[begin].taught)
            name = f"the {THINGS[episode.thing_w[taught]]} is called a {WORDS[episode.word_w[taught]]}"
            asked = tuple((start, stop) for start, stop, one in tests if one.taught == taught)
            found.append(Event(begin, end, name, taught in final, "name", asked))
    for begin, end in phases:
        if frames[begin].kind == DISTRACTOR:
            found.append(Event(begin, end, f"lift the {DISTRACTORS[frames[begin].asked]}", kind="distractor"))
    for begin, end, one in tests:
        found.append(Event(begin, end, f"pick up a {WORDS[episode.word_w[one.taught]]}", kind="test"))
    return sorted(found)


def _spans(frames: Sequence[Frame], key: Any) -> list[tuple[int, int]]:
    """The first frame and one past the last of each row of frames that have the same key."""
    rows = [list(row) for _, row in groupby(range(len(frames)), key=lambda t: key(frames[t]))]
    return [(row[0], row[-1] + 1) for row in rows]


def _frames(states: Sequence[Any]) -> list[Frame]:
    whole = [*states, *[states[-1]] * (-len(states) % PADDED)]
    read_t = jax.device_get(_read(jax.tree.map(lambda *leaves: np.stack(leaves), *whole)))
    return [Frame(*row) for row in zip(*(leaf_t[: len(states)] for leaf_t in read_t), strict=True)]


@jax.jit
@jax.vmap
def _read(state: Any) -> Frame:
    rules = state.episode.rules
    kind, lesson = kind_of(rules, state.phase), lesson_of(rules, state.phase)
    front = room.in_front(state.body, state.place_o2, rules.near)
    heard = jnp.where(front == room.NOTHING, -1, lesson * OBJECTS + front)
    taught = jnp.where(kind == LEARNING, heard, lesson * OBJECTS + state.asked)
    return Frame(state.phase, kind, is_final(rules, state.phase), taught, state.asked)
