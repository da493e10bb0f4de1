"""The episodes of rapid word learning: which words mean what, which of them are asked for, and who stands where.

A super-episode is E lessons (axis E), each a learning phase, D distractor phases and a test. Objects with invented
names (axis W) are numbered through all lessons, three in each. What a phase looks like follows from the episode's seed
and the phase's number, so that nothing about later phases is drawn before they begin.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hcam.envs.body import RATE, Body
from hcam.envs.render.things import THINGS
from hcam.envs.tasks.words.levels import (
    DISTRACTORS,
    MAX_EPISODES,
    MAX_WORDS,
    OBJECTS,
    POOL,
    WORDS,
    Level,
    LevelParams,
    Rules,
)
from hcam.envs.values import is_whole

LEARNING, DISTRACTOR, TEST = range(3)  # kinds of phases
CENTERS = np.array([(x, y) for y in (-1, 0, 1) for x in (-1, 0, 1)], np.float32)  # of places, in units of the spacing
NORTH = CENTERS[:, 1] > 0
WATCHING = np.array([0, -0.5], np.float32)  # where an agent stands that looks north at all three places there
SEEDS = 2**32


class Episode(NamedTuple):
    """What is drawn once per episode."""

    thing_w: jax.Array  # int32, what an object is
    word_w: jax.Array  # int32, its invented name; those of lessons beyond the last are never met
    target_e: jax.Array  # int32, the object that a lesson's test asks for, 0 to 2
    seed: jax.Array  # uint32, of all placements
    rules: Rules


class Layout(NamedTuple):
    """How a phase begins."""

    body: Body
    place_o2: jax.Array  # float32, x and y of the objects
    yaw_o: jax.Array  # float32
    asked: jax.Array  # int32, the object that is asked for, 0 to 2


# Phases ---------------------------------------------------------------------------------------------------------------


def kind_of(rules: Rules, phase: jax.Array) -> jax.Array:
    """LEARNING, DISTRACTOR or TEST, by a phase's number."""
    within = phase % (rules.distractors + 2)
    return jnp.where(within == 0, LEARNING, jnp.where(within == rules.distractors + 1, TEST, DISTRACTOR))


def is_final(rules: Rules, phase: jax.Array) -> jax.Array:
    return phase == rules.episodes * (rules.distractors + 2) - 1


