"""More room in memory than in training: what is asked for, what an episode needs, and what is refused."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam import agent, recipes
from hcam.config import TaskConfig, override
from hcam.envs.probes import FirstSymbol
from hcam.memory import GRU, HCAM, TrXL
from hcam.runs.pretrained import Trained
from hcam.runs.room import longest, resized, room_of
from hcam.types import Inputs

ENV = FirstSymbol()
MEMORIES = {
    "hcam": HCAM(width=8, layers=1, heads=2, chunk=4, overlap=1, slots=2, top_k=2, mlp=1),
    "trxl": TrXL(width=8, layers=1, heads=2, window=4, mlp=1),
    "gru": GRU(width=8, layers=1),
}


def trained(memory="hcam", env=ENV):
    task = TaskConfig(task="first_symbol")
    config = override(recipes.preset("general", task, ENV), {"agent.memory": MEMORIES[memory], "agent.heads.hidden": 8})
    config = replace(config, agent=config.agent.here())
    made = agent.make(config.agent, ENV)
    numbers = np.random.default_rng(0)  # JAX would compile their initialisation for seconds
    like = jax.eval_shape(made.init_params, jax.random.key(0))
    params_s = jax.tree.map(lambda leaf: numbers.normal(0, 0.5, (1, *leaf.shape)).astype(np.float32), like)
    return Trained(config, made, env, params_s, {"steps": 9})


def test_nothing_changes_unless_asked_for():
    one = trained()
    assert resized(one, ["blanks2"], 8, slots=None, window=None) == (one, {})


def test_a_number_is_taken_as_it_is():
    one, sizes = resized(trained(), ["blanks2"], 8, slots=5, window=None)
    assert (one.config.agent.memory.slots, sizes) == (5, {"slots": 5})
    assert one.agent.config is one.config.agent
    one, sizes = resized(trained("trxl"), ["blanks2"], 8, slots=None, window=9)
    assert (one.config.agent.memory.window, sizes) == (9, {"window": 9})


def test_auto_is_what_the_longest_episode_needs():
    """blanksN has N + 2 steps; chunks of 4 begin every 3 steps, so that the last of 10 ends with step 40 - 9."""
    levels = ["blanks2", "blanks29"]
    assert longest(ENV, levels) == 31
    assert resized(trained(), levels, 8, slots="auto")[1] == {"slots": 10}
    assert resized(trained(), ["blanks28"], 8, slots="auto")[1] == {"slots": 9}
    assert resized(trained(), ["blanks2"], 8, slots="auto")[1] == {"slots": 2}  # never fewer
    assert resized(trained("trxl"), levels, 8, window="auto")[1] == {"window": 31}


def inputs(steps):
    symbol_t = jnp.zeros(steps, jnp.int32)
    seen_t = jax.random.normal(jax.random.key(1), (steps, ENV.sizes.width))
    return Inputs(seen_t, jnp.arange(steps) == 0, symbol_t, jnp.zeros(steps))


@pytest.mark.parametrize(("memory", "room"), [("hcam", {"slots": "auto"}), ("trxl", {"window": "auto"})])
def test_the_same_parameters_see_further_and_nothing_else_changes(memory: str, room: Any):
    """As long as nothing is forgotten, the results are the same; later the first steps still count."""
    short, steps = trained(memory), 40
    long, _ = resized(short, ["blanks38"], 8, **room)
    first, other = inputs(steps), inputs(steps)
    other = other._replace(observation=other.observation.at[0].add(3.0))

    @jax.jit
    def logits(params, inputs_t):
        return [one.agent.unroll(params, one.agent.init_state(), inputs_t)[1].logits for one in (short, long)]

    a, b = (logits(short.params, one) for one in (first, other))
    np.testing.assert_allclose(a[0][:4], a[1][:4], atol=1e-5)
    np.testing.assert_allclose(a[0][10:], b[0][10:], atol=1e-6)  # forgotten
    assert np.abs(a[1][10:] - b[1][10:]).max() > 1e-3


@pytest.mark.parametrize(
    ("memory", "room", "sentence"),
    [
        ("gru", {"slots": 4}, r"the memory gru has no slots to change: leave out --slots\."),
        ("gru", {"slots": "auto"}, r"the memory gru has no slots"),
        ("hcam", {"window": 4}, r"has no window to change: leave out --window, what it holds depends on --slots\."),
        ("trxl", {"slots": 4}, r"has no slots to change: leave out --slots, what it holds depends on --window\."),
        ("hcam", {"slots": 0}, r"slots must be a whole number of at least 1, but is 0\."),
        ("trxl", {"window": -1}, r"window must be a whole number of at least 1, but is -1\."),
        (
            "hcam",
            {"slots": 10**10},
            r"the memories of 8 episodes at once need at least [\d,.]+ GB, .*: lower --slots or",
        ),
        ("trxl", {"window": 10**30}, r"these memories are too large for any machine|need at least"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(memory, room, sentence):
    with pytest.raises(ValueError, match=f"^[^\n]*{sentence}"):
        resized(trained(memory), ["blanks2"], 8, **room)


def test_auto_needs_to_know_how_long_an_episode_is():
    class Endless(FirstSymbol):
        def max_steps_in_episode(self, level):
            return None

    with pytest.raises(ValueError, match=r"^nobody knows how long an episode of blanks2 may be: give a number instead"):
        resized(trained(env=Endless()), ["blanks2"], 8, slots="auto")


def test_what_decides_how_much_a_memory_holds():
    found = {name: room_of(memory) for name, memory in MEMORIES.items()}
    assert found == {"hcam": {"slots": 2}, "trxl": {"window": 4}, "gru": {}}
