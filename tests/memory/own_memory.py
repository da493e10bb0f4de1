"""A memory as somebody outside the package would write it: the example of docs/add_a_memory.md."""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp

from hcam import memory


@dataclass(frozen=True, kw_only=True)
class Trace:
    """Keeps a fading average of its inputs, and adds a linear map of it to each input."""

    width: int = 64
    decay: float = 0.9

    def build(self, dtype):
        return memory.define(
            self,
            dtype=dtype,
            init_params=partial(init_params, self),
            init_state=partial(init_state, self),
            step=partial(step, self),
        )


def init_params(config, key):
    return {"w": jax.random.normal(key, (config.width, config.width), jnp.float32) / config.width**0.5}


def init_state(config):
    return {"trace": jnp.zeros(config.width, jnp.float32)}


def step(config, params, state, x_d, first):
    trace_d = jnp.where(first, 0.0, state["trace"])  # the first step of an episode forgets everything
    trace_d = config.decay * trace_d + (1 - config.decay) * x_d.astype(jnp.float32)
    return {"trace": trace_d}, x_d + (trace_d @ params["w"]).astype(x_d.dtype)