def lesson_of(rules: Rules, phase: jax.Array) -> jax.Array:
    """The lesson whose objects are in the room: the final test goes back to the first."""
    return jnp.where(is_final(rules, phase), 0, phase // (rules.distractors + 2))


def things_in(episode: Episode, phase: jax.Array) -> jax.Array:
    """What stands in the room in a phase, numbers in THINGS: int32 [O]."""
    fixed_o = jnp.asarray([THINGS.index(thing) for thing in DISTRACTORS], jnp.int32)
    return jnp.where(kind_of(episode.rules, phase) == DISTRACTOR, fixed_o, _of_lesson(episode, phase, episode.thing_w))


def words_for(episode: Episode, phase: jax.Array) -> jax.Array:
    """What the objects of a phase's lesson are called, numbers in WORDS: int32 [O]."""
    return _of_lesson(episode, phase, episode.word_w)


def _of_lesson(episode: Episode, phase: jax.Array, value_w: jax.Array) -> jax.Array:
    value_eo = value_w.reshape(MAX_EPISODES, OBJECTS)
    return value_eo[lesson_of(episode.rules, phase)]


# Drawing --------------------------------------------------------------------------------------------------------------


def draw(key: jax.Array, level: LevelParams) -> Episode:
    """Objects and words without replacement, paired at random; a target for each test; a seed for the rest."""
    sizes = (1, MAX_EPISODES, len(THINGS), len(WORDS))
    bits = jax.random.bits(key, (sum(sizes),))
    seed, target_e, thing_x, word_v = jnp.split(bits, np.cumsum(sizes)[:-1])
    return Episode(
        with_rank(ranks(thing_x, level.pool_x), MAX_WORDS),
        with_rank(ranks(word_v, level.word_v), MAX_WORDS),
        below(target_e, OBJECTS),
        seed[0],
        level.rules,
    )


def arrange(episode: Episode, phase: jax.Array) -> Layout:
    """The room at the beginning of a phase: agent and objects in four of nine places, none in the same."""
    rules, count = episode.rules, OBJECTS + 1
    sizes = (len(CENTERS), 2 * count, OBJECTS, 1, 1)
    bits = jax.random.bits(jax.random.fold_in(jax.random.key(episode.seed), phase), (sum(sizes),))
    cell_c, aside, yaw_o, heading, asked = jnp.split(bits, np.cumsum(sizes)[:-1])
    cell_n = with_rank(ranks(cell_c, ~rules.ahead | jnp.asarray(NORTH)), count)
    center_n2 = jnp.asarray(CENTERS)[cell_n]
    center_n2 = jnp.concatenate([center_n2[:-1], jnp.where(rules.ahead, WATCHING, center_n2[-1])[None]])
    place_n2 = rules.spacing * center_n2 + rules.jitter * (2 * uniform(aside) - 1).reshape(count, 2)
    body = Body(place_n2[-1], jnp.where(rules.ahead, 0, (heading[0] >> 28).astype(jnp.int32)))
    yaw_o = jnp.where(rules.turned, 2 * jnp.pi * uniform(yaw_o), jnp.pi)
    target = episode.target_e[phase // (rules.distractors + 2)]
    asked_for = jnp.where(kind_of(rules, phase) == TEST, target, below(asked, OBJECTS)[0])
    return Layout(body, place_n2[:-1], yaw_o, asked_for)


def uniform(bits_n: jax.Array) -> jax.Array:
    """Numbers from 0 to 1, 1 excluded."""
    return (bits_n >> 8).astype(jnp.float32) * 2.0**-24


def below(bits_n: jax.Array, count: int) -> jax.Array:
    return (bits_n >> 8).astype(jnp.int32) % count


def ranks(bits_n: jax.Array, allowed: jax.Array | None = None) -> jax.Array:
    """A random permutation: the rank of each number among all, what is not allowed last.

    Counting, not sorting: XLA sorts slowly, and this is computed at every step in case an episode or a phase ends. The
    lowest bits are the index, so that no two are equal.
    """
    number_n = (bits_n >> 8 << 7) | jnp.arange(bits_n.size, dtype=jnp.uint32)
    if allowed is not None:
        number_n = jnp.where(allowed, number_n, number_n | jnp.uint32(1 << 31))
    return (number_n[None, :] < number_n[:, None]).sum(axis=1, dtype=jnp.int32)


def with_rank(rank_n: jax.Array, count: int) -> jax.Array:
    """The indices that have the first ranks, int32 [count]."""
    index_kn = jnp.where(rank_n[None, :] == jnp.arange(count)[:, None], jnp.arange(rank_n.size)[None, :], 0)
    return index_kn.sum(axis=1, dtype=jnp.int32)


# Episodes in words ----------------------------------------------------------------------------------------------------

_NEEDED = ("lessons", "targets", "distractors", "seed")
_TIMES, _SIZES, _FLAGS = (
    ("limit", "phase_limit", "pause"),
    ("spacing", "jitter", "guide", "near", "size"),
    ("ahead", "turned"),
)
_OPTIONAL = (*_TIMES, "room", *_SIZES, *_FLAGS)


def from_description(description: Mapping[str, Any]) -> Episode:
    """The episode of `{"lessons": [[{"thing": "duck", "word": "dax"}, ...], ...], "targets": [i, ...], ...}`.

    A lesson has three objects; its target is one of them by number, the last target one of the first lesson's objects.
    `seed` decides where everything stands. `distractors` and all others are those of `Level`, and the published ones
    where they are left out.
    """
    _fields("an episode", description, _NEEDED, _OPTIONAL)
    lessons, targets, seed = (description[name] for name in ("lessons", "targets", "seed"))
    if not _is_list(lessons) or not 1 <= len(lessons) <= MAX_EPISODES or any(map(_is_no_lesson, lessons)):
        raise ValueError(f"lessons must be 1 to {MAX_EPISODES} lists of {OBJECTS} objects each, with thing and word.")
    if not _is_list(targets) or len(targets) != len(lessons) or not all(is_whole(t, 0, OBJECTS - 1) for t in targets):
        raise ValueError(
            f"targets must be {len(lessons)} numbers of objects, 0 to {OBJECTS - 1}, a lesson each, but are {targets}."
        )
    if not is_whole(seed, 0, SEEDS - 1):
        raise ValueError(f"seed must be a whole number from 0 to {SEEDS - 1:,}, but is {seed!r}.")
    own = {name: description[name] for name in ("distractors", *_OPTIONAL) if name in description}
    taught = [taught for lesson in lessons for taught in lesson]
    return Episode(
        _numbers("thing", taught, POOL, THINGS),
        _numbers("word", taught, WORDS, WORDS),
        jnp.array([*targets, *[0] * (MAX_EPISODES - len(targets))], jnp.int32),
        jnp.uint32(seed),
        Level(episodes=len(lessons), **own).rules(),
    )


def to_description(episode: Episode) -> dict[str, Any]:
    """What `from_description` takes, for an episode of NumPy arrays."""
    rules, count = episode.rules, int(episode.rules.episodes)
    pairs = zip(episode.thing_w, episode.word_w, strict=True)
    taught = [{"thing": THINGS[thing], "word": WORDS[word]} for thing, word in pairs]
    return {
        "lessons": [taught[OBJECTS * n : OBJECTS * (n + 1)] for n in range(count)],
        "targets": [int(target) for target in episode.target_e[:count]],
        "distractors": int(rules.distractors),
        "seed": int(episode.seed),
        **{name: int(getattr(rules, name)) / RATE for name in _TIMES},
        "room": 2 * _shortest(rules.half),
        **{name: _shortest(getattr(rules, name)) for name in _SIZES},
        **{name: bool(getattr(rules, name)) for name in _FLAGS},
    }


def _shortest(value: Any) -> float:
    """The number with the fewest digits that is this float32: 0.4, and not 0.4000000059604645."""
    return float(str(np.float32(value)))


def _numbers(what: str, taught: Sequence[Any], known: tuple[str, ...], every: tuple[str, ...]) -> jax.Array:
    """The numbers of all lessons' things or words, filled up with 0 to MAX_WORDS."""
    names = [one[what] for one in taught]
    if not set(names) <= set(known) or len(set(names)) < len(names):
        raise ValueError(f"every object needs a {what} of its own, of {', '.join(known)}, but they have {names}.")
    return jnp.array([every.index(name) for name in names] + [0] * (MAX_WORDS - len(names)), jnp.int32)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _is_no_lesson(lesson: Any) -> bool:
    fits = _is_list(lesson) and len(lesson) == OBJECTS
    return not fits or any(not isinstance(one, Mapping) or set(one) != {"thing", "word"} for one in lesson)


def _fields(what: str, given: Any, needed: tuple[str, ...], optional: tuple[str, ...] = ()) -> None:
    if not isinstance(given, Mapping) or not set(needed) <= set(given) <= {*needed, *optional}:
        found = ", ".join(map(str, given)) if isinstance(given, Mapping) else repr(given)
        also = f" and may have {', '.join(optional)}" if optional else ""
        raise ValueError(f"{what} is described by {', '.join(needed)}{also}, but was given {found}.")
