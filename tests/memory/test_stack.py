"""The stack that HCAM, TransformerXL and the control share: its parameters, its state, its types."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam import memory
from hcam.memory import HCAM, TrXL
from tests.memory.cases import (
    CONFIGS,
    LENGTH,
    WIDTH,
    inputs,
    params_of,
    programs,
    same,
    shapes_of_params,
    small_hcam,
    small_trxl,
    starts,
)


def test_parameter_count_at_the_papers_size():
    """Per layer of width 512, MLP of 2048:

    window  norm 1,024 + five maps of 512^2 = 1,310,720 + two biases 1,024     1,312,768
    block   norm 1,024 + read 1,574,912                                         1,575,936
    mlp     norm 1,024 + 512 * 2048 + 2048 + 2048 * 512 + 512                   2,100,736
    """
    sizes = shapes_of_params(HCAM())
    assert sum(leaf.size for leaf in jax.tree.leaves(sizes)) == 4 * (1_312_768 + 1_575_936 + 2_100_736)
    # A gate has six maps of 512^2 and an offset; TransformerXL has two gates per layer and no block.
    gated = 4 * (1_312_768 + 2_100_736 + 2 * (6 * 512**2 + 512))
    assert sum(leaf.size for leaf in jax.tree.leaves(shapes_of_params(TrXL()))) == gated


@pytest.mark.parametrize(
    ("config", "names"),
    [
        (small_hcam(), {"window", "block", "mlp"}),
        (small_hcam(gated=True), {"window", "block", "mlp", "window_gate", "block_gate", "mlp_gate"}),
        (small_trxl(gated=False), {"window", "mlp"}),
        (small_trxl(gated=True), {"window", "mlp", "window_gate", "mlp_gate"}),
    ],
    ids=["hcam", "hcam-gated", "trxl-plain", "trxl"],
)
def test_parts_of_a_layer(config, names):
    params = shapes_of_params(config)
    assert len(params) == config.layers
    assert all(set(layer) == names for layer in params)


def test_layers_start_different():
    init = jax.jit(memory.make(small_trxl(gated=False)).init_params)
    params = init(jax.random.key(0))
    for one, other in zip(jax.tree.leaves(params[0]), jax.tree.leaves(params[1]), strict=True):
        assert np.ptp(one) == 0 or not np.array_equal(one, other)
    weights = [np.asarray(leaf) for leaf in jax.tree.leaves(params) if leaf.shape == (WIDTH, WIDTH)]
    assert len({leaf.tobytes() for leaf in weights}) == len(weights), "two maps from one key"
    again, other = init(jax.random.key(0)), init(jax.random.key(1))
    assert same(again, params, 0)
    assert not same(other, params)


@pytest.mark.parametrize("make", [small_hcam, small_trxl])
def test_what_comes_in_is_not_lost_under_what_layers_add(make):
    """Before anything is learned, where no gate sees to it; ten times as loud, it would be lost."""
    built = memory.make(make(width=64, layers=4, gated=False))
    params, x_td = jax.jit(built.init_params)(jax.random.key(0)), jax.random.normal(jax.random.key(1), (60, 64))
    unroll = jax.jit(lambda params: built.unroll(params, built.init_state(), x_td, jnp.arange(60) == 0)[1])

    def kept(params):
        y_td = unroll(params)
        return np.mean([np.corrcoef(x_d, y_d)[0, 1] for x_d, y_d in zip(x_td[30:], y_td[30:], strict=True)])

    def louder(path, leaf):
        return leaf * 10 if "out" in str(path) and "'w'" in str(path) else leaf

    assert kept(params) > 0.8
    assert kept(jax.tree.map_with_path(louder, params)) < 0.5


def test_a_state_holds_what_can_be_recalled_and_no_more():
    """Rows for 3 chunks of 4 and the one being filled, 16; a window of 23 needs 23. One clock for all layers."""
    state = memory.make(small_hcam(layers=2)).init_state()
    assert state.clock == 0
    assert [layer.input_rd.shape for layer in state.layers] == [(16, WIDTH)] * 2
    assert memory.make(small_hcam(overlap=1)).init_state().layers[0].input_rd.shape == (3 * 3 + 4, WIDTH)
    assert memory.make(small_hcam(window=23)).init_state().layers[0].input_rd.shape == (23, WIDTH)
    assert memory.make(small_trxl(window=9)).init_state().layers[0].input_rd.shape == (9, WIDTH)
    assert memory.make(small_trxl()).init_state().layers[0].summary_md is None


@pytest.mark.parametrize("name", ["hcam", "trxl", "lstm"])
def test_a_state_can_be_given_away(name):
    """Donated to a compiled step, which writes into it in place: no array may stand in it twice."""
    leaves = jax.tree.leaves(memory.make(CONFIGS[name]).init_state())
    assert len({leaf.unsafe_buffer_pointer() for leaf in leaves}) == len(leaves)


def test_the_clock_counts_the_steps_of_the_episode():
    config = CONFIGS["hcam"]
    program, params, state = programs(config), params_of(config), memory.make(config).init_state()
    clocks = []
    for first in (False, False, True, False, True):
        state = program.step(params, state, inputs(0)[0], first)[0]
        clocks.append(int(state.clock))
    assert clocks == [1, 2, 1, 2, 1]
    for flags, clock in ((starts(), 46), (starts(0), 45), (starts(40), 5), (starts(44), 1)):
        assert program.unroll(params, state, inputs(0), flags)[0].clock == clock


def test_layer_inputs_are_what_is_stored():
    """The first layer's ring holds x itself, at episode time modulo its size."""
    config, x = CONFIGS["hcam"], inputs(1)
    state = programs(config).unroll(params_of(config), memory.make(config).init_state(), x, starts(19))[0]
    for time in range(26 - 16, 26):  # 26 steps of the episode, 16 rows
        np.testing.assert_array_equal(state.layers[0].input_rd[time % 16], x[19 + time])


