"""Passive visual match: phases counted by hand, rooms, apples, the choice, and that the colour is never seen again."""

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.envs import make
from hcam.envs.body import ACTIONS, FORWARD, STAY, TURN_RIGHT
from hcam.envs.check import check
from hcam.envs.environment import Event
from hcam.envs.play import at_random, begin, knowing, play
from hcam.envs.tasks.match import Match, rooms
from hcam.envs.tasks.match.levels import QUICK_LEVELS, Level
from tests.compiling import jit_polished

SMALL = {"width": 24, "height": 18}
FOUR = {"colors": ["red", "green", "yellow", "white"], "target": 2, "delay": 30, "apples": [[5, 9], [5, 8], [0, 0]]}


@lru_cache
def stepper(env):
    """One compiled step per environment, shared by the tests of this file."""
    params = env.params("delay30")
    return jax.jit(lambda state, action: env.step(jax.random.key(0), state, action, params))


@lru_cache
def observer(env):
    return jax.jit(lambda state: env.observe(state, None)["image"])


def walk(env, state, actions):
    """Rewards, states and last frames of these actions, up to the episode's end."""
    rewards, states, frames = [], [state], [np.asarray(observer(env)(state))]
    for action in actions:
        _, state, reward, terminated, truncated, info = stepper(env)(state, jnp.int32(action))
        rewards.append(float(reward))
        frames.append(np.asarray(info["final_observation"]["image"]))
        if bool(terminated | truncated):
            return rewards, states, frames, (bool(terminated), bool(truncated), bool(info["success"]))
        states.append(state)
    return rewards, states, frames, None


def test_keeps_the_contract():
    env = make("match", **SMALL)
    report = check(env, env.params("quick_delay1", "delay0", "delay2"), batch=4, steps=150)
    assert report.terminated
    assert report.truncated


def test_phases_take_20_and_120_and_20_steps():
    """Nobody moves: each phase begins in its own room, in the middle of the northmost row, looking south."""
    env = Match(**SMALL)
    rewards, states, _, end = walk(env, env.episode(FOUR), [STAY] * 200)
    assert len(rewards) == 160
    assert end == (False, True, False)
    assert not any(rewards)
    places = [state.body.position.tolist() for state in states]
    assert places[:20] == [[0, 1]] * 20
    assert places[20:140] == [[0, 5]] * 120
    assert places[140:] == [[0, 2]] * 20
    assert {int(state.body.heading) for state in states} == {8}
    phases = [int(rooms.phase(state.episode.rules, state.time)) for state in states]
    assert phases == [0] * 20 + [1] * 120 + [2] * 20


def test_the_last_action_of_a_phase_still_counts():
    """The agent walks south among the apples with its last action: it eats, and is then taken to the next room."""
    env = Match(**SMALL)
    rewards, states, _, _ = walk(env, env.episode(FOUR), [STAY] * 138 + [FORWARD] * 2)
    assert rewards[138:] == [0.0, 5.0]
    assert states[139].body.position.tolist() == [0, 4.5]
    assert states[140].body.position.tolist() == [0, 2]


def test_an_apple_is_collected_once_for_5():
    env = Match(**SMALL)
    back_and_forth = [STAY] * 20 + [FORWARD] * 4 + [2] * 4 + [FORWARD] * 4
    rewards, states, frames, _ = walk(env, env.episode(FOUR), back_and_forth)
    assert sum(rewards) == 10.0
    assert [at for at, reward in enumerate(rewards) if reward] == [21, 23]  # 1 m and 2 m from the start
    assert (frames[20] != frames[28]).any()  # the same place, without two apples
    assert states[28].body.position.tolist() == states[20].body.position.tolist()
    assert (frames[24] == frames[32]).all()


