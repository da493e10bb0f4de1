"""Probes: small tasks whose answers are known, to find out in seconds which part of an agent or learner is broken.

An observation is one-hot, or zeros. A level is one number: `blanks8` is 8. The axis letter I is an item of those drawn.
"""

import re
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from hcam.envs.environment import Delay, Environment, Info, Moments
from hcam.envs.levels import Level
from hcam.envs.spaces import Box, Discrete


class State(NamedTuple):
    number: jax.Array  # int32, the level itself
    level: jax.Array  # int32, its number in the mixture
    item_i: jax.Array  # int32, the symbols of this episode
    asked: jax.Array  # int32, which of them is the answer
    time: jax.Array  # int32, steps since the episode began


class Sizes(NamedTuple):
    width: int  # of an observation
    items: int = 1  # drawn per episode
    smallest: int = 1
    largest: int = 10**8 - 1  # number of a level


@dataclass(frozen=True)
class Probe(Environment):
    """What all probes share: an episode has a known number of steps, and its last one counts."""

    symbols: int = 4  # as many actions
    word: ClassVar[str] = ""  # a level is this word and a number
    typical: ClassVar[tuple[int, ...]] = ()
    extra: ClassVar[int] = 0  # steps beyond the level's number
    needs_memory: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for name, smallest in (("symbols", 2), ("longest", 1)):
            if getattr(self, name, smallest) < smallest:
                raise ValueError(f"{name} must be at least {smallest}, but is {getattr(self, name)}.")

    @property
    def sizes(self) -> Sizes:
        return Sizes(width=self.symbols)

    def shown(self, state: State) -> jax.Array:
        """Which entry of the observation is 1; -1 for none."""
        return state.item_i[0]

    def right(self, state: State, action: jax.Array) -> jax.Array:
        return action == state.item_i[state.asked]

    def best(self, level: str = "") -> float:
        """Expected return per episode, not discounted, of the best policy; without a name, of the first level."""
        return 1.0

    def blind(self, level: str = "") -> float:
        """The same for the best policy without memory, which knows what is on show and nothing else."""
        return self.guess(level) if self.needs_memory else self.best(level)

    def guess(self, level: str = "") -> float:
        """The same for uniformly random actions."""
        return 1 / self.symbols

    def chance(self, level: str) -> float | None:
        return self.guess(level)

    def max_steps_in_episode(self, level: str) -> int:
        number = self._number(level) if self.word else 1  # without levels, any name will do
        return number + self.extra

    def expert(self, state: State) -> jax.Array:
        return state.item_i[state.asked]

    def label(self, state: State) -> jax.Array:
        """Only the last step counts."""
        return jnp.where(self._is_last(state), self.expert(state), -1)

    def value(self, state: State, discount: float) -> jax.Array:
        """What an expert can expect from here on."""
        steps_after = state.number + self.extra - 1 - state.time
        return jnp.power(jnp.float32(discount), steps_after.astype(jnp.float32))

    @property
    def action_space(self) -> Discrete:
        return Discrete(self.symbols)

    @property
    def observation_space(self) -> Box:
        return Box((self.sizes.width,), 0, 1)

    @property
    def levels(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(f"{self.word}{min(n, self.sizes.largest)}" for n in self.typical))

    @property
    def default_levels(self) -> tuple[str, ...]:
        return self.levels[:1]

    def level(self, name: str) -> jax.Array:
        return jnp.asarray(self._number(name), jnp.int32)

    def start(self, key: jax.Array, level: Level) -> State:
        _, key_items, key_asked = jax.random.split(key, 3)  # the first once drew the level: seeds keep their episodes
        number: jax.Array = level if self.word else jnp.int32(1)
        item_i = jax.random.randint(key_items, (self.sizes.items,), 0, self.symbols)
        asked = jax.random.randint(key_asked, (), 0, jnp.clip(number, 1, self.sizes.items))
        return State(number, jnp.int32(0), item_i, asked, jnp.int32(0))

    def advance(
        self, key: jax.Array, state: State, action: jax.Array, level: Level
    ) -> tuple[State, jax.Array, jax.Array, jax.Array, Info]:
        last = self._is_last(state)
        success = last & self.right(state, action)
        reward = success.astype(jnp.float32)
        return state._replace(time=state.time + 1), reward, last, jnp.bool_(False), {"success": success}

    def _is_last(self, state: State) -> jax.Array:
        return state.time == state.number + self.extra - 1

    def observe(self, state: State, level: Level) -> jax.Array:
        return jax.nn.one_hot(self.shown(state), self.sizes.width, dtype=jnp.float32)

    def _number(self, level: str) -> int:
        if not level:
            return self._number(self.levels[0]) if self.word else 1
        _, _, smallest, largest = self.sizes
        found = re.fullmatch(rf"{self.word}(0|[1-9]\d{{0,7}})", level) if self.word else None
        if found and smallest <= int(found[1]) <= largest:
            return int(found[1])
        form = f"a level is {self.word}{{n}}, with n from {smallest} to {largest}, such as {', '.join(self.levels)}"
        hint = form if self.word else "it has no levels"
        raise ValueError(f"there is no {type(self).__name__} level {level!r}: {hint}.")


