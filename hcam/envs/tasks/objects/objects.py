"""Object permanence: objects jump out of boxes and return; lids close; look away; then go to the box with one of them.

levels.py says how long all this takes, episodes.py what is where and when, room.py what the agent sees. An episode has
three phases: *watching* (the agent can neither move nor turn), *looking backward* (until no box is in view) and
*choosing* (until it touches a box). Each of the last two has a time limit of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hcam.envs.body import ACTIONS, FORWARD, HEADINGS, LIFT, STAY, TURN_LEFT, TURN_RIGHT, Body, move, steps, touched
from hcam.envs.environment import Delay, Environment, Event, Info, Moments, until_the_end
from hcam.envs.render.things import THINGS
from hcam.envs.spaces import Box, Discrete, Space, Tokens
from hcam.envs.tasks.objects import paths, room
from hcam.envs.tasks.objects.episodes import (
    Episode,
    closing,
    draw,
    first_body,
    from_description,
    period,
    shown_steps,
    to_description,
)
from hcam.envs.tasks.objects.levels import (
    BOXES,
    NEAR_LEVELS,
    PAPER_LEVELS,
    POOL,
    QUICK_LEVELS,
    Level,
    LevelParams,
    parsed,
    size_of,
)
from hcam.envs.values import check_pixels

WIDTH, HEIGHT = 96, 72  # pixels, as published
LOOKED, CHOSEN = 0.3, 1.0  # rewards, as published
SIDES = ("left", "middle", "right")  # of the boxes, as the agent sees them at first
NEVER = 2**30  # the frame of a question that has not been asked

WORDS = 8  # of an instruction, padding included
VOCABULARY = ("", "watch", "look", "backward", "go", "to", "the", "box", "containing", *THINGS)
INSTRUCTION = Tokens(VOCABULARY, WORDS)
WATCH, LOOK = INSTRUCTION.ids("watch"), INSTRUCTION.ids("look backward")
GO = INSTRUCTION.ids("go to the box containing the")
FIRST_THING, ASKED_WORD = VOCABULARY.index(THINGS[0]), 6  # the name is the seventh word


class State(NamedTuple):
    episode: Episode
    time: jax.Array  # int32, the frame on show
    body: Body
    question: jax.Array  # int32, the frame in which the choice was asked for; NEVER before
    level: jax.Array  # int32, its number in the mixture


@dataclass(frozen=True)
class Objects(Environment):
    """Remember which box an object went into, and go there after looking away."""

    width: int = WIDTH  # pixels
    height: int = HEIGHT

    def __post_init__(self) -> None:
        check_pixels(width=self.width, height=self.height)

    @property
    def action_space(self) -> Discrete:
        return Discrete(LIFT)  # all actions but lifting, which is the last

    @property
    def action_names(self) -> tuple[str, ...]:
        return ACTIONS[:LIFT]

    @property
    def observation_space(self) -> dict[str, Space]:
        return {"image": Box((self.height, self.width, 3), 0, 255, "uint8"), "instruction": INSTRUCTION}

    @property
    def levels(self) -> tuple[str, ...]:
        return (*PAPER_LEVELS, *QUICK_LEVELS, *NEAR_LEVELS)

    @property
    def default_levels(self) -> tuple[str, ...]:
        return PAPER_LEVELS

    def level(self, name: str | Level) -> LevelParams:
        return parsed(name).params()

    def title(self, level: str) -> str:
        known = parsed(level)
        delay = f"{known.delay:g} s delay" if known.delay else "no delay"
        return f"{delay}, {size}" if (size := size_of(known)) else delay

    def delay(self, level: str) -> Delay:
        known = parsed(level)
        return Delay(steps(known.delay), size_of(known))

    def chance(self, level: str) -> float:
        return 1 / BOXES

    def max_steps_in_episode(self, level: str) -> int:
        return parsed(level).max_steps

    def smaller(self, levels: Sequence[str]) -> list[str]:
        known, full = [parsed(level) for level in levels], Level()
        things, jumps, side = (max(row) for row in zip(*((len(k.things), k.jumps, k.room) for k in known), strict=True))
        fewer = [f"{things} of {len(POOL)} objects"] if things < len(POOL) else []
        fewer += [f"{jumps} of {full.jumps} jumps of an object"] if jumps < full.jumps else []
        fewer += [f"a room of {side:g} m instead of {full.room:g} m"] if side < full.room else []
        large = min(level.object for level in known)
        fewer += [f"objects of {large:g} m instead of {full.object:g} m"] if large > full.object else []
        small = self.width * self.height < WIDTH * HEIGHT
        return fewer + ([f"{self.width} x {self.height} pixels instead of {WIDTH} x {HEIGHT}"] if small else [])

    def start(self, key: jax.Array, level: LevelParams) -> State:
        return _opening(draw(key, level))

    def advance(
        self, key: jax.Array, state: State, action: jax.Array, level: LevelParams
    ) -> tuple[State, jax.Array, jax.Array, jax.Array, Info]:
        del key, level  # nothing is random inside an episode, and the episode has what it needs of its level
        episode, asked = state.episode, state.question < NEVER
        free = state.time >= closing(episode.rules)
        body = _acted(state, jnp.where(free, action, STAY))
        time = state.time + 1
        looked = free & ~asked & ~room.in_view(body, episode).any()
        question = jnp.where(looked, time, state.question)
        chosen_b = _chosen(body, episode) & asked
        correct = chosen_b[episode.target]
        truncated = (time >= _deadline(episode, question)) & ~chosen_b.any()
        reward = jnp.where(looked, LOOKED, 0.0) + jnp.where(correct, CHOSEN, 0.0)
        after = state._replace(time=time, body=body, question=question)
        return after, reward.astype(jnp.float32), chosen_b.any(), truncated, {"success": correct}

    def observe(self, state: State, level: LevelParams) -> dict[str, jax.Array]:
        image = room.render(state.episode, state.time, state.body, self.height, self.width)
        return {"image": image, "instruction": _instruction(state)}

    def episode(self, description: Mapping[str, Any]) -> State:
        return _opening(from_description(description))

    def describe(self, state: State) -> dict[str, Any]:
        return to_description(jax.device_get(_episode(state)))

    def expert(self, state: State) -> jax.Array:
        """Waits, turns the shorter way, and walks around the other boxes to the right one."""
        episode = _episode(state)
        walk = paths.around(state.body, episode.place_b2, room.radius(episode), episode.rules.half, episode.target)
        return _by_phase(state, _away(state)[0], walk)

    def memoryless(self, state: State) -> jax.Array:
        """The best action for an agent that has only what it sees: it goes to the nearest box in view."""
        episode = _episode(state)
        seen_b = room.in_view(state.body, episode)
        away_b = jnp.linalg.norm(episode.place_b2 - state.body.position[None], axis=-1)
        nearest = jnp.argmin(jnp.where(seen_b, away_b, jnp.inf))
        walk = paths.around(state.body, episode.place_b2, room.radius(episode), episode.rules.half, nearest)
        return _by_phase(state, jnp.int32(TURN_RIGHT), jnp.where(seen_b.any(), walk, TURN_RIGHT))

    def label(self, state: State) -> jax.Array:
        """While the agent watches, no action is right or wrong."""
        return jnp.where(state.time < closing(_episode(state).rules), -1, self.expert(state))

    def moments(self, state: State) -> Moments:
        """The frames of the target's jumps. Where the question has not been asked yet, it comes when it can soonest."""
        episode = _episode(state)
        begin = episode.target * period(episode.rules)
        soonest = jnp.maximum(state.time, closing(episode.rules)) + _away(state)[1]
        asked = state.question < NEVER
        return Moments(begin, begin + shown_steps(episode.rules), jnp.where(asked, state.question, soonest))

    def events(self, states: Sequence[State]) -> list[Event]:
        """The jumps of each object, in their order."""
        last = states[-1]
        episode, asked = _episode(last), until_the_end(int(last.question), states)
        side = dict(zip(np.argsort(episode.place_b2[:, 0]).tolist(), SIDES, strict=True))
        found = []
        for box in range(BOXES):
            begin, matters = box * int(period(episode.rules)), box == int(episode.target)
            name = f"{THINGS[episode.thing_b[box]]} jumps out of the {side[box]} box"
            end = begin + int(shown_steps(episode.rules))
            found.append(Event(begin, end, name, matters, "jumps", asked if matters else ()))
        return found


