"""The read as GPU kernels: every recalled chunk is read once, and those that nobody recalls not at all.

Written in plain JAX, the acting read is a copy of k chunks, another to add positions, and two more passes to attend;
the learning read attends inside all chunks, also those that are not there yet, which early in an episode are most.
`plain_step` and `plain_unroll` are the same in plain JAX: the kernels' oracles.
"""

from typing import Any

import jax
import jax.numpy as jnp

from .layers import softmax, spread
from .types import Array

FEWEST = 16  # rows and columns of the smallest product that the GPU's matrix units take
ROWS = 64  # queries times heads that share a look at a chunk, in learning
WARPS = 8  # with these, what a program holds fits into registers
LARGEST = 32 * 512  # elements of a chunk, and
WIDEST = 512  # features: what a program holds must fit into shared memory as well


def suits(chunk: int, width: int, dtype: Any) -> bool:
    """Is there a GPU, and are the sizes what it takes? In float32 its matrix units would round to 10 bits."""
    powers = all(size >= FEWEST and size & (size - 1) == 0 for size in (chunk, width))
    fits = width <= WIDEST and chunk * width <= LARGEST
    return jax.default_backend() == "gpu" and jnp.dtype(dtype) == jnp.bfloat16 and powers and fits


def _attention(query_rd: Array, content_cd: Array) -> Array:
    """Inside one chunk, [R, C] in float32; logits are rounded as in the plain forms, so that acting equals learning."""
    logits_rc = jnp.dot(query_rd, content_cd.T, preferred_element_type=jnp.float32)
    logits_rc = logits_rc.astype(content_cd.dtype).astype(jnp.float32)
    exp_rc = jnp.exp(logits_rc - logits_rc.max(-1, keepdims=True))
    return exp_rc / exp_rc.sum(-1, keepdims=True)


def _mix(within_rc: Array, weight: Array, content_cd: Array) -> Array:
    weighted_rc = within_rc.astype(content_cd.dtype) * weight.astype(content_cd.dtype)
    return jnp.dot(weighted_rc, content_cd, preferred_element_type=jnp.float32)


def _call(kernel: Any, name: str, **options: Any) -> Any:
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    params = triton.CompilerParams(num_warps=WARPS, num_stages=2)
    return pl.pallas_call(
        kernel, name=name, compiler_params=params, interpret=jax.default_backend() != "gpu", **options
    )


# Acting: one query ----------------------------------------------------------------------------------------------------


@jax.custom_jvp
def step(inner_hd: Array, row_rd: Array, begin_k: Array, weight_k: Array, count: Array, code_cd: Array) -> Array:
    """One query's heads inside k chunks of one ring, added up by relevance: [H, D].

    Args:
      inner_hd: the query as it meets stored steps, a row per head.
      row_rd: the ring.
      begin_k: the row at which each chunk begins; it goes on at row 0 where the ring ends.
      weight_k: relevances, float32.
      count: how many of the k to read, from the front.
      code_cd: what is added to the steps of a chunk.
    """
    heads = inner_hd.shape[0]
    filled = max(FEWEST, 1 << (heads - 1).bit_length())  # a power of two, as all sizes in here
    filled_hd = jnp.pad(inner_hd, ((0, filled - heads), (0, 0)))
    args = (filled_hd, row_rd, begin_k, weight_k, count[None], code_cd)
    mixed_hd: Array = _call(_step_kernel, "recall_step", out_shape=jax.typeof(filled_hd))(*args)
    return mixed_hd[:heads]


def _step_kernel(query: Any, row: Any, begin: Any, weight: Any, count: Any, code: Any, out: Any) -> None:
    query_hd, code_cd = query[...], code[...]
    step_c = jnp.arange(code_cd.shape[0], dtype=jnp.int32)

    def add(k: Array, mixed_hd: Array) -> Array:
        content_cd = row[(begin[k] + step_c) % row.shape[0], :] + code_cd
        return mixed_hd + _mix(_attention(query_hd, content_cd), weight[k], content_cd)

    out[...] = jax.lax.fori_loop(0, count[0], add, jnp.zeros(query_hd.shape, jnp.float32)).astype(out.dtype)


def plain_step(inner_hd: Array, row_rd: Array, begin_k: Array, weight_k: Array, count: Array, code_cd: Array) -> Array:
    step_c = jnp.arange(code_cd.shape[0], dtype=jnp.int32)
    content_kcd = row_rd[(begin_k[:, None] + step_c[None, :]) % row_rd.shape[0]]
    content_kcd += spread(code_cd, content_kcd)
    within_khc = softmax(jnp.einsum("hd,kcd->khc", inner_hd, content_kcd))
    weight_k = jnp.where(jnp.arange(len(weight_k)) < count, weight_k, 0.0)
    return jnp.einsum("khc,kcd->hd", within_khc * spread(weight_k[:, None, None], within_khc), content_kcd)


