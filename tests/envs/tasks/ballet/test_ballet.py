"""Ballet against a slow second writing of it, against chance and an expert, and against bad input.

The published frames themselves are checked through the Gymnasium interface: tests/adapters/test_gymnasium.py.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.envs import make
from hcam.envs.play import at_random, begin, knowing, play
from hcam.envs.tasks.ballet import VOCABULARY, Ballet
from hcam.envs.tasks.ballet.ballet import _dancers
from hcam.envs.tasks.ballet.choreography import PAPER_LEVELS, Level
from tests.compiling import jit_polished
from tests.envs.tasks.ballet.slow_ballet import SlowBallet


@pytest.fixture(scope="module")
def step():
    """One compiled step for every tile size, shared by the tests of this file."""
    compiled = {}

    def run(env, state, action):
        if env not in compiled:
            params = env.params("1_delay1")
            compiled[env] = jax.jit(lambda state, action: env.step(jax.random.key(0), state, action, params))
        return compiled[env](state, jnp.int32(action))

    return run


@pytest.mark.parametrize("tile", [9, 3, 1])
@pytest.mark.parametrize("level", ["1_delay0", "2_delay1", "8_delay0", "5_delay2", "3_delay16"])
def test_equals_the_slow_writing_whatever_is_done(level, tile, step):
    env: Any = Ballet(tile=tile)
    rng = np.random.default_rng(abs(hash((level, tile))) % 2**32)
    for seed in range(3):
        _, state = env.reset(jax.random.key(seed), env.params(level))
        slow = SlowBallet(env.describe(state), tile)
        shown, done = env.observe(state, None), False
        while not done:
            np.testing.assert_array_equal(shown["image"], slow.image)
            assert env.observation_space["instruction"].text(shown["instruction"]) == slow.instruction
            action = rng.integers(-1, 10)  # also what is no action
            _, state, reward, terminated, truncated, info = step(env, state, action)
            assert (float(reward), bool(terminated), bool(truncated)) == slow.step(action)
            assert bool(info["success"]) == bool(reward)
            shown, done = info["final_observation"], bool(terminated | truncated)
        np.testing.assert_array_equal(shown["image"], slow.image)


def test_actions_are_ignored_until_the_instruction(step):
    """The action that leads into frame F still is; the one after it is not."""
    env = Ballet(tile=1)
    _, state = env.reset(jax.random.key(0), env.params("2_delay3"))
    for frame in range(1, 2 * 18 + 1):
        _, state, *_ = step(env, state, 0)
        assert state.agent.tolist() == [5, 5], frame
    _, state, *_ = step(env, state, 0)
    assert state.agent.tolist() == [4, 5]


@pytest.mark.parametrize(("action", "corner"), [(0, (1, 5)), (7, (1, 1)), (3, (9, 9))])
def test_walls_stop_and_diagonals_do_not_slide(action, corner, step):
    """With one dancer out of the way, whoever keeps walking ends at the wall and stays until the time is up."""
    env = Ballet(tile=1)
    dancer = {"home": [5, 2], "dance": "zee", "shape": "ex", "color": "red"}
    state = env.episode({"dancers": [dancer], "target": 0, "delay": 16})
    done = False
    while not done:
        last = state
        _, state, reward, terminated, truncated, _ = step(env, state, action)
        done = bool(terminated | truncated)
    assert tuple(last.agent.tolist()) == corner
    assert (float(reward), bool(terminated), bool(truncated)) == (0.0, False, True)
    assert int(last.time) + 1 == 320


def test_a_choice_on_the_last_frame_is_a_choice(step):
    env = Ballet(tile=1)
    dancer = {"home": [5, 8], "dance": "zee", "shape": "ex", "color": "red"}
    state = env.episode({"dancers": [dancer], "target": 0, "delay": 1, "max_steps": 19})
    for _ in range(19):
        _, state, reward, terminated, truncated, _ = step(env, state, 2)
    assert (float(reward), bool(terminated), bool(truncated)) == (1.0, True, False)


def episodes(env, policy, params, batch, steps):
    """Reward, level and whether a choice was made, of every episode that ended in a batch of environments."""

    def one(key):
        key_reset, key_play = jax.random.split(key)
        _, taken = play(env, policy, key_play, begin(env, key_reset, params), params, steps)
        return taken.reward, taken.info["level"], taken.terminated, taken.truncated

    reward, level, chose, timed_out = jit_polished(jax.vmap(one))(jax.random.split(jax.random.key(0), batch))
    return tuple(np.asarray(values)[chose | timed_out] for values in (reward, level, chose))


LEVELS = [f"{dancers}_delay{delay}" for dancers in range(1, 9) for delay in (16, 48)]


def test_the_expert_is_always_right_on_every_level():
    """All sixteen in one mixture, one program; every level is met."""
    env = Ballet(tile=1)
    rewards, level, chose = episodes(env, knowing(env.expert), env.params(*LEVELS), batch=256, steps=1100)
    assert set(level) == set(range(len(LEVELS)))
    assert chose.all()
    assert (rewards == 1).all()
    assert len(rewards) > 1000


PUBLISHED_CHANCE = {2: 0.49, 4: 0.23, 8: 0.11}  # measured on the released task, uniform actions, delay 16


def test_chance_is_one_in_n():
    """One in N of those who choose at all; with few dancers, time is up before some do."""
    env, names = Ballet(tile=1), [f"{dancers}_delay16" for dancers in range(1, 9)]
    rewards, level, chose = episodes(env, at_random(env), env.params(*names), batch=1024, steps=1000)
    for number, dancers in enumerate(range(1, 9)):
        right = rewards[(level == number) & chose]
        error = np.sqrt(1 / dancers * (1 - 1 / dancers) / len(right))
        assert len(right) > 300
        assert abs(right.mean() - 1 / dancers) <= 4 * error, dancers
        if dancers in PUBLISHED_CHANCE:
            assert abs(rewards[level == number].mean() - PUBLISHED_CHANCE[dancers]) <= 4 * error + 0.01, dancers


def test_a_mixture_is_drawn_anew_for_every_episode_by_weight():
    env = Ballet(tile=1)
    params = env.params("1_delay0", "2_delay0", "8_delay0", weights=[1, 0, 3])
    state = jax.jit(jax.vmap(lambda key: env.reset(key, params)[1]))(jax.random.split(jax.random.key(0), 4000))
    counts = np.bincount(np.asarray(state.level), minlength=3)
    assert counts[1] == 0
    assert abs(counts[2] / 4000 - 0.75) < 4 * np.sqrt(0.75 * 0.25 / 4000)
    assert set(np.unique(state.episode.dancers)) == {1, 8}


def test_levels_are_data_one_program_for_all():
    env, traces = Ballet(tile=1), []

    @jax.jit
    def reset(key, params):
        traces.append(1)
        return env.reset(key, params)

    dancers = {level: int(reset(jax.random.key(0), env.params(level))[1].episode.dancers) for level in PAPER_LEVELS}
    assert dancers == {level: int(level[0]) for level in PAPER_LEVELS}
    assert len(traces) == 1


def test_the_default_is_the_papers_mixture():
    env: Any = make("ballet")
    level_l = env.params().level_l
    assert level_l.dancers.tolist() == [2, 4, 8, 2, 4, 8]
    assert level_l.delay.tolist() == [16, 16, 16, 48, 48, 48]
    assert level_l.limit.tolist() == [320, 320, 320, 1024, 1024, 1024]
    assert env.params().weight_l.tolist() == [1.0] * 6
    assert env.observation_space["image"].shape == (99, 99, 3)


def test_ballet_owns_its_facts():
    env = Ballet(tile=1)
    assert [env.chance(level) for level in ("2_delay16", "8_delay48")] == [1 / 2, 1 / 8]
    assert env.title("8_delay48") == "8 dances, delay 48"
    assert env.title("2_delay5_of4") == "2 dances, delay 5, 4 kinds"
    assert [tuple(env.delay(level)) for level in ("8_delay48", "2_delay5_of4")] == [
        (48, "8 dances"), (5, "2 dances, 4 kinds")
    ]  # fmt: skip
    assert [env.max_steps_in_episode(level) for level in ("2_delay16", "8_delay200")] == [320, 1792]
    assert env.smaller(["2_delay5_of4"]) == ["4 of 13 dances", "1 pixel a tile instead of 9"]
    assert Ballet().smaller(PAPER_LEVELS) == []


def test_what_matters_is_the_targets_dance(step):
    """Between the two steps the target moves at every frame; before and after it stands still."""
    env = Ballet(tile=1)
    for seed in range(4):
        _, state = env.reset(jax.random.key(seed), env.params("3_delay2"))
        begin, end, question = (int(moment) for moment in env.moments(state))
        place = int(jnp.argmax(state.episode.order_p == state.episode.target))
        assert (end - begin, question) == (16, 3 * 17)
        for time in range(question):
            here, there = (_dancers(state._replace(time=jnp.int32(t)))[place] for t in (time - 1, time))
            assert bool((here != there).any()) == (begin <= time < end), time


def test_an_action_is_right_or_wrong_only_at_the_question(step):
    env = Ballet(tile=1)
    _, state = env.reset(jax.random.key(0), env.params("1_delay3"))
    labels = []
    for _ in range(18 + 3):
        labels.append(int(env.label(state)))
        _, state, *_ = step(env, state, max(labels[-1], 0))
    assert labels[:18] == [-1] * 18
    assert min(labels[18:]) >= 0


def test_vocabulary_is_watch_and_the_dances():
    assert len(VOCABULARY) == 15
    assert VOCABULARY[:2] == ("", "watch")


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda env: env.params("2_delay16", weights=[1, 2]), "1 levels need as many weights"),
        (lambda env: env.params("2_delay16", weights=[0]), "not all 0"),
        (lambda env: env.params("2_delay16", "2_delay48", weights=[1, float("nan")]), "must be finite"),
        (lambda env: env.params("2_delay16", "2_delay48", weights=[1, float("inf")]), "must be finite"),
        (lambda env: env.params("2_delay16", Level(2, 3), weights=[1, -1]), "none negative"),
        (lambda env: Ballet(tile=2), "tile must be 9"),
        (lambda env: make("balet"), "there is no task 'balet': choose from ballet"),
        (lambda env: make("ballet", tiles=1), "ballet has no option tiles: choose from tile"),
        (lambda env: env.params("2_delay5_of99"), "asks for 99 dances, but there are 13"),
    ],
)
def test_bad_input_is_one_sentence(wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        wrong(Ballet())


def test_events_are_the_dances_and_one_is_asked_for():
    env = make("ballet")
    _, state = env.reset(jax.random.key(3), env.params("4_delay16"))
    found = env.events([jax.device_get(state)])
    told = env.describe(state)
    assert [event.name for event in found] == [dancer["dance"] for dancer in told["dancers"]]
    assert [(event.begin, event.end) for event in found] == [(31 * n, 31 * n + 16) for n in range(4)]
    asked = found[told["target"]]
    begin, end, _ = map(int, env.moments(state))
    assert [event for event in found if event.matters] == [asked]
    assert (asked.begin, asked.end) == (begin, end)
    long = env.events([jax.device_get(state)] * 128)[told["target"]]
    assert long == asked._replace(asked=((4 * 31, 127),))
    assert asked.asked == ()
