"""Both kinds of agent have all that learning, acting and evaluation ask for, with the same arguments."""

import inspect
from typing import Any

import pytest

from hcam.agent import Agent
from hcam.agent.agent import MemoryAgent
from hcam.agent.network import NetworkAgent

ASKED = [name for name in vars(Agent) if not name.startswith("_") and name != "config"]


@pytest.mark.parametrize("kind", [MemoryAgent, NetworkAgent])
@pytest.mark.parametrize("name", ASKED)
def test_agents_have_what_is_asked_for(kind: Any, name: str) -> None:
    wanted, found = (inspect.signature(getattr(owner, name)).parameters for owner in (Agent, kind))
    assert list(found) == list(wanted)


def test_all_of_it_is_asked_for():
    assert set(ASKED) >= {"init_params", "init_state", "prepare", "preprocess", "step", "unroll_batch", "undo"}
