"""The flax module is the pure functions, with names for the parameters and batch axes in front."""

import importlib
import sys
from functools import partial

import flax
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from hcam import memory
from hcam.adapters.flax import Memory
from tests.memory.own_memory import Trace

HCAM = memory.HCAM(width=4, layers=1, heads=2, chunk=3, slots=4, top_k=2)
CONFIGS: dict[str, memory.MemoryConfig] = {
    "hcam": HCAM,
    "trxl": memory.TrXL(width=4, layers=1, heads=2, window=5),
    "lstm": memory.LSTM(width=4, layers=2),
    "gru": memory.GRU(width=4, layers=2),
    "none": memory.Local(width=4, layers=1, heads=2, window=3),
}
T = 11


def inputs(config, *batch):
    """Random steps, with an episode that starts in the middle."""
    x = jax.random.normal(jax.random.key(1), (*batch, T, config.width))
    return x, jnp.zeros((*batch, T), bool).at[..., 7].set(True)


def draw(module, *args):
    """Variables of the right shapes, drawn without compiling `init`; biases are not zero here."""
    numbers = np.random.default_rng(0)
    shapes = jax.eval_shape(module.init, jax.random.key(0), *args)
    return jax.tree.map(lambda leaf: jnp.asarray(numbers.normal(0, 0.5, leaf.shape), leaf.dtype), shapes)


def begun(config, *batch):
    """A module, its inputs, an empty state and variables."""
    module, (x, first) = Memory(config), inputs(config, *batch)
    state = module.initial_state(batch)
    return module, x, first, state, draw(module, state, x, first)


def as_pure(variables):
    """The parameters as the pure functions take them."""
    layers = variables["params"]["memory"]
    return tuple(layers[f"layer_{n}"] for n in range(len(layers)))


def assert_close(found, expected):
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-5), found, expected)


@pytest.mark.parametrize(("name", "batch"), [("hcam", (2, 3)), ("trxl", (2,)), ("lstm", ()), ("none", (2,))])
def test_call_is_the_pure_unroll(name, batch):
    module, x, first, state, variables = begun(CONFIGS[name], *batch)
    unroll = partial(memory.make(CONFIGS[name]).unroll, as_pure(variables), recall=True)
    for _ in batch:
        unroll = jax.vmap(unroll)
    found = jax.jit(partial(module.apply, recall=True))(variables, state, x, first)
    assert isinstance(found[-1], memory.Recall)
    assert_close(found, jax.jit(unroll)(state, x, first))


@pytest.mark.parametrize("config", [HCAM, CONFIGS["lstm"]], ids=["hcam", "lstm"])
def test_scanned_step_equals_call(config):
    module, x_btd, first_bt, state, variables = begun(config, 3)

    def step(state, now):
        state, *seen = module.apply(variables, state, *now, method="step", recall=True)
        return state, tuple(seen)

    by_time = (x_btd.swapaxes(0, 1), first_bt.swapaxes(0, 1))
    _, *unrolled = jax.jit(partial(module.apply, recall=True))(variables, state, x_btd, first_bt)
    for begin in (state, module.apply(variables, state, method="cached")):
        _, stepped = jax.jit(partial(jax.lax.scan, step))(begin, by_time)
        assert_close(jax.tree.map(lambda leaf: leaf.swapaxes(0, 1), stepped), tuple(unrolled))


@pytest.mark.parametrize("config", [HCAM, CONFIGS["lstm"]], ids=["hcam", "lstm"])
def test_a_step_can_be_undone(config):
    module, x_btd, first_bt, state, variables = begun(config, 3)
    step = jax.jit(partial(module.apply, variables, method="step"))
    now = x_btd[:, 0], first_bt[:, 0]
    tried, _ = step(state, 1e3 * now[0], now[1])
    once, twice = (step(before, *now) for before in (state, module.undo(state, tried)))
    jax.tree.map(np.testing.assert_array_equal, once, twice)
    assert np.abs(once[1] - step(tried, *now)[1]).max() > 1e-6


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_initial_state_needs_no_parameters(config):
    empty, states = memory.make(config).init_state(), Memory(config).initial_state((2, 3))
    jax.tree.map(lambda one, many: np.testing.assert_array_equal(many[1, 2], one), empty, states)
    assert jax.tree.leaves(states)[0].shape[:2] == (2, 3)


