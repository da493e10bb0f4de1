"""Rapid word learning: three objects have invented names; later, after distractors, one is asked for by its name.

An episode is a sequence of phases. In a *learning* phase the agent hears the name of the object that it stands before.
In a *distractor* phase it must lift one of three objects whose names never change, and in a *test* one of the three
whose names it has heard. A super-episode has several learning phases and tests; its last test is about the first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from hcam.envs.body import ACTIONS, LIFT, STAY, Body, move
from hcam.envs.environment import Environment, Event, Info, Moments
from hcam.envs.render.things import THINGS
from hcam.envs.spaces import Box, Discrete, Space, Tokens
from hcam.envs.tasks.words import happenings, policies, room
from hcam.envs.tasks.words.episodes import (
    DISTRACTOR,
    LEARNING,
    TEST,
    Episode,
    arrange,
    draw,
    from_description,
    is_final,
    kind_of,
    things_in,
    to_description,
    words_for,
)
from hcam.envs.tasks.words.levels import (
    DISTRACTORS,
    EASY_LEVELS,
    HELD_OUT_LEVELS,
    OBJECTS,
    POOL,
    QUICK_LEVELS,
    TRAINING_LEVELS,
    WORDS,
    Level,
    LevelParams,
    parsed,
    size_of,
)
from hcam.envs.values import check_pixels

WIDTH, HEIGHT = 96, 72  # pixels, as published
NAMED, LIFTED, CHOSEN = 0.1, 0.1, 1.0  # rewards: of a new name, in a distractor phase and in a test
NEVER = 2**30  # the frame of what has not happened

VOCABULARY = ("", "explore", "this", "is", "a", "lift", "the", "pick", "up", *DISTRACTORS, *WORDS)
INSTRUCTION = Tokens(VOCABULARY, 4)
EXPLORE, NAME, LIFT_THE, PICK_UP = (INSTRUCTION.ids(text) for text in ("explore", "this is a", "lift the", "pick up a"))
FIRST_DISTRACTOR, FIRST_WORD = VOCABULARY.index(DISTRACTORS[0]), VOCABULARY.index(WORDS[0])


class State(NamedTuple):
    episode: Episode
    time: jax.Array  # int32, the frame on show
    phase: jax.Array  # int32
    since: jax.Array  # int32, the frame in which the phase began
    body: Body
    place_o2: jax.Array  # float32, where the objects of this phase stand
    yaw_o: jax.Array  # float32
    asked: jax.Array  # int32, the object that this phase asks for
    named_o: jax.Array  # bool, whose names have been heard in this phase
    named: jax.Array  # int32, the frame in which all had been heard; NEVER before
    heard: jax.Array  # int32, the first frame in which the final target's name was heard; NEVER before
    heard_end: jax.Array  # int32, one past the last
    question: jax.Array  # int32, the frame in which the final test began; NEVER before
    level: jax.Array  # int32, its number in the mixture


@dataclass(frozen=True)
class Words(Environment):
    """Hear what objects are called, and lift the one that is asked for later."""

    width: int = WIDTH  # pixels
    height: int = HEIGHT

    def __post_init__(self) -> None:
        check_pixels(width=self.width, height=self.height)

    @property
    def action_space(self) -> Discrete:
        return Discrete(len(ACTIONS))

    @property
    def action_names(self) -> tuple[str, ...]:
        return ACTIONS

    @property
    def observation_space(self) -> dict[str, Space]:
        return {"image": Box((self.height, self.width, 3), 0, 255, "uint8"), "instruction": INSTRUCTION}

    @property
    def levels(self) -> tuple[str, ...]:
        return (*TRAINING_LEVELS, *HELD_OUT_LEVELS, *QUICK_LEVELS, *EASY_LEVELS)

    @property
    def default_levels(self) -> tuple[str, ...]:
        return TRAINING_LEVELS

    def level(self, name: str | Level) -> LevelParams:
        return parsed(name).params()

    def title(self, level: str) -> str:
        known = parsed(level)
        size = size_of(known)
        episodes = f"{known.episodes} episodes, " if known.episodes > 1 else ""
        distractors = f"{known.distractors or 'no'} distractor{'s' * (known.distractors != 1)}"
        return f"{episodes}{distractors}{' each' if episodes else ''}{', ' * bool(size)}{size}"

    def chance(self, level: str) -> float:
        return 1 / OBJECTS

    def max_steps_in_episode(self, level: str) -> int:
        return parsed(level).max_steps

    def smaller(self, levels: Sequence[str]) -> list[str]:
        known, full = [parsed(level) for level in levels], Level()
        things, words, side = (
            max(row) for row in zip(*((len(k.things), len(k.words), k.room) for k in known), strict=True)
        )
        fewer = [f"{things} of {len(POOL)} objects"] if things < len(POOL) else []
        fewer += [f"{words} of {len(WORDS)} words"] if words < len(WORDS) else []
        fewer += [f"a room of {side:g} m instead of {full.room:g} m"] if side < full.room else []
        fewer += ["objects in view and within reach from the start"] if all(k.ahead for k in known) else []
        fewer += ["rewards for coming nearer"] if all(k.guide for k in known) else []
        small = self.width * self.height < WIDTH * HEIGHT
        return fewer + ([f"{self.width} x {self.height} pixels instead of {WIDTH} x {HEIGHT}"] if small else [])

    def start(self, key: jax.Array, level: LevelParams) -> State:
        return _opening(draw(key, level))

    def advance(
        self, key: jax.Array, state: State, action: jax.Array, level: LevelParams
    ) -> tuple[State, jax.Array, jax.Array, jax.Array, Info]:
        # All that is random comes from the episode's seed, and the episode has what it needs of its level.
        del key, level
        return _advanced(state, action)

    def observe(self, state: State, level: LevelParams) -> dict[str, jax.Array]:
        episode = state.episode
        shown = room.scene(things_in(episode, state.phase), state.place_o2, state.yaw_o, episode.rules)
        image = room.render(shown, state.body, self.height, self.width)
        return {"image": image, "instruction": _instruction(state)}

    def episode(self, description: Mapping[str, Any]) -> State:
        return _opening(from_description(description))

    def describe(self, state: State) -> dict[str, Any]:
        return to_description(jax.device_get(_episode(state)))

    def expert(self, state: State) -> jax.Array:
        """Visits the nearest object without a name, and lifts what is asked for."""
        rules, learning = _episode(state).rules, kind_of(state.episode.rules, state.phase) == LEARNING
        unnamed = policies.nearest(state.body, state.place_o2, ~state.named_o)
        action = policies.approach(state.body, state.place_o2, rules, jnp.where(learning, unnamed, state.asked))
        return jnp.where(learning & state.named_o.all(), STAY, action).astype(jnp.int32)

    def memoryless(self, state: State) -> jax.Array:
        """The best action for an agent that has only what it sees: it knows the distractors, and no other name."""
        rules, kind = _episode(state).rules, kind_of(state.episode.rules, state.phase)
        key = jax.random.fold_in(jax.random.key(state.episode.seed), state.time // policies.PATIENCE)
        wander = policies.wander(state.body, state.place_o2, rules, jax.random.bits(key))
        wanted_o = (kind == TEST) | (jnp.arange(OBJECTS) == state.asked)
        lift = policies.look_for(state.body, state.place_o2, rules, wanted_o)
        return jnp.where(kind == LEARNING, wander, lift)

    def moments(self, state: State) -> Moments:
        """From the first to the last frame in which the final target's name was heard; the final test.

        What has not happened yet happens as the expert would have it.
        """
        _episode(state)

        def play(state: State) -> State:
            return _advanced(state, self.expert(state))[0]

        asked = jax.lax.while_loop(lambda s: (s.question == NEVER) & (s.time < s.episode.rules.limit), play, state)
        return Moments(asked.heard, asked.heard_end, asked.question)

    def events(self, states: Sequence[State]) -> list[Event]:
        """Names that are heard, distractor phases and tests."""
        _episode(states[0])
        return happenings.events(states)


# An episode's course --------------------------------------------------------------------------------------------------


def _opening(episode: Episode) -> State:
    layout, never, zero = arrange(episode, jnp.int32(0)), jnp.int32(NEVER), jnp.int32(0)
    named_o = jnp.zeros(OBJECTS, bool)
    return _listened(State(episode, zero, zero, zero, *layout, named_o, never, never, zero, never, zero))


def _advanced(state: State, action: jax.Array) -> tuple[State, jax.Array, jax.Array, jax.Array, Info]:
    """One step inside an episode; an action that is none of the eight is to stay."""
    rules, kind = state.episode.rules, kind_of(state.episode.rules, state.phase)
    known = jnp.where((action >= 0) & (action < len(ACTIONS)), action, STAY)
    body = move(state.body, known, jnp.stack([rules.half] * 2), state.place_o2, room.radius(rules))
    moved = state._replace(body=body, time=state.time + 1)
    lifted = jnp.where(known == LIFT, room.in_front(body, state.place_o2, rules.near), room.NOTHING)
    right, over = (lifted == state.asked) & (kind != LEARNING), _is_over(moved, lifted)
    ended = over & is_final(rules, state.phase)
    after = _listened(_select(over & ~ended, _entered(moved, state.phase + 1), moved))
    truncated = (after.time >= rules.limit) & ~ended
    reward = jnp.where(right, jnp.where(kind == TEST, CHOSEN, LIFTED), 0.0) + NAMED * _new_names(state, after)
    reward += rules.guide * _nearer(state, moved)
    reward = jnp.where(truncated, 0.0, reward).astype(jnp.float32)
    return after, reward, ended, truncated, {"success": ended & right}


def _entered(state: State, phase: jax.Array) -> State:
    """The state in the first frame of another phase, before anything has been heard in it."""
    layout, final = arrange(state.episode, phase), is_final(state.episode.rules, phase)
    return state._replace(
        phase=phase,
        since=state.time,
        **layout._asdict(),
        named_o=jnp.zeros_like(state.named_o),
        named=jnp.int32(NEVER),
        question=jnp.where(final, state.time, state.question),
    )


def _listened(state: State) -> State:
    """The state with what is heard in its frame: the name of the object in front, in a learning phase."""
    rules = state.episode.rules
    learning = kind_of(rules, state.phase) == LEARNING
    front = room.in_front(state.body, state.place_o2, rules.near)
    named_o = state.named_o | ((jnp.arange(OBJECTS) == front) & learning)
    heard = (state.phase == 0) & (front == state.episode.target_e[rules.episodes - 1])
    return state._replace(
        named_o=named_o,
        named=jnp.minimum(state.named, jnp.where(named_o.all(), state.time, NEVER)),
        heard=jnp.minimum(state.heard, jnp.where(heard, state.time, NEVER)),
        heard_end=jnp.where(heard, state.time + 1, state.heard_end),
    )


def _is_over(state: State, lifted: jax.Array) -> jax.Array:
    """Whether a phase ends before this frame: a pause after all names, a lift, or for distractors the time limit."""
    rules = state.episode.rules
    kind = kind_of(rules, state.phase)
    learned = state.time >= state.named + rules.pause
    distracted = (lifted == state.asked) | (state.time >= state.since + rules.phase_limit)
    return jnp.where(kind == LEARNING, learned, jnp.where(kind == DISTRACTOR, distracted, lifted != room.NOTHING))


def _new_names(before: State, after: State) -> jax.Array:
    """How many names were heard for the first time in the frame after a step, float32."""
    known_o = before.named_o & (before.phase == after.phase)
    return (after.named_o & ~known_o).sum().astype(jnp.float32)


def _nearer(before: State, after: State) -> jax.Array:
    """How many steps nearer the agent came to the nearest object without a name, or to the one that is asked for."""
    rules, learning = before.episode.rules, kind_of(before.episode.rules, before.phase) == LEARNING
    wanted_o = jnp.where(learning, ~before.named_o, jnp.arange(OBJECTS) == before.asked)
    least = [policies.least_way(state.body, before.place_o2, rules, wanted_o) for state in (before, after)]
    return least[0] - least[1]


def _select(condition: jax.Array, one: State, other: State) -> State:
    selected: State = jax.tree.map(lambda a, b: jnp.where(condition, a, b), one, other)
    return selected


def _episode(state: State) -> Episode:
    if not isinstance(state, State):
        raise TypeError(
            f"this is no state of Words, but a {type(state).__module__}.{type(state).__name__}: take one from its "
            "reset or step."
        )
    return state.episode


def _instruction(state: State) -> jax.Array:
    """The sentence of a frame: int32 [4]."""
    kind, word_o = kind_of(state.episode.rules, state.phase), words_for(state.episode, state.phase)
    front = room.in_front(state.body, state.place_o2, state.episode.rules.near)
    name = _sentence(NAME, 3, FIRST_WORD + word_o[front])
    learning = jnp.where(front == room.NOTHING, jnp.asarray(EXPLORE), name)
    distractor = _sentence(LIFT_THE, 2, FIRST_DISTRACTOR + state.asked)
    test = _sentence(PICK_UP, 3, FIRST_WORD + word_o[state.asked])
    return jnp.where(kind == LEARNING, learning, jnp.where(kind == DISTRACTOR, distractor, test))


def _sentence(beginning: Any, place: int, word: jax.Array) -> jax.Array:
    return jnp.where(jnp.arange(len(beginning)) == place, word, jnp.asarray(beginning))


assert set(DISTRACTORS) <= set(THINGS)
