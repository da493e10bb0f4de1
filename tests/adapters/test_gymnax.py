"""Both ways, with the same keys: our environments under gymnax's wrappers, and gymnax's under our contract."""

import copy
import importlib
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import gymnax  # type: ignore[import-untyped]
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnax import wrappers
from gymnax.environments import spaces  # type: ignore[import-untyped]
from gymnax.environments.classic_control.cartpole import CartPole  # type: ignore[import-untyped]

from hcam.adapters.gymnax import from_gymnax, to_gymnax
from hcam.envs import Environment
from hcam.envs.play import at_random, begin, play
from hcam.envs.spaces import Box, Discrete
from hcam.envs.tasks.ballet import VOCABULARY, Ballet
from hcam.envs.tasks.ballet.choreography import Level

ENV = Ballet(tile=1)
PARAMS = ENV.params(Level(dancers=1, delay=0, limit=20))
CHOICE = 15 + 3  # steps until the expert of these episodes has chosen


@contextmanager
def lenient():
    """For code of gymnax itself, which adds bools to floats and scalars to arrays."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


class Played(NamedTuple):
    """A run: the first observation, and then what T steps returned."""

    first: Any
    observation: Any
    reward: Any
    terminated: Any
    truncated: Any
    final: Any


@jax.jit
def split(key):
    return tuple(jax.random.split(key))


def chain(key):
    """Keys as gymnax's object-like wrappers draw them: one per reset or step."""
    while True:
        key, one = split(key)
        yield one


def run(reset, step, actions, keys):
    """`reset(key)` and `step(key, state, action)` over these actions, as NumPy."""
    first, state = reset(next(keys))
    steps = []
    for action in actions:
        observation, state, reward, terminated, truncated, info = step(next(keys), state, action)
        steps.append((observation, reward, terminated, truncated, info["final_observation"]))
    return Played(jax.device_get(first), *stacked(steps))


def stacked(steps):
    return jax.tree.map(lambda *leaves: np.stack(leaves), *jax.device_get(steps))


@partial(jax.jit, static_argnums=0)
def our_reset(env, key, params):
    return env.reset(key, params)


@partial(jax.jit, static_argnums=0)
def our_step(env, params, key, state, action):
    return env.step(key, state, action, params)


def run_ours(env, actions, params, keys):
    return run(partial(our_reset, env, params=params), partial(our_step, env, params), actions, keys)


def assert_same(found, expected):
    """Bit by bit, dtypes included."""
    jax.tree.map(partial(np.testing.assert_array_equal, strict=True), found, expected)


@pytest.fixture(scope="module")
def actions():
    """An episode that the expert plays, one that runs out of time, and the start of a third."""
    keys, expert = chain(jax.random.key(0)), jax.jit(ENV.expert)
    _, state = our_reset(ENV, next(keys), PARAMS)
    taken = []
    for _ in range(CHOICE):
        taken.append(expert(state))
        _, state, *_ = our_step(ENV, PARAMS, next(keys), state, taken[-1])
    return np.array([*taken, *[0, 4] * 12], np.int32)


@pytest.fixture(scope="module")
def native(actions):
    seen = run_ours(ENV, actions, PARAMS, chain(jax.random.key(0)))
    assert np.flatnonzero(seen.terminated).tolist() == [CHOICE - 1]
    assert np.flatnonzero(seen.truncated).tolist() == [CHOICE + 20 - 1]
    assert seen.reward.sum() == 1
    return seen


def drive(env, actions):
    """A gymnax environment, or one inside a wrapper that keeps its interface."""
    keys = chain(jax.random.key(0))
    return run(lambda key: env.reset(key, PARAMS), lambda *args: env.step(*args, PARAMS), actions, keys)


# Ours for gymnax's users ----------------------------------------------------------------------------------------------


def test_it_steps_as_the_environment_itself(actions, native):
    assert_same(drive(to_gymnax(ENV), actions), native)


def test_log_wrapper(actions, native):
    with lenient():
        assert_same(drive(wrappers.LogWrapper(to_gymnax(ENV)), actions), native)


