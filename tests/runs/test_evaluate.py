"""Evaluation: every episode counts once, the same seeds give the same score, and the intervals are right."""

from dataclasses import dataclass
from math import sqrt
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam import envs
from hcam.envs.environment import Environment
from hcam.envs.spaces import Box, Discrete
from hcam.learning.rollout import rollout
from hcam.runs import evaluate as ev
from hcam.types import Inputs, Output


class Scripted:
    """An agent that needs no training: it keeps the first symbol and names it, or always says the same."""

    def __init__(self, sharp: float = 20.0, remembers: bool = True) -> None:
        self.sharp, self.remembers = sharp, remembers

    def init_state(self) -> Any:
        return jnp.int32(0)

    def prepare(self, params: Any) -> Any:
        return params

    def preprocess(self, observation: Any) -> Any:
        return observation

    def step(self, params: Any, state: Any, inputs: Inputs) -> tuple[Any, Output]:
        shown = jnp.argmax(inputs.observation[:4]).astype(jnp.int32)
        state = jnp.where(inputs.first & self.remembers, shown, state)
        return state, Output(self.sharp * jax.nn.one_hot(state, 4) + params, jnp.float32(0), jnp.zeros(1))


class Length(NamedTuple):
    length: jax.Array
    time: jax.Array


@dataclass(frozen=True)
class ShortOrLong(Environment):
    """Half of the episodes have one step and fail, the others have a hundred and succeed."""

    long: int = 100

    @property
    def action_space(self) -> Discrete:
        return Discrete(4)

    @property
    def observation_space(self) -> Box:
        return Box((4,), 0, 1)

    def start(self, key: jax.Array, params: Any) -> Length:
        return Length(jnp.where(jax.random.bernoulli(key), self.long, 1), jnp.int32(0))

    def advance(self, key: jax.Array, state: Length, action: jax.Array, params: Any) -> Any:
        time = state.time + 1
        done = time == state.length
        reward = (done & (state.length > 1)).astype(jnp.float32)
        return state._replace(time=time), reward, done, jnp.bool_(False), {}

    def observe(self, state: Length, params: Any) -> jax.Array:
        return jnp.zeros(4)


def score(agent: Any, env: Environment, *levels: str, **options: Any) -> ev.Score:
    return ev.evaluate(agent, env, jnp.zeros(4), env.params(*levels), **options)


FIRST = envs.make("first_symbol")
PERFECT: Any = Scripted()  # one of each, as every one is compiled for itself
SOFT: Any = Scripted(sharp=1.0)
FORGETFUL: Any = Scripted(remembers=False)


def test_a_perfect_policy_scores_one():
    found = score(PERFECT, FIRST, "blanks3", episodes=20, at_once=8)
    assert found == ev.Score(20, 1.0, *ev.interval(20, 20), 1.0, 5.0)


@pytest.mark.parametrize(("episodes", "at_once"), [(1, 8), (8, 8), (9, 8), (20, 8)])
def test_any_number_of_episodes(episodes: int, at_once: int):
    progress: list[tuple[int, int]] = []
    found = score(
        PERFECT, FIRST, "blanks0", episodes=episodes, at_once=at_once, on_progress=lambda *args: progress.append(args)
    )
    assert found.episodes == episodes
    assert found.success == 1.0
    starts = range(0, episodes, at_once)
    assert progress == [(min(start + at_once, episodes), episodes) for start in starts]


def test_the_same_seed_gives_the_same_score_and_another_does_not():
    scores = [score(SOFT, FIRST, "blanks1", episodes=200, seed=seed, greedy=False) for seed in (3, 3, 4, 5)]
    assert scores[0] == scores[1]
    assert len({found.success for found in scores}) > 1


def test_batches_are_not_the_same_episodes_again():
    two = [score(FORGETFUL, FIRST, "blanks0", episodes=256, seed=seed).success for seed in range(4)]
    one = [score(FORGETFUL, FIRST, "blanks0", episodes=128, seed=seed).success for seed in range(4)]
    assert one != two


