"""The learning read: every query's heads inside the chunks that it recalls, and its gradient.

In plain JAX all queries attend inside all chunks, also those that are not there yet, which early in an episode are
most; the kernels skip chunks that nobody in a block of queries has a weight for.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from .kernel import call, product
from .layers import softmax, spread
from .types import Array

ROWS = 64  # queries times heads that share a look at a chunk
WARPS = 8  # with these, what a program holds just fits into registers
STAGES = 2


def _attention(query_rd: Array, content_cd: Array) -> Array:
    """Inside one chunk, [R, C] in float32."""
    logits_rc = product(query_rd, content_cd.T)
    exp_rc = jnp.exp(logits_rc - logits_rc.max(-1, keepdims=True))
    return exp_rc / exp_rc.sum(-1, keepdims=True)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def unroll(k: int, inner_qhd: Array, content_mcd: Array, weight_qm: Array) -> Array:
    """All queries' heads inside all chunks that have a weight, at most k for each, added up by it: [Q, H, D].

    No gradient flows into `content_mcd`, nor into a weight that is zero: it is one that was cut off.
    """
    mixed_qhd: Array = _unroll(k, inner_qhd, content_mcd, weight_qm)[0]
    return mixed_qhd


def plain_unroll(inner_qhd: Array, content_mcd: Array, weight_qm: Array) -> Array:
    within_qhmc = softmax(jnp.einsum("qhd,mcd->qhmc", inner_qhd, content_mcd))
    return jnp.einsum("qhmc,mcd->qhd", within_qhmc * spread(weight_qm[:, None, :, None], within_qhmc), content_mcd)


def _unroll(
    k: int, inner_qhd: Array, content_mcd: Array, weight_qm: Array, pulled_qhd: Array | None = None
) -> tuple[Any, ...]:
    """With `pulled_qhd`, the gradient of what the read answered, the gradients of query and weight instead."""
    from jax.experimental import pallas as pl

    queries, heads, width = inner_qhd.shape
    slots, chunk, _ = content_mcd.shape
    blocks = -(-queries * heads // ROWS)

    def fill(x_rd: Array) -> Array:
        return jnp.pad(x_rd, ((0, blocks * ROWS - queries * heads), (0, 0)))

    weight_rm = fill(jnp.repeat(weight_qm, heads, axis=0))
    wanted_bm = (weight_rm.reshape(blocks, ROWS, slots) != 0).any(1)
    chunk_bm = jnp.argsort(~wanted_bm, axis=-1, stable=True).astype(jnp.int32)
    args = [fill(inner_qhd.reshape(-1, width)), content_mcd, weight_rm, chunk_bm, wanted_bm.sum(-1, dtype=jnp.int32)]
    rows, weights = pl.BlockSpec((ROWS, width), lambda b: (b, 0)), pl.BlockSpec((ROWS, slots), lambda b: (b, 0))
    ours = pl.BlockSpec((None, slots), lambda b: (b, 0))
    specs = [rows, pl.BlockSpec((slots, chunk, width), lambda b: (0, 0, 0)), weights, ours]
    specs += [pl.BlockSpec((1,), lambda b: (b,))]
    options: dict[str, Any] = {"grid": (blocks,), "warps": WARPS, "stages": STAGES}
    operations = 4 * queries * heads * width * chunk * k
    if pulled_qhd is None:
        options |= {"in_specs": specs, "out_specs": [rows], "out_shape": [jax.typeof(args[0])]}
        found = call(_unroll_kernel, "recall_unroll", operations, **options)(*args)
    else:
        out = [jax.typeof(args[0]), jax.typeof(weight_rm)]
        options |= {"in_specs": [*specs, rows], "out_specs": [rows, weights], "out_shape": out}
        found = call(_pull_kernel, "recall_pull", operations, **options)(*args, fill(pulled_qhd.reshape(-1, width)))
    used = [found_rd[: queries * heads].reshape(queries, heads, -1) for found_rd in found]
    return tuple(used)


def _unroll_kernel(query: Any, content: Any, weight: Any, chunk: Any, count: Any, out: Any) -> None:
    query_rd = query[...]

    def add(n: Array, mixed_rd: Array) -> Array:
        content_cd, weight_r = content[chunk[n]], weight[:, chunk[n]]
        within_rc = _attention(query_rd, content_cd) * weight_r[:, None]
        return mixed_rd + product(within_rc.astype(content_cd.dtype), content_cd)

    out[...] = jax.lax.fori_loop(0, count[0], add, jnp.zeros(query_rd.shape, jnp.float32)).astype(out.dtype)


def _pull_kernel(
    query: Any, content: Any, weight: Any, chunk: Any, count: Any, pulled: Any, query_out: Any, weight_out: Any
) -> None:
    query_rd, pulled_rd = query[...], pulled[...]

    def add(n: Array, gradient_rd: Array) -> Array:
        content_cd, weight_r = content[chunk[n]], weight[:, chunk[n]]
        within_rc = _attention(query_rd, content_cd)
        pull_rc = within_rc * product(pulled_rd, content_cd.T)
        pull_r = pull_rc.sum(-1)
        weight_out[:, chunk[n]] = pull_r
        logits_rc = weight_r[:, None] * (pull_rc - within_rc * pull_r[:, None])
        return gradient_rd + product(logits_rc.astype(content_cd.dtype), content_cd)

    gradient_rd = jax.lax.fori_loop(0, count[0], add, jnp.zeros(query_rd.shape, jnp.float32))
    query_out[...] = gradient_rd.astype(query_out.dtype)


Kept = tuple[Array, Array, Array]


def _unroll_forward(k: int, *args: Array) -> tuple[Array, Kept]:
    inner_qhd, content_mcd, weight_qm = args
    return _unroll(k, *args)[0], (inner_qhd, content_mcd, weight_qm)


def _unroll_backward(k: int, kept: Kept, pulled_qhd: Array) -> tuple[Array, None, Array]:
    inner_qhd, _, weight_qm = kept
    gradient_qhd, weight_qhm = _unroll(k, *kept, pulled_qhd.astype(inner_qhd.dtype))
    # Chunks that nobody in a block of rows wants are not visited: what stands there was never written.
    return gradient_qhd, None, jnp.where(weight_qm != 0, weight_qhm.sum(1), 0.0)


unroll.defvjp(_unroll_forward, _unroll_backward)
