"""What the LSTM and the GRU share: residual layers, biases by time scale, inputs projected for all steps at once."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam import memory
from hcam.memory import recurrent
from tests.memory.cases import CONFIGS, RECURRENT, WIDTH, inputs, params_of, programs, starts

every_kind = pytest.mark.parametrize("name", RECURRENT)


def test_time_scales_run_from_1_to_the_maximum():
    """A gate with bias b keeps sigmoid(b) = n / (1 + n): b = log n."""
    n = np.exp(recurrent.chrono_bias(50, 200))
    np.testing.assert_allclose(n, 1 + 199 * (np.arange(50) + 0.5) / 50, rtol=1e-5)
    np.testing.assert_array_equal(recurrent.chrono_bias(7, 1), np.zeros(7))  # all forget half at each step


@every_kind
def test_layers_have_weights_of_their_own_and_one_bias(name):
    init = jax.jit(memory.make(CONFIGS[name]).init_params)
    params = init(jax.random.key(0))
    assert len(params) == CONFIGS[name].layers
    for layer in params:
        assert set(layer) == {"in", "hidden"}
        assert set(layer["in"]) == {"w", "b"}
        assert set(layer["hidden"]) == {"w"}
        assert layer["in"]["w"].shape == layer["hidden"]["w"].shape == (WIDTH, layer["in"]["b"].size)
    weights = [np.asarray(layer[part]["w"]) for layer in params for part in layer]
    assert len({weight.tobytes() for weight in weights}) == len(weights), "two maps from one key"


@every_kind
def test_a_layer_adds_no_more_than_one(name):
    """What it adds lies between -1 and 1, whatever goes in."""
    x = 10 * inputs(4)
    y = programs(CONFIGS[name]).unroll(params_of(CONFIGS[name]), memory.make(CONFIGS[name]).init_state(), x, starts())[
        1
    ]
    assert 1 < np.abs(y - x).max() <= CONFIGS[name].layers


@every_kind
def test_only_the_recurrence_is_scanned(name):
    """Inside the scan there is one product, with the recurrent weights."""
    mem = memory.make(CONFIGS[name])
    jaxpr = jax.make_jaxpr(mem.unroll)(params_of(CONFIGS[name]), mem.init_state(), inputs(0), starts()).jaxpr
    scans = [eqn for eqn in jaxpr.eqns if eqn.primitive.name == "scan"]
    assert len(scans) == CONFIGS[name].layers
    for scan in scans:
        assert str(scan.params["jaxpr"]).count("dot_general") == 1


@every_kind
def test_gradients_flow_within_an_unroll_and_an_episode(name):
    mem, params, length = memory.make(CONFIGS[name]), params_of(CONFIGS[name]), 12

    def last(x_td):
        return mem.unroll(params, mem.init_state(), x_td, starts(0, 5, length=length))[1][-1]

    jacobian = np.abs(jax.jit(jax.jacrev(last))(inputs(2, length))).max((0, 2))
    np.testing.assert_array_equal(np.flatnonzero(jacobian), np.arange(5, length))


@every_kind
def test_state_is_one_row_per_layer_in_float32(name):
    state = memory.make(CONFIGS[name], dtype="bfloat16").init_state()
    assert {leaf.shape for leaf in state} == {(CONFIGS[name].layers, WIDTH)}
    assert {leaf.dtype for leaf in state} == {jnp.dtype("float32")}


@every_kind
def test_long_time_scales_remember(name):
    """Before anything is learned: 40 steps later more is left of an input with scales up to 1000 than up to 2."""

    def left(max_timescale):
        mem = memory.make(type(CONFIGS[name])(width=32, layers=1, max_timescale=max_timescale))
        params = jax.jit(mem.init_params)(jax.random.key(0))
        x = np.zeros((41, 32), np.float32)
        unroll = jax.jit(partial(mem.unroll, params, mem.init_state()))
        changed = x.copy()
        changed[0] = inputs(1, 1, 32)
        return np.abs(unroll(changed, starts(length=41))[1][-1] - unroll(x, starts(length=41))[1][-1]).max()

    assert left(1000) > 100 * left(2)
