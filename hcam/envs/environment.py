"""The environment contract: gymnax 1.0's `reset` and `step`, made of three pure functions that an environment writes.

An environment is a frozen dataclass (so that it is hashable and may be a static argument of `jax.jit`) whose fields
decide shapes. What may differ from episode to episode is its level, a pytree of arrays. `EnvParams` is a mixture of
levels; an environment without levels takes any pytree of arrays in its place.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from hcam.envs import levels as mixtures
from hcam.envs.levels import Level, Mixture, level_of
from hcam.envs.spaces import Discrete, Spaces

State = Any  # a pytree of arrays, the same structure, shapes and dtypes at every step
EnvParams = Any  # a Mixture, or what an environment without levels takes: a pytree of arrays
Observation = Any  # an array, or a dict of arrays by name, as `observation_space` says
Info = dict[str, Any]


class Moments(NamedTuple):
    """What has to be remembered of an episode, and when, in steps from its first observation: int32 scalars."""

    begin: jax.Array  # the first step of what matters
    end: jax.Array  # one past its last
    question: jax.Array  # the step from which on it is asked for


class Event(NamedTuple):
    """Something that happens in an episode, in steps from its first observation, for people and for analyses."""

    begin: int
    end: int  # one past its last step
    name: str
    matters: bool = False  # whether it is what is asked for at the end
    kind: str = ""  # what is asked for is compared with what could have been: with others of its kind
    asked: tuple[tuple[int, int], ...] = ()  # from which step, and until before which, it is asked for


def until_the_end(question: int, states: Sequence[State]) -> tuple[tuple[int, int], ...]:
    """An `Event`'s `asked` where the question stands from this step on; empty where it has not come yet."""
    steps = len(states) - 1
    return ((question, steps),) if question < steps else ()


class Delay(NamedTuple):
    """How long a level makes an agent wait, for figures of success over delay."""

    steps: int  # of each pause between what has to be remembered and the question
    of: str  # the level's title without its delay: levels that differ in nothing else have the same


