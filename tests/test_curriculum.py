"""Levels open one after the other, when the newest is learned, and stay open."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam import curriculum, envs
from hcam.cli.train import parse
from hcam.curriculum import SPAN, CurriculumConfig
from hcam.metrics import Tally
from hcam.train import make_learner

OPEN = CurriculumConfig(open_at=0.8)


def tally(*of_level):
    """(episodes, successes) of each level."""
    episodes_l, success_l = jnp.array(of_level, jnp.float32).T
    return Tally(episodes_l, success_l, success_l, episodes_l)


def test_without_a_threshold_all_levels_are_open():
    progress = curriculum.begin(CurriculumConfig(), 3)
    assert curriculum.weights(progress).tolist() == [1, 1, 1]
    progress = curriculum.after(CurriculumConfig(), progress, tally((9, 0), (9, 0), (9, 0)))
    assert curriculum.weights(progress).tolist() == [1, 1, 1]


def test_the_next_opens_when_the_newest_is_learned():
    progress = curriculum.begin(OPEN, 3)
    assert curriculum.weights(progress).tolist() == [1, 0, 0]
    progress = curriculum.after(OPEN, progress, tally((SPAN, 0.79 * SPAN), (0, 0), (0, 0)))
    assert curriculum.weights(progress).tolist() == [1, 0, 0]
    progress = curriculum.after(OPEN, progress, tally((SPAN, SPAN), (0, 0), (0, 0)))  # 0.895 of about the last 1000
    assert curriculum.weights(progress).tolist() == [1, 1, 0]
    # The first one opens nothing more, and closes nothing by getting worse.
    progress = curriculum.after(OPEN, progress, tally((SPAN, SPAN), (SPAN, 0.2 * SPAN), (0, 0)))
    progress = curriculum.after(OPEN, progress, tally((9 * SPAN, 0), (SPAN, 0.2 * SPAN), (0, 0)))
    assert curriculum.weights(progress).tolist() == [1, 1, 0]
    for _ in range(9):  # beyond the last there is none
        progress = curriculum.after(OPEN, progress, tally(*[(SPAN, SPAN)] * 3))
    assert curriculum.weights(progress).tolist() == [1, 1, 1]


def test_a_lucky_streak_opens_nothing():
    progress = curriculum.begin(OPEN, 2)
    progress = curriculum.after(OPEN, progress, tally((SPAN / 2 - 1, SPAN / 2 - 1), (0, 0)))
    assert int(progress.opened) == 1
    assert int(curriculum.after(OPEN, progress, tally((1, 1), (0, 0))).opened) == 2


def test_what_is_long_past_fades():
    progress = curriculum.begin(OPEN, 2)
    for _ in range(20):
        progress = curriculum.after(OPEN, progress, tally((SPAN / 2, 0), (0, 0)))
    assert float(progress.episodes_l[0]) == SPAN
    opened = []
    for _ in range(5):
        progress = curriculum.after(OPEN, progress, tally((SPAN / 2, SPAN / 2), (0, 0)))
        opened.append(int(progress.opened))
    assert opened == [1, 1, 1, 2, 2]  # 1 - (2/3)^n of what is remembered has succeeded: 0.80 after four


def test_episodes_are_drawn_from_the_open_levels_alone():
    env = envs.make("ballet", tile=1)
    level = env.weighted(env.params("1_delay0", "2_delay0", "3_delay0"), jnp.array([1.0, 1.0, 0.0]))
    drawn = jax.vmap(lambda key: env.start(key, level).episode.level)(jax.random.split(jax.random.key(0), 500))
    assert set(np.asarray(drawn).tolist()) == {0, 1}


def test_a_run_starts_with_its_first_level_and_opens_the_next(monkeypatch):
    monkeypatch.setattr(curriculum, "SPAN", 20)
    words = ["--levels", "1_delay0", "2_delay0", "--environments", "32", "--minibatches", "1", "--unroll", "8"]
    learner = make_learner(parse([*words, "--open-at", "0.01"]).config)
    state = jax.jit(learner.init)(jax.random.key(0))
    assert set(np.asarray(state.lives_b.env.episode.level).tolist()) == {0}
    opened, drawn = [], []
    update = jax.jit(learner.update)
    for _ in range(40):
        state, seen = update(state)
        opened.append(int(seen.losses["open"]))
        drawn.append(set(np.asarray(state.lives_b.env.episode.level).tolist()))
    assert opened[0] == 1
    assert opened[-1] == 2
    assert drawn[opened.index(2)] == {0}
    assert drawn[-1] == {0, 1}


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match="open_at is a share of episodes, from 0 to 1, but is 80"):
        CurriculumConfig(open_at=80)
    with pytest.raises(ValueError, match="has no levels that could be drawn more or less often"):
        make_learner(parse(["echo", "--open-at", "0.8"]).config)