def test_events_are_the_colour_and_the_apples():
    env = Match(**SMALL)
    rewards, states, _, _ = walk(env, env.episode(FOUR), [STAY] * 20 + [FORWARD] * 5 + [STAY] * 125)
    shown, *apples = env.events(jax.device_get(states))
    assert shown == Event(0, 20, "yellow hangs in the corridor", True, "colour", ((140, 150),))
    paid = [t for t, reward in enumerate(rewards) if reward == 5]
    assert apples == [Event(t, t + 1, "an apple", kind="apple") for t in paid]
    assert paid


def test_no_reward_in_the_corridor_and_its_walls_hold():
    """Three cells long, one wide: a body of radius 0.3 stops 1.2 m south of the middle and 0.2 m beside it."""
    env = Match(**SMALL)
    rewards, states, _, _ = walk(env, env.episode(FOUR), [FORWARD] * 8 + [3] * 2 + [4] * 4)
    assert not any(rewards)
    np.testing.assert_allclose(states[8].body.position, [0, -1.2], atol=1e-6)
    np.testing.assert_allclose(states[10].body.position, [0.2, -1.2], atol=1e-6)  # left of one who looks south: east
    np.testing.assert_allclose(states[14].body.position, [-0.2, -1.2], atol=1e-6)


def test_the_alcove_has_sides_and_the_room_a_north_wall():
    env = Match(**SMALL)
    sides = [STAY] * 140 + [3, 3, FORWARD, FORWARD, 3, 3, 2, 2]
    _, states, _, _ = walk(env, env.episode(FOUR), sides)
    np.testing.assert_allclose(states[142].body.position, [0.2, 2.0], atol=1e-6)
    np.testing.assert_allclose(states[146].body.position, [1.2, 1.0], atol=1e-6)
    np.testing.assert_allclose(states[148].body.position, [1.2, 1.2], atol=1e-6)


@pytest.mark.parametrize("place", range(4))
def test_a_pad_ends_the_episode_with_10_or_1(place):
    """Pads are at 3, 1, -1 and -3 m, from left to right, 4 m south: sidesteps, then south."""
    env = Match(**SMALL)
    aside = [3] * 6 if place == 0 else [3] * 2 if place == 1 else [4] * 2 if place == 2 else [4] * 6
    ways = [STAY] * 140 + [FORWARD] * 2 + aside + [FORWARD] * 9
    rewards, _, _, end = walk(env, env.episode(FOUR), ways)
    assert rewards[-1] == (10.0 if place == 2 else 1.0)
    assert sum(rewards) == rewards[-1]
    assert end == (True, False, place == 2)
    assert len(rewards) == 142 + len(aside) + 6  # from 1 to -2 m: 6 steps reach the pad's middle, 5 its edge at -1.5 m


def test_the_target_is_out_of_view_after_the_corridor_to_the_bit():
    """The same episode with each of the four as its target: only the corridor tells."""
    env = Match(width=48, height=36)
    rng = np.random.default_rng(0)
    actions = [*rng.integers(0, 7, 140), *[STAY] * 3, TURN_RIGHT, FORWARD, TURN_RIGHT, FORWARD]
    films = [walk(env, env.episode(FOUR | {"target": target}), actions)[2] for target in range(4)]
    for other in films[1:]:
        assert (films[0][0] != other[0]).any()
        for frame in range(20, len(actions) + 1):
            np.testing.assert_array_equal(films[0][frame], other[frame], err_msg=str(frame))


def episodes(env, policy, params, batch, steps):
    """Success, level, whether a choice was made, and reward at the end, of every episode that ended in a batch."""

    def one(key):
        key_reset, key_play = jax.random.split(key)
        _, taken = play(env, policy, key_play, begin(env, key_reset, params), params, steps)
        return taken.info["success"], taken.info["level"], taken.terminated, taken.reward, taken.truncated

    success, level, chose, reward, timed_out = jit_polished(jax.vmap(one))(jax.random.split(jax.random.key(0), batch))
    return tuple(np.asarray(values)[chose | timed_out] for values in (success, level, chose, reward))


