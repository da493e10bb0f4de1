"""`adapt` takes whatever a function that makes environments has made, and says what it does not take."""

import re
from functools import partial

import gymnasium
import gymnax  # type: ignore[import-untyped]
import jax
import numpy as np
import pytest
from gymnax import wrappers
from gymnax.environments.classic_control.cartpole import CartPole  # type: ignore[import-untyped]

from hcam.adapters import adapt
from hcam.adapters.from_gymnasium import HostEnvironment
from hcam.adapters.gymnax import FromGymnax
from hcam.envs.play import at_random, begin, play
from hcam.envs.probes import Echo
from hcam.envs.spaces import Discrete


def played(env):
    """Ten steps of two environments: what an agent would be shown."""
    keys = jax.random.split(jax.random.key(0), 2)
    now = jax.vmap(lambda key: begin(env, key, env.params()))(keys)
    run = jax.vmap(lambda key, now: play(env, at_random(env), key, now, env.params(), 10)[1])
    with jax.numpy_dtype_promotion("standard"):  # gymnax promotes inside
        return jax.device_get(jax.jit(run)(keys, now))


def test_ours_is_taken_as_it_is():
    env = Echo(symbols=3)
    assert adapt("mine:make", lambda: env, {}) is env


def test_options_are_given_to_the_function():
    env = adapt("mine:make", lambda symbols=2: Echo(symbols), {"symbols": 5})
    assert env.action_space == Discrete(5)


@pytest.mark.parametrize(
    "make_env",
    [CartPole, lambda: gymnax.make("CartPole-v1")[0], lambda: wrappers.LogWrapper(CartPole())],
    ids=["class", "function", "wrapped"],
)
def test_an_environment_of_gymnax(make_env):
    env = adapt("theirs:make", make_env, {})
    assert isinstance(env, FromGymnax)
    assert env.action_space == Discrete(2)
    assert played(env).observation.shape == (2, 10, 4)


def test_what_gymnax_makes_is_an_environment_and_its_params():
    """The second replace the defaults: here, an episode has 3 steps."""

    def make_env(limit):
        env, params = gymnax.make("CartPole-v1")
        return env, params.replace(max_steps_in_episode=limit)

    env = adapt("theirs:make", make_env, {"limit": 3})
    assert isinstance(env, FromGymnax)
    np.testing.assert_array_equal(np.flatnonzero(played(env).truncated[0]), [2, 5, 8])


class Noted(gymnasium.Wrapper):
    """Knows which of its kind are open."""

    opened: set[int] = set()  # noqa: RUF012

    def __init__(self, env):
        super().__init__(env)
        self.opened.add(id(self))

    def close(self):
        self.opened.discard(id(self))
        super().close()


def test_an_environment_of_gymnasium_is_made_once_for_each_of_a_batch():
    """The one that was made to see what it is has been closed again."""
    made: list[Noted] = []

    def make_env(name):
        made.append(Noted(gymnasium.make(name)))
        return made[-1]

    env = adapt("theirs:make", make_env, {"name": "CartPole-v1"})
    assert isinstance(env, HostEnvironment)
    assert env.action_space == Discrete(2)
    assert played(env).observation.shape == (2, 10, 4)
    assert len(made) == 1 + 2
    assert Noted.opened == {id(one) for one in made[1:]}
    env.close()
    assert not Noted.opened


@pytest.mark.parametrize(
    ("made", "kind"), [(None, "NoneType"), (3, "int"), ((Echo(), ()), "tuple"), (Echo, "type"), ([1, 2, 3], "list")]
)
def test_anything_else_is_refused_in_one_sentence(made, kind):
    sentence = f"mine:make must make an environment of hcam, gymnax or Gymnasium, but made {kind}: derive from "
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}[^\n]*\\.$"):
        adapt("mine:make", partial(lambda made: made, made), {})