def test_log_wrapper_reports_the_experts_returns():
    """As learners run it: a scan over steps of a batch."""
    env, params = wrappers.LogWrapper(to_gymnax(ENV)), ENV.params("2_delay0", "1_delay0")

    def step(carry, key):
        action = jax.vmap(ENV.expert)(carry.env_state)
        _, state, *_, info = jax.vmap(env.step, in_axes=(0, 0, 0, None))(key, carry, action, params)
        return state, info

    @jax.jit
    def episodes(key):
        key_reset, key_steps = jax.random.split(key)
        _, state = jax.vmap(env.reset, in_axes=(0, None))(jax.random.split(key_reset, 4), params)
        return jax.lax.scan(step, state, jax.random.split(key_steps, (33, 4)))[1]

    with lenient():
        info = jax.device_get(episodes(jax.random.key(1)))
    assert info["returned_episode"].any(axis=0).all()
    assert (info["returned_episode_returns"][info["returned_episode"]] == 1.0).all()
    assert set(info["returned_episode_lengths"][info["returned_episode"]].tolist()) == {18, 33}


def test_sticky_action_wrapper(actions):
    """Always sticky: the first action, which is 0, for ever."""
    keys = (split(key)[1] if n else key for n, key in enumerate(chain(jax.random.key(0))))
    expected = run_ours(ENV, np.zeros_like(actions), PARAMS, keys)
    assert_same(drive(wrappers.StickyActionWrapper(to_gymnax(ENV), 1.0), actions), expected)


def test_legacy_step_api_wrapper(actions, native):
    env = wrappers.LegacyStepAPIWrapper(to_gymnax(ENV))

    def step(key, state, action):
        observation, state, reward, done, info = env.step(key, state, action, PARAMS)
        return observation, state, reward, done, info["truncated"], info

    seen = run(lambda key: env.reset(key, PARAMS), step, actions, chain(jax.random.key(0)))
    assert_same(seen, native._replace(terminated=native.terminated | native.truncated))


def test_dm_env_wrapper(actions, native):
    env, keys = wrappers.GymnaxToDmEnvWrapper(to_gymnax(ENV)), chain(jax.random.key(0))
    with lenient():
        steps = [env.reset(next(keys), PARAMS)]
        for action in actions:
            steps.append(env.step(next(keys), steps[-1], action, PARAMS))
    assert_same(jax.device_get(steps[0].observation), native.first)
    seen = stacked(steps[1:])
    assert_same(seen.observation, native.observation)
    assert_same(seen.final_observation, native.final)
    assert_same(seen.reward, native.reward)
    np.testing.assert_array_equal(seen.discount, 1.0 - native.terminated)


def as_functions(env, seed):
    """An object with gymnasium's interface, as `run` takes it; it draws its keys itself."""
    return lambda _: (env.reset(seed=seed)[0], None), lambda _, state, action: _with_state(env.step(action))


def _with_state(stepped):
    observation, *rest = stepped
    return observation, None, *rest


def test_gym_wrapper(actions, native, monkeypatch):
    # The wrapper writes its name into a dict that all of gymnasium's environments share.
    monkeypatch.setattr(wrappers.GymnaxToGymWrapper, "metadata", {})
    env = wrappers.GymnaxToGymWrapper(to_gymnax(ENV), PARAMS)
    assert env.metadata["name"] == "Ballet"
    assert env.action_space.n == 8
    # Its placeholder for a seed is 0, and JAX knows a key by its object: reset with a seed makes a new one.
    reset, step = as_functions(env, 0)
    assert_same(run(reset, step, actions, chain(jax.random.key(9))), native)
    for observation in (native.first, env.observation_space.sample()):
        assert env.observation_space.contains(observation)


def test_vector_gym_wrapper(actions):
    env = wrappers.GymnaxToVectorGymWrapper(to_gymnax(ENV), num_envs=3, params=PARAMS)
    reset, step = as_functions(env, 5)
    seen = run(reset, step, np.tile(actions, (3, 1)).T, chain(jax.random.key(9)))
    for n, key in enumerate(jax.random.split(jax.random.key(5), 3)):
        expected = run_ours(ENV, actions, PARAMS, chain(key))
        of_one = [seen.first, *(jax.tree.map(lambda leaf: leaf.swapaxes(0, 1), part) for part in seen[1:])]
        assert_same(jax.tree.map(lambda leaf, n=n: leaf[n], Played(*of_one)), expected)


