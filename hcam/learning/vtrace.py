"""V-trace targets and advantages of one trajectory (Espeholt et al. 2018, equation 1)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from hcam.types import Array


class VTrace(NamedTuple):
    target_t: Array  # what the value should be
    advantage_t: Array  # of the action taken, importance weight included


def vtrace(
    log_rho_t: Array,
    reward_t: Array,
    value_t: Array,
    bootstrap_value: Array,
    terminated_t: Array,
    truncated_t: Array,
    *,
    discount: float,
    max_rho: float = 1.0,
    max_c: float = 1.0,
    lambda_: float = 1.0,
) -> VTrace:
    """Targets and advantages for any pattern of episode ends.

    `bootstrap_value` is the value of the observation after the last step. After a terminated step nothing follows. A
    truncated step is left out: the return of the steps before it continues with the value of the observation they led
    to, and never with the next episode's.
    """
    rho_t = jnp.exp(log_rho_t)
    clipped_rho_t = jnp.where(truncated_t, 0.0, jnp.minimum(rho_t, max_rho))
    c_t = jnp.where(truncated_t, 0.0, lambda_ * jnp.minimum(rho_t, max_c))
    discount_t = jnp.where(terminated_t, 0.0, discount)
    value_tp1 = jnp.append(value_t[1:], bootstrap_value)
    delta_t = clipped_rho_t * (reward_t + discount_t * value_tp1 - value_t)

    # error_t = delta_t + discount_t c_t error_t+1, for all steps at once: a loop would launch T tiny kernels.
    def join(later: tuple[Array, Array], earlier: tuple[Array, Array]) -> tuple[Array, Array]:
        (error_l, decay_l), (error_e, decay_e) = later, earlier
        return error_e + decay_e * error_l, decay_e * decay_l

    error_t, _ = jax.lax.associative_scan(join, (delta_t, discount_t * c_t), reverse=True)
    target_t = value_t + error_t
    target_tp1 = jnp.append(target_t[1:], bootstrap_value)
    advantage_t = clipped_rho_t * (reward_t + discount_t * target_tp1 - value_t)
    return VTrace(target_t, advantage_t)
