"""A Gymnasium environment inside jit, vmap and scan gives what it gives when it is stepped by hand."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from hcam.adapters.from_gymnasium import from_gymnasium
from hcam.envs.play import at_random, begin, play
from hcam.envs.spaces import Box, Discrete, Tokens
from hcam.envs.tasks.ballet import VOCABULARY, Ballet
from hcam.envs.tasks.ballet.choreography import COLORS, DANCES, SHAPES
from tests.envs.tasks.ballet.slow_ballet import SlowBallet

FROM_THE_HOST = (jax.errors.JaxRuntimeError, ValueError)  # JAX raises the one or the other, depending on what is cached


class Recorded(gymnasium.Wrapper):
    """Notes the seed with which it began."""

    seed: int

    def reset(self, *, seed=None, options=None):
        self.seed = self.seed if seed is None else seed
        return self.env.reset(seed=seed, options=options)


class Given(gymnasium.Env):
    """Shows what it is given, and ends when an action names the end."""

    def __init__(self, observation_space, observations=(), action_space=None):
        self.observation_space = observation_space
        self.action_space = spaces.Discrete(3, start=5) if action_space is None else action_space
        self.observations = observations

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observations[0], {}

    def step(self, action):
        if action == 7:
            raise LookupError("the floor is lava")
        assert type(action) is np.int64
        return self.observations[-1], 0.25, action == 6, False, {}


def counting(**limits):
    """A maker of CartPole, and the environments that it made."""
    made = []

    def make():
        made.append(Recorded(gymnasium.make("CartPole-v1", **limits)))
        return made[-1]

    return make, made


@pytest.fixture(scope="module")
def rolled():
    """Sixty random steps of three environments in one program: the keys, the environments, and what was seen."""
    make, made = counting(max_episode_steps=15)
    env = from_gymnasium(make)

    @jax.jit
    def roll(keys):
        now = jax.vmap(lambda key: begin(env, jax.random.fold_in(key, 0), ()))(keys)
        roll = jax.vmap(lambda key, now: play(env, at_random(env), jax.random.fold_in(key, 1), now, (), 60))
        return roll(keys, now)

    def run(seed):
        return jax.device_get(roll(jax.random.split(jax.random.key(seed), 3))[1])

    return env, made, run


def test_a_rollout_is_what_stepping_by_hand_gives(rolled):
    _, made, run = rolled
    steps = run(0)
    assert len(made) == 3
    assert len({each.seed for each in made}) == 3
    both = 0
    for b, seed in enumerate(each.seed for each in made):
        env = gymnasium.make("CartPole-v1", max_episode_steps=15)
        observation, _ = env.reset(seed=seed)
        for t in range(60):
            np.testing.assert_array_equal(steps.observation[b, t], observation)
            observation, reward, terminated, truncated, _ = env.step(steps.action[b, t])
            np.testing.assert_array_equal(steps.info["final_observation"][b, t], observation)
            flags = (terminated, truncated and not terminated)
            assert (steps.reward[b, t], steps.terminated[b, t], steps.truncated[b, t]) == (reward, *flags)
            both += terminated and truncated
            if terminated or truncated:
                observation, _ = env.reset()
    assert steps.terminated.any()
    assert steps.truncated.any()
    assert both, "CartPole may fall in the step in which its time is up"
    np.testing.assert_array_equal(steps.info["truncated"], steps.truncated)


def test_keys_decide_and_environments_are_used_again(rolled):
    _, made, run = rolled
    first, second, again = run(0), run(1), run(0)
    jax.tree.map(np.testing.assert_array_equal, first, again)
    assert (first.observation[:, 0] != second.observation[:, 0]).all()
    assert len(made) == 3


def test_contract(rolled):
    env = rolled[0]
    key = jax.random.key(0)
    observation, state = jax.eval_shape(env.reset, key)
    observation_after, state_after, *flags, info = jax.eval_shape(env.step, key, state, jnp.int32(0))
    assert (observation_after, state_after, info["final_observation"]) == (observation, state, observation)
    assert [(flag.shape, flag.dtype) for flag in flags] == [((), jnp.float32), ((), jnp.bool_), ((), jnp.bool_)]
    assert env.params() == ()
    assert env.action_space == Discrete(2)
    assert hash(env) == hash(env)
    assert env.observation_space.contains(env.reset(key)[0])


def test_batches_of_batches_and_none():
    env = from_gymnasium(counting()[0])
    keys = jax.random.split(jax.random.key(0), (2, 3))
    observation, state = jax.vmap(jax.vmap(env.reset))(keys)
    assert observation.shape == (2, 3, 4)
    assert state.slot.tolist() == [[0, 1, 2], [3, 4, 5]]
    step = jax.vmap(jax.vmap(env.step, (0, 0, None)), (0, 0, None))
    assert step(keys, state, jnp.int32(1))[0].shape == (2, 3, 4)
    same, unused = jax.random.split(jax.random.key(0), (2, 3))[1, 2], jax.random.key(1)
    single, state = env.reset(same)
    np.testing.assert_array_equal(single, observation[1, 2])
    assert env.step(unused, state, jnp.int32(0))[0].shape == (4,)


# A state that is not where its environment stands ---------------------------------------------------------------------


def again(env, keys, state):
    """Steps a state, and then the same one again."""
    jax.block_until_ready(jax.vmap(env.step)(keys, state, jnp.zeros(2, jnp.int32)))
    return jax.vmap(env.step)(keys, state, jnp.zeros(2, jnp.int32))


def after_another_reset(env, keys, state):
    jax.block_until_ready(env.reset(jax.random.key(1)))
    return jax.vmap(env.step)(keys, state, jnp.zeros(2, jnp.int32))


def for_two_actions(env, keys, state):
    one = jax.tree.map(lambda leaf: leaf[0], state)
    return jax.vmap(env.step, (0, None, 0))(keys, one, jnp.arange(2))


@pytest.mark.parametrize("use", [again, after_another_reset, for_two_actions])
def test_a_state_of_the_past_is_refused(use):
    env = from_gymnasium(counting()[0])
    keys = jax.random.split(jax.random.key(0), 2)
    _, state = jax.vmap(env.reset)(keys)
    with pytest.raises(FROM_THE_HOST, match="cannot go back: step each state once"):
        jax.block_until_ready(use(env, keys, state))


def test_an_environments_own_error_is_told_and_spoils_its_state():
    env = from_gymnasium(lambda: Given(spaces.Discrete(2), [0]))
    unused = jax.random.key(1)
    _, state = env.reset(jax.random.key(0))
    with pytest.raises(FROM_THE_HOST, match="LookupError: the floor is lava"):
        jax.block_until_ready(env.step(unused, state, jnp.int32(2)))
    with pytest.raises(FROM_THE_HOST, match="cannot go back"):
        jax.block_until_ready(env.step(unused, state, jnp.int32(0)))
    _, state = env.reset(jax.random.key(0))
    assert env.step(unused, state, jnp.int32(0))[2] == 0.25


# Spaces ---------------------------------------------------------------------------------------------------------------

SPACES = {
    "discrete": (spaces.Discrete(3, start=-1), [-1, 1], Discrete(3), [0, 2]),
    "float64": (
        spaces.Box(-2.0, np.array([3.0, 4.0]), dtype=np.float64),
        [np.array([0.1, 2.0]), np.array([-2.0, 4.0])],
        Box((2,), -2.0, 4.0, "float32"),
        np.array([[0.1, 2.0], [-2.0, 4.0]], np.float32),
    ),
    "int64": (
        spaces.Box(0, 2**40, (1,), np.int64),
        [np.array([5]), np.array([7])],
        Box((1,), 0, 2**31 - 1, "int32"),
        [[5], [7]],
    ),
    "uint8": (
        spaces.Box(0, 255, (1, 2), np.uint8),
        np.array([[[1, 255]], [[2, 0]]], np.uint8),
        Box((1, 2), 0, 255, "uint8"),
        [[[1, 255]], [[2, 0]]],
    ),
    "binary": (spaces.MultiBinary(2), np.array([[0, 1], [1, 1]], np.int8), Box((2,), 0, 1, "int8"), [[0, 1], [1, 1]]),
    "many": (
        spaces.MultiDiscrete([2, 5], start=[1, 2]),
        np.array([[1, 6], [2, 2]]),
        Box((2,), 1, 6, "int32"),
        [[1, 6], [2, 2]],
    ),
    "text": (spaces.Text(9), ["go", "go left"], Tokens(("", "go", "left"), 2), [[1, 0], [1, 2]]),
}


@pytest.mark.parametrize(("host", "values", "space", "expected"), SPACES.values(), ids=SPACES)
def test_observations_of_every_kind(host, values, space, expected):
    for wrap, pick in ((lambda x: x, lambda x: x), (lambda x: {"part": x}, lambda x: x["part"])):
        host_space = spaces.Dict({"part": host}) if wrap(0) else host
        env = from_gymnasium(lambda: Given(host_space, [wrap(each) for each in values]), ("go", "left"), words=2)  # noqa: B023
        assert env.observation_space == wrap(space)
        keys = jax.random.split(jax.random.key(0), 2)
        first, state = jax.vmap(env.reset)(keys)
        second, _, reward, terminated, _, info = jax.vmap(env.step)(keys, state, jnp.array([0, 1]))
        np.testing.assert_array_equal(pick(first), [expected[0]] * 2)
        np.testing.assert_array_equal(pick(second), [expected[1], expected[0]])
        np.testing.assert_array_equal(pick(info["final_observation"]), [expected[1]] * 2)
        assert terminated.tolist() == [False, True]
        assert reward.tolist() == [0.25, 0.25]
        assert pick(first).dtype == space.dtype
        assert space.contains(pick(second)[0])


@pytest.mark.parametrize(
    ("env", "sentence"),
    [
        (Given(spaces.Discrete(2), action_space=spaces.Box(-1, 1)), "actions must be Discrete here, but .* has Box"),
        (Given(spaces.Text(5)), r"name the words with from_gymnasium\(vocabulary=...\)"),
        (Given(spaces.Tuple([spaces.Discrete(2)])), r"must be Box, Discrete, .* but there is Tuple"),
        (Given(spaces.Dict({"a": spaces.Dict()})), r"a Dict of these, but there is Dict"),
    ],
)
def test_spaces_that_have_no_counterpart(env, sentence):
    with pytest.raises(ValueError, match=sentence):
        from_gymnasium(lambda: env)


@pytest.mark.parametrize(
    ("host", "value", "sentence"),
    [
        (spaces.Box(0, 2**40, (1,), np.int64), np.array([2**35]), "become int32 here, but .* does not fit"),
        (spaces.Text(5), "up", "at most 1 of the words go, left, but is 'up'"),
    ],
)
def test_observations_that_do_not_fit(host, value, sentence):
    env = from_gymnasium(lambda: Given(host, [value]), ("go", "left"))
    with pytest.raises(FROM_THE_HOST, match=sentence):
        jax.block_until_ready(env.reset(jax.random.key(0)))


class PlainBallet(gymnasium.Env):
    """Ballet in NumPy: pixels and words from the host. (Our own computes with JAX, which a callback had better not.)"""

    def __init__(self):
        self.action_space = spaces.Discrete(8)
        image = spaces.Box(0, 255, (11, 11, 3), np.uint8)
        charset = "".join(sorted(set("".join(VOCABULARY))))
        self.observation_space = spaces.Dict({"image": image, "instruction": spaces.Text(20, charset=charset)})

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        dance, shape, color = (self.np_random.choice(names) for names in (list(DANCES), SHAPES, COLORS))
        dancer = {"home": [5, 2], "dance": str(dance), "shape": str(shape), "color": str(color)}
        self.ballet = SlowBallet({"dancers": [dancer], "target": 0, "delay": 1}, tile=1)
        return self._seen(), {}

    def step(self, action):
        reward, terminated, truncated = self.ballet.step(int(action))
        return self._seen(), reward, terminated, truncated, {}

    def _seen(self):
        return {"image": self.ballet.image, "instruction": self.ballet.instruction}


def test_pixels_and_words_come_from_the_host():
    made = []

    def make():
        made.append(Recorded(PlainBallet()))
        return made[-1]

    env, native = from_gymnasium(make, VOCABULARY), Ballet(tile=1)
    assert env.observation_space == native.observation_space
    assert env.action_space == native.action_space
    keys = jax.random.split(jax.random.key(0), 2)
    now = jax.vmap(lambda key: begin(env, key, ()))(keys)
    keys = jax.random.split(jax.random.key(1), 2)
    roll = jax.jit(jax.vmap(lambda key, now: play(env, at_random(env), key, now, (), 400)))
    _, steps = jax.device_get(roll(keys, now))
    assert steps.terminated.any()
    words = Tokens(VOCABULARY)
    for b, seed in enumerate(each.seed for each in made):
        hand = PlainBallet()
        observation, _ = hand.reset(seed=seed)
        for t in range(400):
            np.testing.assert_array_equal(steps.observation["image"][b, t], observation["image"])
            assert words.text(steps.observation["instruction"][b, t]) == observation["instruction"]
            observation, reward, terminated, truncated, _ = hand.step(steps.action[b, t])
            np.testing.assert_array_equal(steps.info["final_observation"]["image"][b, t], observation["image"])
            assert (steps.reward[b, t], steps.terminated[b, t]) == (reward, terminated)
            if terminated or truncated:
                observation, _ = hand.reset()


def test_close_reaches_every_environment():
    closed = []

    class Closing(Given):
        def close(self):
            closed.append(self)

    env = from_gymnasium(lambda: Closing(spaces.Discrete(1), [0]))
    jax.block_until_ready(jax.vmap(env.reset)(jax.random.split(jax.random.key(0), 3)))
    env.close()
    assert len(closed) == 3
