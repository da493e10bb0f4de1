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

from hcam.envs.environment import Delay, Environment, Event, Info, Moments, until_the_end
from hcam.envs.render import sprites
from hcam.envs.spaces import Box, Discrete, Space, Tokens
from hcam.envs.tasks.ballet import stage
from hcam.envs.tasks.ballet.choreography import (
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
    LevelParams,
    choice_time,
    draw,
    from_description,
    parsed,
    to_description,
)

VOCABULARY = ("", "watch", *DANCES)
WATCH, FIRST_DANCE = 1, 2
COMPASS = ("up", "up right", "right", "down right", "down", "down left", "left", "up left")  # as in MOVES


class State(NamedTuple):
    episode: Episode
    time: jax.Array  # int32, the frame on show
    agent: jax.Array  # int32 [2], row and column
    level: jax.Array  # int32, its number in the mixture


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
    def action_names(self) -> tuple[str, ...]:
        return COMPASS

    @property
    def observation_space(self) -> dict[str, Space]:
        side = BOARD * self.tile
        return {"image": Box((side, side, 3), 0, 255, "uint8"), "instruction": Tokens(VOCABULARY)}

    @property
    def levels(self) -> tuple[str, ...]:
        return PAPER_LEVELS

    def level(self, name: str | Level) -> LevelParams:
        level = parsed(name)
        dances_x = np.array([dance in level.dances for dance in DANCES])
        dancers, delay, limit = (jnp.int32(number) for number in (level.dancers, level.delay, level.max_steps))
        return LevelParams(dancers, delay, limit, jnp.asarray(dances_x))

    def title(self, level: str) -> str:
        known = parsed(level)
        return f"{known.dancers} dances, delay {known.delay}{_kinds(known)}"

    def delay(self, level: str) -> Delay:
        """The frames after each dance. Of N dances, the first waits N delays and N - 1 dances for the question."""
        known = parsed(level)
        return Delay(known.delay, f"{known.dancers} dances{_kinds(known)}")

    def chance(self, level: str) -> float:
        return 1 / parsed(level).dancers

    def max_steps_in_episode(self, level: str) -> int:
        return parsed(level).max_steps

    def smaller(self, levels: Sequence[str]) -> list[str]:
        known = max(len(parsed(level).dances) for level in levels)
        fewer = [f"{known} of {len(DANCES)} dances"] if known < len(DANCES) else []
        return fewer + ([f"{self.tile} pixel a tile instead of {sprites.TILE}"] if self.tile != sprites.TILE else [])

    def start(self, key: jax.Array, level: LevelParams) -> State:
        return _opening(draw(key, level))

    def advance(
        self, key: jax.Array, state: State, action: jax.Array, level: LevelParams
    ) -> tuple[State, jax.Array, jax.Array, jax.Array, Info]:
        del key, level  # nothing is random inside an episode, and the episode has what it needs of its level
        episode = state.episode
        free = state.time >= _question(episode)
        agent = jnp.where(free, _move(state.agent, action), state.agent)
        state = state._replace(time=state.time + 1, agent=agent)
        chosen_p = stage.covered(_scene(state))
        terminated = chosen_p.any()
        correct = (chosen_p & (episode.order_p == episode.target)).any()
        truncated = (state.time >= episode.limit) & ~terminated
        return state, correct.astype(jnp.float32), terminated, truncated, {"success": correct}

    def observe(self, state: State, level: LevelParams) -> dict[str, jax.Array]:
        return {"image": stage.draw(_scene(state), self.tile), "instruction": _instruction(state)[None]}

    def episode(self, description: Mapping[str, Any]) -> State:
        return _opening(from_description(description))

    def describe(self, state: State) -> dict[str, Any]:
        return to_description(jax.device_get(_episode(state)))

    def expert(self, state: State) -> jax.Array:
        """Straight to the right dancer."""
        episode = _episode(state)
        home = jnp.asarray(PLACES)[jnp.argmax(episode.order_p == episode.target)]
        heading = jnp.sign(home - state.agent)
        return jnp.argmax((jnp.asarray(MOVES) == heading[None]).all(-1))

    def label(self, state: State) -> jax.Array:
        """While the dancers dance, no action is right or wrong."""
        return jnp.where(state.time < _question(_episode(state)), -1, self.expert(state))

    def moments(self, state: State) -> Moments:
        """The frames of the target's dance; frame 0 already shows the first move."""
        episode = _episode(state)
        begin = episode.target * (PERIOD + episode.delay)
        return Moments(begin, begin + DANCE_STEPS, _question(episode))

    def events(self, states: Sequence[State]) -> list[Event]:
        """The dances, in their order."""
        episode = _episode(states[0])
        told = to_description(episode)
        begins = [number * (PERIOD + int(episode.delay)) for number in range(int(episode.dancers))]
        asked = until_the_end(int(_question(episode)), states)
        found = [Event(t, t + DANCE_STEPS, dance["dance"]) for t, dance in zip(begins, told["dancers"], strict=True)]
        target = int(episode.target)
        return [*found[:target], found[target]._replace(matters=True, asked=asked), *found[target + 1 :]]


def _kinds(level: Level) -> str:
    return "" if len(level.dances) == len(DANCES) else f", {len(level.dances)} kinds"


def _opening(episode: Episode) -> State:
    return State(episode, jnp.int32(0), jnp.full(2, CENTRE, jnp.int32), jnp.int32(0))


def _episode(state: State) -> Episode:
    if not isinstance(state, State):
        raise TypeError(
            f"this is no state of Ballet, but a {type(state).__module__}.{type(state).__name__}: take one from its "
            "reset or step."
        )
    return state.episode


def _question(episode: Episode) -> jax.Array:
    return jnp.asarray(choice_time(episode.dancers, episode.delay))


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
    episode = _episode(state)
    shape_p = jnp.where(episode.order_p != ABSENT, episode.shape_p, stage.NOTHING)
    return stage.Scene(state.agent, _dancers(state), shape_p, episode.color_p)


def _instruction(state: State) -> jax.Array:
    episode = state.episode
    asked = jnp.where(episode.order_p == episode.target, episode.dance_p, 0).sum(dtype=jnp.int32)
    return jnp.where(state.time < _question(episode), WATCH, FIRST_DANCE + asked)
