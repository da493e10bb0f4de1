"""The Memory&Planning Game: find goals on a torus whose cells show other symbols in every episode.

The agent sees the symbol of its cell and that of the goal. Which symbol is where, and so where a move leads, is new in
each episode: at first the agent must explore, then it can plan a way through what it remembers. An episode has a fixed
number of steps, and each goal that is collected is worth 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from hcam.envs.environment import Environment, Event, Info
from hcam.envs.spaces import Box, Discrete, Space
from hcam.envs.tasks.planning import board
from hcam.envs.tasks.planning.episodes import Episode, draw, draw_goal, from_description, to_description
from hcam.envs.tasks.planning.levels import (
    LARGEST,
    OTHER_LEVELS,
    PAPER_LEVELS,
    PUBLISHED,
    Level,
    Rules,
    parsed,
    title,
)
from hcam.envs.values import is_whole

ACTIONS = ("up", "down", "left", "right", "collect")
UP, DOWN, LEFT, RIGHT, COLLECT = range(len(ACTIONS))
_MOVES = ((0, 1), (0, -1), (-1, 0), (1, 0), (0, 0))  # by action


class State(NamedTuple):
    episode: Episode
    place: jax.Array  # int32, the agent's cell
    goal: jax.Array  # int32, the cell that pays for being collected
    time: jax.Array  # int32, steps since the episode began
    level: jax.Array  # int32, its number in the mixture


@dataclass(frozen=True)
class Planning(Environment):
    """Find goals on a torus of symbols that is new in every episode: explore, remember, plan."""

    symbols: int = PUBLISHED**2  # the length of a one-hot code; a torus has at most as many cells

    def __post_init__(self) -> None:
        if not is_whole(self.symbols, 4, LARGEST**2):
            raise ValueError(f"symbols must be a whole number from 4 to {LARGEST**2}, but is {self.symbols!r}.")

    @property
    def action_space(self) -> Discrete:
        return Discrete(len(ACTIONS))

    @property
    def action_names(self) -> tuple[str, ...]:
        return ACTIONS

    @property
    def observation_space(self) -> dict[str, Space]:
        one_hot = Box((self.symbols,), 0, 1, "int32")
        return {"position": one_hot, "goal": one_hot}

    @property
    def levels(self) -> tuple[str, ...]:
        fitting = [level for level in (*PAPER_LEVELS, *OTHER_LEVELS) if parsed(level).cells <= self.symbols]
        larger = [f"torus{n}" for n in range(PUBLISHED + 1, LARGEST + 1) if n**2 <= self.symbols]
        return (*fitting, *larger)

    @property
    def default_levels(self) -> tuple[str, ...]:
        return self.levels[:1]

    def level(self, name: str | Level) -> Rules:
        known = parsed(name)
        if known.cells > self.symbols:
            raise ValueError(
                f"a torus of {known.side} x {known.side} cells needs {known.cells} symbols, but there are "
                f"{self.symbols}: set the option symbols={known.cells}."
            )
        return known.rules()

    @property
    def scored_by(self) -> Literal["success", "return"]:
        return "return"

    def title(self, level: str) -> str:
        return title(level)

    def max_steps_in_episode(self, level: str) -> int:
        return parsed(level).steps

    def smaller(self, levels: Sequence[str]) -> list[str]:
        side = max(parsed(level).side for level in levels)
        published = f"{PUBLISHED} x {PUBLISHED}"
        return [f"a torus of {side} x {side} cells instead of {published}"] if side < PUBLISHED else []

    def start(self, key: jax.Array, level: Rules) -> State:
        return _opening(draw(key, level, self.symbols))

    def advance(
        self, key: jax.Array, state: State, action: jax.Array, level: Rules
    ) -> tuple[State, jax.Array, jax.Array, jax.Array, Info]:
        rules, time = state.episode.rules, state.time + 1
        collected = (action == COLLECT) & (state.place == state.goal)
        place = moved(state.place, action, rules.side)
        key_place, key_goal = jax.random.split(key)
        anywhere = jax.random.randint(key_place, (), 0, rules.side**2, jnp.int32)
        place = jnp.where(collected & rules.placed, anywhere, place)
        goal = jnp.where(collected, draw_goal(key_goal, place, rules), state.goal)
        after = state._replace(place=place, goal=goal, time=time)
        return after, collected.astype(jnp.float32), time >= rules.steps, jnp.bool_(False), {}

    def observe(self, state: State, level: Rules) -> dict[str, jax.Array]:
        symbol_n, number_n = state.episode.symbol_n, jnp.arange(self.symbols, dtype=jnp.int32)
        seen = {"position": state.place, "goal": state.goal}
        return {name: (number_n == symbol_n[place]).astype(jnp.int32) for name, place in seen.items()}

    def episode(self, description: Mapping[str, Any]) -> State:
        return _opening(from_description(description, self.symbols))

    def describe(self, state: State) -> dict[str, Any]:
        return to_description(jax.device_get(_episode(state)))

    def expert(self, state: State) -> jax.Array:
        """Knows the whole torus, takes a shortest way to the goal, and collects it."""
        side = _episode(state).rules.side
        away_x = (state.goal // side - state.place // side) % side
        away_y = (state.goal % side - state.place % side) % side
        along_x, along_y = jnp.where(2 * away_x <= side, RIGHT, LEFT), jnp.where(2 * away_y <= side, UP, DOWN)
        return jnp.where(away_x > 0, along_x, jnp.where(away_y > 0, along_y, COLLECT)).astype(jnp.int32)

    def events(self, states: Sequence[State]) -> list[Event]:
        """The steps that collect a goal, after which it is another one.

        Where an agent is placed anew, the same goal may be drawn again; that one is not seen.
        """
        steps = [t for t, (before, after) in enumerate(pairwise(states)) if before.goal != after.goal]
        return [Event(t, t + 1, f"goal {number}", kind="goal") for number, t in enumerate(steps, start=1)]

    def picture(self, states: Sequence[State]) -> Any:
        """The torus: which cells the agent has seen, its way to the goal so far, where it is, and the goal."""
        side = int(_episode(states[-1]).rules.side)
        return board.draw(side, [(int(state.place), int(state.goal)) for state in states])


def moved(place: jax.Array, action: jax.Array, side: jax.Array) -> jax.Array:
    """The cell after an action; any other number than those of the actions moves nothing."""
    known = jnp.where((action >= 0) & (action < len(ACTIONS)), action, COLLECT)
    move_2 = jnp.array(_MOVES, jnp.int32)[known]
    return (place // side + move_2[0]) % side * side + (place % side + move_2[1]) % side


def _opening(episode: Episode) -> State:
    return State(episode, episode.start, episode.goal, jnp.int32(0), jnp.int32(0))


def _episode(state: State) -> Episode:
    if not isinstance(state, State):
        raise TypeError(
            f"this is no state of Planning, but a {type(state).__module__}.{type(state).__name__}: take one from its "
            "reset or step."
        )
    return state.episode
