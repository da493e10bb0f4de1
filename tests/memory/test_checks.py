"""Every mistake is answered at once, in one plain line that names the numbers, inside `jax.jit` as outside."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam import memory
from hcam.memory import GRU, HCAM, LSTM, Local, TrXL, init_read, read
from tests.memory.cases import WIDTH, noisy, params_of, small_hcam, small_trxl, starts


def refused(kind: type[Exception], call: Callable[[], Any], *mentions: Any) -> str:
    """The message, after a look at its form: one line, a full stop, no word of how JAX works inside."""
    with pytest.raises(kind) as caught:
        call()
    message = str(caught.value)
    assert type(caught.value) is kind
    assert "\n" not in message
    assert message.endswith(".")
    assert "trace" not in message.lower()
    for mention in mentions:
        assert str(mention) in message, message
    return message


def refused_when_traced_too(kind: type[Exception], function: Callable, args: tuple, *mentions: Any) -> None:
    plain = refused(kind, lambda: function(*args), *mentions)
    assert refused(kind, lambda: jax.jit(function)(*args), *mentions) == plain
    assert refused(kind, lambda: jax.eval_shape(function, *args), *mentions) == plain


# ---------------------------------------------------------------------------------------------------------------------
# Configurations
# ---------------------------------------------------------------------------------------------------------------------
STACK_SIZES = ("width", "layers", "heads", "window", "mlp")
SIZES = [
    *((HCAM, field) for field in (*STACK_SIZES, "chunk", "slots", "top_k")),
    *((TrXL, field) for field in (*STACK_SIZES, "top_k")),
    *((Local, field) for field in STACK_SIZES),
    *((kind, field) for kind in (LSTM, GRU) for field in ("width", "layers", "max_timescale")),
]


@pytest.mark.parametrize(("kind", "field"), SIZES, ids=lambda part: getattr(part, "__name__", part))
@pytest.mark.parametrize("value", [0, -4, True, False, 8.0, 2.5, "8"], ids=repr)
def test_sizes_are_whole_numbers_of_at_least_one(kind, field, value):
    refused(ValueError, lambda: kind(**{field: value}), f"{field} must be a whole number", repr(value))


@pytest.mark.parametrize("overlap", [32, 33, -1, 1.0, True, None, "1"], ids=repr)
def test_overlap_is_less_than_a_chunk(overlap):
    refused(ValueError, lambda: HCAM(chunk=32, overlap=overlap), "overlap", repr(overlap), 31)


@pytest.mark.parametrize("kind", [HCAM, TrXL, Local])
def test_heads_divide_the_width(kind):
    refused(ValueError, lambda: kind(width=512, heads=7), "width 512", "heads 7")


@pytest.mark.parametrize("kind", [HCAM, TrXL, Local])
def test_positions_need_an_even_width(kind):
    refused(ValueError, lambda: kind(width=9, heads=3), "width 9 is odd", "even")


def test_no_more_is_recalled_than_there_is():
    refused(ValueError, lambda: HCAM(slots=4, top_k=5), 4, 5, "slots")
    refused(ValueError, lambda: TrXL(window=4, top_k=5), 4, 5, "window")
    assert HCAM(slots=4, top_k=4).top_k == TrXL(window=4, top_k=4).top_k == 4


@pytest.mark.parametrize("field", ["order", "form"])
@pytest.mark.parametrize("value", ["fast", "", None, 3], ids=repr)
def test_choices_are_listed(field, value):
    message = refused(ValueError, lambda: HCAM(**{field: value}), f"{field} must be one of", repr(value))
    assert repr(getattr(HCAM(), field)) in message  # the default is among what is offered


@pytest.mark.parametrize("value", ["float64", "", None, jnp.float32], ids=repr)
def test_dtypes_are_listed(value):
    refused(
        ValueError, lambda: memory.make(LSTM_SMALL, dtype=value), "dtype must be one of 'float32', 'bfloat16'", value
    )


@pytest.mark.parametrize("value", ["hcam", None, HCAM, {"width": 8}], ids=repr)
def test_make_takes_a_configuration(value: Any):
    refused(TypeError, lambda: memory.make(value), "HCAM, TrXL, LSTM, GRU, EPN, Local", "build(dtype)", repr(value))


@pytest.mark.parametrize("size", [np.int64(16), np.int32(16), np.uint8(16)], ids=lambda size: type(size).__name__)
def test_numpy_integers_are_sizes(size):
    """And become plain ones, which do not widen what they are multiplied with."""
    for config in (
        HCAM(width=size, heads=2),
        TrXL(width=size, heads=2, top_k=size),
        LSTM(width=size),
        Local(heads=size),
    ):
        values = [value for value in dataclasses.asdict(config).values() if isinstance(value, int | np.integer)]
        assert {type(value) for value in values} <= {int, bool}
    assert HCAM(overlap=size).overlap == HCAM(window=size).window == 16
    assert type(HCAM(overlap=size).overlap) is type(HCAM(window=size).window) is int
    assert HCAM(width=size, heads=2) == HCAM(width=16, heads=2)


# ---------------------------------------------------------------------------------------------------------------------
# Calls of a memory
# ---------------------------------------------------------------------------------------------------------------------
HCAM_SMALL, LSTM_SMALL = small_hcam(), LSTM(width=WIDTH, layers=1)
KINDS: dict[str, Any] = {"hcam": HCAM_SMALL, "trxl": small_trxl(layers=1), "lstm": LSTM_SMALL}
every_kind = pytest.mark.parametrize("name", KINDS)


def zeros(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.zeros(shape, dtype)


def setup(name: str) -> tuple[memory.Memory, Any, Any]:
    mem = memory.make(KINDS[name])
    return mem, params_of(KINDS[name]), mem.init_state()


@every_kind
def test_a_batch_is_for_vmap(name):
    mem, params, state = setup(name)
    args = (params, state, zeros(3, 5, WIDTH), starts(length=5))
    refused_when_traced_too(ValueError, mem.unroll, args, "(T, 8)", "(3, 5, 8)", "jax.vmap")
    refused_when_traced_too(ValueError, mem.step, (params, state, zeros(3, WIDTH), True), "(8,)", "(3, 8)", "jax.vmap")


@every_kind
def test_inputs_have_the_width_of_the_memory(name):
    mem, params, state = setup(name)
    refused_when_traced_too(ValueError, mem.unroll, (params, state, zeros(5, 7), starts(length=5)), "(T, 8)", "(5, 7)")
    refused_when_traced_too(ValueError, mem.step, (params, state, zeros(7), True), "(8,)", "(7,)")
    refused_when_traced_too(ValueError, mem.unroll, (params, state, zeros(8), True), "(T, 8)", "(8,)")


@every_kind
def test_inputs_are_floating_point(name):
    mem, params, state = setup(name)
    many, one = (params, state, zeros(5, WIDTH, dtype=np.int32)), (params, state, zeros(WIDTH, dtype=np.int32))
    refused_when_traced_too(TypeError, mem.unroll, (*many, starts(length=5)), "x must be floating point", "int32")
    refused_when_traced_too(TypeError, mem.step, (*one, True), "x must be floating point", "int32")


@every_kind
@pytest.mark.parametrize("dtype", ["int32", "float32", "uint8"])
def test_first_is_boolean(name, dtype):
    """0 and 1 would do, and so would -1 and 0.3: better to ask."""
    mem, params, state = setup(name)
    args = (params, state, zeros(5, WIDTH), zeros(5, dtype=dtype))
    refused_when_traced_too(TypeError, mem.unroll, args, "first must be boolean", dtype, "first != 0")
    args = (params, state, zeros(WIDTH), zeros(dtype=dtype))
    refused_when_traced_too(TypeError, mem.step, args, "first must be boolean", dtype, "first != 0")


@every_kind
def test_first_has_one_flag_per_step(name):
    mem, params, state = setup(name)
    for shape in ((4,), (5, 1), ()):
        args = (params, state, zeros(5, WIDTH), zeros(*shape, dtype=bool))
        refused_when_traced_too(ValueError, mem.unroll, args, "first", "(5,)", shape)
    args = (params, state, zeros(WIDTH), zeros(1, dtype=bool))
    refused_when_traced_too(ValueError, mem.step, args, "first", "()", "(1,)")


@every_kind
def test_an_unroll_has_steps(name):
    mem, params, state = setup(name)
    refused_when_traced_too(ValueError, mem.unroll, (params, state, zeros(0, WIDTH), zeros(0, dtype=bool)), "T", 0)


OTHERS: dict[str, memory.Memory] = {
    "width": memory.make(small_hcam(width=12)),
    "slots": memory.make(small_hcam(slots=4)),
    "chunk": memory.make(small_hcam(chunk=5)),
    "layers": memory.make(small_hcam(layers=2)),
    "dtype": memory.make(small_hcam(), dtype="bfloat16"),
    "TrXL": memory.make(small_trxl(layers=1, window=16)),  # as many rows
    "Local": memory.make(Local(width=WIDTH, layers=1, heads=2, window=16)),
    "LSTM": memory.make(LSTM_SMALL),
}


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("function", ["step", "unroll", "cached"])
def test_a_state_of_another_memory(other, function):
    mem, params, _ = setup("hcam")
    state = OTHERS[other].init_state()
    inputs: dict[str, tuple] = {
        "step": (zeros(WIDTH), np.array(True)),
        "unroll": (zeros(5, WIDTH), starts(length=5)),
        "cached": (),
    }
    args = (params, state, *inputs[function])
    refused_when_traced_too(ValueError, getattr(mem, function), args, "this state was not built for HCAM(", "at state.")


@pytest.mark.parametrize("other", ["width", "layers", "LSTM", "TrXL"])
def test_a_state_says_where_it_differs(other):
    mem, params, _ = setup("hcam")
    where = {
        "width": ("state.layers[0].input_rd", "(16, 8)", "(16, 12)"),
        "layers": ("state.layers[1].input_rd", "nothing", "(16, 8)"),
        "LSTM": ("state.clock", "int32", "nothing"),
        "TrXL": ("state.layers[0].summary_md", "(4, 8)", "nothing"),
    }[other]
    state = OTHERS[other].init_state()
    refused(ValueError, lambda: mem.step(params, state, zeros(WIDTH), True), *where)


def test_a_state_of_a_stack_is_none_of_an_lstm():
    mem, params, _ = setup("lstm")
    state = memory.make(HCAM_SMALL).init_state()
    args = (params, state, zeros(WIDTH), True)
    refused_when_traced_too(ValueError, mem.step, args, "this state was not built for LSTM(", "state.hidden_ld")
    state = memory.make(LSTM(width=WIDTH, layers=2)).init_state()
    args = (params, state, zeros(WIDTH), True)
    refused_when_traced_too(ValueError, mem.step, args, "state.hidden_ld", "(1, 8)", "(2, 8)")


@every_kind
def test_no_state_at_all(name):
    mem, params, _ = setup(name)
    refused_when_traced_too(ValueError, mem.step, (params, None, zeros(WIDTH), True), "this state was not built for")


@pytest.mark.parametrize("other", OTHERS)
def test_undo_with_a_state_of_another_memory(other):
    """The first one, or the second one."""
    mem, _, state = setup("hcam")
    foreign = OTHERS[other].init_state()
    for args in ((foreign, state), (state, foreign)):
        refused_when_traced_too(ValueError, mem.undo, args, "this state was not built for HCAM(", "at state.")


@every_kind
def test_undo_takes_states_and_nothing_else(name):
    """One environment's or a batch's; not the pair that `step` returns, say."""
    mem, _, state = setup(name)
    many = jax.tree.map(lambda leaf: np.stack([leaf] * 3), state)
    for before, after in ((state, state), (many, many)):
        jax.tree.map(np.testing.assert_array_equal, mem.undo(before, after), before)
    wrongs: list[Any] = [None, (state, zeros(WIDTH)), [], {"clock": zeros(1)}, zeros(WIDTH)]
    for wrong in wrongs:
        refused_when_traced_too(ValueError, mem.undo, (state, wrong), "this state was not built for")
    refused(ValueError, lambda: mem.undo(state, "state"), "this state was not built for")


@every_kind
@pytest.mark.parametrize("wrong", [None, [], {}, 3, "params", [1.0], {"w": "b"}], ids=repr)
def test_parameters_that_are_none(name, wrong):
    mem, _, state = setup(name)
    x, first = zeros(WIDTH), np.array(True)
    for call in (
        lambda: mem.step(wrong, state, x, first),
        lambda: mem.unroll(wrong, state, x[None], first[None]),
        lambda: mem.cached(wrong, state),
        lambda: mem.prepare(wrong),
    ):
        refused(ValueError, call, "these params were not built for")


@every_kind
@pytest.mark.parametrize("wrong", [[[0.0] * WIDTH], "x", None, {}], ids=repr)
def test_inputs_are_arrays(name, wrong):
    mem, params, state = setup(name)
    kind = type(wrong).__name__
    refused(
        TypeError, lambda: mem.unroll(params, state, wrong, starts(length=1)), f"x must be an array, but is a {kind}"
    )
    refused(TypeError, lambda: mem.step(params, state, wrong, True), f"x must be an array, but is a {kind}")
    refused(TypeError, lambda: mem.step(params, state, zeros(WIDTH), wrong), f"first must be an array, but is a {kind}")


def test_a_cache_in_some_layers_only():
    config = small_hcam(layers=2)
    mem, params = memory.make(config), params_of(config)
    state = mem.init_state()
    full = jax.eval_shape(mem.cached, params, state)
    full = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), full)
    half = state._replace(layers=(full.layers[0], state.layers[1]))
    refused_when_traced_too(
        ValueError, mem.step, (params, half, zeros(WIDTH), True), "state.layers[1].cache", "nothing"
    )


@pytest.mark.parametrize(
    ("other", "mentions"),
    [
        (small_hcam(width=12), ("(8,)", "(12,)")),
        (small_hcam(layers=2), ("params[1]", "nothing")),
        (small_hcam(gated=True), ("_gate", "nothing")),
        (small_trxl(layers=1, gated=False), ("params[0]['block']", "nothing")),
        (LSTM_SMALL, ("params[0]", "nothing")),
    ],
    ids=["width", "layers", "gated", "TrXL", "LSTM"],
)
def test_parameters_of_another_memory(other, mentions):
    mem, _, state = setup("hcam")
    args = (params_of(other), state, zeros(WIDTH), True)
    refused_when_traced_too(ValueError, mem.step, args, "these params were not built for HCAM(", *mentions)


def test_parameters_may_be_stored_in_another_precision():
    """Their shapes decide: half-precision copies are converted where they are used."""
    for name in KINDS:
        mem, params, state = setup(name)
        half = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), params)
        assert jax.eval_shape(mem.step, half, state, zeros(WIDTH), np.array(True))[1].dtype == jnp.float32


# ---------------------------------------------------------------------------------------------------------------------
# read
# ---------------------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def arguments() -> dict[str, Any]:
    return {
        "params": read_params(8, 6, 4),
        "queries": zeros(3, 8),
        "keys": zeros(5, 6),
        "contents": zeros(5, 2, 6),
        "mask": zeros(3, 5, dtype=bool),
    }


def read_params(query_width: int, memory_width: int, width: int) -> Any:
    shapes = jax.eval_shape(
        partial(init_read, query_width=query_width, memory_width=memory_width, width=width), jax.random.key(0)
    )
    return noisy(shapes, seed=0)


def refused_read(kind: type[Exception], arguments: dict[str, Any], options: dict[str, Any], *mentions: Any) -> None:
    function = partial(read, **{"k": 2, "heads": 2, **options})
    refused_when_traced_too(kind, function, tuple(arguments.values()), *mentions)


@pytest.mark.parametrize(
    ("options", "mentions"),
    [
        ({"k": 6}, ("top-k is 6", "5 slots")),
        ({"k": 0}, ("k must be", "0")),
        ({"k": -1}, ("k must be", "-1")),
        ({"k": True}, ("k must be", "True")),
        ({"k": 2.0}, ("k must be", "2.0")),
        ({"heads": 0}, ("heads must be", "0")),
        ({"heads": 3}, ("width 4", "heads 3")),
        ({"order": "softmax"}, ("order must be one of", "'softmax'")),
        ({"form": "sparse"}, ("form must be one of", "'sparse'")),
    ],
    ids=str,
)
def test_options_of_read(arguments, options, mentions):
    refused_read(ValueError, arguments, options, *mentions)


@pytest.mark.parametrize(
    ("change", "mentions"),
    [
        ({"queries": zeros(8)}, ("(8,)", "(5, 6)", "(5, 2, 6)")),
        ({"contents": zeros(5, 6)}, ("(3, 8)", "(5, 6)")),
        ({"queries": zeros(2, 3, 8)}, ("keys", "(2, 5, 6)", "(5, 6)")),
        ({"keys": zeros(5, 7)}, ("contents", "(5, C, 7)", "(5, 2, 6)")),
        ({"contents": zeros(4, 2, 6)}, ("contents", "(5, C, 6)", "(4, 2, 6)")),
        ({"queries": zeros(3, 7)}, ("width 7", "params['query']['w']", "(8, 4)")),
        ({"mask": zeros(3, 4, dtype=bool)}, ("mask", "(3, 5)", "(3, 4)")),
        ({"mask": zeros(5, dtype=bool)}, ("mask", "(3, 5)", "(5,)")),
        ({"mask": zeros(1, 3, 5, dtype=bool)}, ("mask", "(3, 5)", "(1, 3, 5)")),
        ({"queries": zeros(0, 8), "mask": zeros(0, 5, dtype=bool)}, ("queries", "0")),
        ({"keys": zeros(0, 6), "contents": zeros(0, 2, 6), "mask": zeros(3, 0, dtype=bool)}, ("slots", "0")),
        ({"contents": zeros(5, 0, 6)}, ("chunk", "0")),
    ],
    ids=lambda part: ", ".join(f"{k}{v.shape}" for k, v in part.items()) if isinstance(part, dict) else "",
)
def test_shapes_of_read(arguments, change, mentions):
    refused_read(ValueError, arguments | change, {}, *mentions)


@pytest.mark.parametrize("dtype", ["int32", "float32", "uint8"])
def test_mask_of_read_is_boolean(arguments, dtype):
    """An additive mask of zeros would otherwise forbid everything."""
    change = {"mask": zeros(3, 5, dtype=dtype)}
    refused_read(TypeError, arguments | change, {}, "mask must be boolean", dtype, "mask != 0")


@pytest.mark.parametrize("name", ["queries", "keys", "contents"])
def test_features_of_read_are_floating_point(arguments, name):
    """Integer queries would turn the weights into integers."""
    change = {name: arguments[name].astype(np.int32)}
    refused_read(TypeError, arguments | change, {}, f"{name} must be floating point", "int32")


def test_positions_of_read_need_an_even_width(arguments):
    change = {"params": read_params(8, 7, 4), "keys": zeros(5, 7), "contents": zeros(5, 2, 7)}
    refused_read(ValueError, arguments | change, {}, "width 7 is odd")
    run = partial(read, k=2, heads=2, positions=False)
    assert jax.eval_shape(run, *(arguments | change).values()).shape == (3, 4)


@pytest.mark.parametrize("name", ["relevance_query", "relevance_key", "query", "key", "value", "out"])
def test_parameters_of_read_are_all_there(arguments, name):
    params = arguments["params"]
    without = {other: entry for other, entry in params.items() if other != name}
    refused_read(ValueError, arguments | {"params": without}, {}, f"lack {name}")
    # A part of one missing, and one of another shape.
    refused_read(ValueError, arguments | {"params": params | {name: {}}}, {}, f"params['{name}']", "nothing")
    odd = params | {name: params[name] | {"w": zeros(9, 4)}}
    refused_read(ValueError, arguments | {"params": odd}, {}, f"params['{name}']['w']", "(9, 4)")


def test_parameters_of_read_hold_nothing_else(arguments):
    extra = arguments["params"] | {"gate": {"w": zeros(4, 4)}}
    refused_read(ValueError, arguments | {"params": extra}, {}, "params['gate']['w']", "nothing")


# ---------------------------------------------------------------------------------------------------------------------
# What passes
# ---------------------------------------------------------------------------------------------------------------------
def test_right_arguments_pass(arguments):
    run = partial(read, k=2, heads=2)
    assert jax.eval_shape(run, *arguments.values()).shape == (3, 4)
    for config in KINDS.values():
        assert dataclasses.replace(config, width=16).width == 16
    mem, params, state = setup("hcam")
    for first in (True, np.bool_(True), jnp.array(True)):
        jax.eval_shape(partial(mem.step, first=first), params, state, zeros(WIDTH))


@pytest.mark.parametrize(
    ("config", "change"),
    [(HCAM, {"positions": 1}), (HCAM, {"gated": "yes"}), (TrXL, {"gated": None}), (Local, {"gated": 0})],
)
def test_switches_are_on_or_off(config, change):
    (name, value), *_ = change.items()
    refused(ValueError, lambda: config(**change), f"{name} must be True or False", repr(value))
