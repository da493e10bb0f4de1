"""One-Shot StreetLearn: find one goal after another in a neighbourhood that the agent has never seen before.

cities.py has the streets, neighbourhoods.py cuts small graphs out of them, levels.py says which, episodes.py draws an
episode, view.py shows the agent what a street looks like, and map.py shows people where it went.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from hcam.envs.environment import Environment, Event, Info
from hcam.envs.spaces import Box, Discrete, Space
from hcam.envs.tasks.streets import map as maps
from hcam.envs.tasks.streets import view
from hcam.envs.tasks.streets.episodes import Episode, Map, draw, draw_goal, from_description, group, to_description
from hcam.envs.tasks.streets.levels import JUNCTIONS, LEVELS, STEPS, Level, LevelParams, guessing, parsed, title
from hcam.envs.tasks.streets.neighbourhoods import STATES
from hcam.envs.values import check_pixels, is_whole

FORWARD, LEFT, RIGHT, COLLECT = range(4)  # the actions, in the released order
ACTIONS = ("forward", "left", "right", "collect")
SIDE = 84  # pixels of a street view
MOST = 4096  # neighbourhoods of each city; the smallest one has 4,612 junctions


class State(NamedTuple):
    episode: Episode
    place: jax.Array  # int32, the state in the neighbourhood: a directed street
    goal: jax.Array  # int32, another one
    time: jax.Array  # int32, steps since the episode began
    level: jax.Array  # int32, its number in the mixture


@dataclass(frozen=True)
class Streets(Environment):
    """Find goal after goal in a neighbourhood of a real city, remembering the ways."""

    observation: str = "one_hot"  # or "pixels"
    side: int = SIDE  # pixels of a street view, for "pixels"
    neighbourhoods: int = MOST  # of each city

    def __post_init__(self) -> None:
        if self.observation not in ("one_hot", "pixels"):
            raise ValueError(f"observation must be one_hot or pixels, but is {self.observation!r}.")
        check_pixels(side=self.side)
        if not is_whole(self.neighbourhoods, 1, MOST):
            raise ValueError(f"neighbourhoods must be 1 to {MOST:,} of each city, but is {self.neighbourhoods!r}.")

    @property
    def action_space(self) -> Discrete:
        return Discrete(len(ACTIONS))

    @property
    def action_names(self) -> tuple[str, ...]:
        return ACTIONS

    @property
    def observation_space(self) -> dict[str, Space]:
        if self.observation == "pixels":
            return {"image": Box((self.side, 2 * self.side, 3), 0, 255, "uint8")}
        return {name: Box((STATES,), 0, 1, "int32") for name in ("position", "goal")}

    @property
    def levels(self) -> tuple[str, ...]:
        return LEVELS

    @property
    def default_levels(self) -> tuple[str, ...]:
        return LEVELS[:1]

    @property
    def scored_by(self) -> Literal["success", "return"]:
        """Goals per episode; there is no last one."""
        return "return"

    def level(self, name: str | Level) -> LevelParams:
        return parsed(name).params()

    def title(self, level: str) -> str:
        return title(level)

    def chance(self, level: str) -> float | None:
        return guessing(level)

    def max_steps_in_episode(self, level: str) -> int:
        return parsed(level).steps

    def smaller(self, levels: Sequence[str]) -> list[str]:
        known = [parsed(level) for level in levels]
        junctions, steps = max(level.junctions for level in known), max(level.steps for level in known)
        count = f"{junctions} junction{'s' * (junctions > 1)}"
        fewer = [f"{count} instead of {JUNCTIONS}"] if junctions < JUNCTIONS else []
        fewer += [f"{steps} steps instead of {STEPS}"] if steps < STEPS else []
        coarse = self.observation == "pixels" and self.side < SIDE
        return fewer + ([f"{self.side} x {self.side} pixels instead of {SIDE} x {SIDE}"] if coarse else [])

    def start(self, key: jax.Array, level: LevelParams) -> State:
        return _opening(draw(key, level, self.neighbourhoods))

    def advance(
        self, key: jax.Array, state: State, action: jax.Array, level: LevelParams
    ) -> tuple[State, jax.Array, jax.Array, jax.Array, Info]:
        """The episode's last step is its end, not a time-out: the release gives it discount 0."""
        del level  # the episode has what it needs of its level
        at = state.episode.map
        collected = (action == COLLECT) & (state.place == state.goal)
        goal = jnp.where(collected, draw_goal(key, at, state.place), state.goal)
        time = state.time + 1
        after = state._replace(place=moved(at, state.place, action), goal=goal, time=time)
        return after, collected.astype(jnp.float32), time >= state.episode.steps, jnp.bool_(False), {}

    def observe(self, state: State, level: LevelParams) -> dict[str, jax.Array]:
        episode = state.episode
        if self.observation == "pixels":
            both = [view.render(episode.map, place, self.side) for place in (state.place, state.goal)]
            return {"image": jnp.concatenate(both, axis=1)}
        seen = {"position": state.place, "goal": state.goal}
        symbols = jnp.arange(STATES, dtype=jnp.uint8)
        return {name: (symbols == episode.symbol_s[place]).astype(jnp.int32) for name, place in seen.items()}

    def episode(self, description: Mapping[str, Any]) -> State:
        return _opening(from_description(description))

    def describe(self, state: State) -> dict[str, Any]:
        return to_description(jax.device_get(_episode(state)))

    def expert(self, state: State) -> jax.Array:
        """Knows the map and takes a shortest way to every goal."""
        return next_action(_episode(state).map, state.place, state.goal)

    def events(self, states: Sequence[State]) -> list[Event]:
        """The steps that collect a goal: after each it is another one."""
        steps = [t for t, (before, after) in enumerate(pairwise(states)) if before.goal != after.goal]
        return [Event(t, t + 1, f"goal {number}", kind="goal") for number, t in enumerate(steps, start=1)]

    def picture(self, states: Sequence[State]) -> Any:
        """A map: the way so far, the goals that were collected, where the agent is and where it should go."""
        walk = [(int(state.place), int(state.goal)) for state in states]
        picture = maps.draw(jax.device_get(_episode(states[-1]).map), walk)
        if self.observation == "one_hot":
            return picture
        return maps.beside(picture, jax.device_get(_seen(self, states[-1])))


