"""Recorded episodes are those of an evaluation, and what they show of the memory is what it returned."""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam import agent, envs
from hcam.adapters import adapt
from hcam.agent import AgentConfig
from hcam.agent.heads import HeadsConfig
from hcam.learning.rollout import act, proceed
from hcam.memory import HCAM, LSTM, TrXL
from hcam.runs import recording
from hcam.runs.evaluate import evaluate, reset_actors
from hcam.types import Inputs
from hcam.viewer import playback

ENV = envs.make("first_symbol")
PARAMS, LEVEL = ENV.params("blanks8"), ENV.level("blanks8")
ADVANCE = jax.jit(ENV.advance)
MEMORIES = {
    "hcam": HCAM(width=16, layers=2, heads=2, chunk=2, slots=4, top_k=2),
    "trxl": TrXL(width=16, layers=2, heads=2, window=4),
    "lstm": LSTM(width=16),
}


@cache  # an agent is compiled for itself
def made(name):
    built = agent.make(AgentConfig(memory=MEMORIES[name], heads=HeadsConfig(hidden=16)), ENV)
    return built, built.init_params(jax.random.key(0))


@pytest.fixture(scope="module")
def recorded():
    return {name: recording.record(made(name)[0], ENV, made(name)[1], PARAMS, episodes=3) for name in MEMORIES}


def test_episodes_are_those_of_an_evaluation():
    built, params = made("hcam")
    played = {"episodes": 4, "seed": 5, "greedy": False}
    found = recording.record(built, ENV, params, PARAMS, **played, moments=False)  # type: ignore[arg-type]
    score = evaluate(built, ENV, params, PARAMS, **played)  # type: ignore[arg-type]
    assert np.mean([one.steps_t.reward.sum() for one in found]) == pytest.approx(score.episode_return)
    assert np.mean([one.length for one in found]) == score.length
    assert np.mean([one.steps_t.success[-1] for one in found]) == score.success
    assert all(one.moments_t is None for one in found)


def test_states_alone_are_those_of_the_same_episodes(recorded):
    built, params = made("lstm")
    found: Any = recording.record(built, ENV, params, PARAMS, episodes=3, moments="states")
    for one, whole in zip(found, recorded["lstm"], strict=True):
        assert one.moments_t.observation is None
        jax.tree.map(np.testing.assert_array_equal, one.moments_t.state, whole.moments_t.state)
        np.testing.assert_array_equal(one.steps_t.action, whole.steps_t.action)