@dataclass(frozen=True)
class Grid(Environment):
    """An array without bounds to look at, and a time-out after three steps."""

    @property
    def action_space(self):
        return Discrete(2)

    @property
    def observation_space(self):
        return Box((2, 3), -jnp.inf, jnp.inf)

    def start(self, key, params):
        return jax.random.normal(key), jnp.int32(0)

    def advance(self, key, state, action, params):
        offset, time = state
        offset = offset + action.astype(jnp.float32)
        return (offset, time + 1), offset, jnp.bool_(False), time + 1 >= 3, {}

    def observe(self, state, params):
        return jnp.full((2, 3), state[0])


def test_flatten_observation_wrapper():
    env = wrappers.FlattenObservationWrapper(to_gymnax(Grid()))
    assert env.observation_space(()).shape == (6,)
    seen = run(env.reset, env.step, [1, 0, 1, 1], chain(jax.random.key(0)))
    expected = run_ours(Grid(), np.array([1, 0, 1, 1], np.int32), (), chain(jax.random.key(0)))
    assert seen.first.shape == (6,)
    np.testing.assert_array_equal(seen.observation, expected.observation.reshape(4, 6))
    np.testing.assert_array_equal(seen.final, expected.final.reshape(4, 6))


def test_what_gymnax_asks_of_an_environment():
    env = to_gymnax(ENV)
    assert (env.name, env.num_actions) == ("Ballet", 8)
    assert_same(env.default_params, ENV.params())
    assert isinstance(env.action_space(), spaces.Discrete)
    space, (observation, _) = env.observation_space(), env.reset(jax.random.key(0), PARAMS)
    assert isinstance(space, spaces.Dict)
    for name, part in space.spaces.items():
        assert isinstance(part, spaces.Box)
        assert (part.shape, part.dtype) == (observation[name].shape, observation[name].dtype)
    words = space.spaces["instruction"]
    assert (words.low, words.high) == (0, len(VOCABULARY) - 1)


def test_step_env_stays_in_its_episode(actions, native):
    env, keys = to_gymnax(ENV), chain(jax.random.key(0))
    step, observe = jax.jit(env.step_env), jax.jit(env.observe)
    observation, state = jax.jit(env.reset_env)(next(keys), PARAMS)
    for action in actions[:CHOICE]:
        key_step, _ = split(next(keys))
        observation, state, reward, terminated, info = step(key_step, state, action, PARAMS)
    assert_same(jax.device_get(observation), jax.tree.map(lambda leaf: leaf[CHOICE - 1], native.final))
    assert_same(observe(jax.random.key(0), state, 0, PARAMS), observation)
    assert (reward, terminated, info["truncated"]) == (1.0, True, False)
    for flag in (env.is_terminated, env.is_truncated):
        with pytest.raises(NotImplementedError, match="take it from step's flags"):
            flag(state, PARAMS)


@dataclass(frozen=True)
class Counted(Grid):
    def advance(self, *args):
        TRACES.append("advance")
        return super().advance(*args)


TRACES: list[str] = []


def test_equal_environments_share_one_program():
    env = to_gymnax(Counted())
    for same in (env, copy.deepcopy(env), to_gymnax(Counted())):
        assert same == env
        _, state = same.reset(jax.random.key(0))
        same.step(jax.random.key(1), state, 0)
    assert TRACES == ["advance"]
    assert to_gymnax(Ballet(tile=1)) != to_gymnax(Ballet(tile=3))


# gymnax's for our users -----------------------------------------------------------------------------------------------

NAMES = ["CartPole-v1", "Catch-bsuite", "MemoryChain-bsuite", "FrozenLake-misc"]


@pytest.mark.parametrize("name", NAMES)
def test_it_steps_as_gymnax_itself(name):
    theirs, params = gymnax.make(name)
    env: Any = from_gymnax(theirs)
    actions = np.random.default_rng(0).integers(env.action_space.n, size=40).astype(np.int32)
    with lenient():
        reset, step = partial(theirs.reset, params=params), partial(theirs.step, params=params)
        expected = run(reset, step, actions, chain(jax.random.key(3)))
        seen = run_ours(env, actions, params, chain(jax.random.key(3)))
    dtype = env.observation_space.dtype
    assert seen.observation.dtype == seen.final.dtype == seen.first.dtype == dtype
    assert seen.reward.dtype == np.float32
    # The compiler may order the sums of a cart's physics otherwise.
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6), seen, expected)
    if name != "MemoryChain-bsuite":  # whose space has no place for the -1 that it shows
        assert all(env.observation_space.contains(one) for one in seen.observation)


