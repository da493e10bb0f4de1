"""Acting, one step of one environment: write its row into the ring and attend to the last W rows."""

from typing import Any

import jax
import jax.numpy as jnp

from .. import ring
from ..layers import EPSILON, normalise, softmax, to_float32
from ..types import Array
from .common import MASKED_LOGIT, call, padded_heads, product

BLOCK = 32  # rows that a program reads at a time
PART = 128  # features that it reads at a time in a window of one block: fewer registers, so more programs per core


@jax.custom_jvp
def attend(query_hd: Array, age_hw: Array, row_rd: Array, x_d: Array, time: Array) -> tuple[Array, Array]:
    """Writes a step's row into the ring and attends to the last W rows, which are normalised first.

    Args:
      query_hd: the query with the key projection applied, scaled, one row per head.
      age_hw: terms added to the logits, by age; float32.
      row_rd: the ring, changed in place if the caller donates it.
      x_d: this step's row, of age 0.
      time: the step's time in its episode; rows older than the episode are masked.

    Returns:
      The ring, and the weighted sum of normalised rows [H, D].
    """
    (heads, width), steps = query_hd.shape, age_hw.shape[1]
    result: tuple[Array, Array] = call(
        _short if steps <= BLOCK else _long,
        "window_step",
        4 * heads * width * steps,
        warps=4,
        stages=1,
        out_shape=(jax.typeof(row_rd), jax.typeof(query_hd)),
        input_output_aliases={4: 0},
    )(query_hd, age_hw, x_d.astype(row_rd.dtype), time[None], row_rd)
    return result


def _short(query: Any, age: Any, x: Any, time: Any, row: Any, row_out: Any, out: Any) -> None:
    """All W rows at once. The products take them unnormalised; mean and deviation are corrected in the results."""
    from jax.experimental import pallas as pl

    (heads, width), rows, steps = query.shape, row.shape[0], age.shape[1]
    head, age_w, now = ring.count(padded_heads(heads)) % heads, ring.count(steps), time[0]
    place_w, parts = (now - age_w + rows) % rows, [pl.dslice(n, min(PART, width)) for n in range(0, width, PART)]

    def rows_of(part: Any) -> Array:
        result: Array = jnp.where((age_w == 0)[:, None], x[part][None, :], row[place_w, part])
        return result

    sum_w, square_w = jnp.zeros(steps, jnp.float32), jnp.zeros(steps, jnp.float32)
    total_h, logits_hw = jnp.zeros(len(head), jnp.float32), jnp.zeros((len(head), steps), jnp.float32)
    for part in parts:
        row_we, query_he = rows_of(part), query[head, part]
        sum_w += to_float32(row_we).sum(-1)
        square_w += jnp.square(to_float32(row_we)).sum(-1)
        total_h += to_float32(query_he).sum(-1)
        logits_hw += product(query_he, row_we.T)
    mean_w, narrow_w = _moments(sum_w, square_w, width)
    logits_hw = (logits_hw - total_h[:, None] * mean_w[None]) * narrow_w[None] + age[head, :]
    logits_hw = jnp.where((age_w <= now)[None], logits_hw, MASKED_LOGIT)
    exp_hw = jnp.exp(logits_hw - logits_hw.max(-1, keepdims=True))
    scaled_hw = exp_hw * (narrow_w[None] / exp_hw.sum(-1, keepdims=True))
    mean_h = (scaled_hw * mean_w[None]).sum(-1)
    for part in parts:
        out[head, part] = (product(scaled_hw.astype(row.dtype), rows_of(part)) - mean_h[:, None]).astype(out.dtype)
    row_out[now % rows, :] = x[...]


