"""Learning: all steps of an unroll attend, each over its own window, and the gradient of that.

In plain JAX the logits by age are shifted to the columns of their steps, and logits and weights go through memory, each
time in the layout that the next product wants. Here one program handles all steps of one head, reads the projections in
the layout in which they were written, and writes the answer alone; the backward pass computes the weights again.
"""

from collections.abc import Sequence
from functools import partial, reduce
from typing import Any

import jax
import jax.numpy as jnp

from .. import ring
from ..layers import to_float32
from ..types import Array
from . import common
from .common import MASKED_LOGIT, call, product

MAX_LOGITS = 64 * 128  # of one head: a program's values must fit into registers
WARPS, STAGES = 4, 1


def supported(window: int, steps: int, features: int, dtype: Any) -> bool:
    """True on a GPU for an unroll of `steps` steps after `window` stored rows, with `features` per head."""
    sizes = all(common.supported(rows, features, dtype) for rows in (window, steps))
    return sizes and steps * (window + steps) <= MAX_LOGITS


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def attend(scale: float, query_thd: Array, pair_j2hd: Array, age_thw: Array, start_t: Array) -> Array:
    """Each of T steps attends to the last W steps of its episode, its own included: [T, H, D].

    Args:
      scale: factor of the logits.
      query_thd: queries by head.
      pair_j2hd: keys and values, of W rows before the unroll (the oldest is outside every window) and of its own T.
      age_thw: terms added to the logits, by age.
      start_t: the index at which each step's episode starts, counted from the unroll's first step.
    """
    return _attend(scale, query_thd, pair_j2hd, age_thw, start_t)[0]


def plain_attend(scale: float, query_thd: Array, pair_j2hd: Array, age_thw: Array, start_t: Array) -> Array:
    """`attend` in plain JAX."""
    key_jhd, value_jhd = pair_j2hd[:, 0], pair_j2hd[:, 1]
    size = age_thw.shape[2]
    age_tj, within_tj, allowed_tj = _ages(ring.count(len(key_jhd)) - size, start_t, size)
    age_thj = jax.vmap(lambda age_hw, age_j: age_hw[:, age_j])(age_thw, jnp.where(within_tj, age_tj, 0))
    logits_thj = to_float32(jnp.einsum("thd,jhd->thj", query_thd, key_jhd)) + to_float32(age_thj)
    allowed_thj = jnp.broadcast_to(allowed_tj[:, None], logits_thj.shape)
    weight_thj = jax.nn.softmax(jnp.where(allowed_thj, logits_thj * scale, MASKED_LOGIT), axis=-1)
    return jnp.einsum("thj,jhd->thd", weight_thj.astype(value_jhd.dtype), value_jhd)


def _ages(index_j: Array, start_t: Array, size: int) -> tuple[Array, Array, Array]:
    """For each step T and row J: the row's age, whether it is inside the window, and whether the step may see it."""
    age_tj = ring.count(len(start_t))[:, None] - index_j[None, :]
    within_tj = (age_tj >= 0) & (age_tj < size)
    return age_tj, within_tj, within_tj & (index_j[None, :] >= start_t[:, None])


def _attend(scale: float, *args: Array) -> tuple[Array, Array]:
    """The answer, and for the gradient the logarithm of each softmax's denominator, [T, H, 1]."""
    *arrays, start_t = args
    answer = jax.typeof(arrays[0])
    total = answer.update(shape=(*answer.shape[:2], 1), dtype=jnp.dtype("float32"))
    found: tuple[Array, Array] = _call(
        partial(_attend_kernel, scale), "window_unroll", 4, arrays, start_t, [answer, total]
    )
    return found


def _call(body: Any, name: str, operations: int, arrays: Sequence[Array], start_t: Array, out: Sequence[Any]) -> Any:
    """Runs one program per head, on that head's part of arrays [rows, ..., heads, features]."""
    from jax.experimental import pallas as pl

    def part(x: Any) -> Any:
        *before, _, features = x.shape
        return pl.BlockSpec((*before, None, features), lambda h: (*[0] * len(before), h, 0))

    (steps, heads, features), rows = arrays[0].shape, arrays[1].shape[0]
    return call(
        body,
        name,
        operations * steps * rows * heads * features,
        warps=WARPS,
        stages=STAGES,
        grid=(heads,),
        in_specs=[*map(part, arrays), pl.BlockSpec((steps,), lambda h: (0,))],
        out_specs=[*map(part, out)],
        out_shape=list(out),
    )(*arrays, start_t)


