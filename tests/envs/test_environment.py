"""What `reset` and `step` make of an environment's three functions."""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.envs import make, registry
from hcam.envs.environment import Environment, Event
from hcam.envs.levels import Mixture
from hcam.envs.spaces import Box, Discrete


class Count(NamedTuple):
    start: jax.Array
    time: jax.Array


@dataclass(frozen=True)
class Counter(Environment):
    """Counts from a random number. Action 1 ends the episode; it is cut off after `params` steps."""

    @property
    def action_space(self):
        return Discrete(2)

    @property
    def observation_space(self):
        return Box((), 0.0, 2000.0)

    def start(self, key, params):
        return Count(jax.random.randint(key, (), 0, 1000), jnp.int32(0))

    def advance(self, key, state, action, params):
        state = state._replace(time=state.time + 1)
        terminated = action == 1
        reward = jax.random.uniform(key)
        return state, reward, terminated, (state.time >= params) & ~terminated, {"time": state.time}

    def observe(self, state, params):
        return (state.start + state.time).astype(jnp.float32)


ENV, LIMIT = Counter(), jnp.int32(3)


def test_inside_an_episode_the_observation_is_the_final_one_too():
    observation, state = ENV.reset(jax.random.key(0), LIMIT)
    after, state, _, terminated, truncated, info = ENV.step(jax.random.key(1), state, jnp.int32(0), LIMIT)
    assert float(after) == float(observation) + 1 == float(info["final_observation"])
    assert not terminated
    assert not truncated
    assert int(state.time) == int(info["time"]) == 1


@pytest.mark.parametrize(("actions", "ending"), [([0, 1], "terminated"), ([0, 0, 0], "truncated")])
def test_an_end_shows_the_next_episode_and_keeps_the_last_observation(actions, ending):
    observation, state = ENV.reset(jax.random.key(0), LIMIT)
    for t, action in enumerate(actions):
        key = jax.random.fold_in(jax.random.key(1), t)
        after, state, _, terminated, truncated, info = ENV.step(key, state, jnp.int32(action), LIMIT)
    assert {"terminated": bool(terminated), "truncated": bool(truncated)} == {
        "terminated": ending == "terminated",
        "truncated": ending == "truncated",
    }
    assert float(info["final_observation"]) == float(observation) + len(actions)
    assert int(state.time) == 0
    assert float(after) == float(state.start)
    assert bool(info["terminated"]) == bool(terminated)
    assert bool(info["truncated"]) == bool(truncated)


def test_every_reset_draws_a_new_episode():
    _, state = ENV.reset(jax.random.key(0), LIMIT)
    keys = jax.random.split(jax.random.key(1), 50)
    after = jax.vmap(lambda key: ENV.step(key, state, jnp.int32(1), LIMIT)[0])(keys)
    assert len(np.unique(after)) > 40


def test_advance_and_start_get_different_keys():
    """A reward and a next episode from one key would be tied together."""
    keys = jax.random.split(jax.random.key(2), 200)
    state = Count(jnp.int32(0), jnp.int32(0))
    _, fresh, reward, *_ = jax.vmap(lambda key: ENV.step(key, state, jnp.int32(1), LIMIT))(keys)
    assert abs(np.corrcoef(np.asarray(fresh.start), np.asarray(reward))[0, 1]) < 0.3


def test_the_unused_final_observation_costs_nothing():
    """Ballet draws one picture per step, not two: with the second one in use the program is much larger."""
    from hcam.envs.tasks.ballet import Ballet

    env = Ballet(tile=9)
    params = env.params("2_delay1")
    _, state = env.reset(jax.random.key(0), params)

    def output_bytes(function):
        compiled: Any = jax.jit(function).lower(jax.random.key(1), state, jnp.int32(0)).compile()
        return compiled.cost_analysis()["bytes accessed"]

    one = output_bytes(lambda key, state, action: env.step(key, state, action, params)[0])
    both = output_bytes(lambda key, state, action: env.step(key, state, action, params)[::5])
    assert both > 1.7 * one


def test_without_levels_there_is_nothing_to_ask_for():
    assert ENV.params() == ()
    with pytest.raises(ValueError, match="Counter has no levels, but was asked for hard"):
        ENV.params("hard")
    with pytest.raises(ValueError, match="Counter cannot build an episode"):
        ENV.episode({})
    with pytest.raises(ValueError, match="Counter cannot describe"):
        ENV.describe(None)
    with pytest.raises(ValueError, match="Counter has no scripted expert"):
        ENV.expert(None)
    with pytest.raises(ValueError, match="Counter does not say which moment"):
        ENV.moments(None)
    with pytest.raises(ValueError, match="Counter has no levels to weigh"):
        ENV.params(weights=[1.0])
    assert (ENV.title("x"), ENV.chance("x"), ENV.max_steps_in_episode("x")) == ("x", None, None)
    assert ENV.delay("x") is None


