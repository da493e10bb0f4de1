"""V-trace, baseline, entropy and reconstruction: named losses, one number per step, and their weighted mean."""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from hcam.agent import Agent
from hcam.learning.rollout import Transition
from hcam.memory import checks
from hcam.memory.types import Array, Params


@dataclass(frozen=True, kw_only=True)
class LossConfig:
    """Weights and constants (appendix A.2, table of hyper-parameters; the values are HCAM's in Ballet)."""

    discount: float = 0.99  # the paper does not say
    policy: float = 0.1  # "V-trace loss weight"
    baseline: float = 1.0  # "V-trace baseline weight"
    entropy: float = 1e-3  # "entropy weight"
    reconstruction: float = 1.0  # "recon. loss weight", of image and language alike
    reconstruct_every: int = 1  # reconstruct one step in this many, another one in each update; the paper: every step
    max_rho: float = 1.0  # V-trace clips importance weights here (Espeholt et al. 2018)
    max_c: float = 1.0
    trace: float = 1.0  # lambda: 1 is V-trace as published

    def __post_init__(self) -> None:
        checks.positive(reconstruct_every=self.reconstruct_every)
        if not 0 <= self.discount < 1:
            raise ValueError(f"discount must be at least 0 and below 1, but is {self.discount}.")
        if not 0 <= self.trace <= 1:
            raise ValueError(f"trace must be from 0 to 1, but is {self.trace}.")
        for name in ("policy", "baseline", "entropy", "reconstruction", "max_rho", "max_c"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must not be negative, but is {getattr(self, name)}.")


class Vtrace(NamedTuple):
    target_t: Array  # what the value should be
    advantage_t: Array  # of the action taken, importance weight included


def vtrace(
    log_rho_t: Array,
    reward_t: Array,
    value_t: Array,
    value_end: Array,
    ended_t: Array,
    cut_t: Array,
    *,
    config: LossConfig,
) -> Vtrace:
    """V-trace targets of one trajectory (Espeholt et al. 2018, equation 1), for any pattern of episode ends.

    `value_end` is the value of what is seen after the last step. A step that ends an episode (`ended_t`) is followed by
    nothing. A step at which time was up (`cut_t`) is left out: the return of the steps before it goes on with the value
    of the observation they led to, and never with the next episode's.
    """
    rho_t = jnp.exp(log_rho_t)
    weight_t = jnp.where(cut_t, 0.0, jnp.minimum(rho_t, config.max_rho))
    trace_t = jnp.where(cut_t, 0.0, config.trace * jnp.minimum(rho_t, config.max_c))
    discount_t = jnp.where(ended_t, 0.0, config.discount)
    value_tp1 = jnp.append(value_t[1:], value_end)
    delta_t = weight_t * (reward_t + discount_t * value_tp1 - value_t)

    # error_t = delta_t + discount_t trace_t error_t+1, for all steps at once: a loop would launch tiny kernels T times.
    def join(later: tuple[Array, Array], earlier: tuple[Array, Array]) -> tuple[Array, Array]:
        (error_l, fade_l), (error_e, fade_e) = later, earlier
        return error_e + fade_e * error_l, fade_e * fade_l

    error_t, _ = jax.lax.associative_scan(join, (delta_t, discount_t * trace_t), reverse=True)
    target_t = value_t + error_t
    target_tp1 = jnp.append(target_t[1:], value_end)
    advantage_t = weight_t * (reward_t + discount_t * target_tp1 - value_t)
    return Vtrace(target_t, advantage_t)


def one_in(every: int, offset: Array | int, tree_t: Any) -> Any:
    """Steps t with t % every == offset % every, [T/every]: a reshape and one index, where a gather would pick rows."""
    if every == 1:
        return tree_t

    def pick(leaf_t: Array) -> Array:
        leaf_ne = leaf_t.reshape(-1, every, *leaf_t.shape[1:])
        picked_n: Array = jax.lax.dynamic_index_in_dim(leaf_ne, offset % every, axis=1, keepdims=False)
        return picked_n

    return jax.tree.map(pick, tree_t)


def per_step(
    agent: Agent,
    config: LossConfig,
    params: Params,
    memory_b: Any,
    transitions_tb: Transition,
    value_end_b: Array,
    offset: Array | int = 0,
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Losses [T, B] by name of an unroll of many environments, and what else is worth knowing.

    `memory_b` is the agent's at the first step, `value_end_b` what it expected after the last one. Reconstructions are
    of one step in `reconstruct_every`, [T/every, B], from `offset` on: a counter will do, and their mean is then the
    same in the long run.
    """
    # Frames are encoded and reconstructed as they lie, steps first: to have environments first would move every one.
    x_tbd = agent.encode_all(params, transitions_tb.inputs)
    think = jax.vmap(partial(agent.unroll_encoded, params), in_axes=(0, 1, 1), out_axes=(0, 1))
    _, output_tb = think(memory_b, x_tbd, transitions_tb.inputs.first)
    value_tb, log_policy_tb = output_tb.value, jax.nn.log_softmax(output_tb.logits)
    log_pi_tb, log_mu_tb = (
        jnp.take_along_axis(log_tb, transitions_tb.action[..., None], axis=-1)[..., 0]
        for log_tb in (log_policy_tb, jax.nn.log_softmax(transitions_tb.logits))
    )
    log_rho_tb = jax.lax.stop_gradient(log_pi_tb - log_mu_tb)
    targets = jax.vmap(partial(vtrace, config=config), in_axes=(1, 1, 1, 0, 1, 1), out_axes=1)
    values = jax.lax.stop_gradient((value_tb, value_end_b))
    target_tb, advantage_tb = targets(
        log_rho_tb, transitions_tb.reward, *values, transitions_tb.terminated, transitions_tb.truncated
    )
    known_nb, shown_nb = one_in(config.reconstruct_every, offset, (output_tb.y_d, transitions_tb.inputs.observation))
    losses = {
        "policy": -advantage_tb * log_pi_tb,
        "baseline": 0.5 * jnp.square(target_tb - value_tb),
        "entropy": (jnp.exp(log_policy_tb) * log_policy_tb).sum(-1),
        **jax.vmap(jax.vmap(partial(agent.reconstruction, params)))(known_nb, shown_nb),
    }
    rho_tb = jnp.exp(log_rho_tb)
    return losses, {"rho": rho_tb, "drift": jnp.abs(rho_tb - 1), "value": value_tb, "advantage": advantage_tb}


def weights(config: LossConfig, losses: dict[str, Array]) -> dict[str, float]:
    """A weight for every loss: what is not one of the three is a reconstruction."""
    own = {"policy": config.policy, "baseline": config.baseline, "entropy": config.entropy}
    return {name: own.get(name, config.reconstruction) for name in losses}


def total(config: LossConfig, losses: dict[str, Array], seen: dict[str, Array]) -> tuple[Array, dict[str, Array]]:
    """Of what `per_step` gave: the weighted sum of all losses, each a mean; and each mean by itself, for the log."""
    means = {name: loss.mean() for name, loss in losses.items()}
    weight = weights(config, means)
    loss = jnp.stack([weight[name] * means[name] for name in means]).sum()
    return loss, {**means, **{name: value_tb.mean() for name, value_tb in seen.items()}}
