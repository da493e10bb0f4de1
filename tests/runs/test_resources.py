"""What a run needs of a machine's memory: near the truth, known at once, and refused in one sentence."""

import re
import time
from dataclasses import replace
from typing import Any

import jax
import pytest

from hcam.agent import AgentConfig
from hcam.agent.encoder import EncoderConfig
from hcam.agent.heads import HeadsConfig
from hcam.config import Config, RunConfig, TaskConfig
from hcam.envs.probes import Echo
from hcam.learning.learner import LearnerConfig
from hcam.learning.objectives import ObjectiveConfig
from hcam.memory import HCAM, LSTM, TrXL
from hcam.recipes.ballet import RECIPE
from hcam.runs import resources
from hcam.training import make_learner

SMALL = Config(
    task=TaskConfig(task="ballet", options={"tile": 1}, levels=("2_delay0",)),
    agent=AgentConfig(
        encoder=EncoderConfig(vision="cnn", channels=(4,), kernel_sizes=(1,), strides=(1,), language=8, word=4),
        memory=HCAM(width=16, layers=2, heads=2, chunk=4, slots=4, top_k=2),
        heads=HeadsConfig(hidden=16),
        dtype="float32",
    ),
    learner=LearnerConfig(environments=6, unroll=8, minibatches=2),
)


