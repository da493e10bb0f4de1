import jax
import jax.numpy as jnp
import numpy as np

from hcam.envs.play import at_random, begin, knowing, play
from hcam.envs.tasks.ballet import Ballet

ENV = Ballet(tile=1)


def played(policy, steps, level="1_delay0", key=3):
    params = ENV.params(level)
    key_reset, key_play = jax.random.split(jax.random.key(key))
    return jax.jit(lambda a, b: play(ENV, policy, a, begin(ENV, b, params), params, steps))(key_play, key_reset)


def test_first_marks_the_first_observation_of_every_episode():
    now, taken = played(knowing(ENV.expert), steps=100)
    ended = np.asarray(taken.terminated | taken.truncated)
    np.testing.assert_array_equal(taken.first, np.concatenate([[True], ended[:-1]]))
    assert ended.sum() == 5  # each takes 15 frames to watch and 3 to walk
    assert bool(now.first) == ended[-1]
    first = np.asarray(taken.first)
    assert (np.asarray(taken.observation["instruction"])[first] == 1).all()


def test_a_step_holds_what_was_seen_before_it():
    """The instruction changes at frame 15 (observation 15), and the choice that follows ends at action 17."""
    _, taken = played(knowing(ENV.expert), steps=18)
    assert np.argmax(np.asarray(taken.observation["instruction"])[:, 0] != 1) == 15
    assert np.flatnonzero(taken.terminated).tolist() == [17]
    assert np.flatnonzero(taken.reward).tolist() == [17]


def test_playing_on_continues():
    params = ENV.params("1_delay0")
    now = begin(ENV, jax.random.key(0), params)
    middle, one = play(ENV, knowing(ENV.expert), jax.random.key(1), now, params, 10)
    _, two = play(ENV, knowing(ENV.expert), jax.random.key(2), middle, params, 10)
    assert not two.first[0]
    assert np.flatnonzero(two.terminated).tolist() == [7]
    assert int(middle.state.time) == 10
    assert len(one.reward) == 10


def test_random_actions_are_even_and_change_with_time():
    _, taken = played(at_random(ENV), steps=4000)
    counts = np.bincount(np.asarray(taken.action), minlength=8)
    assert abs(counts / 4000 - 1 / 8).max() < 4 * np.sqrt(1 / 8 * 7 / 8 / 4000)
    assert taken.action.dtype == jnp.int32
