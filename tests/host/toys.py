"""Small Gymnasium and dm_env environments for worker processes, which import them by name."""

import os
import time

import dm_env  # type: ignore[import-untyped]
import gymnasium
import numpy as np
from dm_env import specs
from gymnasium import spaces


class Clock(gymnasium.Env):
    """Shows how many steps the episode has and a number drawn at its start, which the right action names."""

    def __init__(self, length=5, pause=0.0):
        self.length, self.pause = length, pause
        self.action_space = spaces.Discrete(3, start=1)
        clock = spaces.Box(0, 100, (1,), np.int64)
        self.observation_space = spaces.Dict({"clock": clock, "drawn": spaces.Discrete(3, start=1)})

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time, self.drawn = 0, int(self.np_random.integers(1, 4))
        # Some episodes end, the others are cut off.
        self.ends = bool(self.np_random.integers(2))
        return self.seen(), {}

    def step(self, action):
        time.sleep(self.pause)
        self.time += 1
        over = self.time >= self.length + self.drawn
        return self.seen(), float(action == self.drawn), over and self.ends, over, {}

    def seen(self):
        return {"clock": np.array([self.time]), "drawn": self.drawn}


class Given(gymnasium.Env):
    """Shows one value of a space."""

    def __init__(self, observation_space, values, action_space=None):
        self.observation_space, self.values = observation_space, values
        self.action_space = spaces.Discrete(2) if action_space is None else action_space
        self.taken = 0

    def reset(self, *, seed=None, options=None):
        self.taken = 0
        return self.values[0], {}

    def step(self, action):
        self.taken += 1
        return self.values[min(self.taken, len(self.values) - 1)], 0.0, False, False, {}


def clock(**options):
    return Clock(**options)


def talking():
    words = ["Go to the red ball.", "go to the green key", "open the door"]
    return Given(spaces.Text(30), words)


class Told(gymnasium.Env):
    """Says a side, and asks for it two steps later."""

    observation_space, action_space = spaces.Text(20), spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time, self.side = 0, int(self.np_random.integers(2))
        return ["left left", "Right!"][self.side], {}

    def step(self, action):
        self.time += 1
        done = self.time == 3
        return "left", float(done and action == self.side), done, False, {}


def told():
    return Told()


def symbols():
    box = spaces.Box(0, 255, (1, 2, 2), np.uint8)
    return Given(box, [np.array([[[2, 0], [1, 1]]], np.uint8)])


def picture(size=4):
    image = np.arange(size * size * 3, dtype=np.uint8).reshape(size, size, 3)
    return Given(spaces.Dict({"screen": spaces.Box(0, 255, (size, size, 3), np.uint8)}), [{"screen": image}])


def continuous():
    return Given(spaces.Discrete(2), [0], spaces.Box(-1, 1))


def growing():
    return Given(spaces.Box(0, 1, (1,)), [np.zeros(1), np.zeros(2)])


def nested():
    return Given(spaces.Dict({"a": spaces.Dict({"b": spaces.Discrete(2)})}), [{"a": {"b": 0}}])


def several():
    """Several observations and several actions at a time."""
    return Given(spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)]), [(1, 2)], spaces.MultiDiscrete([2, 3]))


class Breaking(Clock):
    """Behaves for some steps, and then does what `how` says."""

    def __init__(self, how, after=20):
        super().__init__()
        self.how, self.left = how, after

    def step(self, action):
        self.left -= 1
        if self.left < 0:
            self.fail()
        return super().step(action)

    def fail(self):
        if self.how == "raise":
            raise LookupError("the floor is lava")
        if self.how == "exit":
            os._exit(3)
        time.sleep(60)


def breaking(how, after=20):
    return Breaking(how, after)


def dying():
    os._exit(7)


def once(path):
    """Can be made by one process alone, which writes its name into a file; others die."""
    with open(path, "r+") as file:
        owner = file.read()
        if owner not in ("", str(os.getpid())):
            os._exit(7)
        file.write("" if owner else str(os.getpid()))
    return Clock()


class Catch(dm_env.Environment):
    """A count to three, which ends with discount 0 where the action was 1 and with 1 where it was 0."""

    def __init__(self, seed=None):
        self.seed, self.time = seed or 0, 0

    def reset(self):
        self.time = 0
        return dm_env.restart(self.seen())

    def step(self, action):
        self.time += 1
        if self.time < 3:
            return dm_env.transition(reward=0.5, observation=self.seen())
        return dm_env.TimeStep(dm_env.StepType.LAST, 1.0, 0.0 if action else 1.0, self.seen())

    def observation_spec(self):
        return {"time": specs.DiscreteArray(4), "seed": specs.Array((), np.int64), "on": specs.Array((2,), bool)}

    def action_spec(self):
        return specs.DiscreteArray(2)

    def seen(self):
        return {"time": self.time, "seed": np.int64(self.seed), "on": np.array([True, False])}


def catch(seed=None):
    return Catch(seed)
