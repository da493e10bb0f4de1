"""Paired associative inference: its observation, one-step episodes, chance without the memory, and bad options."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.adapters.dm_env import DmEnv
from hcam.adapters.gymnasium import GymnasiumEnv
from hcam.envs import make
from hcam.envs.check import check
from hcam.envs.play import begin, knowing, play
from hcam.envs.tasks.pai import PairedInference, stimuli

SMALL: dict[str, Any] = {"sequences": 3, "longest": 4, "features": 8}
TWO = {"sequences": [[4, 8, 15], [16, 23, 42]], "query": "ac", "chain": 0, "lure": 1}


def test_keeps_the_contract():
    env = make("pai", **SMALL)
    report = check(env, env.params("length3", "length4_test_ad", "length3_valid_direct"), batch=4, steps=50)
    assert report.terminated == report.episodes == 200


def test_an_observation_counted_by_hand():
    env: Any = PairedInference(sequences=2, longest=4, features=8)
    items = {
        number: np.asarray(env.observe(env.episode(TWO), None)["memory"])[row, place]
        for number, row, place in ((4, 0, 0), (8, 0, 1), (15, 1, 1), (16, 2, 0), (23, 2, 1), (42, 3, 1))
    }
    state = env.episode(TWO | {"answer": 1, "rows": [[1, "b"], [0, "a"], [1, "a"], [0, "b"]]})
    seen = {name: np.asarray(value) for name, value in env.observe(state, None).items()}
    expected = [[items[23], items[42]], [items[4], items[8]], [items[16], items[23]], [items[8], items[15]]]
    np.testing.assert_array_equal(seen["memory"][:4], np.array(expected))
    assert not seen["memory"][4:].any()
    assert seen["filled"] == 4
    np.testing.assert_array_equal(seen["query"], [items[4], items[42], items[15]])
    assert int(env.label(state)) == int(env.expert(state)) == 1


@pytest.mark.parametrize(("action", "reward"), [(0, 1.0), (1, 0.0)])
def test_an_episode_is_one_step(action, reward):
    env: Any = PairedInference(sequences=2, longest=3, features=8)
    found = env.step(jax.random.key(0), env.episode(TWO), jnp.int32(action), env.params("length3"))
    assert (float(found[2]), bool(found[3]), bool(found[4])) == (reward, True, False)
    assert bool(found[5]["success"]) == (reward == 1)


def test_the_expert_is_always_right_on_every_level():
    env: Any = PairedInference(sequences=3, longest=5, features=8)
    params = env.params(*env.levels)

    @jax.jit
    def run(key):
        _, taken = play(env, knowing(env.expert), key, begin(env, key, params), params, 2000)
        return taken.reward, taken.info["level"]

    reward, level = run(jax.random.key(0))
    assert (reward == 1).all()
    assert set(np.asarray(level).tolist()) == set(range(len(env.levels)))


def test_only_the_pairs_tell_the_match_from_the_lure():
    """Chains 0 and 1 change their A: cue and options stay as they are, and what was the lure is the match."""
    env: Any = PairedInference(sequences=2, longest=3, features=8)
    one = env.observe(env.episode(TWO), None)
    swapped = {"sequences": [[16, 8, 15], [4, 23, 42]], "query": "ac", "chain": 1, "lure": 0, "answer": 1}
    two = env.observe(env.episode(swapped), None)
    np.testing.assert_array_equal(one["query"], two["query"])
    assert int(env.label(env.episode(TWO))) != int(env.label(env.episode(swapped)))
    assert (np.asarray(one["memory"]) != np.asarray(two["memory"])).any()


def test_levels_of_several_lengths_have_one_shape():
    env: Any = PairedInference(**SMALL)
    assert env.observation_space["memory"].shape == (9, 2, 8)
    for level, filled in (("length3", 6), ("length4", 9)):
        seen, _ = env.reset(jax.random.key(0), env.params(level))
        assert int(seen["filled"]) == filled
        assert (np.abs(np.asarray(seen["memory"])).sum((1, 2)) > 0).sum() == filled


def test_pools_of_training_and_test_share_no_vector():
    env: Any = PairedInference(sequences=16, longest=3, features=8)
    found, reset = [], jax.jit(jax.vmap(env.reset, in_axes=(0, None)))
    for level in ("length3", "length3_valid", "length3_test"):
        seen, _ = reset(jax.random.split(jax.random.key(0), 50), env.params(level))
        found.append({item.tobytes() for item in np.asarray(seen["memory"]).reshape(-1, 8)})
    assert len(found[0] | found[1] | found[2]) == sum(map(len, found))
    assert min(map(len, found)) > 1000


def test_facts():
    env: Any = PairedInference()
    assert env.default_levels == ("length3",)
    assert env.observation_space["memory"].shape == (64, 2, 1000)
    assert PairedInference(longest=3).observation_space["memory"].shape == (32, 2, 1000)  # as published
    assert (env.chance("length5_test_ae"), env.max_steps_in_episode("length3")) == (1 / 2, 1)
    assert env.title("length3") == "chains of 3"
    assert env.title("length3_test_ac") == "chains of 3, A-C, held out"
    assert env.title("length4_valid_indirect") == "chains of 4, indirect, validation"
    assert env.smaller(["length3"]) == []
    assert env.smaller(["length4"]) == []
    assert PairedInference(sequences=4, features=32).smaller(["length3"]) == [
        "4 sequences instead of 16",
        "items of 32 numbers instead of 1,000",
    ]


def test_pictures_of_one_s_own(tmp_path):
    np.savez(tmp_path / "own.npz", features=np.random.default_rng(0).normal(size=(200, 5)))
    env: Any = PairedInference(stimuli=str(tmp_path / "own.npz"), **SMALL)
    seen, _ = env.reset(jax.random.key(0), env.params("length3_test"))
    table = stimuli.load(env.stimuli, 8, 0).table
    assert all((np.asarray(item) == table).all(1).any() for item in seen["query"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sequences": 1}, "sequences must be a whole number from 2 to 64"),
        ({"sequences": 2.5}, "sequences must be a whole number"),
        ({"longest": 6}, "longest must be a whole number from 3 to 5"),
        ({"features": 4}, "features must be a whole number from 8 to 10,000"),
        ({"seed": -1}, "seed must be a whole number"),
        ({"sequences": 30}, "30 sequences of up to 5 items are more than 127"),
        ({"stimuli": 3}, "stimuli must be a text"),
        ({"stimuli": "nowhere"}, "there is no 'nowhere'"),
    ],
)
def test_bad_options_are_told_in_one_sentence(options, words):
    with pytest.raises(ValueError, match=words) as error:
        PairedInference(**options)
    assert str(error.value).count(". ") == 0


def test_too_few_pictures_are_told_in_one_sentence(tmp_path):
    np.savez(tmp_path / "few.npz", features=np.random.default_rng(0).normal(size=(50, 5)))
    with pytest.raises(ValueError, match=r"needs 12 different items, but only \d of .* in the pool 'valid'"):
        PairedInference(stimuli=str(tmp_path / "few.npz"), **SMALL)


def test_a_level_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="chains of 4 do not fit a memory for chains of 3: give longest=4"):
        PairedInference(longest=3).params("length4")


def test_a_state_of_another_environment_is_refused():
    with pytest.raises(TypeError, match="no state of PairedInference"):
        PairedInference().expert(make("ballet").reset(jax.random.key(0))[1])


def test_gymnasium_and_dm_env():
    gym_env = GymnasiumEnv("pai", level="length3_test", **SMALL)
    seen, _ = gym_env.reset(seed=0)
    assert gym_env.observation_space.contains(seen)
    assert gym_env.step(0)[2]
    time_step = DmEnv("pai", level="length3", seed=0, **SMALL).reset()
    assert time_step.observation["query"].shape == (3, 8)