def test_an_accelerator_plays_more_episodes_at_once(monkeypatch: pytest.MonkeyPatch):
    assert ev.most_at_once() == 128  # tests run on a CPU
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert ev.most_at_once() == 512
    played, reset = [], ev.reset_actors

    def noted(*args: Any) -> Any:
        played.append(args[2])
        return reset(*args)

    monkeypatch.setattr(ev, "reset_actors", noted)
    assert score(PERFECT, FIRST, "blanks0", episodes=600).success == 1.0
    assert played == [512, 512]


def test_greedy_takes_the_best_and_sampled_what_it_draws():
    """Logits of 1 for the right one of four symbols and 0 for the rest: right with e / (e + 3)."""
    assert score(SOFT, FIRST, "blanks0", episodes=200).success == 1.0
    sampled = score(SOFT, FIRST, "blanks0", episodes=2000, greedy=False)
    share = np.e / (np.e + 3)
    assert abs(sampled.success - share) < 4 * sqrt(share * (1 - share) / 2000)


def test_guessing_scores_what_chance_is():
    found = score(FORGETFUL, FIRST, "blanks2", episodes=2000)
    assert abs(found.success - 0.25) < 4 * sqrt(0.25 * 0.75 / 2000)
    assert found.length == 4


def test_long_episodes_count_as_much_as_short_ones():
    """Counted by hand: the first episode of each environment. Whatever ends first would give about one in fifty."""
    env, seed, count = ShortOrLong(), 11, 60
    found = score(PERFECT, env, episodes=count, at_once=count, seed=seed)
    key_begin, _ = jax.random.split(jax.random.fold_in(jax.random.key(seed), 0))
    lengths = np.array([env.start(key, ()).length for key in jax.random.split(key_begin, count)])
    assert env.long > ev.EVAL_CHUNK  # the short ones begin again many times meanwhile
    assert 0.3 < found.success < 0.7
    assert found.success == pytest.approx((lengths > 1).mean())
    assert found.episode_return == pytest.approx(found.success)
    assert found.length == pytest.approx(lengths.mean())


def test_short_episodes_are_not_played_for_longer_than_they_are(monkeypatch: pytest.MonkeyPatch):
    played = []

    def noted(*args: Any, **options: Any) -> Any:
        played.append(args[6])
        return rollout(*args, **options)

    monkeypatch.setattr(ev, "rollout", noted)
    agent: Any = Scripted()  # for which nothing is compiled yet
    lengths = {level: FIRST.max_steps_in_episode(level) for level in ("blanks1", "blanks3")}
    assert lengths == {"blanks1": 3, "blanks3": 5}
    params_s, levels = jnp.zeros((1, 4)), {level: FIRST.params(level) for level in lengths}
    found = ev.evaluate_all(agent, FIRST, params_s, levels, 200)
    assert set(played) == {5}
    for level, length in lengths.items():
        assert found["greedy"][level]["length"] == length
        assert found["greedy"][level]["success"] == score(agent, FIRST, level, episodes=200).success
    played.clear()
    score(Scripted(), ShortOrLong(), episodes=8, longest=100)
    assert set(played) == {ev.EVAL_CHUNK}


def test_an_episode_without_end_is_an_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ev, "MAX_STEPS", 2 * ev.EVAL_CHUNK)
    with pytest.raises(ValueError, match="has not ended after 128 steps: this environment needs a time limit"):
        score(PERFECT, ShortOrLong(long=10_000), episodes=8)


@pytest.mark.parametrize("episodes", [0, -1])
def test_no_episodes_is_refused(episodes: int):
    with pytest.raises(ValueError, match="episodes must be a whole number of at least 1"):
        score(PERFECT, FIRST, episodes=episodes)


# Intervals


