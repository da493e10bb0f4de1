"""What readers share: the observations that they take, the one embedding, attention, and the answer by dot products.

Axis letters: M chunks, C items in a chunk, I all items of the memory, Q items of the query, O options, N hops.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from hcam.envs.spaces import Box, Discrete, Spaces
from hcam.memory import checks
from hcam.memory.layers import broadcast_like, init_linear, init_norm, linear, softmax, to_float32
from hcam.memory.window import MASKED, split_heads
from hcam.types import Array, Output, Params

EMBEDDING, OUTPUT, VALUE, ROLES = "embedding", "output", "value", "roles"
ROLE_SCALE = 0.1  # of codes that are added to embedded items, which have unit variance
CUE, OPTION = 0, 1  # roles of the query's items


class Sizes(NamedTuple):
    """Of an observation with a memory to read."""

    chunks: int  # M
    items: int  # C, in a chunk
    query: int  # Q, a cue and the options
    features: int  # of an item


class Given(NamedTuple):
    """An observation, embedded."""

    content_mcd: Array
    query_qd: Array  # without roles, as the options are compared with the answer
    known_m: Array  # bool, which chunks there are


def sizes(reader: str, space: Spaces, actions: int) -> Sizes:
    """Refuses observations that a reader cannot read."""
    parts: dict[str, Any] = space if isinstance(space, dict) else {}
    memory: Any = parts.get("memory")
    query: Any = parts.get("query")
    filled: Any = parts.get("filled")
    fits = isinstance(memory, Box) and isinstance(query, Box) and isinstance(filled, Discrete)
    if not fits or set(parts) != {"memory", "query", "filled"} or len(memory.shape) != 3 or len(query.shape) != 2:
        shown = ", ".join(f"{name} {list(part.shape)}" for name, part in parts.items()) or "a single array"
        raise ValueError(
            f"{reader} reads observations that have a memory [M, C, F], a query [Q, F] and a number `filled`, but this "
            f"task shows {shown}: choose another --memory."
        )
    found = Sizes(memory.shape[0], memory.shape[1], query.shape[0], query.shape[1])
    if memory.shape[2] != found.features or filled.n != found.chunks + 1 or actions != found.query - 1:
        raise ValueError(
            f"{reader} needs items of one size in memory and query, `filled` from 0 to the number of chunks and an "
            f"action for each option, but memory is {list(memory.shape)}, query {list(query.shape)}, filled one of "
            f"{filled.n} and there are {actions} actions."
        )
    return found


def check(config: Any) -> None:
    """The options that all readers have."""
    checks.typed(config)
    checks.sizes(config, "width", "heads", "mlp")
    checks.heads_divide(config.width, config.heads)
    checks.even_width(config.width, "position codes")


def init(key: Array, given: Sizes, width: int) -> Params:
    """The embedding that memory, query and options share, and the answer."""
    key_embedding, key_output, key_value = jax.random.split(key, 3)
    return {
        EMBEDDING: init_linear(key_embedding, given.features, width),
        OUTPUT: init_linear(key_output, width, width),
        VALUE: init_linear(key_value, width, 1, scale=1e-4),
    }


def init_roles(key: Array, width: int) -> Params:
    """For `with_roles`."""
    return {ROLES: ROLE_SCALE * jax.random.normal(key, (2, width), jnp.float32)}


def embed(params: Params, observation: Any, dtype: str) -> Given:
    """Memory and query through the same linear layer."""
    content_mcd, query_qd = (linear(params[EMBEDDING], observation[name].astype(dtype)) for name in ("memory", "query"))
    return Given(content_mcd, query_qd, jnp.arange(content_mcd.shape[0]) < observation["filled"])


def with_roles(params: Params, query_qd: Array) -> Array:
    """The query, with a code that tells the cue from the options; all options have the same."""
    role_q = [CUE] + [OPTION] * (len(query_qd) - 1)
    return query_qd + broadcast_like(params[ROLES][jnp.array(role_q)], query_qd)


def answer(params: Params, y_d: Array, query_qd: Array, penalty: Array | None = None) -> Output:
    """Logits: how much the output embedding is like that of each option, in float32.

    Dot products are divided by the root of the width, as in attention, so that they start near 1 at any width.
    """
    output_d = to_float32(linear(params[OUTPUT], y_d))
    logits_o = to_float32(query_qd[1:]) @ output_d / math.sqrt(len(output_d))
    return Output(logits_o, to_float32(linear(params[VALUE], y_d))[0], y_d, penalty)


# Attention over items, which are a set --------------------------------------------------------------------------------


def init_attention(key: Array, width: int) -> Params:
    names = ("query", "key", "value", "out")
    keys = jax.random.split(key, len(names))
    return {"norm": init_norm(width)} | {
        name: init_linear(part, width, width, bias=False) for name, part in zip(names, keys, strict=True)
    }


def attend(params: Params, x_qd: Array, x_id: Array, heads: int, bias_hqi: Array | None = None) -> Array:
    """Multi-head attention of Q queries to I items, both normalised already: [Q, D]. `bias_hqi` masks or prefers."""
    query_qhs = split_heads(linear(params["query"], x_qd), heads)
    key_ihs, value_ihs = (split_heads(linear(params[name], x_id), heads) for name in ("key", "value"))
    logits_hqi = to_float32(jnp.einsum("qhs,ihs->hqi", query_qhs, key_ihs)) / math.sqrt(query_qhs.shape[-1])
    weight_hqi = softmax(logits_hqi if bias_hqi is None else logits_hqi + bias_hqi).astype(x_qd.dtype)
    mixed_qd = jnp.einsum("hqi,ihs->qhs", weight_hqi, value_ihs).reshape(x_qd.shape[0], -1)
    return linear(params["out"], mixed_qd)


def mask_bias(known_i: Array, shape: tuple[int, ...]) -> Array:
    """What to add to logits [..., I] so that unknown items get no weight."""
    return jnp.broadcast_to(jnp.where(known_i, 0.0, MASKED), shape)