def test_parameters_have_names_and_can_be_counted():
    module = Memory(HCAM)
    variables = jax.jit(module.init)(jax.random.key(0), module.initial_state(), *inputs(HCAM))
    by_path = flax.traverse_util.flatten_dict(variables["params"], sep="/")
    assert "memory/layer_0/block/read/query/w" in by_path
    pure = jax.eval_shape(memory.make(HCAM).init_params, jax.random.key(0))
    assert sum(leaf.size for leaf in by_path.values()) == sum(leaf.size for leaf in jax.tree.leaves(pure))
    assert all(jnp.abs(leaf).max() > 0 for path, leaf in by_path.items() if path.endswith("/w"))


def test_the_dtype_is_an_attribute_of_the_module():
    """Of computation and of the state; parameters stay float32."""
    module, (x, first) = Memory(HCAM, dtype="bfloat16"), inputs(HCAM)
    state = module.initial_state()
    assert state.layers[0].input_rd.dtype == jnp.bfloat16
    variables = jax.eval_shape(module.init, jax.random.key(0), state, x, first)
    assert {leaf.dtype for leaf in jax.tree.leaves(variables)} == {jnp.dtype("float32")}
    after, y = jax.eval_shape(module.apply, variables, state, x, first)
    assert (after.layers[0].input_rd.dtype, y.dtype) == (jnp.bfloat16, jnp.float32)
    assert Memory(HCAM).dtype == "float32"


def test_a_memory_from_outside_is_a_module_too():
    """Its parameters are one dict, its state another."""
    module = Memory(Trace(width=4))
    args = (module.initial_state((2,)), *inputs(Trace(width=4), 2))
    variables = draw(module, *args)
    assert set(variables["params"]["memory"]) == {"w"}
    unroll = jax.vmap(partial(memory.make(Trace(width=4)).unroll, variables["params"]["memory"]))
    assert_close(jax.jit(module.apply)(variables, *args), jax.jit(unroll)(*args))
    assert_close(module.apply(variables, args[0], method="cached"), args[0])


def test_layers_keep_their_order_beyond_ten():
    config = memory.LSTM(width=2, layers=11)  # as strings, layer_10 comes before layer_2
    module, pure = Memory(config), memory.make(config)
    args = (module.initial_state(), *inputs(config))
    variables = draw(module, *args)
    assert_close(jax.jit(module.apply)(variables, *args), jax.jit(pure.unroll)(as_pure(variables), *args))


class Net(nn.Module):
    """The memory as a part of something larger."""

    def setup(self):
        self.memory = Memory(HCAM)
        self.out = nn.Dense(1)

    def __call__(self, x_btd, first_bt):
        _, y_btd = self.memory(self.memory.initial_state(x_btd.shape[:1]), x_btd, first_bt)
        return self.out(y_btd)[..., 0]


def test_optax_trains_it_inside_another_module():
    x_btd, first_bt = inputs(HCAM, 2)
    net, optimiser = Net(), optax.sgd(1e-3)
    variables = draw(net, x_btd, first_bt)

    @jax.jit
    @jax.value_and_grad
    def loss(variables):
        return jnp.square(net.apply(variables, x_btd, first_bt) - x_btd[..., 0]).mean()

    before, grads = loss(variables)
    changes, _ = optimiser.update(grads, optimiser.init(variables))
    after, _ = loss(optax.apply_updates(variables, changes))
    assert after < before
    read = grads["params"]["memory"]["memory"]["layer_0"]["block"]["read"]
    assert all(jnp.abs(read[name]["w"]).max() > 0 for name in read), "no gradient reaches what the memory recalls with"


def test_serialisation_round_trip():
    variables = draw(Memory(HCAM), Memory(HCAM).initial_state(), *inputs(HCAM))
    blank = jax.tree.map(jnp.zeros_like, variables)
    restored = flax.serialization.from_bytes(blank, flax.serialization.to_bytes(variables))
    jax.tree.map(np.testing.assert_array_equal, restored, variables)


def test_bad_input_gets_the_sentence_of_the_pure_function():
    module = Memory(CONFIGS["none"])
    x, first = inputs(CONFIGS["none"], 2)
    with pytest.raises(ValueError, match=r"x must have shape \(T, 4\), but has \(11, 3\)"):
        module.init(jax.random.key(0), module.initial_state((2,)), x[..., 1:], first)


def test_without_flax_the_import_says_what_to_install(monkeypatch):
    monkeypatch.delitem(sys.modules, "hcam.adapters.flax")
    for name in [name for name in sys.modules if name.split(".")[0] == "flax"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r'pip install "hcam\[flax\]"'):
        importlib.import_module("hcam.adapters.flax")
