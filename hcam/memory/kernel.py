"""The acting read as one GPU kernel: every recalled chunk is read once, straight from the ring it lies in.

Written in plain JAX, fetching k chunks is a copy, adding positions another, and attending reads both: five passes over
what one suffices for. Chunks that are not there yet are not read at all, and early in an episode those are most.
`plain` is the same in plain JAX: the kernel's oracle, and its gradient.
"""

from typing import Any

import jax
import jax.numpy as jnp

from .layers import softmax, spread
from .types import Array

FEWEST = 16  # rows and columns of the smallest product that the GPU's matrix units take


def suits(chunk: int, width: int, dtype: str) -> bool:
    """Is there a GPU, and are the sizes what its matrix units take? In float32 they would round to 10 bits."""
    sizes_fit = all(size >= FEWEST and size & (size - 1) == 0 for size in (chunk, width))
    return jax.default_backend() == "gpu" and dtype == "bfloat16" and sizes_fit


@jax.custom_jvp
def attend(inner_hd: Array, row_rd: Array, begin_k: Array, weight_k: Array, count: Array, code_cd: Array) -> Array:
    """One query's heads inside k chunks of one ring, added up by relevance: [H, D].

    Args:
      inner_hd: the query as it meets stored steps, a row per head.
      row_rd: the ring.
      begin_k: the row at which each chunk begins; it goes on at row 0 where the ring ends.
      weight_k: relevances, float32.
      count: how many of the k to read, from the front.
      code_cd: what is added to the steps of a chunk.
    """
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    heads = inner_hd.shape[0]
    filled = max(FEWEST, 1 << (heads - 1).bit_length())  # a power of two, as all sizes in here
    filled_hd = jnp.pad(inner_hd, ((0, filled - heads), (0, 0)))

    def kernel(
        query_ref: Any, row_ref: Any, begin_ref: Any, weight_ref: Any, count_ref: Any, code_ref: Any, out: Any
    ) -> None:
        query_hd, code_cd = query_ref[...], code_ref[...]
        step_c = jnp.arange(code_cd.shape[0], dtype=jnp.int32)

        def add(k: Array, mixed_hd: Array) -> Array:
            content_cd = row_ref[(begin_ref[k] + step_c) % row_ref.shape[0], :] + code_cd
            logits_hc = jnp.dot(query_hd, content_cd.T, preferred_element_type=jnp.float32)
            # Rounded where the plain form rounds, so that acting stays as near to learning as it can.
            logits_hc = logits_hc.astype(content_cd.dtype).astype(jnp.float32)
            exp_hc = jnp.exp(logits_hc - logits_hc.max(-1, keepdims=True))
            within_hc = (exp_hc / exp_hc.sum(-1, keepdims=True)).astype(content_cd.dtype)
            weighted_hc = within_hc * weight_ref[k].astype(content_cd.dtype)
            return mixed_hd + jnp.dot(weighted_hc, content_cd, preferred_element_type=jnp.float32)

        mixed_hd = jax.lax.fori_loop(0, count_ref[0], add, jnp.zeros(query_hd.shape, jnp.float32))
        out[...] = mixed_hd.astype(out.dtype)

    mixed_hd: Array = pl.pallas_call(
        kernel,
        out_shape=jax.typeof(filled_hd),
        compiler_params=triton.CompilerParams(num_warps=8, num_stages=2),
        interpret=jax.default_backend() != "gpu",
        name="recall",
    )(filled_hd, row_rd, begin_k, weight_k, count[None], code_cd)
    return mixed_hd[:heads]


def plain(inner_hd: Array, row_rd: Array, begin_k: Array, weight_k: Array, count: Array, code_cd: Array) -> Array:
    chunk, (rows, _) = code_cd.shape[0], row_rd.shape
    step_c = jnp.arange(chunk, dtype=jnp.int32)
    content_kcd = row_rd[(begin_k[:, None] + step_c[None, :]) % rows]
    content_kcd += spread(code_cd, content_kcd)
    within_khc = softmax(jnp.einsum("hd,kcd->khc", inner_hd, content_kcd))
    weight_k = jnp.where(jnp.arange(len(weight_k)) < count, weight_k, 0.0)
    return jnp.einsum("khc,kcd->hd", within_khc * spread(weight_k[:, None, None], within_khc), content_kcd)


@attend.defjvp
def _attend_jvp(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
    return attend(*primals), jax.jvp(plain, primals, tangents)[1]
