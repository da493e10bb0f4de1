"""A reader after MEMO (Banino et al. 2020): the items of a memory are kept apart, and a query hops over the memories.

Each chunk is one memory. Its items are embedded separately and stand side by side in its key and value projections, so
that each has weights of its own. One query attends to all memories again and again with the same weights, and a network
that sees how much the attention still changes says when to stop. MEMO learns to stop by REINFORCE; here the answer is
the mixture of the answers of all hops by the probability of stopping there, which has a gradient.
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
from hcam.memory.layers import broadcast_like, init_linear, init_mlp, init_norm, layer_norm, linear, mlp, softmax
from hcam.memory.stack import scale_down
from hcam.memory.window import split_heads
from hcam.types import Array, Observation, Output, Params

HIDDEN = 32  # of the network that says when to stop
TINY = 1e-9  # under a root, whose gradient at 0 is infinite


@dataclass(frozen=True, kw_only=True)
class Memo:
    """One query, several hops over memories whose items are kept apart."""

    width: int = 512
    heads: int = 8
    mlp: int = 4  # hidden width of a hop's MLP over `width`
    hops: int = 6  # how many there are, at most
    halting: str = "learned"  # when to stop; or "fixed": after the last hop
    ponder: float = 1e-3  # the price of a hop, where halting is learned
    tied_start: bool = False  # begin with keys that are like the queries of their items: what is alike is relevant

    def __post_init__(self) -> None:
        given.check(self)
        checks.depth(hops=self.hops)
        checks.choice(halting.MODES, halting=self.halting)

    def network(self, space: Spaces, actions: int, dtype: str) -> Network:
        found = given.sizes("memo", space, actions)
        return Network(partial(init_params, self, found), partial(answer, self, dtype))


def init_params(config: Memo, found: Sizes, key: Array) -> Params:
    key_given, key_begin, key_key, key_value, key_query, key_out, key_mlp, *stop = jax.random.split(key, 9)
    width = config.width
    begin = init_linear(key_begin, found.query * width, width)
    query = init_linear(key_query, width, width, bias=False)
    key_weights = init_linear(key_key, found.items * width, width, bias=False)
    if config.tied_start:
        key_weights = {"w": jnp.tile(begin["w"][:width] @ query["w"], (found.items, 1))}  # as the cue, at any place
    return given.init(key_given, found, width) | {
        "begin": begin,
        "memory": {"key": key_weights, "value": init_linear(key_value, found.items * width, width, bias=False)},
        "hop": scale_down(
            {
                "norm": init_norm(width),
                "query": query,
                "out": init_linear(key_out, width, width, bias=False),
            }
        ),
        "mlp": scale_down(init_mlp(key_mlp, width, config.mlp * width)),
        "stop": {"in": init_linear(stop[0], 1 + config.hops, HIDDEN), "out": init_linear(stop[1], HIDDEN, 1)},
    }


def answer(config: Memo, dtype: str, params: Params, observation: Observation) -> Output:
    seen = given.embed(params, observation, dtype)
    chunks = len(seen.known_m)
    apart_mx = seen.content_mcd.reshape(chunks, -1)
    key_mhs, value_mhs = (
        split_heads(linear(params["memory"][name], apart_mx), config.heads) for name in ("key", "value")
    )
    mask_hm = given.mask_bias(seen.known_m, (config.heads, chunks))

    def hop(carry: tuple[Array, Array], number: Array) -> tuple[tuple[Array, Array], tuple[Output, Array]]:
        x_d, before_hm = carry
        query_hs = split_heads(linear(params["hop"]["query"], layer_norm(params["hop"]["norm"], x_d)), config.heads)
        logits_hm = jnp.einsum("hs,mhs->hm", query_hs, key_mhs).astype(jnp.float32) / query_hs.shape[-1] ** 0.5
        weight_hm = softmax(logits_hm + mask_hm)
        y_d = jnp.einsum("hm,mhs->hs", weight_hm.astype(dtype), value_mhs).reshape(-1)
        x_d = x_d + linear(params["hop"]["out"], y_d)
        x_d = x_d + mlp(params["mlp"], x_d)
        stop = stop_probability(params["stop"], before_hm, weight_hm, number, config.hops)
        return (x_d, weight_hm), (given.answer(params, x_d, seen.query_qd), stop)

    begin = linear(params["begin"], seen.query_qd.reshape(-1)), jnp.zeros_like(mask_hm)
    _, (output_n, stop_n) = jax.lax.scan(hop, begin, jnp.arange(config.hops))
    if config.halting == "fixed":
        last: Output = jax.tree.map(lambda leaf_n: leaf_n[-1], output_n)
        return last
    share_n, count = halting.stopping_shares(stop_n)
    return mixed(output_n, share_n, config.ponder * count)


def stop_probability(params: Params, before_hm: Array, weight_hm: Array, number: Array, hops: int) -> Array:
    """From the overlap of the attention with that of the hop before (Bhattacharyya coefficient) and the hop's number.

    Attention learns from answers alone: no gradient reaches it from here.
    """
    overlap = jax.lax.stop_gradient(jnp.sqrt(before_hm * weight_hm + TINY).sum(-1).mean())
    seen = jnp.concatenate([overlap[None], jax.nn.one_hot(number, hops, dtype=jnp.float32)])
    hidden = jax.nn.relu(linear(to_float32_params(params["in"]), seen))
    return jax.nn.sigmoid(linear(to_float32_params(params["out"]), hidden)[0])


def to_float32_params(params: Params) -> Params:
    return jax.tree.map(lambda leaf: leaf.astype(jnp.float32), params)


def mixed(output_n: Output, share_n: Array, penalty: Array) -> Output:
    """The answer of a network that stops at hop n with probability `share_n`: probabilities are mixed, not logits."""
    log_share_n = jnp.log(share_n + TINY)
    log_policy_no = jax.nn.log_softmax(output_n.logits)
    logits_o = jax.nn.logsumexp(log_policy_no + broadcast_like(log_share_n[:, None], log_policy_no), axis=0)
    y_d = jnp.einsum("n,nd->d", share_n.astype(output_n.y_d.dtype), output_n.y_d)
    return Output(logits_o, (share_n * output_n.value).sum(), y_d, penalty)