@dataclass(frozen=True)
class Constant(Probe):
    """Reward 1 for a single step, whatever is done: its value is 1."""

    @property
    def sizes(self) -> Sizes:
        return Sizes(width=1)

    def shown(self, state: State) -> jax.Array:
        return jnp.asarray(0, jnp.int32)

    def start(self, key: jax.Array, level: Level) -> State:
        return super().start(key, level)._replace(item_i=jnp.zeros(1, jnp.int32))

    def right(self, state: State, action: jax.Array) -> jax.Array:
        return jnp.asarray(True)

    def guess(self, level: str = "") -> float:
        return 1.0


@dataclass(frozen=True)
class Discount(Constant):
    """Reward 1 at the n-th step, whatever is done. On show are the k steps to go: their value is discount^(k-1)."""

    longest: int = 32  # steps that can be shown

    word: ClassVar[str] = "steps"
    typical: ClassVar[tuple[int, ...]] = (8, 2, 32)

    @property
    def sizes(self) -> Sizes:
        return Sizes(width=self.longest, largest=self.longest)

    def shown(self, state: State) -> jax.Array:
        return state.number - state.time - 1


@dataclass(frozen=True)
class Echo(Probe):
    """Name the symbol on show, in a single step."""


@dataclass(frozen=True)
class Timeout(Probe):
    """Symbol 1 pays 1 at every step, symbol 0 pays nothing, and after n steps time is up.

    Nothing is over, so the values are 1 / (1 - discount) and 0, for a learner that goes on from the final observation.
    One that takes the time-out for an end, or goes on from the next episode's first observation, finds less for 1.
    """

    symbols: int = field(default=2, init=False)

    word: ClassVar[str] = "steps"
    typical: ClassVar[tuple[int, ...]] = (8, 2, 32)

    def advance(
        self, key: jax.Array, state: State, action: jax.Array, level: Level
    ) -> tuple[State, jax.Array, jax.Array, jax.Array, Info]:
        state = state._replace(time=state.time + 1)
        info = {"success": jnp.bool_(False)}  # there is nothing to succeed in
        return state, state.item_i[0].astype(jnp.float32), jnp.bool_(False), state.time >= state.number, info

    def best(self, level: str = "") -> float:
        return self._number(level) / 2

    def guess(self, level: str = "") -> float:
        return self.best(level)

    def chance(self, level: str) -> None:
        return None

    def value(self, state: State, discount: float) -> jax.Array:
        return state.item_i[0].astype(jnp.float32) / (1 - discount)


@dataclass(frozen=True)
class FirstSymbol(Probe):
    """A symbol, n blanks (zeros), then a cue: name the symbol at the cue."""

    word: ClassVar[str] = "blanks"
    typical: ClassVar[tuple[int, ...]] = (8, 0, 32, 128)
    extra: ClassVar[int] = 2
    needs_memory: ClassVar[bool] = True

    @property
    def sizes(self) -> Sizes:
        return Sizes(width=self.symbols + 1, smallest=0)

    def shown(self, state: State) -> jax.Array:
        return jnp.where(state.time == 0, state.item_i[0], jnp.where(state.time > state.number, self.symbols, -1))

    def delay(self, level: str) -> Delay:
        return Delay(self._number(level), "")

    def moments(self, state: State) -> Moments:
        return Moments(jnp.int32(0), jnp.int32(1), state.number + 1)


@dataclass(frozen=True)
class KthItem(Probe):
    """n symbols, one per step, then a query for the k-th of them: name that one.

    Symbols may come twice. The query is one-hot in entries of its own, which follow those of the symbols.
    """

    longest: int = 8  # items that can be asked for

    word: ClassVar[str] = "items"
    typical: ClassVar[tuple[int, ...]] = (4, 2, 8)
    extra: ClassVar[int] = 1
    needs_memory: ClassVar[bool] = True

    @property
    def sizes(self) -> Sizes:
        return Sizes(width=self.symbols + self.longest, items=self.longest, largest=self.longest)

    def shown(self, state: State) -> jax.Array:
        item = state.item_i[jnp.minimum(state.time, self.longest - 1)]
        return jnp.where(state.time < state.number, item, self.symbols + state.asked)

    def moments(self, state: State) -> Moments:
        return Moments(state.asked, state.asked + 1, state.number)


PROBES: dict[str, type[Probe]] = {
    "constant": Constant,
    "echo": Echo,
    "discount": Discount,
    "timeout": Timeout,
    "first_symbol": FirstSymbol,
    "kth_item": KthItem,
}