def size(tree: Any) -> int:
    """In bytes, of arrays or of their shapes."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def test_it_is_the_size_of_the_state_and_of_an_unroll():
    """To the byte: parameters, optimiser, actors with their memories, and the transitions that an unroll gives."""
    learner = make_learner(SMALL)
    state = jax.jit(learner.init)(jax.random.key(0))
    _, minibatch_n = jax.eval_shape(learner.act, state)
    found = resources.needed_bytes(learner)
    assert found == size((state.params, state.optimiser, state.actors_b, minibatch_n.transitions_tb))
    assert found > 100_000
    rest = size((state.curriculum, state.updates))
    assert rest < 100  # nothing that counts is left out


@pytest.mark.parametrize(
    ("learner", "objective"),
    [
        (LearnerConfig(environments=12, unroll=8), ObjectiveConfig()),
        (LearnerConfig(environments=6, unroll=16), ObjectiveConfig()),
        (LearnerConfig(environments=6, unroll=8), ObjectiveConfig(objective="cross_entropy")),
    ],
    ids=["environments", "unroll", "labels"],
)
def test_it_grows_with_what_is_asked_for(learner, objective):
    more, base = make_learner(replace(SMALL, learner=learner, objective=objective)), make_learner(SMALL)
    state = jax.eval_shape(base.init, jax.random.key(0))
    actors, steps = size(state.actors_b), size(jax.eval_shape(base.act, state)[1].transitions_tb)
    expected = {(12, 8): actors + steps, (6, 16): steps, (6, 8): 6 * 8 * 4}[learner.environments, learner.unroll]
    assert resources.needed_bytes(more) - resources.needed_bytes(base) == expected


MANY = {
    "more than a float holds": replace(SMALL, learner=LearnerConfig(environments=10**400)),
    "environments": replace(SMALL, learner=LearnerConfig(environments=10**9)),
    "more environments than JAX can count": replace(SMALL, learner=LearnerConfig(environments=10**15)),
    "unroll": replace(SMALL, learner=LearnerConfig(environments=64, unroll=10**9)),
    "slots": replace(SMALL, agent=replace(SMALL.agent, memory=HCAM(width=16, heads=2, slots=10**9))),
    "more slots than JAX can count": replace(
        SMALL, agent=replace(SMALL.agent, memory=HCAM(width=16, heads=2, slots=2**63))
    ),
    "more units than JAX can count": replace(SMALL, agent=replace(SMALL.agent, memory=LSTM(width=2**32))),
    "window": replace(SMALL, agent=replace(SMALL.agent, memory=HCAM(width=16, heads=2, window=10**8))),
    "window without chunks": replace(SMALL, agent=replace(SMALL.agent, memory=TrXL(width=16, heads=2, window=10**8))),
    "chunk": replace(SMALL, agent=replace(SMALL.agent, memory=HCAM(width=16, heads=2, chunk=10**8))),
    "seeds": replace(SMALL, run=RunConfig(seeds=10**8)),
    "width": replace(SMALL, agent=replace(SMALL.agent, memory=HCAM(width=2**20, heads=2))),
}


@pytest.mark.parametrize("name", MANY)
def test_what_cannot_fit_is_refused_at_once(name):
    """In one sentence, before anything is compiled or allocated: some allocations would end the process."""
    before, start = len(jax.live_arrays()), time.process_time()
    with pytest.raises(ValueError, match=r"^this run [^\n]+\.$") as refused:
        make_learner(MANY[name])
    assert time.process_time() - start < 10  # seconds of work, however busy the machine: nothing is computed
    assert "lower --environments, --unroll or the sizes of the memory" in str(refused.value)
    assert sum(array.nbytes for array in jax.live_arrays()[before:]) < 1e6


class Untaught(Echo):
    """Has nobody to learn from."""

    def expert(self, state):
        raise ValueError("Untaught has no scripted expert.")


class Broken(Echo):
    def advance(self, key, state, action, level):
        raise TypeError("this environment is broken.")


def test_what_an_environment_refuses_is_not_about_size():
    """Its own sentence, and no advice to lower anything."""
    small = replace(SMALL, task=TaskConfig(task="echo"))
    taught = replace(small, objective=ObjectiveConfig(objective="cross_entropy"))
    with pytest.raises(ValueError, match="Untaught") as refused:
        make_learner(taught, Untaught())
    assert str(refused.value) == "Untaught has no scripted expert."
    make_learner(small, Untaught())
    with pytest.raises(TypeError, match="broken") as failed:
        make_learner(small, Broken())
    assert str(failed.value) == "this environment is broken."


def test_the_sentence_has_both_numbers(monkeypatch):
    monkeypatch.setattr(resources, "available_bytes", lambda: 2 * 10**9)
    monkeypatch.setattr(resources, "state_bytes", lambda learner: 10**8)
    monkeypatch.setattr(resources, "needed_bytes", lambda learner: 1234567890)
    learner = make_learner(replace(SMALL, task=TaskConfig(task="echo")))
    sentence = (
        "this run needs at least 2.5 GB of memory, but this machine has 2.0: lower --environments, --unroll or the "
        "sizes of the memory."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        resources.refuse_too_large(learner, 2)


def test_where_nothing_is_known_of_the_machine_nothing_is_refused(monkeypatch):
    monkeypatch.setattr(resources, "available_bytes", lambda: None)
    for name in ("state_bytes", "needed_bytes"):
        monkeypatch.setattr(resources, name, lambda learner: 10**30)
    make_learner(replace(SMALL, task=TaskConfig(task="echo")))


def test_memories_of_many_episodes(monkeypatch):
    config = replace(SMALL, task=TaskConfig(task="echo"))
    made = make_learner(config).agent
    one = size(jax.eval_shape(made.init_state))
    monkeypatch.setattr(resources, "available_bytes", lambda: 100 * one)
    resources.refuse_too_many(made, 94, "--slots")
    with pytest.raises(
        ValueError, match=r"^the memories of 96 episodes at once need at least [\d.,]+ GB, .*--slots or"
    ):
        resources.refuse_too_many(made, 96, "--slots")
    monkeypatch.setattr(resources, "available_bytes", lambda: None)
    resources.refuse_too_many(made, 10**9, "--slots")


def test_this_machine_has_some_memory():
    found = resources.available_bytes()
    assert found is None or 10**8 < found < 10**15


class Device:
    """An accelerator that says what it has."""

    platform = "gpu"

    def __init__(self, stats: Any) -> None:
        self.memory_stats = lambda: stats


@pytest.mark.parametrize(("stats", "found"), [({"bytes_limit": 7 * 10**9}, 7 * 10**9), ({}, None), (None, None)])
def test_an_accelerator_s_own_memory_counts(monkeypatch, stats, found):
    monkeypatch.setattr(jax, "devices", lambda: [Device(stats)])
    assert resources.available_bytes() == found


@pytest.mark.parametrize("preset", ["fast", "paper"])
def test_the_paper_s_task_is_not_refused_on_a_gpu(monkeypatch, preset):
    """An H200 has 140 GB."""
    monkeypatch.setattr(resources, "available_bytes", lambda: int(140e9))
    learner = make_learner(RECIPE.preset(preset, "hcam"))
    assert 10**8 < resources.needed_bytes(learner) < 100e9
