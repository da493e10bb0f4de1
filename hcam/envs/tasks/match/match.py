"""Passive visual match: see a colour, collect apples, then choose the square of that colour among others.

levels.py says how long all this takes, episodes.py what is where, rooms.py what the agent sees. An episode has three
phases, each in a room of its own: *explore* (a corridor with the target colour at its end), *distract* (apples, which
are worth a reward) and *choose* (a pad before each of four colour squares). The first two end by the clock alone. The
agent can always move.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from hcam.envs import body as bodies
from hcam.envs.body import ACTIONS, FORWARD, LIFT, STAY, Body, turn_to, walk_to
from hcam.envs.environment import Delay, Environment, Event, Info, Moments, until_the_end
from hcam.envs.render import apples
from hcam.envs.render.apples import CELL, GRID
from hcam.envs.spaces import Box, Discrete, Space
from hcam.envs.tasks.match import rooms
from hcam.envs.tasks.match.episodes import Episode, draw, from_description, question, to_description
from hcam.envs.tasks.match.levels import (
    COLORS,
    OPTIONS,
    OTHER_LEVELS,
    PAPER_LEVELS,
    QUICK_LEVELS,
    Level,
    LevelParams,
    parsed,
)
from hcam.envs.values import check_pixels, is_number

WIDTH, HEIGHT = 96, 72  # pixels
APPLE, RIGHT, WRONG = 5.0, 10.0, 1.0  # rewards, as published
TOUCH = bodies.RADIUS + apples.RADIUS  # metres between a body and an apple that it is over


class State(NamedTuple):
    episode: Episode
    time: jax.Array  # int32, the frame on show
    body: Body
    apples_w: jax.Array  # uint32, the cells whose apples are left
    level: jax.Array  # int32, its number in the mixture


@dataclass(frozen=True)
class Match(Environment):
    """Remember a colour over half a minute of collecting apples, and choose it among others."""

    width: int = WIDTH  # pixels
    height: int = HEIGHT
    apple_reward: float = APPLE
    right_reward: float = RIGHT  # for the square of the right colour
    wrong_reward: float = WRONG  # for any other

    def __post_init__(self) -> None:
        check_pixels(width=self.width, height=self.height)
        for name in ("apple_reward", "right_reward", "wrong_reward"):
            if not is_number(getattr(self, name)) or not math.isfinite(getattr(self, name)):
                raise ValueError(f"{name} must be a finite number, but is {getattr(self, name)!r}.")

    @property
    def action_space(self) -> Discrete:
        return Discrete(LIFT)  # all actions but lifting, which is the last

    @property
    def action_names(self) -> tuple[str, ...]:
        return ACTIONS[:LIFT]

    @property
    def observation_space(self) -> dict[str, Space]:
        return {"image": Box((self.height, self.width, 3), 0, 255, "uint8")}

    @property
    def levels(self) -> tuple[str, ...]:
        return (*PAPER_LEVELS, *OTHER_LEVELS, *QUICK_LEVELS)

    @property
    def default_levels(self) -> tuple[str, ...]:
        return PAPER_LEVELS

    def level(self, name: str | Level) -> LevelParams:
        return parsed(name).params()

    def title(self, level: str) -> str:
        known = parsed(level)
        delay = f"{known.delay:g} s of apples"
        return f"{delay}, small" if known.options < OPTIONS else delay

    def delay(self, level: str) -> Delay:
        known = parsed(level)
        return Delay(bodies.steps(known.delay), "small" if known.options < OPTIONS else "")

    def chance(self, level: str) -> float:
        return 1 / parsed(level).options

    def max_steps_in_episode(self, level: str) -> int:
        return parsed(level).max_steps

    def smaller(self, levels: Sequence[str]) -> list[str]:
        known, full = [parsed(level) for level in levels], Level()

        def most(name: str) -> Any:
            return max(getattr(level, name) for level in known)

        colors = max(len(level.colors) for level in known)
        fewer = [f"{most('options')} squares to choose from instead of {OPTIONS}"] if most("options") < OPTIONS else []
        fewer += [f"{colors} of {len(COLORS)} colours"] if colors < len(COLORS) else []
        fewer += [f"{most('delay'):g} s of apples instead of {full.delay:g} s"] if most("delay") < full.delay else []
        side = most("side")
        fewer += [f"{side} x {side} cells of apples instead of {GRID} x {GRID}"] if side < GRID else []
        small = self.width * self.height < WIDTH * HEIGHT
        fewer += [f"{self.width} x {self.height} pixels instead of {WIDTH} x {HEIGHT}"] if small else []
        return fewer + ([f"{self.apple_reward:g} instead of {APPLE:g} for an apple"] if self._weighs_less() else [])

    def _weighs_less(self) -> bool:
        """Whether an apple is worth less, by the reward of a right choice, than published."""
        return self.apple_reward * RIGHT < APPLE * self.right_reward

    def start(self, key: jax.Array, level: LevelParams) -> State:
        return _opening(draw(key, level))

    def advance(
        self, key: jax.Array, state: State, action: jax.Array, level: LevelParams
    ) -> tuple[State, jax.Array, jax.Array, jax.Array, Info]:
        del key, level  # nothing is random inside an episode, and the episode has what it needs of its level
        rules, now = state.episode.rules, rooms.phase(state.episode.rules, state.time)
        known = jnp.where((action >= 0) & (action < LIFT), action, STAY)
        body, time = rooms.move(state.body, known, rules, now), state.time + 1
        apples_w, ate = _collected(state.apples_w, body, rules.side, now)
        chosen_o = rooms.on_pad(body, rules) & (now == rooms.CHOOSE)
        chose, right = chosen_o.any(), chosen_o[state.episode.target]
        following = rooms.phase(rules, time)
        body = jax.tree.map(lambda old, new: jnp.where(following == now, old, new), body, rooms.spawn(rules, following))
        choice = jnp.where(right, self.right_reward, self.wrong_reward)
        reward = jnp.where(ate, self.apple_reward, 0.0) + jnp.where(chose, choice, 0.0)
        truncated = (time >= question(rules) + rules.limit) & ~chose
        after = state._replace(time=time, body=body, apples_w=apples_w)
        return after, reward.astype(jnp.float32), chose, truncated, {"success": right}

    def observe(self, state: State, level: LevelParams) -> dict[str, jax.Array]:
        image = rooms.render(state.episode, state.time, state.body, state.apples_w, self.height, self.width)
        return {"image": image}

    def episode(self, description: Mapping[str, Any]) -> State:
        return _opening(from_description(description))

    def describe(self, state: State) -> dict[str, Any]:
        return to_description(jax.device_get(_episode(state)))

    def expert(self, state: State) -> jax.Array:
        """Looks at the colour, collects the nearest apple again and again, and walks to the right pad."""
        return _scripted(state, _episode(state).target)

    def memoryless(self, state: State) -> jax.Array:
        """The best action for an agent that has only what it sees: it collects apples, and goes to the nearest pad."""
        rules = _episode(state).rules
        away_o = jnp.linalg.norm(rooms.pads(rules) - state.body.position[None], axis=-1)
        return _scripted(state, jnp.argmin(jnp.where(jnp.arange(OPTIONS) < rules.options, away_o, jnp.inf)))

    def label(self, state: State) -> jax.Array:
        """Before the choice, no action is right or wrong."""
        return jnp.where(state.time < question(_episode(state).rules), -1, self.expert(state))

    def moments(self, state: State) -> Moments:
        """The frames in the corridor, in all of which an agent that does not turn away sees the colour."""
        rules = _episode(state).rules
        return Moments(jnp.zeros_like(rules.explore), rules.explore, question(rules))

    def events(self, states: Sequence[State]) -> list[Event]:
        """The colour in the corridor, and each apple."""
        episode = _episode(states[0])
        color, rules = COLORS[episode.color_o[episode.target]].replace("_", " "), episode.rules
        asked = until_the_end(int(question(rules)), states)
        left_t = [sum(int(word).bit_count() for word in state.apples_w) for state in states]
        eaten = [t for t, (before, after) in enumerate(pairwise(left_t)) if after < before]
        shown = Event(0, int(rules.explore), f"{color} hangs in the corridor", True, "colour", asked)
        return [shown, *(Event(t, t + 1, "an apple", kind="apple") for t in eaten)]


def _opening(episode: Episode) -> State:
    body = rooms.spawn(episode.rules, jnp.int32(rooms.EXPLORE))
    return State(episode, jnp.int32(0), body, episode.apples_w, jnp.int32(0))


def _episode(state: State) -> Episode:
    if not isinstance(state, State):
        raise TypeError(
            f"this is no state of Match, but a {type(state).__module__}.{type(state).__name__}: take one from its "
            "reset or step."
        )
    return state.episode


def _collected(apples_w: jax.Array, body: Body, side: jax.Array, now: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The apples that are left, and whether the body has just walked over one. None is in reach from another cell."""
    cell_2 = rooms.cell(body, side)
    offset_2 = rooms.middles(cell_2[None], side)[0] - body.position
    over = ((offset_2 * offset_2).sum() <= TOUCH * TOUCH) & (now == rooms.DISTRACT)
    index = cell_2[1] * GRID + cell_2[0]
    bit_w = jnp.where(jnp.arange(apples_w.size) == index // 32, jnp.uint32(1) << (index % 32).astype(jnp.uint32), 0)
    bit_w = jnp.where(over, bit_w, 0).astype(jnp.uint32)
    return apples_w & ~bit_w, ((apples_w & bit_w) > 0).any()


def _scripted(state: State, place: jax.Array) -> jax.Array:
    rules, body = state.episode.rules, state.body
    now = rooms.phase(rules, state.time)
    inside = body.position[1] > rooms.half(rules, now)[1] - CELL - bodies.RADIUS
    south = turn_to(body, jnp.int32(rooms.SOUTH))
    out = jnp.where(south == STAY, FORWARD, south)
    choose = jnp.where(inside, out, walk_to(body, rooms.pads(rules)[place]))
    return jnp.stack([jnp.int32(STAY), _nearest_apple(state), choose])[now].astype(jnp.int32)


def _nearest_apple(state: State) -> jax.Array:
    """The action that leads to the nearest apple; to stay if there is none."""
    index_n = jnp.arange(GRID * GRID)
    left_n = apples.has(state.apples_w, index_n)
    middle_n2 = rooms.middles(jnp.stack([index_n % GRID, index_n // GRID], -1), state.episode.rules.side)
    away_n = jnp.where(left_n, jnp.linalg.norm(middle_n2 - state.body.position[None], axis=-1), jnp.inf)
    return jnp.where(left_n.any(), walk_to(state.body, middle_n2[jnp.argmin(away_n)]), STAY)


assert TOUCH < CELL / 2  # so that only the cell in which a body stands has to be looked at