@pytest.mark.parametrize("name", ["hcam", "trxl", "lstm"])
def test_no_weak_types_in_a_carried_state(name):
    """They would cost a second compilation in every loop that carries the state."""
    mem, params = memory.make(CONFIGS[name]), params_of(CONFIGS[name])
    unrolled, _ = jax.eval_shape(mem.unroll, params, mem.init_state(), inputs(0), starts())
    stepped, _ = jax.eval_shape(mem.step, params, mem.init_state(), inputs(0)[0], starts()[0])
    for state in (mem.init_state(), unrolled, stepped):
        assert not any(leaf.weak_type for leaf in jax.tree.leaves(state))


@pytest.mark.parametrize("name", [pytest.param("hcam-overlap", marks=pytest.mark.slow), "trxl", "lstm"])
def test_numpy_arrays_serve_as_parameters_state_and_input(name):
    """As a checkpoint and an environment give them, outside of `jax.jit`."""
    mem, x, first = memory.make(CONFIGS[name]), inputs(2, 3), starts(1, length=3)
    params, state = jax.tree.map(np.asarray, (params_of(CONFIGS[name]), mem.init_state()))
    cached = jax.tree.map(np.asarray, mem.cached(params, state))
    for before in (state, cached):
        assert mem.step(params, before, x[0], first[0])[1].shape == (WIDTH,)
        assert mem.step(params, before, x[0], True)[1].shape == (WIDTH,)
    assert mem.unroll(params, state, x, first)[1].shape == (3, WIDTH)


@pytest.mark.parametrize("name", ["hcam-overlap", "trxl", "lstm"])
def test_a_traced_function_may_close_over_numpy_arrays(name):
    """As a loss does that is differentiated with respect to the parameters alone."""
    mem, x, first = memory.make(CONFIGS[name]), inputs(2, 3), starts(1, length=3)
    params, state = jax.tree.map(np.asarray, (params_of(CONFIGS[name]), mem.init_state()))
    assert jax.eval_shape(lambda p: mem.unroll(p, state, x, first), params)[1].shape == (3, WIDTH)
    assert jax.eval_shape(lambda p: mem.step(p, state, x[0], first[0]), params)[1].shape == (WIDTH,)
    assert jax.eval_shape(lambda s: mem.unroll(params, s, x, first), state)[1].shape == (3, WIDTH)
    assert jax.eval_shape(lambda s: mem.step(params, s, x[0], first[0]), state)[1].shape == (WIDTH,)
    assert jax.eval_shape(lambda f: mem.unroll(params, state, x, f), first)[1].shape == (3, WIDTH)
    assert jax.eval_shape(lambda f: mem.step(params, state, x[0], f), first[0])[1].shape == (WIDTH,)


@pytest.mark.parametrize("name", ["hcam", "trxl"])
def test_types_stay_the_same_in_a_session_with_64_bits(name):
    """The user's switch for double precision must not change the type of a carried state."""
    mem = memory.make(CONFIGS[name])
    with jax.enable_x64(True):
        params, state = params_of(CONFIGS[name]), mem.init_state()
        after, y = jax.eval_shape(mem.unroll, params, state, inputs(0), starts())
        assert jax.tree.map(lambda leaf: leaf.dtype, after) == jax.tree.map(lambda leaf: leaf.dtype, state)
        after, _ = jax.eval_shape(mem.step, params, state, inputs(0)[0], starts()[0])
        assert jax.tree.map(lambda leaf: leaf.dtype, after) == jax.tree.map(lambda leaf: leaf.dtype, state)
        assert y.shape == (LENGTH, WIDTH)


@pytest.mark.parametrize("name", ["hcam", "trxl", "lstm"])
def test_parameters_are_float32_in_a_session_with_64_bits(name):
    with jax.enable_x64(True):
        dtypes = {leaf.dtype for leaf in jax.tree.leaves(shapes_of_params(CONFIGS[name]))}
    assert dtypes == {jnp.dtype("float32")}
