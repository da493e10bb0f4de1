"""A memory of somebody's own, in one file: each feature is a decaying sum of what it was given."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from hcam.memory import define


@dataclass(frozen=True, kw_only=True)
class Decay:
    """Leaky sums, each with a time constant of its own."""

    width: int = 32
    longest: float = 32.0  # steps that the slowest feature remembers

    def build(self, dtype):
        def init_params(key):
            rates = jnp.exp(-1 / jnp.linspace(1, self.longest, self.width))
            mix = jax.random.normal(key, (self.width, self.width)) / self.width**0.5
            return {"rate": jnp.log(rates / (1 - rates)), "mix": mix}

        def init_state():
            return jnp.zeros(self.width)

        def step(params, state, x_d, first):
            rate = jax.nn.sigmoid(params["rate"])
            state = rate * jnp.where(first, 0.0, state) + x_d.astype(jnp.float32)
            return state, x_d + (state @ params["mix"]).astype(x_d.dtype)

        return define(self, dtype=dtype, init_params=init_params, init_state=init_state, step=step)
