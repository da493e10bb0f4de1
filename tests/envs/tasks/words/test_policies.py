"""The expert is always right; who has no memory, or no plan, is right by chance."""

import numpy as np

from hcam.envs.play import at_random, knowing
from tests.envs.tasks.words.playing import ENV, SINGLE, episodes


def test_the_expert_is_always_right_on_every_level():
    """All in one mixture and one program: twenty distractors and super-episodes end in time as well."""
    level, success, reward, chose = episodes(knowing(ENV.expert), ENV.levels, batch=256, steps=700)
    assert set(level) == set(range(len(ENV.levels)))
    assert chose.all()
    assert success.all()
    assert (reward == 1).all()
    assert len(level) > 1000


def test_without_memory_a_choice_is_chance():
    """It knows the distractors' names and gets to the test, but there is at one in three."""
    levels = [*SINGLE, "quick_episodes2_distractors0"]
    level, success, _, chose = episodes(knowing(ENV.memoryless), levels, batch=256, steps=1000)
    assert chose.mean() > 0.8
    for number, name in enumerate(levels):
        right = success[chose & (level == number)]
        assert len(right) > 50
        assert abs(right.mean() - ENV.chance(name)) <= 4 * np.sqrt(2 / 9 / len(right)), name


def test_random_actions_choose_by_chance_if_they_choose():
    level, success, _, chose = episodes(at_random(ENV), ["distractors0", "quick_distractors0"], batch=256, steps=1900)
    for number in range(2):
        right = success[chose & (level == number)]
        assert len(right) > 50
        assert abs(right.mean() - 1 / 3) <= 4 * np.sqrt(2 / 9 / len(right))
    assert not success[~chose].any()
