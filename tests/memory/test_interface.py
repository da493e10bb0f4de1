"""What holds for every memory: one result however it is computed, nothing from the future, nothing from elsewhere."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

from hcam import memory
from hcam.memory import GRU, LSTM
from tests.memory.cases import (
    CONFIGS,
    KINDS,
    LENGTH,
    NO_STACK,
    RECURRENT,
    WIDTH,
    assert_equals_slow_stack,
    assert_same,
    changed_by,
    float_leaves,
    garbage,
    inputs,
    joined,
    params_of,
    programs,
    run_steps,
    same,
    shapes_of_params,
    small_hcam,
    small_trxl,
    split_floats,
    starts,
    without_cache,
)
from tests.memory.oracle import SlowStack

every_config = pytest.mark.parametrize("name", CONFIGS)
every_kind = pytest.mark.parametrize("name", KINDS)


# ---------------------------------------------------------------------------------------------------------------------
# unroll = step, again and again = step on keys and values, for any starts and any cuts
# ---------------------------------------------------------------------------------------------------------------------
PIECES = (1, 4, 9)  # lengths of unrolls; each compiles once per configuration
CALLS = [*(f"unroll {n}" for n in PIECES), "steps 2", "steps 5", "cache 2", "cache 5"]

start_patterns = st.one_of(
    st.just(starts()),
    st.just(starts(0)),
    st.just(np.ones(LENGTH, bool)),
    st.sampled_from([2, 3, 4, 5]).map(lambda n: starts(*range(0, LENGTH, n))),  # around the length of a chunk
    st.lists(st.integers(0, LENGTH - 1), max_size=6).map(lambda at: starts(*at)),
    st.lists(st.integers(0, LENGTH // 4).map(lambda n: 4 * n), max_size=5).map(lambda at: starts(*at)),  # on borders
)
# Enough calls to get to the end, since each takes at least one step.
call_sequences = st.lists(st.sampled_from(CALLS), min_size=LENGTH, max_size=LENGTH)


def run_calls(config: Any, params: Any, state: Any, x: np.ndarray, first: np.ndarray, calls: list[str]) -> Any:
    """Carries one state through unrolls, steps and steps on a cache, until the next call would not fit any more."""
    program, results, at = programs(config), [], 0
    for call in calls:
        kind, length = call.split()[0], int(call.split()[1])
        part = slice(at, at + length)
        if at + length > LENGTH:
            break
        if kind == "unroll":
            state, *result = program.unroll(params, without_cache(state), x[part], first[part])
        else:
            if (
                kind == "cache"
            ):  # twice, as after a change of parameters: the second call must leave nothing of the first
                state = program.cached(params, program.cached(params_of(config, seed=1), state))
            state, *result = run_steps(config, params, state, x[part], first[part])
        results.append(jax.device_get(result))
        at += length
    return state, joined(results), at


def continue_(config: Any, params: Any, state: Any) -> Any:
    """What a memory answers next: two states are equal if this is."""
    return run_steps(config, params, state, inputs(99, 6), starts(length=6))[1:]


def types_of(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), tree)


LONG = {"hcam-one-slot", "hcam-overlap-most", "hcam-one-step"}


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in LONG)) for n in CONFIGS])
def test_every_way_of_computing_gives_the_same(name):
    """And that is, for the stacks, what the slow one gives, in episodes of 21, 1, 9 and 14 steps."""
    if name not in NO_STACK:
        assert_equals_slow_stack(CONFIGS[name], seed=1, first=starts(21, 22, 31))
    check_every_way(name)


# A failing example takes a second, since it is run through the slow stack too: hundreds of smaller ones are not tried.
@settings(max_examples=20, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(seed=st.integers(0, 2**16), first=start_patterns, calls=call_sequences)
def check_every_way(name: str, seed: int, first: np.ndarray, calls: list[str]) -> None:
    config = CONFIGS[name]
    params, x, empty = params_of(config), inputs(seed), memory.make(config).init_state()
    program = programs(config)
    state, *stepped = run_steps(config, params, empty, x, first)
    state_cached, *cached = run_steps(config, params, program.cached(params, empty), x, first)
    state_whole, *whole = program.unroll(params, empty, x, first)
    state_mixed, mixed, at = run_calls(config, params, empty, x, first, calls)
    until = jax.tree.map(lambda entry: entry[:at], stepped)
    agree = same(whole, stepped) and same(cached, stepped) and same(mixed, until)
    if not agree and name not in NO_STACK:
        # Where two chunks are nearly tied, float32 chooses either; such an example says nothing.
        slow = SlowStack(config, params)
        for x_d, at_start in zip(x, first, strict=True):
            slow.step(x_d, bool(at_start))
        assume(slow.gap > 1e-5)
    assert_same(cached, stepped)
    assert_same(whole, stepped)
    assert_same(mixed, until)
    # A state does not show whether it is right until it is used.
    expected = continue_(config, params, state)
    assert_same(continue_(config, params, state_whole), expected)
    assert_same(continue_(config, params, state_cached), expected)
    if at == LENGTH:
        assert_same(continue_(config, params, state_mixed), expected)


@every_config
def test_step_can_be_scanned_and_vmapped(name):
    """The state that comes out has the type of the one that went in, and a batch is one more axis everywhere."""
    mem, params = memory.make(CONFIGS[name]), params_of(CONFIGS[name])
    for state in (mem.init_state(), jax.eval_shape(mem.cached, params, mem.init_state())):
        carried, y_td = jax.eval_shape(
            lambda *args: jax.lax.scan(lambda s, xf: mem.step(params, s, *xf), *args), state, (inputs(0), starts(3))
        )
        assert y_td.shape == (LENGTH, WIDTH)
        assert types_of(carried) == types_of(state)
        states = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((5, *leaf.shape), leaf.dtype), state)
        batch = jax.eval_shape(jax.vmap(mem.step, (None, 0, 0, 0)), params, states, inputs(0, 5), starts(2, length=5))
        assert batch[1].shape == (5, WIDTH)


@every_kind
def test_prepared_parameters_act_the_same(name):
    config, first = CONFIGS[name], starts(21, 22, 31)
    mem, params, x = memory.make(config), params_of(config), inputs(1)
    for state in (mem.init_state(), mem.cached(params, mem.init_state())):
        assert_same(run_steps(config, mem.prepare(params), state, x, first), run_steps(config, params, state, x, first))


@every_config
def test_steps_make_nothing_of_prepared_parameters_alone(name):
    """No product in a step is of parameters only: those are what `prepare` is for."""
    mem, params = memory.make(CONFIGS[name]), params_of(CONFIGS[name])
    given = (mem.init_state(), inputs(0)[0], np.bool_(False))

    def idle(weights: Any) -> int:
        closed = jax.make_jaxpr(mem.step)(weights, *given)
        fixed = len(jax.tree.leaves(weights))
        return products_of(closed.jaxpr, [False] * fixed + [True] * (len(closed.jaxpr.invars) - fixed))[0]

    assert idle(mem.prepare(params)) == 0
    assert idle(params) > 0 or name in NO_STACK  # it can tell


def products_of(jaxpr: Any, depends: list[bool]) -> tuple[int, list[bool]]:
    """How many products have no factor that depends on what is given; and which results do depend."""
    known, found = dict(zip(jaxpr.invars, depends, strict=True)), 0
    for eqn in jaxpr.eqns:
        inner = [known.get(var, False) if not hasattr(var, "val") else False for var in eqn.invars]
        outer = [any(inner)] * len(eqn.outvars)
        sub = eqn.params.get("jaxpr") or eqn.params.get("call_jaxpr")
        if sub is not None and eqn.primitive.name not in ("scan", "while", "cond"):
            below, outer = products_of(getattr(sub, "jaxpr", sub), inner)
            found += below
        found += eqn.primitive.name == "dot_general" and not any(inner)
        known |= dict(zip(eqn.outvars, outer, strict=True))
    return found, [known.get(var, False) if not hasattr(var, "val") else False for var in jaxpr.outvars]


def test_prepared_parameters_are_for_steps():
    mem, params = memory.make(CONFIGS["hcam"]), params_of(CONFIGS["hcam"])
    with pytest.raises(TypeError, match="prepared params are for `step` alone"):
        mem.unroll(mem.prepare(params), mem.init_state(), inputs(0), starts())
    with pytest.raises(TypeError, match="prepared params are for `step` alone"):
        mem.cached(mem.prepare(params), mem.init_state())
    with pytest.raises(ValueError, match="these params were not built for HCAM"):
        mem.prepare(params[:1])


@every_config
def test_unroll_can_be_scanned(name):
    """The state that comes out has the type of the one that went in, except that a cache is not carried on."""
    mem, params = memory.make(CONFIGS[name]), params_of(CONFIGS[name])
    for state in (mem.init_state(), jax.eval_shape(mem.cached, params, mem.init_state())):
        after, y_td = jax.eval_shape(mem.unroll, params, state, inputs(0), starts(3))
        assert y_td.shape == (LENGTH, WIDTH)
        assert types_of(after) == types_of(mem.init_state())


@every_config
def test_a_step_that_was_only_tried_leaves_nothing(name):
    """Before every step of four episodes another one is made and undone; what follows is the same to the last bit."""
    config, first = CONFIGS[name], starts(21, 22, 31)
    program, params, undo = programs(config), params_of(config), memory.make(config).undo
    for begin in (memory.make(config).init_state(), program.cached(params, memory.make(config).init_state())):
        plain = state = begin
        for t, (x_d, other_d) in enumerate(zip(inputs(5), 1e3 * inputs(6), strict=True)):
            state = undo(state, program.step(params, state, other_d, first[t])[0])
            if t % 6 == 4 and t + 8 <= LENGTH:  # now and then, an unroll from here
                part = inputs(5)[t : t + 8], first[t : t + 8]
                found, expected = (program.unroll(params, without_cache(s), *part)[1:] for s in (state, plain))
                assert_same(found, expected, 0)
            (state, *found), (plain, *expected) = (program.step(params, s, x_d, first[t]) for s in (state, plain))
            assert_same(found, expected, 0)


def test_unroll_ignores_a_cache():
    config, x, first = CONFIGS["hcam-overlap"], inputs(1, 4), starts(2, length=4)
    program, params, empty = programs(config), params_of(config), memory.make(config).init_state()
    plain = program.unroll(params, empty, x, first)
    assert_same(program.unroll(params, garbage(program.cached(params, empty)), x, first)[1:], plain[1:], 1e-6)


@every_kind
def test_output_has_the_dtype_of_the_input(name):
    mem, params = memory.make(CONFIGS[name]), params_of(CONFIGS[name])
    x = jnp.asarray(inputs(4, 3), jnp.bfloat16)
    assert jax.eval_shape(mem.unroll, params, mem.init_state(), x, starts(length=3))[1].dtype == jnp.bfloat16
    assert jax.eval_shape(mem.step, params, mem.init_state(), x[0], jnp.array(False))[1].dtype == jnp.bfloat16


# ---------------------------------------------------------------------------------------------------------------------
# Nothing from the future, from other episodes, from other environments
# ---------------------------------------------------------------------------------------------------------------------
BORDERS = (0, 18, 31)  # episodes of 18, 13 and 14 steps


@every_kind
def test_an_input_changes_nothing_before_it_nor_after_its_episode(name):
    """Each step in turn is perturbed, all of them in one batch."""
    config = CONFIGS[name]
    first = starts(*BORDERS)
    changed_bt = changed_by(config, list(range(LENGTH)), first)
    episode_t = np.cumsum(first)
    for t in range(LENGTH):
        assert changed_bt[t, t]
        assert not changed_bt[t, :t].any(), f"step {t} changed the past"
        assert not changed_bt[t, episode_t > episode_t[t]].any(), f"step {t} changed a later episode"


@every_kind
def test_nothing_from_before_a_start_remains(name):
    """Inputs, stored rows, summaries, caches and clock before the start are all replaced by large numbers."""
    config, start = CONFIGS[name], 18
    program, params, x = programs(config), params_of(config), inputs(6)
    first, empty = starts(start), memory.make(config).init_state()
    other = np.where(np.arange(LENGTH)[:, None] < start, 1e3 * inputs(7), x)
    spoiled = garbage(empty, clock=37)
    _, *clean = program.unroll(params, empty, x, first)
    _, *dirty = program.unroll(params, spoiled, other, first)
    after = partial(jax.tree.map, lambda entry: entry[start:])
    assert_same(after(dirty), after(clean), 1e-6)
    for state in (spoiled, program.cached(params, spoiled), garbage(program.cached(params, empty), clock=37)):
        if state is not spoiled:  # the keys of ages and places hold for all episodes: those stay
            state = keep_codes(state, program.cached(params, empty))
        _, *stepped = run_steps(config, params, state, x[start:], first[start:])
        assert_same(stepped, after(clean), 1e-5)


def keep_codes(state: Any, fresh: Any) -> Any:
    """The state with the part of a cache that depends on parameters alone."""
    if not hasattr(state, "layers"):
        return state
    layers = []
    for mine, true in zip(state.layers, fresh.layers, strict=True):
        window = mine.cache.window._replace(age_key_whd=true.cache.window.age_key_whd)
        block = mine.cache.block
        if block is not None:
            codes = {name: getattr(true.cache.block, name) for name in ("code_key_chd", "code_value_chd")}
            block = block._replace(**codes)
        layers.append(mine._replace(cache=mine.cache._replace(window=window, block=block)))
    return state._replace(layers=tuple(layers))


@pytest.mark.parametrize("name", [name for name in KINDS if name not in RECURRENT])  # whose state is all used
def test_rows_that_were_never_written_are_never_read(name):
    """No `first` anywhere: the clock alone says that the state is empty."""
    config = CONFIGS[name]
    program, params, x, empty = programs(config), params_of(config), inputs(8), memory.make(config).init_state()
    spoiled = garbage(empty)
    _, *clean = program.unroll(params, empty, x, starts())
    _, *dirty = program.unroll(params, spoiled, x, starts())
    assert_same(dirty, clean, 1e-6)
    for state in (spoiled, program.cached(params, spoiled)):
        _, *stepped = run_steps(config, params, state, x, starts())
        assert_same(stepped, clean, 1e-5)


@every_kind
def test_environments_of_a_batch_do_not_touch_each_other(name):
    config, batch = CONFIGS[name], 3
    mem, params = memory.make(config), params_of(config)
    x_btd = np.stack([inputs(10 + b) for b in range(batch)])
    first_bt = np.stack([starts(), starts(0, 7, 22), starts(*range(LENGTH))])
    states = jax.tree.map(lambda leaf: jnp.stack([leaf] * batch), mem.init_state())
    batched = jax.jit(jax.vmap(partial(mem.unroll, recall=True), (None, 0, 0, 0)))
    before = jax.device_get(batched(params, states, x_btd, first_bt))
    for b in range(batch):
        alone = programs(config).unroll(params, mem.init_state(), x_btd[b], first_bt[b])
        assert_same(jax.tree.map(lambda entry, b=b: entry[b], before)[1:], alone[1:], 1e-5)
    spoiled = jax.tree.map(lambda clean, bad: clean.at[1].set(bad), states, garbage(mem.init_state(), clock=11))
    x_btd[1], first_bt[1] = 1e3 * inputs(20), starts(3)
    after = jax.device_get(batched(params, spoiled, x_btd, first_bt))
    assert not np.array_equal(after[1][1], before[1][1])
    for b in (0, 2):
        jax.tree.map(lambda new, old, b=b: np.testing.assert_array_equal(new[b], old[b]), after, before)


# ---------------------------------------------------------------------------------------------------------------------
# Gradients
# ---------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["hcam-overlap", "trxl-sparse", "lstm", "gru"])
def test_no_gradient_flows_into_the_state(name):
    config = CONFIGS[name]
    mem, params, x = memory.make(config), params_of(config), inputs(11)
    # Lived through enough for every part of the state to matter.
    state = programs(config).unroll(params, mem.init_state(), x, starts(20))[0]
    new, first = inputs(12, 9), starts(length=9)
    calls = [("unroll", state, new, first), ("step", state, new[0], first[0])]
    calls.append(("step", programs(config).cached(params, state), new[0], first[0]))
    for function, before, at, flags in calls:
        floats, join = split_floats(before)

        def answer(floats, params, at, function=function, join=join, flags=flags):
            y = getattr(mem, function)(params, join(floats), at, flags)[1]
            return (y * jnp.arange(y.size, dtype=y.dtype).reshape(y.shape)).sum()

        answer_and_grads = jax.jit(jax.value_and_grad(answer, argnums=(0, 1, 2)))
        value, grads = answer_and_grads(floats, params, at)
        assert all(not np.any(leaf) for leaf in grads[0])
        assert np.any(grads[2])
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(grads))
        # And what is stored does matter, so that these zeros say something.
        nudged = [leaf + 0.5 * np.cos(np.arange(leaf.size)).reshape(leaf.shape).astype(leaf.dtype) for leaf in floats]
        assert abs(answer_and_grads(nudged, params, at)[0] - value) > 1e-3


# ---------------------------------------------------------------------------------------------------------------------
# What was recalled
# ---------------------------------------------------------------------------------------------------------------------
@every_kind
def test_recall_describes_the_attention(name):
    """That the report makes sense; that it is true, and the same from `step` and `unroll`, is tested above."""
    config = CONFIGS[name]
    first = starts(0, 24, 26)
    time_t = np.arange(LENGTH) - np.maximum.accumulate(np.where(first, np.arange(LENGTH), 0))
    empty = memory.make(config).init_state()
    recall = jax.device_get(programs(config).unroll(params_of(config), empty, inputs(13), first)[2])
    if name in NO_STACK:
        assert recall == memory.Recall()
        return
    assert len(recall.window_hw) == config.layers
    window = getattr(config, "window_steps", config.window)
    for attention_thw in recall.window_hw:
        assert attention_thw.shape == (LENGTH, config.heads, window)
        np.testing.assert_allclose(attention_thw.sum(-1), 1.0, atol=1e-5)
        older = np.arange(window)[None, :] > time_t[:, None]
        assert not attention_thw.swapaxes(1, 2)[older].any(), "attention to before the episode"
    if not hasattr(config, "chunk"):
        assert recall.chunk_k is recall.relevance_k is recall.within_khc is recall.relevance_m is None
        return
    done_t = np.maximum(0, (time_t - config.chunk) // (config.chunk - config.overlap) + 1)
    for chunk_tk, relevance_tk, within_tkhc, relevance_tm in zip(*recall[1:], strict=True):
        real_tk = chunk_tk >= 0
        assert chunk_tk.shape == relevance_tk.shape == (LENGTH, config.top_k)
        assert within_tkhc.shape == (LENGTH, config.top_k, config.heads, config.chunk)
        np.testing.assert_array_equal(real_tk.sum(-1), np.minimum(config.top_k, np.minimum(config.slots, done_t)))
        assert (chunk_tk < np.where(real_tk, done_t[:, None], 0)).all()
        assert (chunk_tk[real_tk] >= np.broadcast_to(done_t[:, None] - config.slots, chunk_tk.shape)[real_tk]).all()
        assert all(len(set(row[row >= 0])) == (row >= 0).sum() for row in chunk_tk), "a chunk recalled twice"
        assert not relevance_tk[~real_tk].any()
        assert (np.diff(relevance_tk) <= 0).all(), "best first"
        total_t = relevance_tk.sum(-1)[real_tk.any(-1)]
        if config.order == "top_k_then_softmax":
            np.testing.assert_allclose(total_t, 1.0, atol=1e-5)
        else:
            assert (total_t <= 1 + 1e-5).all()
        np.testing.assert_allclose(within_tkhc.sum(-1)[real_tk], 1.0, atol=1e-5)
        assert not within_tkhc[~real_tk].any()
        assert relevance_tm.shape == (LENGTH, config.slots)
        np.testing.assert_array_equal((relevance_tm > 0).sum(-1), np.minimum(config.slots, done_t))
        np.testing.assert_allclose(relevance_tm.sum(-1), np.where(done_t > 0, 1.0, 0.0), atol=1e-5)


# ---------------------------------------------------------------------------------------------------------------------
# Building
# ---------------------------------------------------------------------------------------------------------------------
def test_configs_by_name_are_what_make_takes():
    assert set(memory.MEMORIES) == {"hcam", "trxl", "lstm", "gru", "epn", "none"}
    for kind in memory.MEMORIES.values():
        config = kind()  # every option has a default
        assert memory.make(config).config == config


@every_config
def test_parameters_are_float32(name):
    assert {leaf.dtype for leaf in jax.tree.leaves(shapes_of_params(CONFIGS[name]))} == {jnp.dtype("float32")}


LOW: dict[str, Any] = {
    "hcam": small_hcam(),
    "trxl": small_trxl(layers=1, gated=False),
    "lstm": LSTM(width=WIDTH, layers=1),
    "gru": GRU(width=WIDTH, layers=1),
}


@pytest.mark.parametrize("name", LOW)
def test_bfloat16_is_float32_with_less_precision(name):
    """A state in bfloat16 for the stacks; that of a recurrent layer adds up over time and stays in float32."""
    config, low = LOW[name], "bfloat16"
    params, x, first = params_of(config), inputs(14, 9), starts(5, length=9)
    exact = run_steps(config, params, memory.make(config).init_state(), x, first)[1]
    empty, kept = memory.make(config, dtype=low).init_state(), jnp.float32 if name in RECURRENT else jnp.bfloat16
    program = programs(config, low)
    state, y, _ = program.unroll(params, empty, x, first)
    stepped_state, stepped, _ = run_steps(config, params, program.cached(params, empty), x, first, low)
    for found in (empty, state, stepped_state):
        assert {leaf.dtype for leaf in float_leaves(found)} == {jnp.dtype(kept)}
    for found in (y, stepped):
        assert found.dtype == np.float32  # that of the input
        assert np.isfinite(found).all()
        np.testing.assert_allclose(found, exact, rtol=0.1, atol=0.2)