def test_later_episodes_are_others_those_that_an_evaluation_would_play():
    built, params = made("lstm")
    played: Any = [recording.record(built, ENV, params, PARAMS, episodes=4, start=n) for n in (0, 4)]
    first, second = played
    score = evaluate(built, ENV, params, PARAMS, episodes=8, at_once=4)
    both = [*first, *second]
    assert np.mean([one.steps_t.reward.sum() for one in both]) == pytest.approx(score.episode_return)
    assert any((a.moments_t.state.item_i != b.moments_t.state.item_i).any() for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("name", MEMORIES)
def test_an_episode_is_whole(name, recorded):
    for one in recorded[name]:
        steps_t = one.steps_t
        over_t = steps_t.terminated | steps_t.truncated
        assert over_t[-1]
        assert not over_t[:-1].any()
        assert all(len(leaf) == one.length for leaf in jax.tree.leaves(steps_t))
        assert all(len(leaf) == one.length + 1 for leaf in jax.tree.leaves(one.moments_t))
        np.testing.assert_allclose(steps_t.policy_a.sum(-1), 1.0, atol=1e-6)


def test_moments_are_those_that_the_environment_showed(recorded):
    """Each is what the environment makes of the one before and the action, the last one included."""
    one = recorded["lstm"][0]
    for t in range(one.length):
        state = jax.tree.map(lambda leaf, t=t: leaf[t], one.moments_t.state)
        after, *_ = ADVANCE(jax.random.key(0), state, one.steps_t.action[t], LEVEL)
        expected = jax.tree.map(lambda leaf, t=t: leaf[t + 1], one.moments_t)
        jax.tree.map(np.testing.assert_array_equal, after, expected.state)
        np.testing.assert_array_equal(ENV.observe(after, LEVEL), expected.observation)


@pytest.mark.parametrize("name", MEMORIES)
def test_attention_is_what_the_memory_returned(name, recorded):
    """Scans the memory alone over the inputs of an episode."""
    (built, params), one = made(name), recorded[name][0]
    state = built.init_state()
    step = jax.jit(built.memory.step, static_argnames="recall")
    reward_t = np.concatenate([[0], one.steps_t.reward])
    action_t = np.concatenate([[0], one.steps_t.action])
    for t in range(one.length):
        seen = built.preprocess(one.moments_t.observation[t])
        inputs = Inputs(seen, jnp.bool_(t == 0), jnp.int32(action_t[t]), jnp.float32(reward_t[t]))
        x_d = built.encode(params, inputs)
        state, _, recall = step(params["memory"], state, x_d, inputs.first, recall=True)
        shown = jax.tree.map(lambda leaf, t=t: leaf[t], one.steps_t.attention)
        for kind in recall._fields:
            layers = getattr(recall, kind)
            mine = getattr(shown, {"window_hw": "window_w", "within_khc": "within_kc"}.get(kind, kind))
            assert (layers is None) == (mine is None)
            for real, found in zip(layers or (), mine or (), strict=True):
                axis = {"window_hw": 0, "within_khc": 1}.get(kind)
                np.testing.assert_allclose(found, real if axis is None else real.mean(axis), atol=1e-5)
    assert one.steps_t.attention.window_w is None or len(one.steps_t.attention.window_w) == 2


def test_a_mixture_says_which_level_an_episode_is_of():
    env = envs.make("timeout")
    built = agent.make(AgentConfig(memory=MEMORIES["lstm"], heads=HeadsConfig(hidden=16)), env)
    found = recording.record(
        built, env, built.init_params(jax.random.key(0)), env.params("steps3", "steps70"), episodes=8
    )
    assert {(one.level, one.length) for one in found} == {(0, 3), (1, 70)}


def test_acting_is_as_ever():
    """`act` is `step` and `proceed`."""
    built, params = made("lstm")
    actor = reset_actors(built, ENV, 1, jax.random.key(1), PARAMS)
    one = jax.tree.map(lambda leaf_b: leaf_b[0], actor)
    memory, output = built.step(params, one.memory, one.inputs)
    moved = one._replace(memory=memory)
    after, taken, _ = proceed(built, ENV, PARAMS, jax.random.key(2), moved, output)
    same = act(built, ENV, params, PARAMS, jax.random.key(2), one)
    jax.tree.map(np.testing.assert_array_equal, (after, taken), same)


def test_adapted_environments_are_recorded_as_well():
    """They have `reset` and `step` alone: their first and last observations come from these."""
    gymnasium = pytest.importorskip("gymnasium")
    env = adapt("pole", lambda: gymnasium.make("CartPole-v1"), {})
    built = agent.make(AgentConfig(memory=MEMORIES["lstm"], heads=HeadsConfig(hidden=16)), env)
    (one,) = recording.record(built, env, built.init_params(jax.random.key(0)), env.params())
    assert one.moments_t is not None
    seen_t = one.moments_t.observation
    assert one.length > 5
    assert seen_t.shape == (one.length + 1, 4)
    place, speed = seen_t[:, 0], seen_t[:, 1]
    np.testing.assert_allclose(place[1:], place[:-1] + 0.02 * speed[:-1], atol=1e-5)  # the physics of one episode
    shown = playback.prepare(env, one)
    assert len(shown.frames) == one.length + 1