class Environment:
    """Derive from this, write the parts that raise NotImplementedError, and `reset` and `step` follow.

    Everything is written for one environment; `jax.vmap` makes a batch. docs/environments.md has the whole contract.
    """

    # What an environment writes ---------------------------------------------------------------------------------------

    def start(self, key: jax.Array, level: Level) -> State:
        """A new episode of a level, at its first observation."""
        raise NotImplementedError

    def advance(
        self, key: jax.Array, state: State, action: jax.Array, level: Level
    ) -> tuple[State, jax.Array, jax.Array, jax.Array, Info]:
        """One step inside an episode: state, reward (float32), terminated, truncated (bool), info."""
        raise NotImplementedError

    def observe(self, state: State, level: Level) -> Observation:
        """What the agent sees in a state."""
        raise NotImplementedError

    @property
    def action_space(self) -> Discrete:
        raise NotImplementedError

    @property
    def observation_space(self) -> Spaces:
        raise NotImplementedError

    # What an environment with levels writes as well. Its state has a field `level`, int32, which `reset` fills in -----

    @property
    def levels(self) -> tuple[str, ...]:
        """Names that `level` knows, for lists and examples; there may be more."""
        return ()

    @property
    def default_levels(self) -> tuple[str, ...]:
        """The mixture that is played where none is asked for."""
        return self.levels

    def level(self, name: str) -> Level:
        """One level by name, as data: of the same structure, shapes and dtypes for all names."""
        raise ValueError(f"{type(self).__name__} has no levels, but was asked for {name}.")

    # Facts that others ask for. All have a default --------------------------------------------------------------------

    def title(self, level: str) -> str:
        """What a level is called in figures and tables."""
        return level

    @property
    def action_names(self) -> tuple[str, ...]:
        """What the actions are called, for people. Empty: they have numbers alone."""
        return ()

    @property
    def scored_by(self) -> Literal["success", "return"]:
        """What an agent is judged by: the share of episodes that it solves, or the mean return of an episode."""
        return "success"

    def chance(self, level: str) -> float | None:
        """The score of guessing: a share of episodes or, where `scored_by` says so, a mean return. None: not known."""
        return None

    def max_steps_in_episode(self, level: str) -> int | None:
        """The length of the longest episode of a level; None: not known."""
        return None

    def delay(self, level: str) -> Delay | None:
        """The delay of a level; None: its levels have no such number."""
        return None

    def success(self, episode_return: jax.Array, info: Info) -> jax.Array:
        """Whether an episode was solved, asked at its last step: `info["success"]`, else a positive return."""
        solved: jax.Array = info.get("success", episode_return > 0)
        return solved

    def smaller(self, levels: Sequence[str]) -> list[str]:
        """In what this environment and these levels are easier than the published task; nothing: in nothing."""
        return []

    def expert(self, state: State) -> jax.Array:
        """The action of an agent that knows the answer: the yardstick for a task, and the player in its pictures."""
        raise ValueError(f"{type(self).__name__} has no scripted expert.")

    def label(self, state: State) -> jax.Array:
        """The right action in a state, for supervised learning; -1 where there is none to learn."""
        return self.expert(state)

    def moments(self, state: State) -> Moments:
        """Which steps of this state's episode matter, and when they are asked for."""
        raise ValueError(f"{type(self).__name__} does not say which moment of an episode matters.")

    def events(self, states: Sequence[State]) -> list[Event]:
        """What happens in an episode, in order, from its states as numpy arrays; by default what `moments` says.

        The states are those before the first step and after each one; what is asked for until the end is asked for
        until before the last of them.
        """
        try:
            begin, end, question = map(int, self.moments(states[-1]))
        except ValueError:
            return []
        return [Event(begin, end, "to be remembered", True, asked=until_the_end(question, states))]

    def picture(self, states: Sequence[State]) -> Any:
        """What `hcam show` draws after these states of an episode, uint8 [height, width, 3]; None: what is observed."""
        return None

    def episode(self, description: Mapping[str, Any]) -> State:
        """The first state of exactly this episode, from a description in plain words."""
        raise ValueError(f"{type(self).__name__} cannot build an episode from a description.")

    def describe(self, state: State) -> dict[str, Any]:
        """The description of the episode that a state belongs to: what `episode` takes."""
        raise ValueError(f"{type(self).__name__} cannot describe its episodes.")

    @property
    def is_saved(self) -> bool:
        """Whether a state is all there is: if the rest lives on the host, a resumed run starts its episodes anew."""
        return True

    # What follows -----------------------------------------------------------------------------------------------------

    def params(self, *levels: Any, weights: Sequence[float] | None = None) -> EnvParams:
        """A mixture of levels, by name or as data from `level`; without any, of `default_levels`."""
        names = levels or self.default_levels
        if not names:
            if weights:
                raise ValueError(f"{type(self).__name__} has no levels to weigh: leave out weights.")
            return ()
        return mixtures.mixture([self.level(name) for name in names], weights)

    def reset(self, key: jax.Array, params: EnvParams | None = None) -> tuple[Observation, State]:
        params = self.params() if params is None else params
        state = self._start(key, params)
        return self.observe(state, level_of(params, state)), state

    def step(
        self, key: jax.Array, state: State, action: jax.Array, params: EnvParams | None = None
    ) -> tuple[Observation, State, jax.Array, jax.Array, jax.Array, Info]:
        """One step. Where the episode ends, the observation and state returned are the first of a new one.

        The last observation of the old episode is `info["final_observation"]`; it equals the observation returned
        where the episode goes on. A program that does not use it does not compute it.
        """
        params = self.params() if params is None else params
        key_advance, key_start = jax.random.split(key)
        played = level_of(params, state)
        with _explained(self, (state, params), self._examples):
            last, reward, terminated, truncated, info = self.advance(key_advance, state, action, played)
        fresh, done = self._start(key_start, params), terminated | truncated
        after = jax.tree.map(lambda new, old: jnp.where(done, new, old), fresh, last)
        info = info | {"terminated": terminated, "truncated": truncated}
        info |= {"level": state.level} if hasattr(state, "level") else {}
        info["final_observation"] = self.observe(last, played)
        return self.observe(after, level_of(params, after)), after, reward, terminated, truncated, info

    def _examples(self) -> tuple[State, EnvParams]:
        """A state and params of this environment."""
        params = self.params()
        return jax.eval_shape(lambda key: self._start(key, params), jax.random.key(0)), params

    def _start(self, key: jax.Array, params: EnvParams) -> State:
        mixed = isinstance(params, Mixture)
        number = mixtures.draw(key, params) if mixed else jnp.int32(0)
        with _explained(self, params, self.params):
            state = self.start(key, mixtures.pick(params, number) if mixed else params)
        return _with_level(self, state, number, params.weight_l.size) if mixed else state


@contextmanager
def _explained(env: Environment, given: Any, own: Callable[[], Any]) -> Iterator[None]:
    """Says so where an environment fails because it was `given` a state or params of another one."""
    try:
        yield
    except (AttributeError, TypeError) as error:
        structures: list[Any] = [jax.tree.structure(tree) for tree in (given, own())]
        if structures[0] == structures[1]:
            raise  # its author's own mistake
        sentence = f"{type(env).__name__} cannot use this state or these params ({error}): take them from its own reset"
        raise TypeError(f"{sentence} and params().") from error


def _with_level(env: Environment, state: State, number: jax.Array, count: int) -> State:
    """The state with the number of its level, which travels with it: the next episode may be of another one."""
    if hasattr(state, "level"):
        replace = state._replace if hasattr(state, "_replace") else lambda **new: dataclasses.replace(state, **new)
        return replace(level=number)
    if count > 1:
        raise TypeError(
            f"a state of {type(env).__name__} has no field `level`, so that an episode would not know which of several "
            "levels it is of: add `level: jax.Array` (int32), which reset fills in."
        )
    return state
