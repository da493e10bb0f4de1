"""Worker processes: what they return, and what happens when they fail."""

import os
import random
import signal
import time
from typing import Any

import numpy as np
import pytest

from hcam.host.pool import HostError, Pool, look
from hcam.host.source import Source
from tests.host import toys

CLOCK = Source("gymnasium", "tests.host.toys:clock")


@pytest.fixture(scope="module")
def spaces():
    return look(CLOCK)


def pool_of(source, spaces, environments=8, workers=2, **options):
    said: list[str] = []
    return Pool(source, spaces, environments, 2, workers, said.append, **options), said


def stepped(pool, steps):
    for _ in range(steps):
        for group in (0, 1):
            pool.send(group, np.zeros(1, int))
        for group in (0, 1):
            pool.receive(group)


def by_hand(seed, actions):
    """What one environment returns, in this process."""
    env = toys.clock()
    observation, _ = env.reset(seed=seed)
    rows = [(observation["clock"][0], observation["drawn"] - 1, 0.0, False, False)]
    for action in actions:
        observation, reward, terminated, truncated, _ = env.step(action + 1)
        if terminated or truncated:
            observation, _ = env.reset()
        rows.append(
            (observation["clock"][0], observation["drawn"] - 1, reward, terminated, truncated and not terminated)
        )
    return rows


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_steps_are_those_of_stepping_by_hand_in_any_order_of_the_groups(spaces, order):
    actions_tb = np.random.default_rng(0).integers(3, size=(30, 8))
    pool, said = pool_of(CLOCK, spaces)
    first = pool.reset(np.arange(8))
    rows: list[Any] = [[(first["clock"][b, 0], first["drawn"][b], 0.0, False, False) for b in range(8)]]
    for action_b in actions_tb:
        row: list[Any] = [None] * 8
        for group in order:
            pool.send(group, action_b[pool.slots(group)])
        for group in reversed(order):
            step = pool.receive(group)
            for n, b in enumerate(range(*pool.slots(group).indices(8))):
                seen = step.observation
                row[b] = (seen["clock"][n, 0], seen["drawn"][n], step.reward[n], step.terminated[n], step.truncated[n])
        rows.append(row)
    pool.close()
    for b in range(8):
        assert [row[b] for row in rows] == by_hand(b, actions_tb[:, b])
    assert not said


def test_an_exception_is_told_with_its_environment_and_its_frames():
    source = Source("gymnasium", "tests.host.toys:breaking", {"how": "raise", "after": 20})
    pool, _ = pool_of(source, look(source), 2, 1)
    pool.reset([0, 1])
    with pytest.raises(HostError, match="breaking of environment 0 raised LookupError: the floor is lava") as caught:
        stepped(pool, 30)
    pool.close()
    assert caught.value.told["frames"][-1][2] == "fail"


@pytest.mark.parametrize(("how", "what"), [("exit", "has ended with status 3"), ("hang", "has not answered for 3 s")])
def test_one_that_ends_or_hangs_is_named_and_started_again(how, what):
    source = Source("gymnasium", "tests.host.toys:breaking", {"how": how, "after": 20})
    pool, said = pool_of(source, look(source), 4, 1, step_seconds=3.0)
    pool.reset(range(4))
    for t in range(25):
        for group in (0, 1):
            pool.send(group, np.zeros(2, int))
        cut = [pool.receive(group).cut for group in (0, 1)]
        assert np.all(cut) if t == 20 else not np.any(cut)
    pool.close()
    assert pool.restarts == 1
    assert said[0].startswith("worker 0 (environments 0 to 3 of gymnasium:tests.host.toys:breaking) " + what)


def test_one_that_never_answers_again_ends_the_run(spaces, tmp_path):
    once = tmp_path / "once"
    once.touch()
    source = Source("gymnasium", "tests.host.toys:once", {"path": str(once)})
    pool, said = pool_of(source, spaces, 2, 1)
    pool.reset([0, 1])
    os.kill(pool.workers[0].process.pid, signal.SIGKILL)
    pool.send(0, np.zeros(1, int))
    with pytest.raises(HostError, match=r"for the 4th time in a row.*--resume continues from the last checkpoint"):
        pool.receive(0)
    pool.close()
    assert len(said) == 3


def test_what_cannot_start_is_refused():
    with pytest.raises(ValueError, match="toys:dying cannot be made: its process has ended with status 7 at once"):
        look(Source("gymnasium", "tests.host.toys:dying"))
    with pytest.raises(HostError, match=r"raised TypeError: .*unexpected keyword"):
        look(Source("gymnasium", "tests.host.toys:clock", {"colour": 1}))


def test_workers_end_with_the_pool(spaces):
    pool, _ = pool_of(CLOCK, spaces)
    processes = [worker.process for worker in pool.workers]
    del pool
    assert all(process.poll() is not None for process in processes)


@pytest.mark.parametrize("kills", [4, pytest.param(20, marks=pytest.mark.slow)])
def test_workers_that_are_killed_at_random(spaces, kills):
    """Nothing hangs, no step is lost, and no episode leaks into the next."""
    source = Source("gymnasium", "tests.host.toys:clock", {"pause": 0.001})
    pool, said = pool_of(source, spaces, 12, 3)
    chance, done, cut = random.Random(kills), 0, 0
    clock = pool.reset(range(12))["clock"][:, 0]
    next_kill, start = 3, time.monotonic()
    for group in (0, 1):
        pool.send(group, np.zeros(6, int))
    while done < kills or pool.restarts < done:
        assert time.monotonic() - start < 60 + 5 * kills
        for group in (0, 1):
            step = pool.receive(group)
            over = step.terminated | step.truncated
            assert not (step.cut & ~step.truncated).any()
            slots = pool.slots(group)
            np.testing.assert_array_equal(step.observation["clock"][:, 0], np.where(over, 0, clock[slots] + 1))
            clock[slots] = step.observation["clock"][:, 0]
            cut += step.cut.sum()
            pool.send(group, np.zeros(6, int))
        next_kill -= 1
        if next_kill <= 0 and done < kills and done == pool.restarts:
            time.sleep(chance.random() * 0.01)
            os.kill(chance.choice(pool.workers).process.pid, signal.SIGKILL)
            done, next_kill = done + 1, chance.randrange(2, 8)
    pool.close()
    assert len(said) == kills
    assert "was ended by signal 9: it is started again" in said[0]
    assert 0 < cut <= 4 * kills
