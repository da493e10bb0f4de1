from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam import envs
from hcam.envs.environment import Environment
from hcam.envs.probes import Echo
from hcam.envs.spaces import Box, Discrete
from hcam.runs import rewards

TIMEOUT = envs.make("timeout")


def test_rewards_are_those_of_whole_episodes_and_of_no_other():
    """100 steps of reward 1 or 0 take two calls; after the episode's end, another one begins."""
    played = rewards.of_random(TIMEOUT, TIMEOUT.params("steps100"), episodes=6)
    assert played.reward_bt.shape == (6, 100)
    assert (played.length_b == 100).all()
    assert set(played.returns.tolist()) == {0.0, 100.0}


def test_lengths_may_differ_and_nothing_counts_after_the_end():
    params = TIMEOUT.params("steps3", "steps70")
    played = rewards.of_random(TIMEOUT, params, episodes=32)
    assert set(played.length_b.tolist()) == {3, 70}
    short = played.reward_bt[played.length_b == 3]
    assert short[:, :3].any()
    assert not short[:, 3:].any()


def test_an_expert_earns_what_the_best_policy_does():
    echo = Echo(symbols=5)
    assert rewards.expert_return(echo, echo.params()) == echo.best() == 1
    assert rewards.random_return(echo, echo.params()) == pytest.approx(echo.guess(), abs=0.06)


@dataclass(frozen=True)
class Endless(Environment):
    """An episode that never ends, in an environment without an expert."""

    action_space = Discrete(2)
    observation_space = Box((1,), 0, 1)

    def start(self, key, level):
        return jnp.int32(0)

    def advance(self, key, state, action, level):
        return state, jnp.float32(0), jnp.bool_(False), jnp.bool_(False), {}

    def observe(self, state, level):
        return jnp.zeros(1)


def test_an_environment_may_have_no_expert():
    assert rewards.expert_return(Endless(), ()) is None


def test_an_episode_without_an_end_is_refused(monkeypatch):
    monkeypatch.setattr(rewards, "MAX_STEPS", 128)
    with pytest.raises(ValueError, match="this environment needs a time limit"):
        rewards.of_random(Endless(), (), episodes=2)


def test_the_same_seed_gives_the_same_episodes():
    one, two, other = (rewards.of_random(TIMEOUT, TIMEOUT.params(), episodes=16, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.reward_bt, two.reward_bt)
    assert (one.reward_bt != other.reward_bt).any()


def test_an_agent_plays_like_the_policy_that_it_is():
    """An agent whose logits name the symbol on show is the expert of `echo`."""
    from tests.runs.test_evaluate import PERFECT

    first = envs.make("first_symbol", symbols=4)
    params = first.params("blanks2")
    played = rewards.of_agent(PERFECT, first, jnp.zeros(4), params, episodes=8, seed=0, greedy=True)
    assert (played.returns == 1).all()
    assert (played.length_b == 4).all()
    assert jax.tree.leaves(played)[0].shape == (8, 4)