def test_an_end_draws_a_new_episode():
    """In one compiled program, for a batch: where the ball starts is drawn anew."""
    env = from_gymnax(gymnax.make("Catch-bsuite")[0])

    @jax.jit
    @jax.vmap
    def steps(key):
        key_begin, key_play = jax.random.split(key)
        now = begin(env, key_begin, env.params())
        return play(env, at_random(env), key_play, now, env.params(), 40)[1]

    with lenient():
        step_bt = jax.device_get(steps(jax.random.split(jax.random.key(0), 3)))
    assert step_bt.first.sum(axis=1).tolist() == [5, 5, 5]  # every nine steps
    starts = step_bt.observation[step_bt.first][:, 0].argmax(axis=-1)  # [15], the ball's column
    assert len({*starts.tolist()}) > 2
    assert len({tuple(row) for row in starts.reshape(3, 5).tolist()}) == 3


def test_time_out_is_no_termination():
    theirs, params = gymnax.make("CartPole-v1")
    env = from_gymnax(theirs, params.replace(max_steps_in_episode=4))
    assert env.params().max_steps_in_episode == 4
    with lenient():
        seen = run_ours(env, np.array([0, 1] * 3, np.int32), None, chain(jax.random.key(0)))
        fallen = run_ours(env, np.zeros(16, np.int32), params, chain(jax.random.key(0)))
    assert seen.truncated.tolist() == [False] * 3 + [True] + [False] * 2
    assert not seen.terminated.any()
    assert (np.abs(seen.observation[3]) <= 0.05).all(), "not the first observation of an episode"
    assert (seen.final[3] != seen.observation[3]).any()
    assert fallen.terminated.any()
    assert not fallen.truncated.any(), "params given to step replace the environment's own"


def test_a_state_has_one_type_at_every_step():
    env = from_gymnax(gymnax.make("CartPole-v1")[0])  # its clock starts as Python's 0
    with lenient():
        _, state = env.reset(jax.random.key(0))
        _, after, *_ = env.step(jax.random.key(1), state, jnp.int32(0))
    assert jax.tree.map(jax.typeof, state) == jax.tree.map(jax.typeof, after)
    assert not state.time.aval.weak_type


def test_round_trip_is_the_environment_itself(actions, native):
    env: Any = from_gymnax(to_gymnax(ENV))
    assert_same(run_ours(env, actions, PARAMS, chain(jax.random.key(0))), native)
    assert env.observation_space["image"] == ENV.observation_space["image"]
    assert from_gymnax(to_gymnax(Grid())).observation_space == Grid().observation_space  # bounds may be infinite


def test_gymnax_wrappers_may_be_inside():
    env, actions = from_gymnax(wrappers.LogWrapper(to_gymnax(Grid()))), np.array([1, 0, 1, 1], np.int32)
    with lenient():
        seen = run_ours(env, actions, (), chain(jax.random.key(0)))
    assert_same(seen, run_ours(Grid(), actions, (), chain(jax.random.key(0))))


def test_it_is_static_for_jit():
    env: Any = from_gymnax(gymnax.make("Acrobot-v1")[0])  # whose params hold arrays, which have no hash
    assert hash(env) == hash(env)
    with lenient():
        observation, _ = jax.jit(lambda env, key: env.reset(key), static_argnums=0)(env, jax.random.key(0))
    assert env.observation_space.contains(observation)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"Pendulum-v1 takes actions from Box.*only Discrete"):
        from_gymnax(gymnax.make("Pendulum-v1")[0])

    class Pair(CartPole):
        def observation_space(self, params):
            return spaces.Tuple([spaces.Discrete(2)])

    with pytest.raises(ValueError, match=r"an observation is a Box, .* but Tuple"):
        from_gymnax(Pair())
    with pytest.raises(ValueError, match="FromGymnax has no levels"):
        from_gymnax(gymnax.make("Catch-bsuite")[0]).params("hard")


def test_without_gymnax_the_import_says_what_to_install(monkeypatch):
    monkeypatch.delitem(sys.modules, "hcam.adapters.gymnax")
    monkeypatch.setitem(sys.modules, "gymnax.environments", None)
    with pytest.raises(ImportError, match=r'pip install "hcam\[gymnax\]"'):
        importlib.import_module("hcam.adapters.gymnax")
