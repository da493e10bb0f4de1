"""Clipping, Adam and the learning rate over time, as one optax chain."""

from dataclasses import dataclass
from typing import Literal

import optax

from hcam.memory import checks


@dataclass(frozen=True, kw_only=True)
class OptimiserConfig:
    learning_rate: float = 2e-4  # appendix A.2: Adam, 2e-4
    schedule: Literal["constant", "linear", "cosine"] = "constant"  # down to 0 at the last update
    warmup: int = 0  # updates over which the learning rate grows from 0
    clip: float = 1.0  # largest norm of a gradient; 0: no limit. The paper does not say
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-8

    def __post_init__(self) -> None:
        checks.typed(self)
        for name in ("learning_rate", "clip", "warmup", "epsilon"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must not be negative, but is {getattr(self, name)}.")
        if self.warmup >= 2**31:  # as the optimiser counts gradient steps
            raise ValueError(f"warmup must be below {2**31:,}, but is {self.warmup:,}.")
        for name in ("beta_1", "beta_2"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 0 and below 1, but is {getattr(self, name)}.")


def learning_rate(config: OptimiserConfig, updates: int) -> optax.Schedule:
    """The learning rate at each of `updates` gradient steps."""
    peak, rest = config.learning_rate, max(updates - config.warmup, 1)
    after = {
        "constant": optax.constant_schedule(peak),
        "linear": optax.linear_schedule(peak, 0.0, rest),
        "cosine": optax.cosine_decay_schedule(peak, rest),
    }[config.schedule]
    if not config.warmup:
        return after
    return optax.join_schedules([optax.linear_schedule(0.0, peak, config.warmup), after], [config.warmup])


def make(config: OptimiserConfig, updates: int) -> optax.GradientTransformation:
    adam = optax.adam(learning_rate(config, updates), config.beta_1, config.beta_2, config.epsilon)
    return optax.chain(optax.clip_by_global_norm(config.clip), adam) if config.clip else adam
