"""An Episodic Planning Network: every transition of the episode is kept, and all of them attend to each other.

Ritter et al. (2020), "Rapid task-solving in novel environments". An item is one transition: the input before, and the
input of now, which must hold the action in between (the agent's `last_action`). At every step, the items of the episode
so far are compared with the present input and then go through rounds of self-attention with the same weights. The
maximum over all items, feature by feature, is what the step gets. A round can join two transitions that share a state
into a longer way, so R rounds reach ways of up to 2^R transitions.

All items attend to all others, old ones to newer ones as well, and the present input is part of each: so no step's
result can be used for the next, and T steps cost T times the rounds over N items. With width D and an MLP of F D:

    operations of a step   R (4 N^2 D + (8 + 4 F) N D^2), forward; acting and learning together take four times that
    bytes of a state       (N + 1) D numbers, the inputs alone, whatever the rounds
    bytes for a gradient   R ((8 + F) N D + H N^2) numbers for each step of an unroll

For N = 100, D = 128, R = 3 and F = 2 that is 94 million operations a step: work for a GPU, where it is one batched
product after another. On a CPU, take few items and a small width. A causal form, in which an item attends to older ones
only, would cost a hundredth; but in it what was seen later never changes what an old transition is good for.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from . import checks, ring
from .interface import define
from .layers import broadcast_like, init_linear, init_mlp, init_norm, layer_norm, linear, mlp, to_float32
from .stack import RESIDUAL_INIT_SCALE
from .types import Array, Memory, Params
from .window import masked_softmax, split_heads

LOWEST = -1e6  # of an item that is not there, before the maximum


@dataclass(frozen=True, kw_only=True)
class EPN:
    """Episodic Planning Network (Ritter et al. 2020): self-attention among all transitions of the episode."""

    width: int = 128
    heads: int = 4
    items: int = 200  # transitions that are kept: the last ones of the episode; the oldest is forgotten
    iterations: int = 3  # rounds of self-attention, with the same weights
    mlp: int = 2  # hidden width of a round's MLP over `width`

    def __post_init__(self) -> None:
        checks.sizes(self, "width", "heads", "items", "iterations", "mlp")
        checks.depth(iterations=self.iterations)
        checks.heads_divide(self.width, self.heads)

    def build(self, dtype: str) -> Memory:
        return define(
            self,
            dtype=dtype,
            init_params=partial(init_params, self),
            init_state=partial(init_state, self, dtype),
            step=partial(step, self),
            unroll=partial(unroll, self),
            undo=undo,
        )


class EPNState(NamedTuple):
    clock: Array  # int32, how many steps of the current episode are stored
    input_rd: Array  # the last N + 1 inputs, at row time % (N + 1): an item is two of them


def init_params(config: EPN, key: Array) -> Params:
    width = config.width
    keys = jax.random.split(key, 9)
    quiet = RESIDUAL_INIT_SCALE**2  # of a variance
    hidden = init_mlp(keys[5], width, config.mlp * width)
    hidden["out"]["w"] = RESIDUAL_INIT_SCALE * hidden["out"]["w"]
    return {
        "before": init_linear(keys[0], width, 2 * width, bias=False),  # item | match
        "now": init_linear(keys[1], width, 2 * width),  # item | match
        "present": init_linear(keys[2], width, 2 * width),  # item | match
        "round": {
            "norm": init_norm(width),
            "attend": init_linear(keys[3], width, 3 * width, bias=False),  # query | key | value
            "join": init_linear(keys[4], width, width, bias=False, scale=quiet),
            "mlp": hidden,
        },
        "norm": init_norm(width),
        "read": init_linear(keys[6], width, width, scale=2.0),
        "out": init_linear(keys[7], width, width, bias=False),
    }


def init_state(config: EPN, dtype: str) -> EPNState:
    """An empty memory. Its rows are never read before they are written, whatever they hold."""
    return EPNState(jnp.int32(0), jnp.zeros((config.items + 1, config.width), dtype))


def undo(before: EPNState, after: EPNState) -> EPNState:
    """`after` without its last step, which the next step then replaces: pass it the same `first`."""
    return after._replace(clock=before.clock)


def step(config: EPN, params: Params, state: EPNState, x_d: Array, first: Array) -> tuple[EPNState, Array]:
    """One step: the item that it adds is part of what it plans with."""
    time = jnp.where(first, 0, state.clock)
    row_rd = ring.put(state.input_rd, time, x_d)
    item_n2d = embed(params, ring.tail(row_rd, time + 1, config.items + 1))
    there_n = time - config.items + 1 + ring.count(config.items) > 0
    return EPNState(time + 1, row_rd), plan(config, params, item_n2d, there_n, x_d)


def unroll(config: EPN, params: Params, state: EPNState, x_td: Array, first_t: Array) -> tuple[EPNState, Array]:
    """T steps at once. Items are embedded once for all of them; step t plans with the N items that end at its own."""
    steps, items = x_td.shape[0], config.items
    start_t = ring.episode_starts(first_t, state.clock)
    row_jd = jnp.concatenate([ring.tail(state.input_rd, state.clock, items), x_td])
    item_j2d = embed(params, row_jd)  # item j ends at index j - N + 1
    index_tn = ring.count(steps)[:, None] + ring.count(items)[None, :]
    there_tn = index_tn - items + 1 > start_t[:, None]
    y_td = jax.vmap(partial(plan, config, params))(item_j2d[index_tn], there_tn, x_td)
    clock = steps - start_t[-1]
    return EPNState(clock, ring.write(state.input_rd, x_td, clock)), y_td


def embed(params: Params, row_jd: Array) -> Array:
    """The items between consecutive inputs, and what they are matched by: [J - 1, 2 D] of J inputs."""
    return linear(params["before"], row_jd[:-1]) + linear(params["now"], row_jd[1:])


def condition(params: Params, item_n2d: Array, x_d: Array) -> Array:
    """Items as they look from the present input: it is added to each, and so are products of the features of both.

    A product is large where an item and the present agree in something, such as the cell: sums alone would leave it to
    the MLPs to learn every pair of equal cells by heart.
    """
    (item_nd, match_nd), (x_item_d, x_match_d) = (
        jnp.split(both, 2, axis=-1) for both in (item_n2d, linear(params["present"], x_d))
    )
    return item_nd + broadcast_like(x_item_d, item_nd) + match_nd * broadcast_like(x_match_d, match_nd)


def plan(config: EPN, params: Params, item_n2d: Array, there_n: Array, x_d: Array) -> Array:
    """What one step makes of the items that are there: the input plus what it read. Without items, the input alone."""
    item_nd = condition(params, item_n2d, x_d)
    for _ in range(config.iterations):
        item_nd = attend(config, params["round"], item_nd, there_n)
    read_nd = jax.nn.relu(linear(params["read"], layer_norm(params["norm"], item_nd)))
    pooled_d = jnp.where(there_n[:, None], read_nd, jnp.asarray(LOWEST, read_nd.dtype)).max(0)
    pooled_d = jnp.where(there_n.any(), pooled_d, jnp.zeros_like(pooled_d))
    return x_d + linear(params["out"], pooled_d)


def attend(config: EPN, params: Params, item_nd: Array, there_n: Array) -> Array:
    """One round: every item attends to all that are there, then goes through an MLP."""
    projected_nd = linear(params["attend"], layer_norm(params["norm"], item_nd))
    query_nhd, key_nhd, value_nhd = (split_heads(part, config.heads) for part in jnp.split(projected_nd, 3, axis=-1))
    logits_hnm = to_float32(jnp.einsum("nhd,mhd->hnm", query_nhd, key_nhd)) / math.sqrt(query_nhd.shape[-1])
    weight_hnm = masked_softmax(logits_hnm, jnp.broadcast_to(there_n, logits_hnm.shape), None)
    answer_nhd = jnp.einsum("hnm,mhd->nhd", weight_hnm.astype(item_nd.dtype), value_nhd)
    item_nd = item_nd + linear(params["join"], answer_nhd.reshape(item_nd.shape))
    return item_nd + mlp(params["mlp"], item_nd)
