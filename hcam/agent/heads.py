"""y_d -> policy and value: MLPs with one hidden layer."""

from dataclasses import dataclass

import jax

from hcam.memory import checks
from hcam.memory.layers import init_linear, init_norm, layer_norm, linear, to_float32
from hcam.types import Array, Params


@dataclass(frozen=True, kw_only=True)
class HeadsConfig:
    hidden: int = 512  # "policy & value nets: MLP with 1 hidden layer with 512 units", appendix A.2

    def __post_init__(self) -> None:
        checks.typed(self)
        checks.positive(hidden=self.hidden)


def init(key: Array, config: HeadsConfig, actions: int, width: int) -> Params:
    """The policy starts nearly uniform and the value near 0: their last layers are small."""
    key_policy, key_value = jax.random.split(key)
    return {
        "norm": init_norm(width),
        "policy": init_mlp(key_policy, width, config.hidden, actions),
        "value": init_mlp(key_value, width, config.hidden, 1),
    }


def init_mlp(key: Array, width: int, hidden: int, out: int) -> Params:
    key_in, key_out = jax.random.split(key)
    return {
        "in": init_linear(key_in, width, hidden, scale=2.0),
        "out": init_linear(key_out, hidden, out, scale=1e-4),
    }


@jax.named_scope("heads")
def policy_value(params: Params, y_d: Array) -> tuple[Array, Array]:
    """Logits and value, in float32."""
    y_d = layer_norm(params["norm"], y_d)
    logits = mlp(params["policy"], y_d)
    return to_float32(logits), to_float32(mlp(params["value"], y_d))[0]


def mlp(params: Params, x_d: Array) -> Array:
    return linear(params["out"], jax.nn.relu(linear(params["in"], x_d)))
