"""The types of the interface: plain tuples of functions that can be sent to another process."""

import pickle

import jax
import numpy as np
import pytest

from hcam import agent, envs
from hcam.agent import AgentConfig
from hcam.memory import HCAM, LSTM, MEMORIES, Memory, Recall, make
from tests.memory.cases import CONFIGS, inputs, params_of, starts


def test_recall_is_empty_by_default():
    assert Recall() == (None,) * 5
    assert not jax.tree.leaves(Recall())
    assert Recall._fields == ("window_hw", "chunk_k", "relevance_k", "within_khc", "relevance_m")


def test_a_memory_is_its_configuration_and_seven_functions():
    memory = make(LSTM(width=4, layers=1))
    assert isinstance(memory, Memory)
    functions = ("init_params", "init_state", "prepare", "step", "unroll", "cached", "undo")
    assert memory._fields == ("config", *functions, "definition")
    assert memory.config == LSTM(width=4, layers=1)
    assert all(callable(getattr(memory, name)) for name in functions)


@pytest.mark.parametrize("name", ["hcam-overlap", "hcam-gather", "trxl-sparse", "lstm", "gru", "local"])
def test_a_memory_can_be_pickled_and_works_afterwards(name):
    mem, params, x, first = make(CONFIGS[name]), params_of(CONFIGS[name]), inputs(0, 7), starts(3, length=7)
    again = pickle.loads(pickle.dumps(mem))
    assert again.config == mem.config
    results = []
    for one in (mem, again):

        @jax.jit
        def used(params, x, first, one=one):
            state, y_td = one.unroll(params, one.init_state(), x, first)
            tried, _ = one.step(one.prepare(params), one.cached(params, state), x[0], False)
            return y_td, one.undo(one.cached(params, state), tried)

        results.append(used(params, x, first))
    jax.tree.map(np.testing.assert_array_equal, *results)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", MEMORIES)
def test_every_default_can_be_pickled(name, dtype):
    mem = make(MEMORIES[name](), dtype=dtype)
    again = pickle.loads(pickle.dumps(mem))
    assert jax.eval_shape(again.init_state) == jax.eval_shape(mem.init_state)
    key = jax.random.key(0)
    assert jax.eval_shape(again.init_params, key) == jax.eval_shape(mem.init_params, key)


def test_an_agent_can_be_pickled():
    """With the memory inside it."""
    sizes = HCAM(width=16, layers=1, heads=2, chunk=3, slots=2, top_k=2, mlp=1)
    made = agent.make(AgentConfig(memory=sizes), envs.make("first_symbol"))
    again = pickle.loads(pickle.dumps(made))
    key = jax.random.key(0)
    assert jax.eval_shape(again.init_params, key) == jax.eval_shape(made.init_params, key)
    assert again.config == made.config
