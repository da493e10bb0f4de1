"""TransformerXL and the window alone: how far they reach. Their numbers are tested with all the others'."""

import dataclasses

import jax
import numpy as np
import pytest

from hcam import memory
from hcam.memory import HCAM, Local, TrXL
from tests.memory.cases import (
    CONFIGS,
    WIDTH,
    assert_same,
    changed_by,
    inputs,
    params_of,
    programs,
    small_trxl,
    starts,
)


@pytest.mark.parametrize(
    ("config", "steps"),
    [
        (small_trxl(layers=1), 5),  # a window of 6 is the step itself and the 5 before it
        (small_trxl(layers=3), 15),
        (small_trxl(layers=2, gated=False), 10),
        (Local(width=WIDTH, layers=2, heads=2, window=4, mlp=1), 6),
        (Local(width=WIDTH, layers=2, heads=2, window=1, mlp=1), 0),
    ],
    ids=["trxl-1", "trxl-3", "trxl-plain", "local", "local-1"],
)
def test_each_layer_reaches_a_window_less_one_step_back(config, steps):
    changed = changed_by(config, [0, 11], starts(), scale=2.0)
    np.testing.assert_array_equal(np.flatnonzero(changed[0]), np.arange(steps + 1))
    np.testing.assert_array_equal(np.flatnonzero(changed[1]), 11 + np.arange(steps + 1))


def test_gradients_flow_through_the_window():
    """As far as values do, when all of it lies in the same unroll."""
    config, length = small_trxl(), 14
    mem, params = memory.make(config), params_of(config)

    def last(x_td):
        return mem.unroll(params, mem.init_state(), x_td, starts(length=length))[1][-1]

    jacobian = np.abs(jax.jit(jax.jacrev(last))(inputs(1, length))).max((0, 2))
    np.testing.assert_array_equal(np.flatnonzero(jacobian), np.arange(3, 14))  # 13 - 2 layers * 5 = 3


def test_keeping_all_steps_of_the_window_is_no_sparsity():
    dense, sparse = small_trxl(), small_trxl(top_k=6)
    params, x, first = params_of(dense), inputs(2), starts(9)
    outputs = [programs(c).unroll(params, memory.make(c).init_state(), x, first) for c in (dense, sparse)]
    assert_same(outputs[0][1:], outputs[1][1:], 1e-6)


def test_sparse_attention_keeps_k_steps():
    config = CONFIGS["trxl-sparse"]
    recall = programs(config).unroll(params_of(config), memory.make(config).init_state(), inputs(3), starts(9))[2]
    kept = np.count_nonzero(recall.window_hw[0], axis=-1)
    time = np.where(np.arange(45) < 9, np.arange(45), np.arange(45) - 9)
    np.testing.assert_array_equal(kept, np.broadcast_to(np.minimum(2, time + 1)[:, None], kept.shape))


def test_defaults_are_the_papers():
    config = TrXL()
    assert (config.width, config.layers, config.heads, config.window) == (512, 4, 8, 320)
    assert (config.top_k, config.gated) == (None, True)
    assert Local().window == HCAM().window_steps


def test_the_windows_length_changes_no_parameter():
    """What is learned with one window can be used with another."""
    shapes = [
        jax.eval_shape(memory.make(config).init_params, jax.random.key(0))
        for config in (small_trxl(), dataclasses.replace(small_trxl(), window=9, top_k=3))
    ]
    assert shapes[0] == shapes[1]


def test_a_window_for_an_episode_holds_all_its_steps():
    assert [TrXL(window=320).window_for(steps) for steps in (1, 320, 1024)] == [320, 320, 1024]
