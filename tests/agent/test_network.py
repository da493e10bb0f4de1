"""A network as an agent: acting and learning give the same, nothing is kept, and a run continues where it stopped."""

import io
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console

from hcam import agent, training
from hcam.agent import AgentConfig
from hcam.agent.network import NetworkAgent
from hcam.config import Config, RunConfig, TaskConfig, override, read, to_json
from hcam.learning.learner import LearnerConfig
from hcam.learning.objectives import ObjectiveConfig
from hcam.learning.optimiser import OptimiserConfig
from hcam.runs.folder import RunFolder
from hcam.runs.progress import Display
from hcam.types import Inputs
from tests.agent.readers.cases import READERS, Task, built, observation

T, B = 3, 2


def inputs_tb():
    seen = [observation(seed) for seed in range(T * B)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves).reshape(T, B, *leaves[0].shape), *seen)
    return Inputs(stacked, jnp.ones((T, B), bool), jnp.zeros((T, B), jnp.int32), jnp.zeros((T, B)))


def test_a_configuration_with_a_network_is_the_whole_agent():
    made = agent.make(AgentConfig(memory=READERS["memo"]), Task())  # type: ignore[arg-type]
    assert isinstance(made, NetworkAgent)
    assert jax.tree.leaves(made.init_state()) == []
    assert set(made.init_params(jax.random.key(0))) == {"network"}


@pytest.mark.parametrize("name", ["hcam", "memo"])
def test_acting_and_learning_give_the_same(name):
    made, params = built(name)
    given = inputs_tb()
    learned = jax.jit(made.unroll_batch)(params, (), given)
    step = jax.jit(made.step)
    for t in range(T):
        for b in range(B):
            one = jax.tree.map(lambda leaf, t=t, b=b: leaf[t, b], given)
            state, acted = step(made.prepare(params), made.init_state(), one)
            assert state == made.undo((), state) == ()
            for mine, theirs in zip(acted, jax.tree.map(lambda leaf, t=t, b=b: leaf[t, b], learned), strict=True):
                if mine is not None:
                    np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)
    assert made.reconstruction(params, learned.y_d, given.observation) == {}


SETTINGS = Config(
    task=TaskConfig(task="pai", options={"sequences": 2, "longest": 3, "features": 8}),
    agent=AgentConfig(memory=READERS["memo"], dtype="float32"),
    learner=LearnerConfig(environments=32, unroll=1, minibatches=2),
    objective=ObjectiveConfig(objective="cross_entropy"),
    optimiser=OptimiserConfig(learning_rate=1e-3),
    run=RunConfig(steps=64, eval_episodes=8),
)


def trained(config: Config, path: Path) -> Any:
    """Begins in a new folder, goes on in one that is there: the state in the end."""
    opened = RunFolder.open(path) if path.exists() else RunFolder.create(path, to_json(config))
    console = Console(file=io.StringIO(), width=200)
    with opened as folder, Display(config.run.steps, "small", console) as display:
        return training.train(config, training.make_learner(config), folder, display)[0]


def test_a_supervised_run_of_a_network_resumes_to_the_same_bits(tmp_path: Path) -> None:
    longer = override(SETTINGS, {"run.steps": 128})
    whole = trained(longer, tmp_path / "whole")
    trained(SETTINGS, tmp_path / "half")
    resumed = trained(longer, tmp_path / "half")
    one, two = (jax.tree.leaves((state.params, state.optimiser, state.actors_b)) for state in (whole, resumed))
    for mine, theirs in zip(one, two, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert read(tmp_path / "half").agent.memory == READERS["memo"]


@pytest.mark.parametrize("objective", ["cross_entropy", "vtrace"])
def test_its_own_penalty_is_minimised_with_the_objective(objective):
    config = override(SETTINGS, {"objective.objective": objective})
    learner = training.make_learner(config)
    state = jax.eval_shape(learner.init, jax.random.key(0))
    assert "penalty" in jax.eval_shape(learner.update, state)[1].means
    assert learner.objective.weight("penalty") == 1.0
