"""The settings of an agent: their types, and the dtype of this machine."""

from dataclasses import replace
from typing import Any

import jax
import pytest

from hcam.agent import AgentConfig
from hcam.memory import LSTM


def test_auto_is_decided_by_the_machine():
    here: Any = "float32" if jax.default_backend() == "cpu" else "bfloat16"
    assert AgentConfig(memory=LSTM()).here() == replace(AgentConfig(memory=LSTM()), dtype=here)
    assert AgentConfig(dtype="bfloat16").here().dtype == "bfloat16"


def test_bad_settings_are_told_in_one_sentence():
    with pytest.raises(ValueError, match="dtype must be one of 'auto', 'float32', 'bfloat16'"):
        AgentConfig(dtype="float64")  # type: ignore[arg-type]
