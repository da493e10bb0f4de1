"""Object permanence: its time line counted by hand, its rewards, who can solve it and who cannot, and the contract."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.envs import make
from hcam.envs.body import BACKWARD, FORWARD, STAY, TURN_LEFT, TURN_RIGHT
from hcam.envs.check import check
from hcam.envs.play import at_random, begin, knowing, play
from hcam.envs.tasks.objects import Objects, objects, room
from hcam.envs.tasks.objects.levels import PAPER_LEVELS, QUICK_LEVELS, Level
from tests.compiling import jit_polished
from tests.envs.tasks.undrawn import undrawn

ENV: Any = Objects(width=16, height=12)
LEVELS = (*PAPER_LEVELS, *QUICK_LEVELS)
BOXES = [
    {"place": [-1.5, -0.5], "thing": "duck"},
    {"place": [1.5, -0.25], "thing": "mug"},
    {"place": [0.0, 0.0], "thing": "car"},
]
SCENE: dict[str, Any] = {"boxes": BOXES, "target": 2, "delay": 0}
PARAMS = ENV.params("delay0")


@jax.jit
def step(state, action):
    """One step without the auto-reset, whose pixels nobody looks at."""
    return ENV.advance(jax.random.key(0), state, action, None)


def act(state, *actions):
    """Reward of each action, and the state and flags after the last."""
    rewards, over = [], (False, False)
    for action in actions:
        assert not any(over), "the episode is over"
        state, reward, terminated, truncated, info = step(state, jnp.int32(action))
        rewards += [float(reward)]
        over = (bool(terminated), bool(truncated))
    return state, rewards, over, bool(info["success"])


def text(state):
    return ENV.observation_space["instruction"].text(ENV.observe(state, None)["instruction"])


def watched(description=SCENE):
    """The state in which the lids have just closed."""
    state = ENV.episode(description)
    return act(state, *[FORWARD] * (36 + 3 * 4 * description["delay"]))[0]


def turned(description=SCENE):
    """The state in which the question has just been asked."""
    state, rewards, *_ = act(watched(description), *[TURN_RIGHT] * 4)
    assert rewards[-1] == pytest.approx(0.3)
    return state


def played(policy, levels, batch, steps):
    """Level, success and whether a choice was made, of every episode that ended in a batch of environments."""
    params = ENV.params(*levels)

    def one(key):
        key_reset, key_play = jax.random.split(key)
        _, taken = play(ENV, policy, key_play, begin(ENV, key_reset, params), params, steps)
        return taken.info["level"], taken.info["success"], taken.terminated, taken.truncated, taken.reward

    level, success, chose, late, reward = jit_polished(jax.vmap(one))(jax.random.split(jax.random.key(0), batch))
    over = np.asarray(chose | late)
    return tuple(np.asarray(value)[over] for value in (level, success, chose, reward))


def test_keeps_the_contract():
    env = undrawn(ENV, objects._instruction)
    report = check(env, env.params("quick_delay0", "quick_delay1"), batch=4, steps=150)
    assert report.terminated
    assert report.truncated


@pytest.mark.slow
def test_keeps_the_contract_with_its_pictures():
    report = check(ENV, ENV.params("quick_delay0", "quick_delay1"), batch=4, steps=150)
    assert report.terminated
    assert report.truncated


def test_the_expert_is_always_right_on_every_level():
    """All levels in one mixture, one program; every level is met."""
    level, success, chose, reward = played(knowing(ENV.expert), LEVELS, batch=128, steps=1000)
    assert set(level) == set(range(len(LEVELS)))
    assert chose.all()
    assert success.all()
    assert (reward == 1).all()
    assert len(level) > 500


@pytest.mark.parametrize("levels", [("delay0",), ("quick_delay1",)])
def test_who_cannot_remember_is_at_chance(levels):
    _, success, chose, _ = played(knowing(ENV.memoryless), levels, batch=512, steps=300)
    assert chose.all()
    assert abs(success.mean() - 1 / 3) < 4 * np.sqrt(2 / 9 / len(success))


def test_random_actions_are_at_chance_where_they_choose_at_all():
    _, success, chose, _ = played(at_random(ENV), ("quick_delay0",), batch=512, steps=300)
    assert 0.2 < chose.mean() < 0.9  # boxes can be met by chance, and can be missed
    assert not success[~chose].any()
    assert abs(success[chose].mean() - 1 / 3) < 4 * np.sqrt(2 / 9 / chose.sum())


def test_the_expert_finds_the_box_from_anywhere():
    """Nearly always, also from behind the other boxes, where an agent that wandered may stand."""
    params = ENV.params("delay0")
    _, states_b = jax.jit(jax.vmap(lambda key: ENV.reset(key, params)))(jax.random.split(jax.random.key(3), 256))
    place_b = jax.random.uniform(jax.random.key(4), (256, 2), jnp.float32, -3.6, 3.6)
    away_bn = jnp.linalg.norm(states_b.episode.place_b2 - place_b[:, None], axis=-1)
    clear_b = (away_bn > 0.9).all(-1)
    body_b = states_b.body._replace(position=place_b)
    states_b = states_b._replace(time=jnp.full(256, 40), question=jnp.full(256, 40), body=body_b)

    def one(state):
        def body(carry, _):
            state, over, right = carry
            after, _, terminated, _, info = ENV.advance(jax.random.key(0), state, ENV.expert(state), None)
            state = jax.tree.map(lambda new, old: jnp.where(over, old, new), after, state)
            return (state, over | terminated, right | (info["success"] & ~over)), None

        return jax.lax.scan(body, (state, jnp.bool_(False), jnp.bool_(False)), None, 79)[0][2]

    right_b = jit_polished(jax.vmap(one))(states_b)
    assert clear_b.sum() > 150
    assert right_b[clear_b].mean() > 0.97  # a pocket between two boxes can hold it


def test_levels_mix_in_one_program():
    traces = []

    def reset(key, params):
        traces.append(1)
        return ENV.reset(key, params)[1].episode.rules

    compiled = jax.jit(reset)
    assert compiled(jax.random.key(0), ENV.params("delay0", "quick_delay0")).jumps in (1, 3)
    assert compiled(jax.random.key(0), ENV.params("delay10", "delay2.5")).delay in (40, 10)
    assert len(traces) == 1


# The time line, counted by hand ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("delay", "frame"), [(0, 36), (1, 48), (10, 156)])
def test_the_agent_is_fixed_until_the_lids_close(delay, frame):
    """Three objects of 3 jumps of 4 frames, and 4 frames a second of delay after each."""
    state = begun = ENV.episode(SCENE | {"delay": delay})
    for time, action in zip(range(1, frame + 1), [FORWARD, TURN_LEFT, BACKWARD] * frame, strict=False):
        assert time not in (1, frame) or text(state) == "watch"
        state, reward, terminated, truncated, _ = step(state, jnp.int32(action))
        assert state.body.position.tolist() == begun.body.position.tolist()
        assert state.body.heading == 0
        assert (float(reward), bool(terminated), bool(truncated)) == (0, False, False)
    assert text(state) == "look backward"
    assert act(state, TURN_LEFT)[0].body.heading == 15


def test_looking_backward_is_rewarded_once():
    """The boxes leave the view at the fourth turn of 22.5 degrees; turning on brings nothing more."""
    state, rewards, over, _ = act(watched(), *[TURN_RIGHT] * 4)
    assert rewards == pytest.approx([0, 0, 0, 0.3])
    assert text(state) == "go to the box containing the car"
    state, rewards, over, _ = act(state, *[TURN_RIGHT] * 32)
    assert rewards == [0] * 32
    assert over == (False, False)
    assert text(state) == "go to the box containing the car"


def test_boxes_do_nothing_before_the_question():
    state, rewards, over, _ = act(watched(), *[FORWARD] * 10)
    assert room.in_view(state.body, state.episode).any()
    assert rewards == [0] * 10
    assert over == (False, False)
    assert text(state) == "look backward"


@pytest.mark.parametrize(("target", "reward"), [(2, 1.0), (0, 0.0), (1, 0.0)])
def test_the_choice_ends_the_episode(target, reward):
    """Straight ahead of the start stands box 2: from 3.5 m away to 0.77 m takes six steps."""
    state = turned(SCENE | {"target": target})
    state, rewards, over, success = act(state, *[TURN_LEFT] * 4, *[FORWARD] * 6)
    assert rewards == [0] * 9 + [reward]
    assert over == (True, False)
    assert success == bool(reward)


@pytest.mark.parametrize("begin", [watched, turned])
def test_time_is_up_after_twenty_seconds(begin):
    state, rewards, over, success = act(begin(), *[STAY] * 79)
    assert over == (False, False)
    state, more, over, success = act(state, STAY)
    assert over == (False, True)
    assert not success
    assert not any(rewards + more)


def test_a_late_look_starts_the_clock_of_the_choice():
    """The question in the last frame of its time counts, and leaves the full time to choose."""
    state, rewards, over, _ = act(watched(), *[STAY] * 76, *[TURN_RIGHT] * 4)
    assert rewards[-1] == pytest.approx(0.3)
    assert over == (False, False)
    assert act(state, *[STAY] * 80)[2] == (False, True)


def test_moments_of_the_target():
    """Box 1 is shown from frame 12 + delay on; the expert needs four turns after the lids close."""
    moments = ENV.moments(ENV.episode(SCENE | {"target": 1, "delay": 10}))
    assert jax.tree.map(int, moments) == (52, 64, 160)
    assert int(ENV.moments(turned()).question) == 40


def test_events_are_the_jumps_and_one_is_asked_for():
    states = [ENV.episode(SCENE), turned()]
    assert int(states[-1].question) == 40
    found = ENV.events(jax.device_get([states[0]] * 44 + [states[1]]))
    names = ("duck jumps out of the left box", "mug jumps out of the right box", "car jumps out of the middle box")
    assert [one.name for one in found] == list(names)
    assert [(one.begin, one.end) for one in found] == [(0, 12), (12, 24), (24, 36)]
    assert [(one.matters, one.asked) for one in found] == [(False, ()), (False, ()), (True, ((40, 44),))]
    assert {one.kind for one in found} == {"jumps"}
    assert not any(one.asked for one in ENV.events(jax.device_get([states[0]])))


def test_label_says_nothing_while_watching():
    assert int(ENV.label(ENV.episode(SCENE))) == -1
    assert int(ENV.label(watched())) == TURN_RIGHT
    assert int(ENV.label(turned())) in (TURN_LEFT, TURN_RIGHT)


# Facts and bad input --------------------------------------------------------------------------------------------------


def test_facts():
    env: Any = make("objects")
    assert env.observation_space["image"].shape == (72, 96, 3)
    assert env.action_space.n == 7
    assert env.default_levels == ("delay0", "delay10", "delay20", "delay30")
    assert [env.max_steps_in_episode(level) for level in env.default_levels] == [196, 316, 436, 556]
    assert env.chance("delay30") == pytest.approx(1 / 3)
    assert env.smaller(env.default_levels) == []
    assert len(ENV.smaller(QUICK_LEVELS)) == 5
    assert env.title("delay10") == "10 s delay"
    assert [tuple(env.delay(level)) for level in ("delay0", "delay10", "quick_delay1")] == [
        (0, ""),
        (40, ""),
        (4, "small"),
    ]
    assert env.title("quick_delay0") == "no delay, small"
    assert env.title("near_delay2") == "2 s delay, near"
    assert len(env.smaller(["near_delay0"])) == 3
    assert len(env.level("delay0").pool_x) > sum(env.level("delay0").pool_x.tolist()) >= 10


@pytest.mark.parametrize("size", [{"width": 7}, {"height": 2000}, {"width": 9.5}])
def test_a_bad_size_is_refused(size):
    with pytest.raises(ValueError, match="must be 8 to 1024 pixels"):
        Objects(**size)


def test_a_state_of_another_task_is_refused():
    state: Any = ()
    with pytest.raises(TypeError, match="no state of Objects"):
        ENV.expert(state)


def test_a_level_of_ones_own():
    level = ENV.level(Level(jumps=2, room=10.0))
    assert (int(level.rules.jumps), float(level.rules.half)) == (2, 5.0)
