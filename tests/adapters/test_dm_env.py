"""dm_env's own tests, the published frames, and what dm_env says about the end of an episode."""

import hashlib
import importlib
import sys
from dataclasses import dataclass

import dm_env  # type: ignore[import-untyped]
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from absl.testing import absltest
from dm_env import specs, test_utils

from hcam.adapters.dm_env import DmEnv
from hcam.envs import Environment
from hcam.envs.spaces import Box, Discrete
from hcam.envs.tasks.ballet import Ballet

NORTH, EAST, SOUTH = 0, 2, 4


@dataclass(frozen=True)
class Countdown(Environment):
    """Shows how many steps are left, and ends early on action 2. Has only `reset` and `step`, as an adapter may."""

    @property
    def levels(self):
        return ("short", "long")

    def params(self, *levels, weights=None):
        return jnp.int32({"short": 3, "long": 6}[levels[0] if levels else "short"])

    @property
    def action_space(self):
        return Discrete(3)

    @property
    def observation_space(self):
        return Box((2,), -jnp.inf, jnp.inf)

    def reset(self, key, params=None):
        return self.show(params), params

    def step(self, key, state, action, params=None):
        left = state - 1
        terminated = action == 2
        truncated = (left == 0) & ~terminated
        state = jnp.where(terminated | truncated, params, left)
        reward = jnp.where(terminated, 0.5, 0.0)
        return self.show(state), state, reward, terminated, truncated, {"final_observation": self.show(left)}

    def show(self, state):
        return jnp.stack([state, -state]).astype(jnp.float32)


class Contract(test_utils.EnvironmentTestMixin):
    """dm_env's tests, and that the actions reach the ends that they are meant to reach."""

    actions: list[int]
    discounts: list[float]  # of the episodes that these actions end

    def make_action_sequence(self):
        return iter(np.array(self.actions, np.int32))

    def test_the_actions_reach_the_ends(self):
        self.environment.reset()
        steps = [self.environment.step(action) for action in self.make_action_sequence()]
        assert [step.discount for step in steps if step.last()] == self.discounts


class TestChoice(Contract, absltest.TestCase):
    """With eight dancers, every way leads to one: the choice begins at frame 120 and ends at frame 123."""

    actions, discounts = [EAST] * 127, [0.0]

    def make_object_under_test(self):
        return DmEnv("ballet", level="8_delay0", seed=0, tile=1)


class TestTimeOut(Contract, absltest.TestCase):
    actions, discounts = [NORTH, SOUTH] * 162, [1.0]

    def make_object_under_test(self):
        return DmEnv(Ballet(tile=1), level=["2_delay16"], seed=0)


class TestOther(Contract, absltest.TestCase):
    """A fourth action follows the time-out: it is ignored, and starts the episode that the last one ends."""

    actions, discounts = [0, 1, 0, 2, 0, 2, 2], [1.0, 0.0]

    def make_object_under_test(self):
        return DmEnv(Countdown())


def dancers(text):
    """`2,8 up_and_down plus orange; ...`, as the table of golden values has them."""
    words = [dancer.split() for dancer in text.split(";")]
    return [{"home": [*map(int, home.split(","))], "dance": d, "shape": s, "color": c} for home, d, s, c in words]