@pytest.mark.parametrize(
    ("successes", "episodes", "low", "high"),
    [(9, 10, 0.59585, 0.98212), (0, 10, 0.0, 0.27754), (10, 10, 0.72246, 1.0), (5, 10, 0.23659, 0.76341)],
)
def test_wilson_by_hand(successes: int, episodes: int, low: float, high: float):
    assert ev.interval(successes, episodes) == pytest.approx((low, high), abs=1e-5)


def test_wilson_solves_its_equation():
    """Its ends are the shares that are 1.96 of their own standard deviations away from what was seen."""
    for successes, episodes in ((1, 7), (123, 500), (499, 500)):
        for end in ev.interval(successes, episodes):
            assert abs(successes / episodes - end) == pytest.approx(1.96 * sqrt(end * (1 - end) / episodes))


@pytest.mark.parametrize("episodes", [20, 100, 500])
def test_intervals_hold_the_truth_nineteen_times_in_twenty(episodes: int):
    draw = np.random.default_rng(0)
    held = []
    for share in draw.uniform(0.02, 0.98, 4000):
        low, high = ev.interval(int(draw.binomial(episodes, share)), episodes)
        held.append(low <= share <= high)
    assert 0.94 < np.mean(held) < 0.965


# All levels, all seeds


def test_all_levels_both_ways_and_seeds_together():
    progress: list[tuple[int, int]] = []
    params_s = jnp.zeros((3, 4))
    levels = {name: FIRST.params(name) for name in ("blanks0", "blanks7")}  # nobody trained on either
    found = ev.evaluate_all(PERFECT, FIRST, params_s, levels, 10, on_progress=lambda *args: progress.append(args))
    assert list(found) == ["greedy", "sampled"]
    for part in found.values():
        assert list(part) == ["blanks0", "blanks7"]
        for level, length in (("blanks0", 2.0), ("blanks7", 9.0)):
            low, high = ev.interval(12, 12)
            assert part[level] == {
                "episodes": 12,  # 10 shared among 3, rounded up
                "success": 1.0,
                "low": low,
                "high": high,
                "return": 1.0,
                "return_low": 1.0,
                "return_high": 1.0,
                "length": length,
            }
    assert progress[-1] == (48, 48)
    assert len(progress) == 12


def test_seeds_are_joined_by_their_own_parameters():
    """The second seed always says 3, whatever it has seen: right one time in four."""
    params_s = jnp.stack([jnp.zeros(4), jnp.array([0.0, 0.0, 0.0, 100.0])])
    found = ev.evaluate_all(PERFECT, FIRST, params_s, {"blanks0": FIRST.params("blanks0")}, 800)
    share = found["greedy"]["blanks0"]["success"]
    assert abs(share - (1 + 0.25) / 2) < 4 * sqrt(0.25 * 0.75 / 400) / 2
    joined = found["greedy"]["blanks0"]
    assert (joined["low"], joined["high"]) == ev.interval(round(800 * share), 800)


def test_the_interval_of_a_return_holds_its_mean_19_times_in_20():
    draw, held = np.random.default_rng(0), []
    for _ in range(2000):
        returns = draw.exponential(3.0, 200)
        low, high = ev.Score(200, 0, 0, 0, returns.mean(), 0, returns.std()).return_interval
        held.append(low <= 3.0 <= high)
    assert 0.93 < np.mean(held) < 0.965


def test_seeds_together_have_the_interval_of_all_their_episodes():
    returns = np.random.default_rng(0).normal(size=(2, 50)) + np.array([[0.0], [5.0]])
    parts = [ev.Score(50, 0.0, 0, 0, one.mean(), 1.0, one.std()) for one in returns]
    whole = ev.Score(100, 0.0, 0, 0, returns.mean(), 1.0, returns.std())
    found = ev._joined(parts)
    assert (found["return_low"], found["return_high"]) == pytest.approx(whole.return_interval)
