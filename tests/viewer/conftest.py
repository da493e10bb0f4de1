"""An agent with random parameters, compiled once for the tests of the viewer."""

from typing import Any

import jax
import pytest

from hcam import agent, envs
from hcam.agent import AgentConfig
from hcam.agent.heads import HeadsConfig
from hcam.config import Config, TaskConfig
from hcam.memory import HCAM
from hcam.runs.pretrained import Trained

# Overlap, and more chunks than slots; with this order, relevance is the same before and after the top k.
MEMORY = HCAM(width=16, layers=2, heads=2, chunk=3, overlap=1, slots=3, top_k=2, order="softmax_then_top_k")


@pytest.fixture(scope="session")
def small() -> Trained:
    task = TaskConfig(task="first_symbol", levels=("blanks2", "blanks8"))
    config = Config(task=task, agent=AgentConfig(memory=MEMORY, heads=HeadsConfig(hidden=16)))
    env = envs.make("first_symbol")
    made: Any = agent.make(config.agent, env)
    params = jax.jit(made.init_params)(jax.random.key(0))
    return Trained(config, made, env, jax.tree.map(lambda leaf: leaf[None], params), {"steps": 12})