# The published environment's own frames: name, cast, target, delay, action that walks to the target, digest.
GOLDEN = {
    "2_delay16": (
        "2,8 up_and_down plus orange; 5,8 zee vertical_stripes yellow",
        (1, 16, EAST, "2fa3bacae5391eeba47b4b728f03f3b4"),
    ),
    "2_delay48": (
        "8,2 circle_ccw upside_down_u brown; 2,2 times_ccw inverse_ex red",
        (0, 48, 5, "97c523366635f5b6425f3de702cf6e56"),
    ),
    "4_delay16": (
        "2,8 times_cw h blue; 8,8 left_and_right inverse_plus green; 8,5 diagonal_urdl circle cyan; "
        "8,2 chevron_up triangle pink",
        (3, 16, 5, "fd2c2fcb8d3cdbf4a3547664bb5e629a"),
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_a_described_episode_is_the_published_one(name):
    cast, (target, delay, action, digest) = GOLDEN[name]
    cast = dancers(cast)
    env = DmEnv("ballet", seed=0)
    steps = [env.reset_to({"dancers": cast, "target": target, "delay": delay})]
    assert steps[0].first()
    while not steps[-1].last():
        steps.append(env.step(action))
    choice = len(cast) * (15 + delay)
    assert len(steps) == choice + 4
    frames = b"".join(step.observation["image"].tobytes() for step in steps)
    assert hashlib.sha256(frames).hexdigest()[:32] == digest
    said = [step.observation["instruction"].item() for step in steps]
    assert said == ["watch"] * choice + [cast[target]["dance"]] * 4
    assert [step.reward for step in steps] == [None] + [0.0] * (choice + 2) + [1.0]
    assert [step.discount for step in steps] == [None] + [1.0] * (choice + 2) + [0.0]


def test_the_first_observation_shows_the_first_move():
    """A plus that moves up: its lit pixels begin one tile above its home."""
    env = DmEnv("ballet", seed=0)
    first = env.reset_to({"dancers": dancers("2,8 up_and_down plus orange"), "target": 0, "delay": 16})
    tile = np.s_[9:18, 72:81]
    np.testing.assert_array_equal(first.observation["image"][tile][4], np.full((9, 3), [255, 165, 0]))
    second = env.step(NORTH)
    assert not second.observation["image"][tile].any()


def test_time_is_up_at_the_published_frame_with_discount_1():
    env = DmEnv("ballet", level="2_delay16", seed=3, tile=1)
    env.reset()
    steps = [env.step((NORTH, SOUTH)[n % 2]) for n in range(320)]
    assert [step.last() for step in steps] == [False] * 319 + [True]
    assert (steps[-1].reward, steps[-1].discount) == (0.0, 1.0)
    assert isinstance(steps[-1].reward, float)
    assert steps[-1].observation["instruction"] != "watch", "the last observation is the next episode's first"
    assert env.step(NORTH).first()


def test_an_end_shows_the_old_episode():
    env = DmEnv(Countdown())
    env.reset()
    steps = [env.step(0) for _ in range(4)]
    assert [step.observation.tolist() for step in steps] == [[2, -2], [1, -1], [0, 0], [3, -3]]
    assert [step.step_type.name for step in steps] == ["MID", "MID", "LAST", "FIRST"]
    env.step(0)
    assert env.step(2)[:3] == (dm_env.StepType.LAST, 0.5, 0.0)


def test_reset_in_the_middle_starts_again():
    env = DmEnv(Countdown(), level="long")
    env.reset()
    env.step(0)
    assert env.reset().observation.tolist() == [6, -6]
    assert env.step(0).observation.tolist() == [5, -5]


def test_episodes_draw_one_of_several_levels():
    """Each episode has the length of a level that was asked for, and both are played."""
    env = DmEnv("first_symbol", level=["blanks1", "blanks3"], seed=0)
    lengths, length = set(), 0
    for _ in range(80):
        time_step = env.step(0)
        length = 0 if time_step.first() else length + 1
        if time_step.last():
            lengths.add(length)
    assert lengths == {3, 5}


def test_specs_and_values():
    env = DmEnv("ballet", seed=0)
    assert env.action_spec() == specs.DiscreteArray(8, dtype=np.int32)
    assert env.observation_spec() == {
        "image": specs.BoundedArray((99, 99, 3), np.uint8, 0, 255),
        "instruction": specs.StringArray(()),
    }
    assert env.observation_spec()["image"].name == "image"
    assert DmEnv(Countdown()).observation_spec() == specs.BoundedArray((2,), np.float32, -np.inf, np.inf)
    observation = env.reset().observation
    assert observation["instruction"].dtype.kind == "U"
    assert observation["instruction"].shape == ()
    observation["image"][:] = 0  # the caller's own array: nothing else must see this
    assert env.step(0).observation["image"].any()


def digests(env, episodes=3):
    return [env.reset().observation["image"].tobytes() for _ in range(episodes)]


def test_a_seed_decides_the_episodes():
    assert digests(DmEnv("ballet", seed=7, tile=3)) == digests(DmEnv("ballet", seed=7, tile=3))
    assert len({*digests(DmEnv("ballet", seed=7, tile=3)), *digests(DmEnv("ballet", seed=8, tile=3))}) == 6
    assert digests(DmEnv("ballet", tile=3)) != digests(DmEnv("ballet", tile=3))


def test_a_step_that_starts_an_episode_is_a_reset():
    fresh, reset = DmEnv("ballet", seed=1, tile=3), DmEnv("ballet", seed=1, tile=3)
    jax.tree.map(np.testing.assert_array_equal, fresh.step("ignored").observation, reset.reset().observation)


@dataclass(frozen=True)
class Counted(Ballet):
    def advance(self, *args):
        TRACES.append("advance")
        return super().advance(*args)


TRACES: list[str] = []


def test_one_program_for_all_levels_and_objects():
    description = {"dancers": dancers("2,8 zee plus orange"), "target": 0, "delay": 16}
    for level in ("2_delay16", "8_delay48"):
        env = DmEnv(Counted(tile=1), level=level)
        env.reset()
        env.step(0)
        env.step(np.int64(1))
        env.reset_to(description)
        env.step(jnp.int32(2))
    assert TRACES == ["advance"]


@pytest.mark.parametrize("action", [-1, 8, 1.0, [0], True, None])
def test_an_unknown_action_is_refused(action):
    env = DmEnv("ballet", tile=1)
    env.reset()
    with pytest.raises(ValueError, match="an action is one integer from 0 to 7, but is"):
        env.step(action)
    assert env.step(7).mid(), "a refused action must not end the episode"


def test_what_cannot_be_built_is_refused():
    with pytest.raises(ValueError, match="no task 'tap'"):
        DmEnv("tap")
    with pytest.raises(ValueError, match="no Ballet level 'hard'"):
        DmEnv("ballet", level="hard")
    with pytest.raises(ValueError, match="tile: set this on the Ballet itself"):
        DmEnv(Ballet(), tile=3)
    with pytest.raises(ValueError, match="Countdown cannot build an episode"):
        DmEnv(Countdown()).reset_to({})


def test_without_dm_env_the_import_says_what_to_install(monkeypatch):
    monkeypatch.delitem(sys.modules, "hcam.adapters.dm_env")
    monkeypatch.setitem(sys.modules, "dm_env", None)
    with pytest.raises(ImportError, match=r'pip install "hcam\[dm\]"'):
        importlib.import_module("hcam.adapters.dm_env")
