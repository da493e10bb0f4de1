"""HCAM's own: what is stored, when it can be recalled, when it is forgotten, and that it is never learned through."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam import memory
from hcam.memory import HCAM, Local
from tests.memory import oracle
from tests.memory.cases import (
    CONFIGS,
    LENGTH,
    WIDTH,
    assert_same,
    changed_by,
    inputs,
    params_of,
    programs,
    small_hcam,
    starts,
)


def test_the_block_alone_by_hand():
    """With the window and the MLP silenced, y = x + read(norm(x)) over the chunks before, and y = x without any."""
    config = small_hcam(chunk=2, slots=4, top_k=2, window=1)
    params = jax.tree.map(lambda leaf: leaf, params_of(config))  # new dicts
    silent = partial(jax.tree.map, jnp.zeros_like)
    params[0]["window"]["out"], params[0]["mlp"]["out"] = silent((params[0]["window"]["out"], params[0]["mlp"]["out"]))
    x = inputs(2, 5)
    y = programs(config).unroll(params, memory.make(config).init_state(), x, starts(length=5))[1]
    np.testing.assert_allclose(y[:2], x[:2], atol=1e-6)  # chunk 0 is steps 0 and 1: recallable from step 2 on
    slow, wide = oracle.to_float64(params)[0]["block"], x.astype(np.float64)
    for t, chunks in ((2, [[0, 1]]), (3, [[0, 1]]), (4, [[0, 1], [2, 3]])):
        contents = np.array([wide[steps] for steps in chunks])
        query = oracle.layer_norm(slow["norm"], wide[t])
        reading = oracle.read_one(slow["read"], query, contents.mean(1), contents, None, k=len(chunks), heads=2)
        np.testing.assert_allclose(y[t], wide[t] + reading.output, rtol=1e-4, atol=1e-5)


# ---------------------------------------------------------------------------------------------------------------------
# How long a step is remembered, exactly
# ---------------------------------------------------------------------------------------------------------------------
def reach(step: int, chunk: int, stride: int, slots: int, window: int) -> set[int]:
    """The steps that one layer lets see `step`: by its window, and through each chunk while that can be recalled."""
    seen = set(range(step, step + window))
    for number in range(step // stride + 1):
        end = number * stride + chunk - 1
        if number * stride <= step <= end:
            seen |= set(range(end + 1, end + 1 + slots * stride))  # until `slots` newer ones are complete
    return {t for t in seen if t < LENGTH}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"overlap": 1},
        {"overlap": 3, "slots": 4, "top_k": 4},
        {"chunk": 1, "slots": 5, "top_k": 5},
        {"window": 6, "slots": 1, "top_k": 1},
    ],
    ids=str,
)
def test_a_step_is_seen_exactly_while_its_chunks_can_be_recalled(options):
    """All chunks are recalled (k = slots), so what can have an influence does.

    Chunks of 4, 3 slots, window 1: step 0 is in chunk 0, which is complete after step 3 and forgotten once chunks 1, 2
    and 3 are, after step 15: it is seen at steps 0 and 4..15.
    """
    config = small_hcam(**{"slots": 3, "top_k": 3, "window": 1} | options)
    at = [0, 3, 4, 5, 17]
    changed = changed_by(config, at, starts(), scale=2.0)
    for row, step in zip(changed, at, strict=True):
        expected = reach(step, config.chunk, config.stride, config.slots, config.window_steps)
        assert set(np.flatnonzero(row)) == expected, f"step {step}"
    if not options:
        assert set(np.flatnonzero(changed[0])) == {0, *range(4, 16)}


def test_remembers_what_no_window_can():
    """One layer: step 0 is seen at step 44, long after any window of 4 has passed; `Local` has lost it by then."""
    remembering = changed_by(small_hcam(slots=12, top_k=12), [0], starts(), scale=2.0)[0]
    assert remembering[4:].all()
    window_alone = changed_by(Local(width=WIDTH, layers=1, heads=2, window=4, mlp=1), [0], starts(), scale=2.0)[0]
    assert set(np.flatnonzero(window_alone)) == {0, 1, 2, 3}


@pytest.mark.parametrize(("layers", "gated"), [(2, False), (1, True)])
def test_an_empty_memory_contributes_nothing(layers, gated):
    """Before the first chunk is complete, HCAM is the window and the MLP with the same parameters, and nothing else."""
    config = small_hcam(layers=layers, gated=gated)
    local = Local(width=WIDTH, layers=layers, heads=2, window=4, mlp=1, gated=gated)
    params = params_of(config)
    kept = tuple({k: v for k, v in layer.items() if not k.startswith("block")} for layer in params)
    x, first = inputs(3), starts(20)
    ours = programs(config).unroll(params, memory.make(config).init_state(), x, first)[1]
    theirs = programs(local).unroll(kept, memory.make(local).init_state(), x, first)[1]
    same = np.abs(ours - theirs).max(-1) < 1e-6
    np.testing.assert_array_equal(np.flatnonzero(same), [0, 1, 2, 3, 20, 21, 22, 23])


# ---------------------------------------------------------------------------------------------------------------------
# Gradients
# ---------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("layers", "form"), [(1, "dense"), (2, "gather")])
def test_chunks_carry_values_but_no_gradient(layers, form):
    """The last step depends on all of the past by value, by gradient only on the reach of windows of 3 steps."""
    config, length = small_hcam(layers=layers, window=3, slots=5, top_k=5, form=form), 20
    mem, params, x = memory.make(config), params_of(config), inputs(4, length)

    def last(x_td):
        y_d = mem.unroll(params, mem.init_state(), x_td, starts(length=length))[1][-1]
        return y_d, y_d

    jacobian_and_value = jax.jit(jax.jacrev(last, has_aux=True))
    jacobian, value = jacobian_and_value(jnp.asarray(x))
    by_gradient = np.abs(jacobian).max((0, 2)) > 0
    np.testing.assert_array_equal(by_gradient, np.arange(length) >= length - 1 - 2 * layers)
    for step in (0, 4, 8, 12):
        x[step] += np.arange(WIDTH) % 3
        _, other = jacobian_and_value(jnp.asarray(x))
        assert np.abs(other - value).max() > 1e-4
        value = other


def test_both_forms_learn_alike():
    results = []
    for form in ("dense", "gather"):
        config = small_hcam(form=form, overlap=1)
        mem, x = memory.make(config), inputs(5)

        def loss(params, x_td, mem=mem):
            return jnp.square(mem.unroll(params, mem.init_state(), x_td, starts(13))[1]).mean()

        results.append(jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))(params_of(config), x))
    assert_same(results[0], results[1], 1e-4)


def test_gradient_of_the_parameters_is_the_slow_memorys():
    """One layer stores its inputs, which no parameter has touched: the gradient is the plain derivative.

    Along random directions, by central differences of the slow memory.
    """
    config, length, first = CONFIGS["hcam-overlap"], 15, starts(10, length=15)
    mem, params, x = memory.make(config), params_of(config), inputs(6, length)

    def loss(params, x_td):
        return jnp.square(mem.unroll(params, mem.init_state(), x_td, first)[1]).sum()

    def slow_loss(params):
        slow = oracle.SlowStack(config, params)
        return sum((slow.step(x_d, bool(at_start))[0] ** 2).sum() for x_d, at_start in zip(x, first, strict=True))

    gradient, rng = jax.device_get(jax.jit(jax.grad(loss))(params, x)), np.random.default_rng(7)
    for _ in range(5):
        direction = jax.tree.map(lambda leaf: rng.standard_normal(leaf.shape), params)
        ahead, behind = (
            jax.tree.map(lambda p, d, e=e: np.asarray(p, np.float64) + e * d, params, direction) for e in (1e-6, -1e-6)
        )
        expected = (slow_loss(ahead) - slow_loss(behind)) / 2e-6
        found = sum(jax.tree.leaves(jax.tree.map(lambda g, d: (g * d).sum(), gradient, direction)))
        np.testing.assert_allclose(found, expected, rtol=1e-3)


# ---------------------------------------------------------------------------------------------------------------------
# The configuration
# ---------------------------------------------------------------------------------------------------------------------
def test_defaults_are_the_papers():
    config = HCAM()
    assert (config.width, config.layers, config.heads, config.chunk, config.top_k) == (512, 4, 8, 32, 8)
    assert (config.overlap, config.order, config.positions, config.gated) == (0, "top_k_then_softmax", True, False)
    assert (config.stride, config.window_steps) == (32, 32)
    assert (HCAM(overlap=5).stride, HCAM(window=7).window_steps) == (27, 7)


def test_a_configuration_is_a_value():
    """Frozen, equal by content, hashable: it can be a static argument and a key."""
    assert {HCAM(chunk=8): 1}[HCAM(chunk=8)] == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        HCAM().chunk = 3  # type: ignore[misc]


def test_slots_for_an_episode_hold_all_its_chunks():
    config = HCAM(width=8, layers=1, heads=2, chunk=4, overlap=1, slots=2, top_k=2)
    assert [config.slots_for(steps) for steps in (1, 7, 9, 10, 40)] == [2, 2, 2, 3, 13]