@partial(jax.jit, static_argnums=0)
def _seen(env: Streets, state: State) -> jax.Array:
    return env.observe(state, env.level(env.default_levels[0]))["image"]


def moved(at: Map, place: jax.Array, action: jax.Array) -> jax.Array:
    """The state after an action; collecting, and what is no action, moves nobody.

    Left is the next larger bearing and Right the next smaller one, as released: bearings grow clockwise.
    """
    first, degree = group(at, at.tail_s[place])
    ways = [at.forward_s[place].astype(jnp.int32), *(first + (place - first + turn) % degree for turn in (1, -1))]
    return jnp.select([action == number for number in (FORWARD, LEFT, RIGHT)], ways, place)


def next_action(at: Map, place: jax.Array, goal: jax.Array) -> jax.Array:
    """The first action of a shortest way to the goal; there, to collect."""
    after_as = jnp.stack(
        [jax.vmap(lambda s, action=action: moved(at, s, jnp.int32(action)))(jnp.arange(STATES)) for action in range(3)]
    )
    after_as = jnp.where(jnp.arange(STATES)[None, :] < at.states, after_as, jnp.arange(STATES)[None, :])
    far_s = jnp.where(jnp.arange(STATES) == goal, 0, STATES)

    def nearer(found: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        far_s, _ = found
        new_s = jnp.minimum(far_s, 1 + far_s[after_as].min(0))
        return new_s, (new_s != far_s).any()

    far_s, _ = jax.lax.while_loop(lambda found: found[1], nearer, (far_s, jnp.bool_(True)))
    return jnp.where(place == goal, COLLECT, jnp.argmin(far_s[after_as[:, place]])).astype(jnp.int32)


def _opening(episode: Episode) -> State:
    return State(episode, episode.start, episode.goal, jnp.int32(0), jnp.int32(0))


def _episode(state: State) -> Episode:
    if not isinstance(state, State):
        raise TypeError(
            f"this is no state of Streets, but a {type(state).__module__}.{type(state).__name__}: take one from its "
            "reset or step."
        )
    return state.episode
