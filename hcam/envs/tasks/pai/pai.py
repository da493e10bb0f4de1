"""Paired associative inference: A goes with B and B goes with C, so which of two items goes with A?

levels.py says how long chains are and what is asked, episodes.py what goes with what, stimuli.py what items look like.
An episode is one step: it shows a memory of pairs and a query, and the action is one of the two options.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from hcam.envs.environment import Environment, Info
from hcam.envs.spaces import Box, Discrete, Space
from hcam.envs.tasks.pai import levels, pictures, stimuli
from hcam.envs.tasks.pai.episodes import Episode, asked, draw, from_description, rows, to_description
from hcam.envs.tasks.pai.levels import LONGEST, PAPER_LEVELS, SHORTEST, Level, LevelParams, parsed
from hcam.envs.tasks.pai.stimuli import LIMIT, RANDOM, Stimuli
from hcam.envs.values import is_whole

SEQUENCES, FEATURES = 16, 1000  # as published


class State(NamedTuple):
    episode: Episode
    level: jax.Array  # int32, its number in the mixture


@dataclass(frozen=True)
class PairedInference(Environment):
    """Pairs A-B and B-C are in view: say which of two items goes with A."""

    sequences: int = SEQUENCES  # chains in a memory
    longest: int = LONGEST  # letters of the longest chain, which decides the shape of a memory
    features: int = FEATURES  # numbers of an item
    stimuli: str = RANDOM  # random vectors, `digits`, a folder of pictures, or an .npz file with features
    seed: int = 0  # of the items: their vectors, or the order and projection of pictures

    def __post_init__(self) -> None:
        limits = {"sequences": (2, 64), "longest": (SHORTEST, LONGEST), "features": (8, 10_000), "seed": (0, 2**31 - 1)}
        for name, (low, high) in limits.items():
            if not is_whole(getattr(self, name), low, high):
                raise ValueError(
                    f"{name} must be a whole number from {low} to {high:,}, but is {getattr(self, name)!r}."
                )
        if self.sequences * self.longest > 127:  # `shuffled` numbers items with seven bits
            raise ValueError(
                f"{self.sequences} sequences of up to {self.longest} items are more than 127: lower one of the two."
            )
        if not isinstance(self.stimuli, str):
            raise ValueError(f"stimuli must be a text, such as {RANDOM!r}, but is {self.stimuli!r}.")
        needed = self.sequences * self.longest
        for name, (_, count) in self._stimuli.pools.items():
            if count < needed:
                raise ValueError(
                    f"a memory needs {needed} different items, but only {count} of {self.stimuli} are in the pool "
                    f"{name!r}: lower sequences or longest, or give more."
                )

    @property
    def _stimuli(self) -> Stimuli:
        return stimuli.load(self.stimuli, self.features, self.seed)

    @property
    def rows(self) -> int:
        """Pairs that a memory has room for."""
        return self.sequences * (self.longest - 1)

    @property
    def action_space(self) -> Discrete:
        return Discrete(2)

    @property
    def action_names(self) -> tuple[str, ...]:
        return "left option", "right option"

    @property
    def observation_space(self) -> dict[str, Space]:
        return {
            "memory": Box((self.rows, 2, self.features), -LIMIT, LIMIT),
            "query": Box((3, self.features), -LIMIT, LIMIT),
            "filled": Discrete(self.rows + 1),
        }

    @property
    def levels(self) -> tuple[str, ...]:
        return levels.names(self.longest)

    @property
    def default_levels(self) -> tuple[str, ...]:
        return PAPER_LEVELS

    def level(self, name: str | Level) -> LevelParams:
        found = parsed(name)
        if found.length > self.longest:
            raise ValueError(
                f"chains of {found.length} do not fit a memory for chains of {self.longest}: give longest="
                f"{found.length} (--env-arg)."
            )
        return found.params(self._stimuli.pools)

    def title(self, level: str) -> str:
        known = parsed(level)
        pool = {"train": "", "valid": ", validation", "test": ", held out"}[known.pool]
        asked = "" if known.query == "all" else f", {known.query}"
        asked = f", {known.query[0].upper()}-{known.query[1].upper()}" if len(known.query) == 2 else asked
        return f"chains of {known.length}{asked}{pool}"

    def chance(self, level: str) -> float:
        return 1 / 2

    def max_steps_in_episode(self, level: str) -> int:
        return 1

    def smaller(self, levels: Sequence[str]) -> list[str]:
        fewer = [f"{self.sequences} sequences instead of {SEQUENCES}"] if self.sequences < SEQUENCES else []
        short = self.stimuli == RANDOM and self.features < FEATURES
        return fewer + ([f"items of {self.features} numbers instead of {FEATURES:,}"] if short else [])

    def start(self, key: jax.Array, level: LevelParams) -> State:
        return State(draw(key, level, self.sequences, self.longest), jnp.int32(0))

    def advance(
        self, key: jax.Array, state: State, action: jax.Array, level: LevelParams
    ) -> tuple[State, jax.Array, jax.Array, jax.Array, Info]:
        del key, level  # nothing is random after the beginning, and the episode has what it needs of its level
        right = action == state.episode.answer
        return state, right.astype(jnp.float32), jnp.bool_(True), jnp.bool_(False), {"success": right}

    def observe(self, state: State, level: LevelParams) -> dict[str, jax.Array]:
        return self._seen(state)

    def _seen(self, state: State) -> dict[str, jax.Array]:
        item_s = state.episode.item_nl.reshape(-1)
        item_sf = stimuli.vectors(self._stimuli, item_s, self.features, self.seed)
        place_r2, filled = rows(state.episode)
        known_r = jnp.arange(self.rows) < filled
        memory_r2f = jnp.where(known_r[:, None, None], item_sf[place_r2], 0.0)
        return {"memory": memory_r2f, "query": item_sf[asked(state.episode)], "filled": filled.astype(jnp.int32)}

    def expert(self, state: State) -> jax.Array:
        return _episode(state).answer

    def episode(self, description: Mapping[str, Any]) -> State:
        found = from_description(description, self._stimuli.pools, self.sequences, self.longest)
        return State(found, jnp.int32(0))

    def describe(self, state: State) -> dict[str, Any]:
        return to_description(jax.device_get(_episode(state)), self._stimuli.pools)

    def picture(self, states: Sequence[State]) -> pictures.Pixels:
        return pictures.draw(jax.device_get(self._seen(states[-1])))


def _episode(state: State) -> Episode:
    if not isinstance(state, State):
        raise TypeError(
            f"this is no state of PairedInference, but a {type(state).__module__}.{type(state).__name__}: take one "
            "from its reset or step."
        )
    return state.episode
