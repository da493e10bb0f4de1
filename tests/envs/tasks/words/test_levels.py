"""Levels of rapid word learning that cannot be are refused in one sentence."""

import pytest

from hcam.envs.tasks.words.levels import HELD_OUT_LEVELS, TRAINING_LEVELS, WORDS, Level
from tests.envs.tasks.words.playing import ENV


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: ENV.params("distractor2"), "there is no Words level 'distractor2'"),
        (lambda: ENV.params("distractors21"), "distractors must be a whole number from 0 to 20"),
        (lambda: ENV.params("quick_episodes5_distractors0"), "episodes must be a whole number from 1 to 4"),
        (lambda: Level(limit=0.1), "limit must be seconds in quarters"),
        (lambda: Level(spacing=0.5), "raise spacing"),
        (lambda: Level(room=4), "raise room"),
        (lambda: Level(guide=-0.1), "guide must be a reward from 0 to 1"),
        (lambda: ENV.params("turn_distractors0"), "there is no Words level 'turn_distractors0'"),
        (lambda: Level(near=0.2), "near must be at least 0.57 m"),
        (lambda: Level(size=-1), "must be metres above 0"),
        (lambda: Level(ahead=3), "ahead must be true or false"),  # type: ignore[arg-type]
        (lambda: Level(things=("duck", "mug", "rocket")), "things must be at least 3 different of duck"),
        (lambda: Level(episodes=2, words=WORDS[:5]), "words must be at least 6 different of dax"),
    ],
)
def test_bad_levels_are_refused(wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        wrong()


def test_a_level_takes_450_seconds_whatever_it_is():
    assert {ENV.max_steps_in_episode(level) for level in (*TRAINING_LEVELS, *HELD_OUT_LEVELS)} == {1800}
