"""Environments that keep the contract pass; for each rule, one that breaks it is refused with a sentence about it."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.envs import make
from hcam.envs.check import ContractError, Report, check
from hcam.envs.probes import Constant
from tests.envs.test_check_types import Guess, State, info, stepping


@pytest.fixture(autouse=True, scope="module")
def compile_quickly():
    """Every test compiles programs that run once."""
    jax.config.update("jax_disable_most_optimizations", True)
    try:
        yield
    finally:
        jax.config.update("jax_disable_most_optimizations", False)


def test_ballet_keeps_the_contract():
    env = make("ballet", tile=1)
    report = check(env, env.params("1_delay0", "2_delay1"), batch=4, steps=600)
    assert report.steps == 2400
    assert report.episodes == report.terminated + report.truncated > 4


def test_the_report_counts_complete_episodes():
    """Ends after 1 to 5 steps, each with chance 1/3; what a third of all steps earn is 0.5 on average."""
    report = check(Guess(), batch=8, steps=1000)
    alive = 1 + 2 / 3 + 4 / 9 + 8 / 27 + 16 / 81  # steps of an episode
    assert report.mean_length == pytest.approx(alive, rel=0.05)
    assert report.mean_return == pytest.approx(alive / 6, rel=0.1)
    assert report.truncated / report.episodes == pytest.approx(32 / 243, rel=0.2)
    assert str(Report(10, 2, 1, 1, 4.5, 0.25)) == (
        "2 random episodes in 10 steps: 1 terminated, 1 truncated, mean length 4.5, mean return 0.250"
    )


def goal_of(observation, value):
    return observation | {"goal": jnp.float32(value)}


def when(i, flag, value):
    """Puts `value(old)` at place i of step's results, where `flag(results)`."""

    def change(results):
        changed = value(results[i])
        results[i] = jax.tree.map(lambda new, old: jnp.where(flag(results), new, old), changed, results[i])

    return change


def ended(results):
    return results[3] | results[4]


def bad_final(results):
    results[5] = results[5] | {"final_observation": goal_of(results[5]["final_observation"], 2)}


def bad_middle(results):
    final = results[5]["final_observation"]
    results[5] = results[5] | {"final_observation": final | {"goal": final["goal"] / 2}}


def both(results):
    results[3] = results[4] = results[5]["terminated"] = results[5]["truncated"] = ended(results)


def stale(results):
    """The new episode's state, and the old one's observation."""
    results[0] = results[5]["final_observation"]


class Loud(Guess):
    def observe(self, state, params):
        return goal_of(super().observe(state, params), 2)


class NoClock(Guess):
    """The new episode's number, and the old one's clock."""

    def step(self, key, state, action, params=None):
        _, now, *rest, info = super().step(key, state, action, params)
        now = now._replace(time=jnp.minimum(info["final_observation"]["time"], 4))
        return self.observe(now, params), now, *rest, info


class Endless(Guess):
    def advance(self, key, state, action, params):
        _, reward, *_ = super().advance(key, state, action, params)
        return state, reward, jnp.bool_(False), jnp.bool_(False), {}


class DeafReset(Guess):
    def start(self, key, params):
        return State(jnp.float32(0.5), jnp.int32(0))


def back_to(start, results):
    return jax.tree.map(lambda new, old: jnp.where(ended(results), new, old), start, results[1])


class OneEpisodeEver(Guess):
    """Every episode after the first is the same one."""

    def step(self, key, state, action, params=None):
        results = super().step(key, state, action, params)
        now = back_to(State(jnp.float32(0.5), jnp.int32(0)), results)
        return self.observe(now, params), now, *results[2:]


class Begun(NamedTuple):
    state: State
    first: State


class Replays(Guess):
    """Keeps its first state, and goes back to it."""

    def start(self, key, params):
        state = super().start(key, params)
        return Begun(state, state)

    def advance(self, key, state, action, params):
        moved, *rest = super().advance(key, state.state, action, params)
        return Begun(moved, state.first), *rest

    def observe(self, state, params):
        return super().observe(state.state, params)

    def step(self, key, state, action, params=None):
        results = super().step(key, state, action, params)
        now = back_to(Begun(state.first, state.first), results)
        return self.observe(now, params), now, *results[2:]


