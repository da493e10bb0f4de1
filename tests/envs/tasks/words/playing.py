"""A small environment of rapid word learning, and ways to play it."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hcam.envs.play import begin, play
from hcam.envs.tasks.words import Words
from hcam.envs.tasks.words.episodes import kind_of
from hcam.envs.tasks.words.levels import Level
from hcam.envs.tasks.words.words import _instruction
from tests.compiling import jit_polished

ENV = Words(width=8, height=8)
SINGLE = ["distractors0", "distractors1", "distractors2", "guided_distractors0", "guided_distractors1"]
SINGLE += ["quick_distractors0", "quick_distractors2"]

advance: Any = jax.jit(lambda state, action: ENV.advance(jax.random.key(0), state, action, ENV.level("distractors0")))
expert: Any = jax.jit(ENV.expert)
say: Any = jax.jit(_instruction)


def opening(level: str | Level, seed: int = 0) -> Any:
    return ENV.start(jax.random.key(seed), ENV.level(level))


def step(state, action):
    state, reward, terminated, truncated, info = advance(state, jnp.int32(action))
    return state, float(reward), bool(terminated), bool(truncated), bool(info["success"])


def text(state) -> str:
    return ENV.observation_space["instruction"].text(say(state))  # type: ignore[union-attr]


def kind(state) -> int:
    return int(kind_of(state.episode.rules, state.phase))


def until(state, wanted: int, lesson: int = 0):
    """The expert plays to the first frame of a phase of this kind, of this lesson."""
    while not (kind(state) == wanted and int(state.phase) // int(state.episode.rules.distractors + 2) == lesson):
        state, _, terminated, truncated, _ = step(state, expert(state))
        assert not terminated
        assert not truncated
    return state


def bring(state, thing: int):
    """The state with this object in front of the agent, which is moved there: to the south of it, looking north."""
    return state._replace(
        body=state.body._replace(position=state.place_o2[thing] - jnp.array([0, 0.8]), heading=jnp.int32(0))
    )


def episodes(policy, levels, batch, steps):
    """Level, success, reward, and whether a choice was made, of every episode that ended in a batch of environments."""
    params = ENV.params(*levels)

    def one(key):
        key_reset, key_play = jax.random.split(key)
        _, taken = play(ENV, policy, key_play, begin(ENV, key_reset, params), params, steps)
        return taken.info["level"], taken.info["success"], taken.reward, taken.terminated, taken.truncated

    found = jit_polished(jax.vmap(one))(jax.random.split(jax.random.key(0), batch))
    level, success, reward, chose, timed_out = (np.asarray(values) for values in found)
    return tuple(values[chose | timed_out] for values in (level, success, reward, chose))
