"""Episodes: objects and words are drawn anew, and an episode can be described in words."""

import jax
import numpy as np
import pytest

from hcam.envs.render.things import THINGS
from hcam.envs.tasks.words.levels import DISTRACTORS, POOL, WORDS
from tests.envs.tasks.words.playing import (
    ENV,
    opening,
)


def test_words_are_bound_anew_in_every_episode():
    params = ENV.params("distractors0")
    draw = jax.jit(jax.vmap(lambda key: ENV.start(key, jax.tree.map(lambda leaf_l: leaf_l[0], params.level_l)).episode))
    found = jax.device_get(draw(jax.random.split(jax.random.key(0), 4000)))
    assert set(np.unique(found.thing_w[:, :3])) == {THINGS.index(thing) for thing in POOL}
    assert set(np.unique(found.word_w)) == set(range(len(WORDS)))
    counts = np.zeros((len(THINGS), len(WORDS)))
    np.add.at(counts, (found.thing_w[:, :3].ravel(), found.word_w[:, :3].ravel()), 1)
    expected = 12000 / len(POOL) / len(WORDS)
    used = counts[[THINGS.index(thing) for thing in POOL]]
    assert used.min() > 0
    assert used.max() < expected + 7 * np.sqrt(expected)
    assert abs(np.bincount(found.target_e[:, 0]) / 4000 - 1 / 3).max() < 0.04


def test_objects_and_words_of_a_super_episode_are_distinct_and_never_distractors():
    draw = jax.jit(jax.vmap(lambda key: ENV.start(key, ENV.level("quick_episodes4_distractors0")).episode))
    found = jax.device_get(draw(jax.random.split(jax.random.key(0), 200)))
    for thing_w, word_w in zip(found.thing_w, found.word_w, strict=True):
        assert len(set(thing_w)) == len(set(word_w)) == 12
        assert not {THINGS[thing] for thing in thing_w} & set(DISTRACTORS)


def test_episodes_in_words():
    for level in ("distractors2", "quick_distractors0", "episodes3_distractors5"):
        state = opening(level)
        description = ENV.describe(state)
        assert ENV.describe(ENV.episode(description)) == description
        again = ENV.episode(description)
        count = 3 * int(state.episode.rules.episodes)
        for leaf, same in zip(jax.tree.leaves(state), jax.tree.leaves(again), strict=True):
            if leaf.shape == (12,):
                np.testing.assert_array_equal(leaf[:count], same[:count])
            elif leaf.shape != (4,):
                np.testing.assert_array_equal(leaf, same)
        assert len(description["lessons"]) == len(description["targets"]) == count // 3


def described(**changes):
    return ENV.describe(opening("distractors0")) | changes


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: ENV.episode({}), "an episode is described by lessons, targets"),
        (lambda: ENV.episode(described(lessons=[])), "lessons must be 1 to 4 lists of 3 objects"),
        (lambda: ENV.episode(described(targets=[3])), "targets must be 1 numbers of objects, 0 to 2"),
        (lambda: ENV.episode(described(seed=-1)), "seed must be a whole number from 0 to 4,294,967,295"),
        (
            lambda: ENV.episode(described(lessons=[[{"thing": "duck", "word": word} for word in WORDS[:3]]])),
            "every object needs a thing of its own",
        ),
    ],
)
def test_bad_descriptions_are_refused(wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        wrong()
