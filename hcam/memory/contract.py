"""Does a memory keep the contract of `Memory`? `check(config)` raises a sentence that names the first broken rule.

It tries the memory on random inputs over a few short episodes. Use it in the tests of a memory of your own.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from .types import Array, Memory, Params, State

STEPS, CUT = 24, 9  # of the sequence, and where it is cut into two unrolls
STARTS = (0, 7, 15)  # of its episodes: one of them spans the cut
LATE = 20  # a step in the middle of the last episode
BAD = 11  # the step whose input is made unusable


class ContractError(AssertionError):
    """A rule is broken. An AssertionError, because the memory is wrong, not an argument."""


def check(memory: Memory, *, seed: int = 0, tolerance: float = 1e-4) -> None:
    """Raises ContractError if `memory` breaks a rule.

    `tolerance` bounds the absolute and relative difference of two ways to compute the same; with a dtype of 16 bits
    take 0.1.
    """
    key_params, key_x, key_other = jax.random.split(jax.random.key(seed), 3)
    params = jax.jit(memory.init_params)(key_params)
    shape = (STEPS, memory.config.width)
    x_td, other_td = jax.random.normal(key_x, shape), jax.random.normal(key_other, shape)
    first_t = jnp.isin(jnp.arange(STEPS), jnp.array(STARTS))
    unroll = jax.jit(memory.unroll)
    state, y_td = unroll(params, memory.init_state(), x_td, first_t)
    same = partial(_same, tolerance=tolerance)

    _check_types(memory, params, state, y_td)
    _require(
        same(_scan(memory, params, memory.init_state(), x_td, first_t), y_td),
        "scanning step gives other outputs than unroll",
    )
    half, before_td = unroll(params, memory.init_state(), x_td[:CUT], first_t[:CUT])
    _, after_td = unroll(params, half, x_td[CUT:], first_t[CUT:])
    _require(
        same(jnp.concatenate([before_td, after_td]), y_td),
        "a sequence cut into two unrolls gives other outputs than one: carry all that matters in the state",
    )
    _check_acting(memory, params, half, x_td[CUT:], first_t[CUT:], y_td[CUT:], same)

    start = STARTS[-1]
    past_td = jnp.where((jnp.arange(STEPS) < start)[:, None], other_td, x_td)
    _require(
        same(unroll(params, memory.init_state(), past_td, first_t)[1][start:], y_td[start:]),
        "outputs depend on what came before their episode: forget the whole state where first is true",
    )
    future_td = jnp.where((jnp.arange(STEPS) < LATE)[:, None], x_td, other_td)
    _require(
        same(unroll(params, memory.init_state(), future_td, first_t)[1][:LATE], y_td[:LATE]),
        "outputs depend on later inputs: a step may see itself and the steps before it",
    )
    _check_batch(memory, params, jnp.stack([x_td, other_td]), jnp.stack([first_t, first_t]), y_td, same)
    _check_unusable(memory, params, x_td, first_t)
    _check_gradient(memory, params, half, x_td[CUT:], first_t[CUT:])


def _check_types(memory: Memory, params: Params, state: State, y_td: Array) -> None:
    kinds = {leaf.dtype for leaf in jax.tree.leaves(params) if jnp.issubdtype(leaf.dtype, jnp.floating)}
    _require(kinds <= {jnp.dtype("float32")}, "params must be float32, whatever the memory computes in")
    _require(y_td.shape == (STEPS, memory.config.width), "y must have the shape of x")
    _require(_types(state) == _types(memory.init_state()), "a state must keep the shapes and dtypes of init_state")


def _check_acting(
    memory: Memory, params: Params, state: State, x_td: Array, first_t: Array, y_td: Array, same: Any
) -> None:
    """The options of acting: prepared params, a cache, a step that is undone, and `recall`."""
    found_td = _scan(memory, jax.jit(memory.prepare)(params), state, x_td, first_t)
    _require(same(found_td, y_td), "step gives other outputs with prepared params")
    found_td = _scan(memory, params, jax.jit(memory.cached)(params, state), x_td, first_t)
    _require(same(found_td, y_td), "step gives other outputs with a cached state")

    def step_twice(state: State, now: tuple[Array, Array]) -> Any:
        tried, _ = memory.step(params, state, -now[0], now[1])
        return memory.step(params, memory.undo(state, tried), *now)

    found_td = jax.jit(partial(jax.lax.scan, step_twice))(state, (x_td, first_t))[1]
    _require(same(found_td, y_td), "a step that was undone changes later outputs")
    *_, recall = jax.eval_shape(partial(memory.unroll, recall=True), params, state, x_td, first_t)
    lengths = {leaf.shape[:1] for leaf in jax.tree.leaves(recall)}
    _require(lengths <= {first_t.shape}, "a Recall of unroll must have a time axis in front")


def _check_batch(memory: Memory, params: Params, x_btd: Array, first_bt: Array, y_td: Array, same: Any) -> None:
    states = jax.tree.map(lambda leaf: jnp.stack([leaf] * len(x_btd)), memory.init_state())
    batch = jax.jit(jax.vmap(memory.unroll, in_axes=(None, 0, 0, 0)))
    _require(same(batch(params, states, x_btd, first_bt)[1][0], y_td), "a batch changes the outputs of an environment")


def _check_unusable(memory: Memory, params: Params, x_td: Array, first_t: Array) -> None:
    state, y_td = jax.jit(memory.unroll)(params, memory.init_state(), x_td.at[BAD].set(jnp.nan), first_t)
    others = jnp.arange(STEPS) != BAD
    _require(jnp.isnan(y_td[BAD]).all(), "a step with NaN in its input must answer NaN")
    _require(jnp.isfinite(y_td[others]).all(), "NaN in one input reaches the outputs of other steps")
    floats = [leaf for leaf in jax.tree.leaves(state) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    _require(all(jnp.isfinite(leaf).all() for leaf in floats), "NaN in one input reaches the state")


def _check_gradient(memory: Memory, params: Params, state: State, x_td: Array, first_t: Array) -> None:
    """Of the sum of squared outputs, from a state that holds something."""
    leaves, structure = jax.tree.flatten(state)
    floating = [jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in leaves]

    def loss(floats: list[Array], params: Params) -> Array:
        rest = iter(floats)
        joined = [next(rest) if is_float else leaf for leaf, is_float in zip(leaves, floating, strict=True)]
        return jnp.square(memory.unroll(params, jax.tree.unflatten(structure, joined), x_td, first_t)[1]).sum()

    floats = [leaf for leaf, is_float in zip(leaves, floating, strict=True) if is_float]
    into_state, into_params = jax.jit(jax.grad(loss, (0, 1)))(floats, params)
    _require(not any(leaf.any() for leaf in into_state), "a gradient flows into the incoming state")
    finite = all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(into_params))
    _require(finite, "the gradient with respect to params is not finite")


def _scan(memory: Memory, params: Params, state: State, x_td: Array, first_t: Array) -> Array:
    y_td: Array = jax.jit(lambda *args: jax.lax.scan(lambda s, now: memory.step(params, s, *now), *args))(
        state, (x_td, first_t)
    )[1]
    return y_td


def _types(tree: Any) -> list[Any]:
    return [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(tree)]


def _same(found: Array, expected: Array, tolerance: float) -> bool:
    return bool(jnp.allclose(found, expected, rtol=tolerance, atol=tolerance, equal_nan=False))


def _require(kept: Any, sentence: str) -> None:
    if not kept:
        raise ContractError(f"{sentence}.")