def _opening(episode: Episode) -> State:
    return State(episode, jnp.int32(0), first_body(episode.rules.half), jnp.int32(NEVER), jnp.int32(0))


def _episode(state: State) -> Episode:
    if not isinstance(state, State):
        raise TypeError(
            f"this is no state of Objects, but a {type(state).__module__}.{type(state).__name__}: take one from its "
            "reset or step."
        )
    return state.episode


def _acted(state: State, action: jax.Array) -> Body:
    """The body after an action; one that is none of the seven is to stay."""
    episode = state.episode
    known = jnp.where((action >= 0) & (action < LIFT), action, STAY)
    half = jnp.stack([episode.rules.half] * 2)
    return move(state.body, known, half, episode.place_b2, room.radius(episode))


def _chosen(body: Body, episode: Episode) -> jax.Array:
    """The box that the body touches, the nearer one of two: bool [B]."""
    away_b = jnp.linalg.norm(episode.place_b2 - body.position[None], axis=-1)
    nearest_b = jnp.arange(BOXES) == jnp.argmin(away_b)
    return touched(body, episode.place_b2, room.radius(episode)) & nearest_b


def _deadline(episode: Episode, question: jax.Array) -> jax.Array:
    """The frame in which the time of the present phase is up."""
    return jnp.where(question < NEVER, question, closing(episode.rules)) + episode.rules.limit


def _instruction(state: State) -> jax.Array:
    asked = FIRST_THING + state.episode.thing_b[state.episode.target]
    question = jnp.where(jnp.arange(WORDS) == ASKED_WORD, asked, jnp.asarray(GO))
    return _by_phase(state, jnp.asarray(LOOK), question, jnp.asarray(WATCH))


def _by_phase(state: State, looking: jax.Array, choosing: jax.Array, watching: jax.Array | None = None) -> jax.Array:
    """One of three by an episode's phase; while watching, STAY if nothing is given."""
    watched = state.time >= closing(state.episode.rules)
    idle = jnp.full_like(looking, STAY) if watching is None else watching
    return jnp.where(watched, jnp.where(state.question < NEVER, choosing, looking), idle).astype(jnp.int32)


def _away(state: State) -> tuple[jax.Array, jax.Array]:
    """The turn that takes all boxes out of view soonest, and how often it is needed. Both int32."""
    empty_h = ~room.in_views(state.body, state.episode).any(-1)
    right_h = (jnp.arange(HEADINGS) - state.body.heading) % HEADINGS
    right, left = (jnp.where(empty_h, turns_h, HEADINGS).min() for turns_h in (right_h, (-right_h) % HEADINGS))
    turn = jnp.where(right <= left, TURN_RIGHT, TURN_LEFT)
    # In the middle of the boxes no heading is empty: walk on.
    return jnp.where(empty_h.any(), turn, FORWARD).astype(jnp.int32), jnp.minimum(right, left)


assert ACTIONS[LIFT] == "lift"
