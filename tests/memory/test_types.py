"""The interface itself."""

import jax

from hcam.memory import LSTM, Memory, Recall, make


def test_recall_has_nothing_unless_told():
    assert Recall() == (None, None, None, None)
    assert not jax.tree.leaves(Recall())
    assert Recall._fields == ("window_hw", "chunk_k", "relevance_k", "within_khc")


def test_a_memory_is_its_configuration_and_seven_functions():
    memory = make(LSTM(width=4, layers=1))
    assert isinstance(memory, Memory)
    assert memory._fields == ("config", "init_params", "init_state", "prepare", "step", "unroll", "cached", "undo")
    assert memory.config == LSTM(width=4, layers=1)
    assert all(map(callable, memory[1:]))
