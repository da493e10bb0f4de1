"""Ballet: watch dancers dance one after another, then walk to the one that danced as the instruction says.

The published task, equal to it pixel by pixel; choreography.py says who dances what, where and when. Time counts
frames: frame 0 is an episode's first observation, and already shows the first move of the first dance.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hcam.envs.choreography import (
    ABSENT,
    BOARD,
    CENTRE,
    DANCE_STEPS,
    DANCES,
    MOVES,
    PAPER_LEVELS,
    PATHS,
    PERIOD,
    PLACES,
    Episode,
    Level,
    Levels,
    choice_time,
    draw,
    from_description,
    parse,
    to_description,
)
from hcam.envs.environment import Environment, Info
from hcam.envs.render import sprites, stage
from hcam.envs.spaces import Box, Discrete, Space, Tokens

VOCABULARY = ("", "watch", *DANCES)
WATCH, FIRST_DANCE = 1, 2


class State(NamedTuple):
    episode: Episode
    time: jax.Array  # int32, the frame on show
    agent: jax.Array  # int32 [2], row and column


@dataclass(frozen=True)
class Ballet(Environment):
    """Watch the dancers, then walk to the one that danced as the instruction says."""

    tile: int = sprites.TILE  # pixels along a tile's side: 9 as published, 3 or 1 for small machines

    def __post_init__(self) -> None:
        sprites.masks(self.tile)

    @property
    def action_space(self) -> Discrete:
        return Discrete(len(MOVES))

    @property
    def observation_space(self) -> dict[str, Space]:
        side = BOARD * self.tile
        return {"image": Box((side, side, 3), 0, 255, "uint8"), "instruction": Tokens(VOCABULARY)}

    @property
    def levels(self) -> tuple[str, ...]:
        return PAPER_LEVELS

    def params(self, *levels: str | Level, weights: Sequence[float] | None = None) -> Levels:
        """One level or a mixture, by name or in detail; without any, the paper's six."""
        parsed = [level if isinstance(level, Level) else parse(level) for level in levels or PAPER_LEVELS]
        weights = [1.0] * len(parsed) if weights is None else weights
        if len(weights) != len(parsed) or min(weights) < 0 or sum(weights) <= 0:
            raise ValueError(f"{len(parsed)} levels need as many weights, none negative and not all 0: {weights!r}.")
        return Levels(
            jnp.array([level.dancers for level in parsed], jnp.int32),
            jnp.array([level.delay for level in parsed], jnp.int32),
            jnp.array([level.max_steps for level in parsed], jnp.int32),
            jnp.array([[dance in level.dances for dance in DANCES] for level in parsed]),
            jnp.array(weights, jnp.float32),
        )

    def start(self, key: jax.Array, params: Levels) -> State:
        return _opening(draw(key, params))

    def advance(
        self, key: jax.Array, state: State, action: jax.Array, params: Levels
    ) -> tuple[State, jax.Array, jax.Array, jax.Array, Info]:
        del key, params  # nothing is random inside an episode, and the episode knows its level
        episode = state.episode
        free = state.time >= choice_time(episode.dancers, episode.delay)
        agent = jnp.where(free, _move(state.agent, action), state.agent)
        state = State(episode, state.time + 1, agent)
        chosen_p = stage.covered(_scene(state))
        terminated = chosen_p.any()
        correct = (chosen_p & (episode.order_p == episode.target)).any()
        truncated = (state.time >= episode.limit) & ~terminated
        return state, correct.astype(jnp.float32), terminated, truncated, {"level": episode.level, "success": correct}

    def observe(self, state: State, params: Levels) -> dict[str, jax.Array]:
        return {"image": stage.draw(_scene(state), self.tile), "instruction": _instruction(state)[None]}

    def episode(self, description: Mapping[str, Any]) -> State:
        return _opening(from_description(description))

    def describe(self, state: State) -> dict[str, Any]:
        return to_description(jax.device_get(state.episode))

    def expert(self, state: State) -> jax.Array:
        """The action of one who knows the answer: straight to the right dancer."""
        home = jnp.asarray(PLACES)[jnp.argmax(state.episode.order_p == state.episode.target)]
        heading = jnp.sign(home - state.agent)
        return jnp.argmax((jnp.asarray(MOVES) == heading[None]).all(-1))


def _opening(episode: Episode) -> State:
    return State(episode, jnp.int32(0), jnp.full(2, CENTRE, jnp.int32))


def _move(agent: jax.Array, action: jax.Array) -> jax.Array:
    """Walls stop the agent, also on the diagonal; an action that is none of the eight is to stay."""
    known = (action >= 0) & (action < len(MOVES))
    target = agent + jnp.where(known, jnp.asarray(MOVES)[jnp.where(known, action, 0)], 0)
    on_floor = ((target > 0) & (target < BOARD - 1)).all()
    return jnp.where(on_floor, target, agent)


def _dancers(state: State) -> jax.Array:
    """Where each place's dancer stands: int32 [P, 2]."""
    episode = state.episode
    begins_p = episode.order_p * (PERIOD + episode.delay)
    moves_p = jnp.clip(state.time + 1 - begins_p, 0, DANCE_STEPS)
    return jnp.asarray(np.array(PLACES, np.int32)) + jnp.asarray(PATHS)[episode.dance_p, moves_p]


def _scene(state: State) -> stage.Scene:
    present_p = state.episode.order_p != ABSENT
    shape_p = jnp.where(present_p, state.episode.shape_p, stage.NOTHING)
    return stage.Scene(state.agent, _dancers(state), shape_p, state.episode.color_p)


def _instruction(state: State) -> jax.Array:
    episode = state.episode
    asked = jnp.where(episode.order_p == episode.target, episode.dance_p, 0).sum(dtype=jnp.int32)
    return jnp.where(state.time < choice_time(episode.dancers, episode.delay), WATCH, FIRST_DANCE + asked)