class Position(NamedTuple):
    start: jax.Array
    time: jax.Array
    level: jax.Array


@dataclass(frozen=True)
class Limited(Counter):
    """The same with levels: how many steps an episode may have."""

    @property
    def levels(self):
        return ("short", "long")

    def level(self, name):
        return jnp.int32({"short": 2, "long": 5}[name])

    def start(self, key, level):
        begun = super().start(key, level)
        return Position(begun.start, begun.time, jnp.int32(-1))  # which reset fills in


def test_a_level_travels_with_its_episode():
    """Every episode has the length of the level that its info names, and both are drawn."""
    env, params = Limited(), Limited().params(weights=[1, 3])
    _, state = env.reset(jax.random.key(0), params)
    lengths: dict[int, set[int]] = {0: set(), 1: set()}
    step, time = jax.jit(env.step), 0
    for t in range(300):
        level, time = int(state.level), time + 1
        _, state, _, _, truncated, info = step(jax.random.key(t), state, jnp.int32(0), params)
        assert int(info["level"]) == level  # of the episode that was played, not of the next
        if truncated:
            lengths[level].add(time)
            time = 0
    assert lengths == {0: {2}, 1: {5}}


def test_without_levels_an_environment_s_own_level_is_left_alone():
    """Of a game, say; and nothing is added to the info of one that says nothing."""

    @dataclass(frozen=True)
    class Dungeon(Counter):
        def advance(self, key, state, action, params):
            *rest, info = super().advance(key, state, action, params)
            return *rest, info | {"level": jnp.int32(7)}

    _, state = ENV.reset(jax.random.key(0), LIMIT)
    infos = [env.step(jax.random.key(1), state, jnp.int32(0), LIMIT)[5] for env in (ENV, Dungeon())]
    assert "level" not in infos[0]
    assert int(infos[1]["level"]) == 7


def test_levels_are_drawn_by_weight_and_independently_of_the_episode():
    env = Limited()
    keys = jax.random.split(jax.random.key(3), 4000)
    state = jax.jit(jax.vmap(lambda key: env.reset(key, env.params(weights=[1, 3]))[1]))(keys)
    level = np.asarray(state.level)
    assert abs(level.mean() - 0.75) < 4 * np.sqrt(0.75 * 0.25 / 4000)
    assert abs(np.corrcoef(level, np.asarray(state.start))[0, 1]) < 4 / np.sqrt(4000)


def test_a_state_without_a_level_is_refused_where_there_are_several():
    @dataclass(frozen=True)
    class Forgetful(Limited):
        def start(self, key, level):
            return Counter.start(self, key, level)

    env = Forgetful()
    with pytest.raises(TypeError, match="a state of Forgetful has no field `level`"):
        env.reset(jax.random.key(0))
    env.reset(jax.random.key(0), env.params("long"))  # one level needs no number


def test_a_state_may_be_a_dataclass():
    @partial(jax.tree_util.register_dataclass, data_fields=["start", "time", "level"], meta_fields=[])
    @dataclass(frozen=True)
    class Plain:
        start: jax.Array
        time: jax.Array
        level: jax.Array

    @dataclass(frozen=True)
    class Modern(Limited):
        def start(self, key, level):
            return Plain(jax.random.randint(key, (), 0, 9), jnp.int32(0), jnp.int32(-1))

    _, state = Modern().reset(jax.random.key(0))
    assert int(state.level) in (0, 1)


def test_success_is_told_or_a_positive_return():
    told, untold = {"success": jnp.bool_(False)}, dict[str, Any]()
    assert not ENV.success(jnp.float32(1), told)
    assert ENV.success(jnp.float32(1), untold)
    assert not ENV.success(jnp.float32(0), untold)


def test_the_mixture_is_what_params_gives():
    params = Limited().params("long", "short")
    assert isinstance(params, Mixture)
    assert params.level_l.tolist() == [5, 2]


def test_an_environment_that_is_not_written_says_so():
    empty: Any = Environment()
    for part in (
        lambda: empty.reset(jax.random.key(0)),
        lambda: empty.advance(None, None, None, None),
        lambda: empty.observe(None, None),
        lambda: empty.action_space,
        lambda: empty.observation_space,
    ):
        with pytest.raises(NotImplementedError):
            part()


def test_events_are_by_default_what_moments_says():
    env = make("first_symbol")
    _, state = env.reset(jax.random.key(0), env.params("blanks2"))
    assert env.events([jax.device_get(state)]) == [Event(0, 1, "to be remembered", True)]
    echo = make("echo")
    assert echo.events([jax.device_get(echo.reset(jax.random.key(0), echo.params())[1])]) == []
    assert env.events([jax.device_get(state)] * 5)[0].asked == ((3, 4),)


def test_actions_have_as_many_names_as_there_are_or_none():
    for name in registry.published():
        env = make(name)
        assert len(set(env.action_names)) == env.action_space.n
    assert make("echo").action_names == ()