TINY = {"width": 8, "height": 8}


def test_the_expert_is_always_right_on_every_level():
    """All in one mixture, one program: with three squares, which no level by name has, too."""
    env = Match(**TINY)
    levels = ["delay0", "delay1", "delay30", *QUICK_LEVELS, Level(delay=1, options=3, depth=2)]
    success, level, chose, reward = episodes(env, knowing(env.expert), env.params(*levels), batch=128, steps=330)
    assert set(level) == set(range(len(levels)))
    assert chose.all()
    assert success.all()
    assert (reward == 10).all()
    assert len(success) > 500


def is_chance(success, chance):
    assert len(success) > 300
    assert abs(success.mean() - chance) <= 4 * np.sqrt(chance * (1 - chance) / len(success))


NEAR = Level(delay=0, explore=0.25, depth=2)  # a random walk hardly ever comes as far as the published pads


@pytest.mark.parametrize(("level", "chance"), [("delay0", 1 / 4), ("quick_delay0", 1 / 2)])
def test_an_agent_without_memory_is_right_by_chance(level, chance):
    env = Match(**TINY)
    success, _, chose, _ = episodes(env, knowing(env.memoryless), env.params(level), batch=512, steps=200)
    assert chose.all()
    assert env.chance(level) == chance
    is_chance(success, chance)


@pytest.mark.parametrize(("level", "chance"), [(NEAR, 1 / 4), ("quick_delay0", 1 / 2)])
def test_random_agents_that_choose_at_all_are_right_by_chance(level, chance):
    env = Match(**TINY)
    success, _, chose, _ = episodes(env, at_random(env), env.params(level), batch=1024, steps=200)
    assert env.chance(level) == chance
    is_chance(success[chose], chance)


def test_facts():
    env = Match()
    assert env.action_space.n == 7
    assert ACTIONS[: env.action_space.n][-1] == "turn_right"
    assert env.default_levels == ("delay30",)
    assert env.max_steps_in_episode("delay30") == 160
    assert env.title("delay30") == "30 s of apples"
    assert [tuple(env.delay(level)) for level in ("delay30", "quick_delay2")] == [(120, ""), (8, "small")]
    assert env.smaller(["delay30"]) == []
    state = env.episode(FOUR)
    assert tuple(map(int, env.moments(state))) == (0, 20, 140)
    assert int(env.label(state)) == -1
    asked = state._replace(time=jnp.int32(140), body=rooms.spawn(state.episode.rules, jnp.int32(2)))
    assert int(env.label(asked)) == int(env.expert(asked)) == FORWARD
    small = Match(width=32, height=24, apple_reward=0.5)
    told = " ".join(small.smaller(["quick_delay2"]))
    for words in ("2 squares", "4 of 16", "2 s", "5 x 5", "32 x 24", "0.5 instead of 5"):
        assert words in told
    assert Match(apple_reward=0.5, right_reward=1.0, wrong_reward=0.1).smaller(["delay30"]) == []


def test_what_is_no_action_is_to_stay():
    env = Match(**SMALL)
    for action in (-1, 7, 100):
        _, state, *_ = stepper(env)(env.episode(FOUR), jnp.int32(action))
        assert state.body.position.tolist() == [0, 1]
        assert int(state.body.heading) == 8


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"width": 4}, "width must be 8 to 1024"),
        ({"height": True}, "height must be 8 to 1024"),
        ({"apple_reward": float("nan")}, "apple_reward must be a finite number"),
        ({"right_reward": "ten"}, "right_reward must be a finite number"),
    ],
)
def test_bad_options_are_told_in_one_sentence(options, words):
    with pytest.raises(ValueError, match=words) as error:
        Match(**options)
    assert str(error.value).count(". ") == 0


def test_a_state_of_another_environment_is_refused():
    with pytest.raises(TypeError, match="no state of Match"):
        Match().expert(make("ballet").reset(jax.random.key(0))[1])
