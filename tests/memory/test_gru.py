"""The GRU against the slow one. What it shares with the LSTM is tested in test_recurrent.py."""

import jax
import numpy as np

from hcam import memory
from hcam.memory import GRU
from tests.memory.cases import CONFIGS, inputs, params_of, programs, run_steps, starts
from tests.memory.oracle import SlowGRU

CONFIG = CONFIGS["gru"]


def test_equals_the_slow_gru():
    params, x, first = params_of(CONFIG), inputs(1), starts(0, 13, 14, 30)
    slow = SlowGRU(params)
    expected = np.array([slow.step(x_d, bool(at_start)) for x_d, at_start in zip(x, first, strict=True)])
    state, *one = programs(CONFIG).unroll(params, memory.make(CONFIG).init_state(), x[:20], first[:20])
    state, *two = programs(CONFIG).unroll(params, state, x[20:], first[20:])
    np.testing.assert_allclose(np.concatenate([one[0], two[0]]), expected, atol=1e-5)
    np.testing.assert_allclose(state.hidden_ld, slow.hidden, atol=1e-5)
    stepped = run_steps(CONFIG, params, memory.make(CONFIG).init_state(), x, first)[1]
    np.testing.assert_allclose(stepped, expected, atol=1e-5)


def test_units_start_with_time_scales_from_1_to_the_maximum():
    """A unit of time scale n takes in 1 / (1 + n) of its candidate at each step."""
    params = jax.jit(memory.make(GRU(width=64, layers=1, max_timescale=100)).init_params)(jax.random.key(0))
    reset_d, update_d, candidate_d = np.split(np.asarray(params[0]["in"]["b"]), 3)
    taken_d = 1 / (1 + np.exp(-update_d))
    np.testing.assert_allclose(1 / taken_d - 1, 1 + 99 * (np.arange(64) + 0.5) / 64, rtol=1e-4)
    assert not np.any([reset_d, candidate_d])