def _long(query: Any, age: Any, x: Any, time: Any, row: Any, row_out: Any, out: Any) -> None:
    """Block after block, with a running maximum: sums are rescaled whenever a block raises it."""
    from jax.experimental import pallas as pl

    (heads, width), rows, steps = query.shape, row.shape[0], age.shape[1]
    size = padded_heads(heads)
    head, step_b, now = ring.count(size) % heads, ring.count(BLOCK), time[0]
    query_hd, x_d = query[head, :], x[...]
    total_h = to_float32(query_hd).sum(-1)

    def add(n: Array, carry: tuple[Array, ...]) -> tuple[Array, ...]:
        mixed_hd, mean_h, top_h, sum_h = carry
        age_b = n * BLOCK + step_b
        row_bd = jnp.where((age_b == 0)[:, None], x_d[None, :], row[(now - age_b + rows) % rows, :])
        mean_b, narrow_b = _moments(to_float32(row_bd).sum(-1), jnp.square(to_float32(row_bd)).sum(-1), width)
        logits_hb = (product(query_hd, row_bd.T) - total_h[:, None] * mean_b[None]) * narrow_b[None]
        logits_hb += age[head, pl.dslice(n * BLOCK, BLOCK)]
        logits_hb = jnp.where((age_b <= now)[None], logits_hb, MASKED_LOGIT)
        best_h = jnp.maximum(top_h, logits_hb.max(-1))
        fade_h, weight_hb = jnp.exp(top_h - best_h), jnp.exp(logits_hb - best_h[:, None])
        scaled_hb = weight_hb * narrow_b[None]
        mixed_hd = mixed_hd * fade_h[:, None] + product(scaled_hb.astype(row_bd.dtype), row_bd)
        mean_h = mean_h * fade_h + (scaled_hb * mean_b[None]).sum(-1)
        return mixed_hd, mean_h, best_h, sum_h * fade_h + weight_hb.sum(-1)

    zeros_h = jnp.zeros(size, jnp.float32)
    begin = jnp.zeros((size, width), jnp.float32), zeros_h, zeros_h + MASKED_LOGIT, zeros_h
    mixed_hd, mean_h, _, sum_h = jax.lax.fori_loop(0, jnp.minimum(now // BLOCK + 1, steps // BLOCK), add, begin)
    out[head, :] = ((mixed_hd - mean_h[:, None]) / sum_h[:, None]).astype(out.dtype)
    row_out[now % rows, :] = x_d


def _moments(sum_b: Array, square_b: Array, width: int) -> tuple[Array, Array]:
    """Mean, and one over the standard deviation, from the sums of one pass.

    A second pass would need all rows in float32 at once. The cancellation matters only where a mean is hundreds of
    deviations, which bfloat16 cannot represent anyway.
    """
    mean_b = sum_b / width
    return mean_b, jax.lax.rsqrt(jnp.maximum(square_b / width - mean_b * mean_b, 0.0) + EPSILON)


def plain_attend(query_hd: Array, age_hw: Array, row_rd: Array, x_d: Array, time: Array) -> tuple[Array, Array]:
    """`attend` in plain JAX."""
    row_rd = ring.put(row_rd, time, x_d)
    row_wd, logits_hw, allowed_hw = last_rows(query_hd, age_hw, row_rd, time)
    return row_rd, softmax(jnp.where(allowed_hw, logits_hw, MASKED_LOGIT)).astype(row_wd.dtype) @ row_wd


def last_rows(query_hd: Array, age_hw: Array, row_rd: Array, time: Array) -> tuple[Array, Array, Array]:
    """The last W rows, normalised; the logits [H, W]; and a mask of the rows that belong to this episode."""
    age_w = ring.count(age_hw.shape[1])
    row_wd = normalise(row_rd[(time - age_w) % row_rd.shape[0]])
    return row_wd, to_float32(query_hd @ row_wd.T) + age_hw, jnp.broadcast_to(age_w <= time, age_hw.shape)


@attend.defjvp
def _attend_jvp(primals: Any, tangents: Any) -> Any:
    return attend(*primals), jax.jvp(plain_attend, primals, tangents)[1]
