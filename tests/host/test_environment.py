"""Environments in worker processes as ours: evaluated and watched like any other, and refused in one sentence."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam import envs
from hcam.adapters import HostEnvironmentError
from hcam.adapters.from_gymnasium import from_gymnasium
from hcam.envs.play import at_random, begin, play
from hcam.envs.spaces import Box, Discrete, Tokens
from hcam.host import environment
from tests.host import toys


def rolled(env):
    @jax.jit
    def roll(keys):
        now = jax.vmap(lambda key: begin(env, jax.random.fold_in(key, 0), ()))(keys)
        return jax.vmap(lambda key, now: play(env, at_random(env), jax.random.fold_in(key, 1), now, (), 25))(keys, now)

    return jax.device_get(roll(jax.random.split(jax.random.key(0), 4))[1])


def test_a_program_may_step_it_as_it_steps_environments_of_this_process():
    env: Any = envs.make("gymnasium:tests.host.toys:clock")
    environment.use(env, 2)
    here = from_gymnasium(toys.clock)
    assert env.action_space == here.action_space == Discrete(3)
    assert env.observation_space == here.observation_space
    steps, expected = rolled(env), rolled(here)
    jax.tree.map(np.testing.assert_array_equal, steps, expected)
    assert len(env.workers.pool.workers) == 2
    keys = jax.random.split(jax.random.key(0), 3)
    _, state = jax.vmap(env.reset)(keys)
    assert (env.workers.pool.environments, env.workers.pool.groups) == (3, 1), "another number is another pool"
    with pytest.raises((jax.errors.JaxRuntimeError, RuntimeError), match="step the whole batch"):
        jax.block_until_ready(env.step(jax.random.key(1), jax.tree.map(lambda leaf: leaf[0], state), jnp.int32(0)))
    env.close()
    assert env.workers.pool is None


def test_what_is_observed():
    assert envs.make("gymnasium:tests.host.toys:symbols", one_hot={"observation": [3, 2]}).observation_space == Box(
        (1, 2, 5), 0, 1, "uint8"
    )
    env: Any = envs.make("gymnasium:tests.host.toys:talking")
    space = env.observation_space
    assert isinstance(space, Tokens)
    assert (space.length, space.vocabulary[:2]) == (5, ("", "?"))
    again: Any = envs.make("gymnasium:tests.host.toys:talking", **env.options)
    assert again.observation_space == space
    assert again.options == env.options
    assert space.text(env.reset(jax.random.key(0))[0]) == "go to the red ball"
    env.close()
    assert envs.make("dm_env:tests.host.toys:catch").action_space == Discrete(2)


@pytest.mark.parametrize(
    ("task", "options", "sentence"),
    [
        ("gymnasium:NoSuch-v0", {}, "Gymnasium knows no environment NoSuch-v0"),
        ("gymnasium:", {}, "gymnasium: needs an id, as in gymnasium:CartPole-v1"),
        ("dm_env:tests.host.toys:nothing", {}, "has no nothing"),
        ("gymnasium:tests.host.toys:continuous", {}, "actions must be Discrete"),
        ("gymnax:NoSuch", {}, "gymnax has no environment 'NoSuch': choose from CartPole-v1"),
        ("gymnax:CartPole-v1", {"colour": 1}, "does not take this --env-arg: .*colour"),
    ],
)
def test_what_cannot_be_made_is_refused(task, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        envs.make(task, **options)


def test_an_exception_has_the_users_frames():
    with pytest.raises(HostEnvironmentError, match=r"raised LookupError: the floor is lava \(toys.py, line") as caught:
        envs.make("gymnasium:tests.host.toys:breaking", how="raise", after=0)
    assert [frame.name for frame in caught.value.frames] == ["step", "fail"]


def test_gymnax_stays_in_the_program():
    env: Any = envs.make("gymnax:CartPole-v1", max_steps_in_episode=7)
    assert env.is_saved
    assert env.default_params.max_steps_in_episode == 7


def test_workers_are_for_environments_that_have_them():
    with pytest.raises(ValueError, match="--workers is for environments in worker processes"):
        environment.use(envs.make("first_symbol"), 2)
    env: Any = envs.make("gymnasium:tests.host.toys:clock")
    with pytest.raises(ValueError, match="workers must be 1 or more, but is 0"):
        environment.use(env, 0)
    assert environment.default_workers() >= 1
