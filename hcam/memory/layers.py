"""The layers that memories are made of: linear, LayerNorm, MLP, GRU gate, sinusoids; parameters in plain dicts."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from .types import Array, Params

EPSILON = 1e-5  # of LayerNorm


def to_float32(x: Array) -> Array:
    """At least float32, the dtype in which softmax, means and norms are computed; float64 stays."""
    return x if x.dtype.itemsize >= 4 else x.astype(jnp.float32)


def broadcast_like(small: Array, like: Array) -> Array:
    """`small`, broadcast over leading axes to the shape and dtype of `like`.

    Explicit, because tests forbid silent broadcasting: a mask of the wrong rank would go unnoticed.
    """
    return jnp.broadcast_to(small.astype(like.dtype), like.shape)


def barrier(x: Array) -> Array:
    """`x`, hidden from XLA, which would merge two products with a common factor into one and copy both parts out."""
    optimization_barrier: Any = jax.lax.optimization_barrier
    hidden: Array = optimization_barrier(x)
    return hidden


@jax.custom_jvp
def softmax(logits: Array) -> Array:
    """Softmax over the last axis, computed in float32 and stored in the dtype of `logits`, for the gradient as well."""
    return jax.nn.softmax(to_float32(logits), axis=-1).astype(logits.dtype)


@softmax.defjvp
def _softmax_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    weight = softmax(*primals)
    change = to_float32(weight) * to_float32(tangents[0])
    return weight, (change - to_float32(weight) * change.sum(-1, keepdims=True)).astype(weight.dtype)


def in_dtype(params: Params, dtype: str) -> Params:
    """Weights in the dtype of computation, so that repeated steps need not convert them again.

    A norm's scale and offset stay in float32, in which they are used.
    """

    def convert(path: tuple[Any, ...], leaf: Array) -> Array:
        return leaf if path[-1] in map(jax.tree_util.DictKey, ("scale", "offset")) else leaf.astype(dtype)

    return jax.tree.map_with_path(convert, params)


def init_linear(key: Array, fan_in: int, fan_out: int, *, bias: bool = True, scale: float = 1.0) -> Params:
    """Weights from a truncated normal of variance scale/fan_in; biases are zero."""
    weight = jax.nn.initializers.variance_scaling(scale, "fan_in", "truncated_normal")(
        key, (fan_in, fan_out), jnp.float32
    )
    return {"w": weight, "b": jnp.zeros(fan_out, jnp.float32)} if bias else {"w": weight}


def linear(params: Params, x: Array) -> Array:
    y: Array = x @ params["w"].astype(x.dtype)
    return y + broadcast_like(params["b"], y) if "b" in params else y


def init_norm(width: int) -> Params:
    return {"scale": jnp.ones(width, jnp.float32), "offset": jnp.zeros(width, jnp.float32)}


def layer_norm(params: Params, x: Array) -> Array:
    normal = _normal(x)
    return (normal * broadcast_like(params["scale"], normal) + broadcast_like(params["offset"], normal)).astype(x.dtype)


def normalise(x: Array) -> Array:
    """LayerNorm without scale and offset."""
    return _normal(x).astype(x.dtype)


def _normal(x: Array) -> Array:
    centred = to_float32(x) - to_float32(x).mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + EPSILON)


def init_mlp(key: Array, width: int, hidden: int) -> Params:
    key_in, key_out = jax.random.split(key)
    return {
        "norm": init_norm(width),
        "in": init_linear(key_in, width, hidden, scale=2.0),
        "out": init_linear(key_out, hidden, width),
    }


def mlp(params: Params, x: Array) -> Array:
    return linear(params["out"], jax.nn.relu(linear(params["in"], layer_norm(params["norm"], x))))


def init_gate(key: Array, width: int) -> Params:
    """The GRU gate of gated TransformerXL. It starts nearly closed (offset 2), so that a layer passes its input on."""
    key_x, key_y, key_c = jax.random.split(key, 3)
    return {
        "x": init_linear(key_x, width, 2 * width, bias=False),  # reset | update, from the stream
        "y": init_linear(key_y, width, 3 * width, bias=False),  # reset | update | candidate, from the sublayer
        "candidate": init_linear(key_c, width, width, bias=False),
        "offset": jnp.full(width, 2.0, jnp.float32),
    }


def gate(params: Params | None, x: Array, y: Array) -> Array:
    """The stream `x` joined with a sublayer's answer `y`: by a GRU gate if there are params for one, else by adding.

    The gated form applies a ReLU to `y` first, as gated TransformerXL does, because its sublayers end linearly.
    """
    if params is None:
        return x + y
    y = jax.nn.relu(y)
    reset_x, update_x = jnp.split(linear(params["x"], x), 2, axis=-1)
    reset_y, update_y, candidate_y = jnp.split(linear(params["y"], y), 3, axis=-1)
    update = jax.nn.sigmoid(update_x + update_y - broadcast_like(params["offset"], x))
    candidate = jnp.tanh(candidate_y + linear(params["candidate"], jax.nn.sigmoid(reset_x + reset_y) * x))
    return x + update * (candidate - x)


def sinusoids(position_p: Sequence[int], width: int) -> Array:
    """Position code [P, D]: all sines, then all cosines, of frequencies 10000^(-2i/D).

    Computed while tracing, as a constant: XLA would fuse the computation into the sum and repeat it for every element.
    """
    with jax.ensure_compile_time_eval():
        frequency = 10000.0 ** (-jnp.arange(0, width, 2, dtype=jnp.float32) / width)
        angle = jnp.array(position_p, jnp.float32)[:, None] * frequency[None, :]
        return jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], axis=-1)


def position_code(chunk: int, width: int, positions: bool, dtype: DTypeLike) -> Array:
    """The code to add to the steps of a chunk [C, D], the newest at position 0; zeros without `positions`."""
    code_cd = sinusoids(range(chunk - 1, -1, -1), width) if positions else jnp.zeros((chunk, width))
    return code_cd.astype(dtype)
