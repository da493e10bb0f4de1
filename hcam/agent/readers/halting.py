"""When to stop thinking: shares of hops that sum to one, whatever the network says, and what they cost."""

import jax.numpy as jnp

from hcam.types import Array

MODES = ("learned", "fixed")
EPSILON = 0.01  # adaptive computation time stops once this much is left (Graves 2016)


def adaptive_shares(stop_nt: Array) -> tuple[Array, Array]:
    """Adaptive computation time for T tokens: the share of each hop's state, and the cost, [N, T] and [T].

    `stop_nt` are probabilities of stopping after each hop. A token stops at the hop where their sum comes within
    EPSILON of 1: that hop has what is left, later ones have nothing. The last hop stops in any case. The cost is the
    number of hops plus the remainder, which is the part that has a gradient.
    """
    before_nt = jnp.cumsum(stop_nt, axis=0) - stop_nt
    running_nt = before_nt < 1 - EPSILON
    enough_nt = (before_nt + stop_nt >= 1 - EPSILON).at[-1].set(True)
    stops_nt = running_nt & enough_nt
    left_nt = 1 - before_nt
    share_nt = jnp.where(stops_nt, left_nt, jnp.where(running_nt, stop_nt, 0.0))
    hops_t = running_nt.sum(0).astype(stop_nt.dtype)
    return share_nt, hops_t + jnp.where(stops_nt, left_nt, 0.0).sum(0)


def stopping_shares(stop_n: Array) -> tuple[Array, Array]:
    """The probability that each hop is the last one, [N], and how many hops that makes on average.

    `stop_n` are probabilities of stopping after a hop that is reached. The last hop stops in any case.
    """
    stop_n = stop_n.at[-1].set(1.0)
    reached_n = jnp.concatenate([jnp.ones(1, stop_n.dtype), jnp.cumprod(1 - stop_n)[:-1]])
    share_n = stop_n * reached_n
    return share_n, (share_n * jnp.arange(1, len(stop_n) + 1, dtype=share_n.dtype)).sum()
