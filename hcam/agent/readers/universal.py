"""A Universal Transformer (Dehghani et al. 2019) that attends over all items of a memory and of a query as tokens.

One layer with the same weights is applied again and again. Each token stops by adaptive computation time, or all after
a fixed number of hops. The order of the chunks tells nothing, so tokens have no position in the sequence: they have a
code for their place in a chunk or their role in the query, and attention knows which tokens are of the same chunk.
"""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp

from hcam.agent.network import Network
from hcam.agent.readers import given, halting
from hcam.agent.readers.given import Sizes
from hcam.envs.spaces import Spaces
from hcam.memory import checks
from hcam.memory.layers import broadcast_like, init_linear, init_mlp, layer_norm, linear, mlp, sinusoids, to_float32
from hcam.memory.stack import scale_down
from hcam.memory.window import split_heads
from hcam.types import Array, Observation, Output, Params

NEAR = 4.0  # at first, what half of the heads add to the logits of two items of one chunk
STOP_BIAS = -3.0  # at first, all hops are made: who stops after two never learns what the others would be good for


@dataclass(frozen=True, kw_only=True)
class UniversalTransformer:
    """The same layer over all items, again and again."""

    width: int = 512
    heads: int = 8
    mlp: int = 4  # hidden width of the layer's MLP over `width`
    hops: int = 6  # how often the layer is applied, at most
    halting: str = "learned"  # each token stops by itself; or "fixed": all after the last hop
    ponder: float = 1e-3  # the price of a hop, where halting is learned
    tied_start: bool = False  # begin with equal queries and keys in the other half of the heads: what is alike attends

    def __post_init__(self) -> None:
        given.check(self)
        checks.depth(hops=self.hops)
        checks.choice(halting.MODES, halting=self.halting)

    def network(self, space: Spaces, actions: int, dtype: str) -> Network:
        found = given.sizes("ut", space, actions)
        return Network(partial(init_params, self, found), partial(answer, self, dtype))


def init_params(config: UniversalTransformer, found: Sizes, key: Array) -> Params:
    key_given, key_roles, key_place, key_attention, key_mlp, key_stop = jax.random.split(key, 6)
    width, attention = config.width, given.init_attention(key_attention, config.width)
    if config.tied_start:
        attention |= {"key": {"w": tied(attention, config.heads)}}
    return (
        given.init(key_given, found, width)
        | given.init_roles(key_roles, width)
        | {
            "place": given.ROLE_SCALE * jax.random.normal(key_place, (found.items, width), jnp.float32),
            "attention": scale_down(attention),
            "near": init_near(config.heads, found.items),
            "mlp": scale_down(init_mlp(key_mlp, width, config.mlp * width)),
            "stop": init_linear(key_stop, width, 1, scale=1e-2) | {"b": jnp.full(1, STOP_BIAS, jnp.float32)},
        }
    )


def init_near(heads: int, items: int) -> Array:
    """Every other head begins by attending to the other items of a token's own chunk."""
    other_cc = NEAR * (1 - jnp.eye(items, dtype=jnp.float32))
    return jnp.stack([other_cc if head % 2 == 0 else jnp.zeros_like(other_cc) for head in range(heads)])


def tied(attention: Params, heads: int) -> Array:
    """The keys' weights with those of the queries in the heads that do not begin by attending within chunks."""
    query_dhs, key_dhs = (split_heads(attention[name]["w"], heads) for name in ("query", "key"))
    free_h1 = (jnp.arange(heads) % 2 == 1)[:, None]
    return jnp.where(free_h1, query_dhs, key_dhs).reshape(attention["key"]["w"].shape)


def answer(config: UniversalTransformer, dtype: str, params: Params, observation: Observation) -> Output:
    seen = given.embed(params, observation, dtype)
    chunks, items, width = seen.content_mcd.shape
    content_mcd = seen.content_mcd + broadcast_like(params["place"], seen.content_mcd)
    x_td = jnp.concatenate([content_mcd.reshape(-1, width), given.with_roles(params, seen.query_qd)])
    known_t = jnp.concatenate([jnp.repeat(seen.known_m, items), jnp.ones(len(seen.query_qd), bool)])
    bias_htt = near_bias(params["near"], chunks, len(seen.query_qd))
    bias_htt = bias_htt + given.mask_bias(known_t, bias_htt.shape)
    code_nd = sinusoids(range(config.hops), width)

    def hop(x_td: Array, code_d: Array) -> tuple[Array, tuple[Array, Array]]:
        x_td = x_td + broadcast_like(code_d, x_td)
        normal_td = layer_norm(params["attention"]["norm"], x_td)
        y_td = x_td + given.attend(params["attention"], normal_td, normal_td, config.heads, bias_htt)
        y_td = y_td + mlp(params["mlp"], y_td)
        return y_td, (y_td, jax.nn.sigmoid(to_float32(linear(params["stop"], y_td))[:, 0]))

    _, (y_ntd, stop_nt) = jax.lax.scan(hop, x_td, code_nd)
    if config.halting == "fixed":
        return given.answer(params, y_ntd[-1, chunks * items :].mean(0), seen.query_qd)
    share_nt, cost_t = halting.adaptive_shares(stop_nt)
    y_td = jnp.einsum("nt,ntd->td", share_nt.astype(y_ntd.dtype), y_ntd)
    penalty = config.ponder * jnp.where(known_t, cost_t, 0.0).sum() / known_t.sum().astype(jnp.float32)
    return given.answer(params, y_td[chunks * items :].mean(0), seen.query_qd, penalty)


def near_bias(near_hcc: Array, chunks: int, query: int) -> Array:
    """What each head adds to the logits [H, T, T] of two items of one chunk, by their places in it; 0 elsewhere."""
    heads, items, _ = near_hcc.shape
    same_mm = jnp.eye(chunks, dtype=near_hcc.dtype)
    bias = jnp.einsum("mn,hcd->hmcnd", same_mm, near_hcc).reshape(heads, chunks * items, chunks * items)
    return jnp.pad(to_float32(bias), ((0, 0), (0, query), (0, query)))
