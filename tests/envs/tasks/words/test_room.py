"""Where things stand, and what is in front of the agent."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.envs.tasks.words.levels import WORDS, Level
from tests.envs.tasks.words.playing import (
    ENV,
    opening,
    text,
)


@pytest.mark.parametrize("level", ["distractors0", "quick_distractors0"])
def test_nothing_overlaps_and_everything_is_inside(level):
    start = jax.jit(jax.vmap(lambda key: ENV.start(key, ENV.level(level))))
    state = jax.device_get(start(jax.random.split(jax.random.key(0), 2000)))
    place_bn2 = np.concatenate([state.body.position[:, None], state.place_o2], axis=1)
    known = Level() if level == "distractors0" else ENV.level(level).rules
    assert (np.abs(place_bn2) + 0.3 < state.episode.rules.half[:, None, None]).all()
    apart_bnn = np.linalg.norm(place_bn2[:, :, None] - place_bn2[:, None], axis=-1) + 9 * np.eye(4)
    assert apart_bnn.min() > 2 * 0.36 * float(known.size)
    if level == "distractors0":
        assert apart_bnn.min() > float(known.near)  # so that the first frame says no name
        assert len(np.unique(state.body.heading)) == 16
        assert place_bn2.std(axis=0).min() > 1.2  # all over the room


@pytest.mark.parametrize("level", ["distractors0", "quick_distractors0"])
def test_a_name_is_heard_near_the_object_and_facing_it_alone(level):
    """All around an object, at all headings: the sentence is heard exactly where distance and angle allow it."""
    state = opening(level)
    state = state._replace(place_o2=jnp.array([[0.0, 0.0], [40.0, 40.0], [-40.0, 40.0]]))
    word = WORDS[int(state.episode.word_w[0])]
    near, heard = float(state.episode.rules.near), 0
    rng = np.random.default_rng(0)
    for _ in range(300):
        away, bearing, heading = rng.uniform(0.5, 2 * near), rng.uniform(-np.pi, np.pi), rng.integers(16)
        at = -away * np.array([np.sin(bearing), np.cos(bearing)])
        off = np.abs((bearing - heading * np.pi / 8 + np.pi) % (2 * np.pi) - np.pi)
        if min(abs(away - near), abs(off - np.radians(15))) < 1e-3:
            continue
        body = state.body._replace(position=jnp.float32(at), heading=jnp.int32(heading))
        named = away < near and off < np.radians(15)
        assert text(state._replace(body=body)) == (f"this is a {word}" if named else "explore")
        heard += named
    assert heard > 5