@step.defjvp
def _step_jvp(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
    return step(*primals), jax.jvp(plain_step, primals, tangents)[1]


# Learning: many queries -----------------------------------------------------------------------------------------------


@jax.custom_vjp
def unroll(inner_qhd: Array, content_mcd: Array, weight_qm: Array) -> Array:
    """All queries' heads inside all chunks that have a weight, added up by it: [Q, H, D].

    No gradient flows into `content_mcd`, nor into a weight that is zero: it is one that was cut off.
    """
    mixed_qhd: Array = _unroll(inner_qhd, content_mcd, weight_qm)[0]
    return mixed_qhd


def plain_unroll(inner_qhd: Array, content_mcd: Array, weight_qm: Array) -> Array:
    within_qhmc = softmax(jnp.einsum("qhd,mcd->qhmc", inner_qhd, content_mcd))
    return jnp.einsum("qhmc,mcd->qhd", within_qhmc * spread(weight_qm[:, None, :, None], within_qhmc), content_mcd)


def _unroll(inner_qhd: Array, content_mcd: Array, weight_qm: Array, pulled_qhd: Array | None = None) -> tuple[Any, ...]:
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
    options: dict[str, Any] = {"grid": (blocks,)}
    if pulled_qhd is None:
        options |= {"in_specs": specs, "out_specs": [rows], "out_shape": [jax.typeof(args[0])]}
        found = _call(_unroll_kernel, "recall_unroll", **options)(*args)
    else:
        out = [jax.typeof(args[0]), jax.typeof(weight_rm)]
        options |= {"in_specs": [*specs, rows], "out_specs": [rows, weights], "out_shape": out}
        found = _call(_pull_kernel, "recall_pull", **options)(*args, fill(pulled_qhd.reshape(-1, width)))
    used = [found_rd[: queries * heads].reshape(queries, heads, -1) for found_rd in found]
    return tuple(used)


def _unroll_kernel(query: Any, content: Any, weight: Any, chunk: Any, count: Any, out: Any) -> None:
    query_rd = query[...]

    def add(n: Array, mixed_rd: Array) -> Array:
        content_cd, weight_r = content[chunk[n]], weight[:, chunk[n]]
        return mixed_rd + _mix(_attention(query_rd, content_cd), weight_r[:, None], content_cd)

    out[...] = jax.lax.fori_loop(0, count[0], add, jnp.zeros(query_rd.shape, jnp.float32)).astype(out.dtype)


def _pull_kernel(
    query: Any, content: Any, weight: Any, chunk: Any, count: Any, pulled: Any, query_out: Any, weight_out: Any
) -> None:
    query_rd, pulled_rd = query[...], pulled[...]

    def add(n: Array, gradient_rd: Array) -> Array:
        content_cd, weight_r = content[chunk[n]], weight[:, chunk[n]]
        within_rc = _attention(query_rd, content_cd)
        pull_rc = within_rc * jnp.dot(pulled_rd, content_cd.T, preferred_element_type=jnp.float32)
        pull_r = pull_rc.sum(-1)
        weight_out[:, chunk[n]] = pull_r
        logits_rc = weight_r[:, None] * (pull_rc - within_rc * pull_r[:, None])
        return gradient_rd + jnp.dot(logits_rc.astype(content_cd.dtype), content_cd, preferred_element_type=jnp.float32)

    gradient_rd = jax.lax.fori_loop(0, count[0], add, jnp.zeros(query_rd.shape, jnp.float32))
    query_out[...] = gradient_rd.astype(query_out.dtype)


def _unroll_forward(inner_qhd: Array, content_mcd: Array, weight_qm: Array) -> tuple[Array, tuple[Array, Array, Array]]:
    return _unroll(inner_qhd, content_mcd, weight_qm)[0], (inner_qhd, content_mcd, weight_qm)


def _unroll_backward(kept: tuple[Array, Array, Array], pulled_qhd: Array) -> tuple[Array, None, Array]:
    inner_qhd, _, weight_qm = kept
    gradient_qhd, weight_qhm = _unroll(*kept, pulled_qhd.astype(inner_qhd.dtype))
    # Chunks that nobody in a block of rows wants are not visited: what stands there was never written.
    return gradient_qhd, None, jnp.where(weight_qm != 0, weight_qhm.sum(1), 0.0)


unroll.defvjp(_unroll_forward, _unroll_backward)
