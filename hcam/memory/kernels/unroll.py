"""Learning: all queries of an unroll attend inside the chunks that they recall, and the gradient of that.

In plain JAX every query attends inside every chunk, including those that are not complete yet, which are most of them
early in an episode. The kernels skip a chunk if no query of a block has a weight for it, and read the others in place:
stored chunks in the ring, new ones among the unroll's own rows. The position code of a chunk is not added to its rows:
it is the same in all chunks, so the caller adds its part of the logits before and its part of the answer after.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from ..layers import broadcast_like, softmax, to_float32
from ..types import Array
from .common import call, product

ROWS = 128  # (query, head) pairs that one program handles
COLUMNS = 256  # features of the answer that one program sums: with these sizes its values just fit into registers
WARPS = 8  # four warps share one instruction of the matrix units, which takes 64 rows: 8 warps have 128
STAGES = 2

Parts = tuple[Array, ...]  # chunks [M, C, D], one array for each place where they are stored


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def recall(k: int, inner_qhd: Array, code_qhc: Array, parts: Parts, weight_qm: Array) -> tuple[Array, Array]:
    """Every query's attention inside the chunks for which it has a nonzero weight, summed by that weight.

    No gradient flows into the chunks, nor into a weight that is zero (which is one outside the top k).

    Args:
      k: how many nonzero weights a query has at most.
      inner_qhd: the queries with the key projection applied.
      code_qhc: the position code's logits for the steps of a chunk.
      parts: the chunks.
      weight_qm: relevances of the chunks of all parts, float32.

    Returns:
      The weighted sum of rows [Q, H, D], and the total weight of each step of a chunk over all chunks [Q, H, C].
    """
    return _recall(k, inner_qhd, code_qhc, parts, weight_qm)[0]


def plain_recall(inner_qhd: Array, code_qhc: Array, parts: Parts, weight_qm: Array) -> tuple[Array, Array]:
    """`recall` in plain JAX; all queries attend inside all chunks."""
    content_mcd = jnp.concatenate(parts)
    weighted_qhmc = plain_within(inner_qhd, code_qhc, content_mcd)
    weighted_qhmc *= broadcast_like(weight_qm[:, None, :, None], weighted_qhmc)
    return jnp.einsum("qhmc,mcd->qhd", weighted_qhmc, content_mcd), weighted_qhmc.sum(2)


def plain_within(inner_qhd: Array, code_qhc: Array, content_mcd: Array) -> Array:
    """The attention of every query inside every chunk, [Q, H, M, C]."""
    logits_qhmc = jnp.einsum("qhd,mcd->qhmc", inner_qhd, content_mcd)
    return softmax(logits_qhmc + broadcast_like(code_qhc[:, :, None], logits_qhmc))


def _recall(
    k: int, inner_qhd: Array, code_qhc: Array, parts: Parts, weight_qm: Array
) -> tuple[tuple[Array, Array], Array]:
    """The results of `recall`, and for the gradient the attention inside the chunks that were read, [M, R, C]."""
    rows = [_rows(inner_qhd), _rows(code_qhc), _weights(weight_qm, inner_qhd.shape[1])]
    out = [jax.typeof(rows[0]), jax.typeof(rows[1])]
    out += [out[1].update(shape=(weight_qm.shape[1], *out[1].shape))]
    mixed_rd, seen_rc, within_mrc = _call(_recall_kernel, "recall_unroll", k, rows, parts, out)
    return (_by_query(mixed_rd, inner_qhd), _by_query(seen_rc, inner_qhd)), within_mrc


def _gradients(
    k: int, parts: Parts, weight_qm: Array, within_mrc: Array, cotangent: tuple[Array, Array]
) -> tuple[Array, Array, Array]:
    """The gradients of queries, code logits and weights."""
    heads = cotangent[0].shape[1]
    rows = [*map(_rows, cotangent), _weights(weight_qm, heads), within_mrc]
    found = _call(_gradient_kernel, "recall_pull", k, rows, parts, [jax.typeof(x_r) for x_r in rows[:3]])
    gradient_qhd, gradient_qhc, weight_qhm = (_by_query(x_r, cotangent[0]) for x_r in found)
    # The kernel skips chunks for which no row of a block has a weight: it never wrote their gradients.
    return gradient_qhd, gradient_qhc, jnp.where(weight_qm != 0, weight_qhm.sum(1), 0.0)


def _rows(x_qhn: Array) -> Array:
    """One row per query and head, padded with zero rows to a multiple of ROWS."""
    x_rn = x_qhn.reshape(-1, x_qhn.shape[-1])
    return jnp.pad(x_rn, ((0, -len(x_rn) % ROWS), (0, 0)))


def _weights(weight_qm: Array, heads: int) -> Array:
    return _rows(jnp.broadcast_to(weight_qm[:, None], (len(weight_qm), heads, weight_qm.shape[1])))


def _by_query(x_rn: Array, like_qhd: Array) -> Array:
    queries, heads, _ = like_qhd.shape
    return x_rn[: queries * heads].reshape(queries, heads, -1)


def _call(kernel: Any, name: str, k: int, rows: Sequence[Array], parts: Parts, out: Sequence[Any]) -> Any:
    """Runs a kernel over blocks of rows, and over blocks of columns of the first input and the first output.

    A program reads the columns of queries and chunks in as many pieces as there are column blocks, its own block
    first. `rows[2]` holds the weights.
    """
    from jax.experimental import pallas as pl

    (size, width), chunk, weight_rm = rows[0].shape, parts[0].shape[1], rows[2]
    columns, blocks = min(COLUMNS, width), size // ROWS
    pieces = width // columns

    def block(x: Array) -> Any:
        if x.ndim == 3:
            return pl.BlockSpec((x.shape[0], ROWS, x.shape[2]), lambda b, n: (0, b, 0))
        return pl.BlockSpec((ROWS, x.shape[1]), lambda b, n: (b, 0))

    def piece(shape: tuple[int, ...], rows: Callable[[Any], tuple[Any, ...]], p: int) -> Any:
        return pl.BlockSpec((*shape, columns), lambda b, n: (*rows(b), (n + p) % pieces))

    args = [rows[0]] * pieces + list(rows[1:])
    specs = [piece((ROWS,), lambda b: (b,), p) for p in range(pieces)] + [block(x) for x in rows[1:]]
    begin = 0
    for content_mcd in parts:
        slots = len(content_mcd)
        wanted_bm = (weight_rm[:, begin : begin + slots].reshape(blocks, ROWS, slots) != 0).any(1)
        order_bm = jnp.argsort(~wanted_bm, axis=-1, stable=True).astype(jnp.int32)
        args += [order_bm, wanted_bm.sum(-1, dtype=jnp.int32), *[content_mcd] * pieces]
        specs += [pl.BlockSpec((None, slots), lambda b, n: (b, 0)), pl.BlockSpec((1,), lambda b, n: (b,))]
        specs += [piece((slots, chunk), lambda b: (0, 0), p) for p in range(pieces)]
        begin += slots
    return call(
        partial(kernel, pieces),
        name,
        4 * size * width * chunk * k,
        warps=WARPS,
        stages=STAGES,
        grid=(blocks, pieces),
        in_specs=specs,
        out_specs=[piece((ROWS,), lambda b: (b,), 0), *(block(x) for x in out[1:])],
        out_shape=list(out),
    )(*args)


def _add_up(pieces: int, places: Sequence[Any], add: Callable[..., Any], own: Any, common: Any) -> None:
    """Writes the sums over all chunks with a weight, part by part; `places` are the arguments `_call` adds per part.

    Each program of a row block writes its own columns of the first sum. The second sum is the same in all of them, and
    the first program writes it.
    """
    from jax.experimental import pallas as pl

    sums, begin = (jnp.zeros(own.shape, jnp.float32), jnp.zeros(common.shape, jnp.float32)), 0
    for n in range(0, len(places), 2 + pieces):
        chunk, count, *contents = places[n : n + 2 + pieces]

        def add_chunk(n: Array, sums: Any, chunk: Any = chunk, contents: Any = contents, begin: int = begin) -> Any:
            found = add([content[chunk[n]] for content in contents], begin + chunk[n])
            return tuple(total + one for total, one in zip(sums, found, strict=True))

        sums = jax.lax.fori_loop(0, count[0], add_chunk, sums)
        begin += contents[0].shape[0]
    own[...] = sums[0].astype(own.dtype)

    @pl.when(pl.program_id(1) == 0)
    def _() -> None:
        common[...] = sums[1].astype(common.dtype)


def _products(left_rn: Sequence[Array], content_cn: Sequence[Array]) -> Array:
    """The products of rows and chunk steps [R, C], summed over the pieces of columns."""
    return sum((product(*pair) for pair in zip(left_rn, (x.T for x in content_cn), strict=True)), jnp.float32(0))


def _recall_kernel(pieces: int, *refs: Any) -> None:
    from jax.experimental import pallas as pl

    query, (code, weight), refs = refs[:pieces], refs[pieces : pieces + 2], refs[pieces + 2 :]
    query_rn, places, (out, seen, within) = [x[...] for x in query], refs[:-3], refs[-3:]
    writes = pl.program_id(1) == 0

    def add(content_cn: list[Array], chunk: Array) -> tuple[Array, Array]:
        logits_rc = _products(query_rn, content_cn) + to_float32(code[...])
        exp_rc = jnp.exp(logits_rc - logits_rc.max(-1, keepdims=True))
        within_rc = exp_rc / exp_rc.sum(-1, keepdims=True)

        @pl.when(writes)
        def _() -> None:
            within[chunk] = within_rc.astype(within.dtype)

        weighted_rc = (within_rc * weight[:, chunk][:, None]).astype(within.dtype)
        return product(weighted_rc, content_cn[0]), to_float32(weighted_rc)

    _add_up(pieces, places, add, out, seen)


def _gradient_kernel(pieces: int, *refs: Any) -> None:
    from jax.experimental import pallas as pl

    cotangent, (cotangent_seen, weight, within), refs = refs[:pieces], refs[pieces : pieces + 3], refs[pieces + 3 :]
    cotangent_rn, places, (query_out, code_out, weight_out) = [x[...] for x in cotangent], refs[:-3], refs[-3:]
    writes = pl.program_id(1) == 0

    def add(content_cn: list[Array], chunk: Array) -> tuple[Array, Array]:
        within_rc = to_float32(within[chunk])
        grad_rc = within_rc * (_products(cotangent_rn, content_cn) + to_float32(cotangent_seen[...]))
        grad_r = grad_rc.sum(-1)

        @pl.when(writes)
        def _() -> None:
            weight_out[:, chunk] = grad_r

        logits_rc = weight[:, chunk][:, None] * (grad_rc - within_rc * grad_r[:, None])
        return product(logits_rc.astype(cotangent_rn[0].dtype), content_cn[0]), logits_rc

    _add_up(pieces, places, add, query_out, code_out)


Residuals = tuple[Parts, Array, Array]


def _recall_forward(k: int, *args: Any) -> tuple[Any, Residuals]:
    *_, parts, weight_qm = args
    found, within_mrc = _recall(k, *args)
    return found, (parts, weight_qm, within_mrc)


def _recall_backward(k: int, residuals: Residuals, cotangent: tuple[Array, Array]) -> tuple[Any, ...]:
    gradient_qhd, gradient_qhc, gradient_qm = _gradients(k, *residuals, cotangent)
    return gradient_qhd, gradient_qhc, (None,) * len(residuals[0]), gradient_qm


recall.defvjp(_recall_forward, _recall_backward)