class ImpureReset(Guess):
    def reset(self, key, params=None):
        state = State(jax.random.uniform(key) * np.random.default_rng().random(), jnp.int32(0))
        return self.observe(state, params), state


class ImpureStep(Guess):
    def advance(self, key, state, action, params):
        state, reward, *rest = super().advance(key, state, action, params)
        return state, reward + np.random.default_rng().random(), *rest


@jax.custom_batching.custom_vmap
def shared(reward):
    return reward


@shared.def_vmap
def _shared_by_all(axis_size, in_batched, reward):
    return jnp.full_like(reward, reward.mean()), True


class Entangled(Guess):
    def advance(self, key, state, action, params):
        state, _, *rest = super().advance(key, state, action, params)
        return state, shared(state.goal), *rest


BROKEN = [
    (Loud(), "the observation['goal'] has a value that is not from 0 to 1"),
    (stepping(when(0, ended, lambda seen: goal_of(seen, jnp.nan))), "the observation['goal'] has a value that is not"),
    (stepping(when(0, ended, lambda seen: seen | {"time": jnp.int32(6)})), "['time'] has a value that is not"),
    (stepping(bad_final), "info['final_observation']['goal'] has a value that is not from 0 to 1"),
    (stepping(when(2, ended, lambda _: jnp.float32(jnp.inf))), "the reward is not finite"),
    (stepping(both), "both terminated and truncated: terminated wins"),
    (stepping(info(terminated=jnp.bool_(True))), "info['terminated'] and info['truncated'] are not what step returns"),
    (stepping(bad_middle), "an episode goes on, but info['final_observation'] is not the observation"),
    (stepping(stale), "after an end, the observation is none that reset could give"),
    (NoClock(), "after an end, the observation is none that reset could give"),
    (Endless(), "no episode ended within 40 random steps: raise steps"),
    (DeafReset(), "reset began the same episode with 16 different keys"),
    (ImpureReset(), "reset began two different episodes with the same key"),
    (Replays(), "auto-reset replays the same episode"),
    (OneEpisodeEver(), "auto-reset replays the same episode"),
    (ImpureStep(), "step gave two results for the same key, state and action"),
    (Entangled(), "a step inside jax.vmap differs from the same step alone"),
]  # fmt: skip


@pytest.mark.parametrize(("env", "words"), BROKEN)
def test_a_broken_environment_is_refused(env, words):
    with pytest.raises(ContractError) as refusal:
        check(env, batch=2, steps=40)
    assert words in str(refusal.value)
    assert str(refusal.value).count("\n") == 0
    assert str(refusal.value).endswith(".")


def test_a_fixed_start_must_be_declared():
    with pytest.raises(ContractError, match="fixed_start=True"):
        check(Constant(), batch=2, steps=20)
    assert check(Constant(), batch=2, steps=20, fixed_start=True).mean_return == 1


@pytest.mark.parametrize("env", [ImpureStep(), Entangled()])
def test_without_replay_no_state_is_stepped_twice(env):
    """The two rules that would need it are skipped."""
    assert check(env, batch=2, steps=40, replay=False).episodes > 2


@pytest.mark.parametrize(
    ("env", "words"),
    [
        (DeafReset(), "reset began the same episode with 2 different keys"),
        (Replays(), "auto-reset replays the same episode"),
        (stepping(stale), "after an end, the observation is none that reset could give"),
    ],
)
def test_without_replay_the_other_rules_hold(env, words):
    with pytest.raises(ContractError, match=words):
        check(env, batch=2, steps=40, replay=False)


def test_an_environment_on_the_host_can_be_checked():
    gymnasium = pytest.importorskip("gymnasium")
    from hcam.adapters.from_gymnasium import from_gymnasium

    report = check(from_gymnasium(lambda: gymnasium.make("CartPole-v1")), batch=2, steps=200, replay=False)
    assert report.mean_length == report.mean_return > 8


def test_nothing_to_play_is_refused():
    with pytest.raises(ValueError, match="batch is 0"):
        check(Guess(), batch=0)