def _places(steps: int, size: int) -> list[Any]:
    """Blocks of rows, none longer than a window, so that no two rows of a block have the same age modulo W."""
    from jax.experimental import pallas as pl

    block = min(steps, size)
    return [pl.dslice(0, size), *(pl.dslice(size + n, block) for n in range(0, steps, block))]


def _logits(
    scale: float, query_td: Array, key_nd: Array, age: Any, start_t: Array, where: Any
) -> tuple[Array, tuple[Array, Array], Array]:
    """The logits of one block of rows, the index of their ages in `age`, and whether those are inside the window."""
    (steps, size), row_n = age.shape, ring.count(where.size)
    age_tn, within_tn, allowed_tn = _ages(where.start - size + row_n, start_t, size)
    index = ring.count(steps)[:, None], age_tn & (size - 1)
    logits_tn = (product(query_td, key_nd.T) + to_float32(age[index])) * scale
    return jnp.where(allowed_tn, logits_tn, MASKED_LOGIT), index, within_tn


def _attend_kernel(scale: float, query: Any, pair: Any, age: Any, start: Any, out: Any, total_out: Any) -> None:
    query_td, start_t, places = query[...], start[...], _places(*age.shape)
    logits = [_logits(scale, query_td, pair[where, 0, :], age, start_t, where)[0] for where in places]
    top_t = reduce(jnp.maximum, (logits_tn.max(-1) for logits_tn in logits))
    total_t, mixed_td = jnp.zeros(top_t.shape, jnp.float32), jnp.zeros(out.shape, jnp.float32)
    for where, logits_tn in zip(places, logits, strict=True):
        exp_tn = jnp.exp(logits_tn - top_t[:, None])
        total_t += exp_tn.sum(-1)
        mixed_td += product(exp_tn.astype(pair.dtype), pair[where, 1, :])
    out[...] = (mixed_td / total_t[:, None]).astype(out.dtype)
    total_out[...] = (top_t + jnp.log(total_t))[:, None]


def _gradient_kernel(scale: float, *refs: Any) -> None:
    from jax.experimental.pallas import triton

    query, pair, age, answer, total, cotangent, start, query_out, pair_out, age_out = refs
    query_td, cotangent_td, total_t1, start_t, dtype = query[...], cotangent[...], total[...], start[...], query.dtype
    grad_t1 = (to_float32(cotangent_td) * to_float32(answer[...])).sum(-1, keepdims=True)
    gradient_td = jnp.zeros(query_td.shape, jnp.float32)
    for where in _places(*age.shape):
        key_nd = pair[where, 0, :]
        logits_tn, index, within_tn = _logits(scale, query_td, key_nd, age, start_t, where)
        weight_tn = jnp.exp(logits_tn - total_t1)
        grad_tn = (weight_tn * (product(cotangent_td, pair[where, 1, :].T) - grad_t1) * scale).astype(dtype)
        pair_out[where, 1, :] = product(weight_tn.astype(dtype).T, cotangent_td).astype(dtype)
        pair_out[where, 0, :] = product(grad_tn.T, query_td).astype(dtype)
        gradient_td += product(grad_tn, key_nd)
        # Every age of every step belongs to a row of one block, so together the blocks write all of `age_out`.
        triton.store(age_out.at[index], grad_tn, mask=within_tn)
    query_out[...] = gradient_td.astype(dtype)


def _forward(scale: float, *args: Array) -> tuple[Array, tuple[Array, ...]]:
    answer_thd, total_th1 = _attend(scale, *args)
    return answer_thd, (*args, answer_thd, total_th1)


def _backward(scale: float, residuals: tuple[Array, ...], cotangent_thd: Array) -> tuple[Any, ...]:
    *arrays, start_t, answer_thd, total_th1 = residuals
    given = [*arrays, answer_thd, total_th1, cotangent_thd]
    out = [jax.typeof(x) for x in arrays]
    # The kernel does ten, two of which compute the weights again: what is computed twice counts once.
    return *_call(partial(_gradient_kernel, scale), "window_pull", 8, given, start_t, out), None


attend.defvjp(_forward, _backward)
