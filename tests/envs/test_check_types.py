"""Environments that break a rule which tracing tells: each is refused, with a sentence about that rule."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import pytest

from hcam.envs import Environment
from hcam.envs.check import ContractError, check
from hcam.envs.check_types import check_one_trace, check_types
from hcam.envs.spaces import Box, Discrete


class State(NamedTuple):
    goal: Any
    time: Any


@dataclass(frozen=True)
class Guess(Environment):
    """Keeps the contract: action 1 earns the number on show, action 2 ends the episode, and so do five steps."""

    @property
    def action_space(self):
        return Discrete(3)

    @property
    def observation_space(self):
        return {"goal": Box((), 0, 1), "time": Discrete(6)}

    def start(self, key, params):
        return State(jax.random.uniform(key), jnp.int32(0))

    def advance(self, key, state, action, params):
        reward = jnp.where(action == 1, state.goal, 0)
        state = state._replace(time=state.time + 1)
        terminated = action == 2
        return state, reward, terminated, (state.time == 5) & ~terminated, {}

    def observe(self, state, params):
        return {"goal": state.goal, "time": state.time}


def stepping(change):
    """Guess, whose step returns something else: `change` gets the six results in a list and alters it."""

    class Changed(Guess):
        def step(self, key, state, action, params=None):
            results = list(super().step(key, state, action, params))
            change(results)
            return tuple(results)

    return Changed()


def put(i, value):
    def change(results):
        results[i] = value(results[i])

    return change


def info(**entries):
    return put(5, lambda old: old | entries)


def without(name):
    return put(5, lambda old: {key: value for key, value in old.items() if key != name})


@dataclass(frozen=True)
class NotHashable(Guess):
    sizes: list = field(default_factory=list)


class NoSpace(Guess):
    @property
    def observation_space(self):
        return (2,)


class LevelByName(Guess):
    def params(self, *levels, weights=None):
        return {"level": "hard"}


class Branches(Guess):
    def start(self, key, params):
        state = super().start(key, params)
        return state if state.goal > 0.5 else state._replace(goal=jnp.float32(0))


class ThreeResults(Guess):
    def reset(self, key, params=None):
        return *super().reset(key, params), {}


class WideReset(Guess):
    def reset(self, key, params=None):
        observation, state = super().reset(key, params)
        return observation | {"goal": observation["goal"][None]}, state


class WeakStart(Guess):
    def start(self, key, params):
        return State(jax.random.uniform(key), jnp.asarray(0))

    def step(self, key, state, action, params=None):
        results = super().step(key, state, action, params)
        return results[0], results[1]._replace(time=results[1].time.astype(jnp.int32)), *results[2:]


class ForgetsEntries(Guess):
    steps = 0

    def advance(self, key, state, action, params):
        *results, info = super().advance(key, state, action, params)
        ForgetsEntries.steps += 1
        return *results, info | {f"bonus_{ForgetsEntries.steps % 2}": jnp.float32(0)}


class LevelsOfManyShapes(Guess):
    @property
    def levels(self):
        return ("tiny", "large")

    def params(self, *levels, weights=None):
        return {"sizes": jnp.zeros(len((levels or self.levels)[0]), jnp.float32), "speed": jnp.float32(1)}


@pytest.mark.parametrize(
    ("env", "words"),
    [
        (NotHashable(), ["NotHashable is not hashable", "frozen=True"]),
        (NoSpace(), ["observation_space must be a Discrete, Box or Tokens", "(2,)"]),
        (LevelByName(), ["params must be a pytree of arrays", "params['level'] is 'hard'"]),
        (Branches(), ["reset cannot be traced", "TracerBoolConversionError", "jax.numpy"]),
        (ThreeResults(), ["reset must return a tuple of 2"]),
        (stepping(lambda results: results.pop()), ["step must return a tuple of 6"]),
        (WideReset(), ["the observation of reset is not like observation_space", "['goal'] is float32[1], not"]),
        (
            stepping(put(0, lambda seen: seen | {"time": seen["time"].astype(jnp.int8)})),
            ["the observation of step is not like observation_space", "['time'] is int8[], not int32[]"],
        ),
        (
            stepping(put(0, lambda seen: {"goal": seen["goal"]})),
            ["the observation of step", "['time'] is missing"],
        ),
        (
            stepping(put(1, lambda state: state._replace(time=state.time.astype(jnp.float32)))),
            ["the state of step is not like the one of reset", ".time is float32[], not int32[]", "cast"],
        ),
        (stepping(put(1, tuple)), ["the state of step", ".goal is missing"]),
        (WeakStart(), ["the state of step", ".time is int32[], not int32[] (weakly typed)"]),
        (stepping(put(2, lambda reward: reward.astype(jnp.int32))), ["reward is not like", "int32[], not float32[]"]),
        (stepping(put(2, lambda reward: reward[None])), ["it is float32[1], not float32[]", "a scalar of float32"]),
        (stepping(put(3, lambda flag: flag.astype(jnp.float32))), ["terminated", "float32[], not bool[]"]),
        (stepping(put(4, lambda flag: flag[None])), ["truncated", "bool[1], not bool[]"]),
        (stepping(without("terminated")), ["info has no 'terminated'"]),
        (stepping(without("truncated")), ["info has no 'truncated'"]),
        (stepping(without("final_observation")), ["info has no 'final_observation'"]),
        (stepping(info(final_observation=jnp.float32(0))), ["info['final_observation'] is not like"]),
        (stepping(info(truncated=jnp.int32(0))), ["info['truncated']", "int32[], not bool[]"]),
        (stepping(info(note="won")), ["step cannot be traced"]),
        (ForgetsEntries(), ["the info of a second step", "bonus", "the same entries"]),
        (
            LevelsOfManyShapes(),
            ["reset was traced 2 times and step 2", "params('large')", "['sizes'] is float32[5]", "params('tiny')"],
        ),
    ],
)  # fmt: skip
def test_a_broken_environment_is_refused(env, words):
    with pytest.raises(ContractError) as refusal:
        check(env)
    missing = [word for word in words if word not in str(refusal.value)]
    assert not missing, str(refusal.value)
    assert str(refusal.value).count("\n") == 0
    assert str(refusal.value).endswith(".")


def test_one_that_keeps_the_rules_is_not_refused():
    check_types(Guess(), ())
    programs = check_one_trace(Guess(), ())
    assert programs.reset(jax.random.key(0), ())[1].time == 0
