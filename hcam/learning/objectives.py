"""What is minimised: named losses, one number per step, each from a function of its own.

An objective is a forward pass followed by terms. `vtrace_terms` learns from rewards, `cross_entropy_terms` from labels,
and `reconstruction_terms` goes with either. The learner weighs the means and adds them up.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import tyro

from hcam.agent import Agent
from hcam.learning.devices import ONE, Devices
from hcam.learning.vtrace import vtrace
from hcam.memory import checks
from hcam.types import Array, Minibatch, Output, Params, Transition

PENALTY = "penalty"  # the agent's own loss, which it has weighed itself
ENTROPY = "negative_entropy"  # the loss; what is logged is the entropy itself, among the diagnostics


@dataclass(frozen=True, kw_only=True)
class ObjectiveConfig:
    """Weights and constants (appendix A.2, table of hyper-parameters)."""

    objective: Literal["vtrace", "cross_entropy"] = "vtrace"  # learn from rewards, or from the right actions
    discount: float = 0.99  # the paper does not say
    policy: float = 0.1  # "V-trace loss weight"
    baseline: float = 1.0  # "V-trace baseline weight"
    entropy: float = 1e-3  # "entropy weight"
    labels: float = 1.0  # weight of the cross-entropy with the right actions
    reconstruction: float = 1.0  # "recon. loss weight", of image and language alike
    reconstruct_every: int = 1  # reconstruct one step in this many, another one in each update; the paper: every step
    max_rho: float = 1.0  # V-trace clips importance weights here (Espeholt et al. 2018)
    max_c: float = 1.0
    lambda_: Annotated[float, tyro.conf.arg(name="lambda")] = 1.0  # of V-trace: 1 is V-trace as published

    def __post_init__(self) -> None:
        checks.typed(self)
        checks.positive(reconstruct_every=self.reconstruct_every)
        if not 0 <= self.discount < 1:
            raise ValueError(f"discount must be at least 0 and below 1, but is {self.discount}.")
        if not 0 <= self.lambda_ <= 1:
            raise ValueError(f"lambda must be from 0 to 1, but is {self.lambda_}.")
        for name in ("policy", "baseline", "entropy", "labels", "reconstruction", "max_rho", "max_c"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, but is {getattr(self, name)}.")


class Terms(NamedTuple):
    losses: dict[str, Array]  # [T, B] by name; a reconstruction may have fewer steps
    diagnostics: dict[str, Array]  # likewise: logged, not minimised


class Objective(NamedTuple):
    """What a learner minimises: the sum of `weight(name)` times the mean of each loss."""

    terms: Callable[[Agent, Params, Minibatch, Array | int], Terms]  # the last argument counts gradient steps
    weight: Callable[[str], float]
    labelled: bool = False  # whether transitions must have labels


def make(config: ObjectiveConfig, devices: Devices = ONE) -> Objective:
    return Objective(
        partial(terms, config, devices=devices), partial(weight, config), config.objective == "cross_entropy"
    )


def terms(
    config: ObjectiveConfig,
    agent: Agent,
    params: Params,
    minibatch: Minibatch,
    count: Array | int,
    devices: Devices = ONE,
) -> Terms:
    """All losses and diagnostics of a minibatch, or of the share of it that this one of several devices has."""
    output_tb = forward(agent, params, minibatch)
    learned = (partial(cross_entropy_terms, devices=devices) if config.objective == "cross_entropy" else vtrace_terms)(
        config, output_tb, minibatch
    )
    losses = learned.losses | reconstruction_terms(config, agent, params, output_tb, minibatch, count)
    own = {} if output_tb.penalty is None else {PENALTY: output_tb.penalty}
    return Terms(losses | own, learned.diagnostics)


def weight(config: ObjectiveConfig, loss: str) -> float:
    """A loss that has no weight of its own is the reconstruction of a part of the observation."""
    own = {"policy": config.policy, "baseline": config.baseline, ENTROPY: config.entropy, "labels": config.labels}
    return (own | {PENALTY: 1.0}).get(loss, config.reconstruction)


def total(objective: Objective, found: Terms) -> tuple[Array, dict[str, Array]]:
    """The weighted sum of the means of all losses; and all means by name, for the log."""
    means = {name: loss.mean() for name, loss in found.losses.items()}
    loss = jnp.stack([objective.weight(name) * means[name] for name in means]).sum()
    logged = {name: mean for name, mean in means.items() if name != ENTROPY}
    return loss, logged | {name: value.mean() for name, value in found.diagnostics.items()}


# Parts ----------------------------------------------------------------------------------------------------------------


def forward(agent: Agent, params: Params, minibatch: Minibatch) -> Output:
    """The agent's outputs [T, B] for an unroll, from the memories at its first step."""
    return agent.unroll_batch(params, minibatch.memory_b, minibatch.transitions_tb.inputs)


def vtrace_terms(config: ObjectiveConfig, output_tb: Output, minibatch: Minibatch) -> Terms:
    """Policy gradient, baseline and entropy, with V-trace targets."""
    transitions_tb, value_tb = minibatch.transitions_tb, output_tb.value
    log_policy_tba = jax.nn.log_softmax(output_tb.logits)
    log_pi_tb, log_mu_tb = (
        jnp.take_along_axis(log_tba, transitions_tb.action[..., None], axis=-1)[..., 0]
        for log_tba in (log_policy_tba, jax.nn.log_softmax(transitions_tb.logits))
    )
    log_rho_tb = jax.lax.stop_gradient(log_pi_tb - log_mu_tb)
    target_tb, advantage_tb = vtrace_targets(config, log_rho_tb, value_tb, minibatch)
    negative_entropy_tb = (jnp.exp(log_policy_tba) * log_policy_tba).sum(-1)
    losses = {
        "policy": -advantage_tb * log_pi_tb,
        "baseline": 0.5 * jnp.square(target_tb - value_tb),
        ENTROPY: negative_entropy_tb,
    }
    ratio_tb = jnp.exp(log_rho_tb)
    diagnostics = {"entropy": -negative_entropy_tb, "ratio": ratio_tb, "ratio_deviation": jnp.abs(ratio_tb - 1)}
    return Terms(losses, diagnostics | {"value": value_tb, "advantage": advantage_tb})


def vtrace_targets(
    config: ObjectiveConfig, log_rho_tb: Array, value_tb: Array, minibatch: Minibatch
) -> tuple[Array, Array]:
    constants = {name: getattr(config, name) for name in ("discount", "max_rho", "max_c", "lambda_")}
    targets: Any = jax.vmap(partial(vtrace, **constants), in_axes=(1, 1, 1, 0, 1, 1), out_axes=1)
    values = jax.lax.stop_gradient((value_tb, minibatch.bootstrap_value_b))
    steps_tb: Transition = minibatch.transitions_tb
    target_tb, advantage_tb = targets(log_rho_tb, steps_tb.reward, *values, steps_tb.terminated, steps_tb.truncated)
    return target_tb, advantage_tb


def cross_entropy_terms(
    config: ObjectiveConfig, output_tb: Output, minibatch: Minibatch, devices: Devices = ONE
) -> Terms:
    """Cross-entropy with the right actions, a mean over the steps that have one: supervised learning.

    Where several devices share the minibatch, over those of all: each device has another number of such steps.
    """
    label_tb = minibatch.transitions_tb.label
    assert label_tb is not None, "the rollout was not asked for labels"
    log_policy_tba = jax.nn.log_softmax(output_tb.logits)
    known_tb = (label_tb >= 0).astype(jnp.float32)
    share = jnp.maximum(devices.mean(known_tb.mean()), 1 / (known_tb.size * devices.count))
    chosen_tb = jnp.take_along_axis(log_policy_tba, jnp.maximum(label_tb, 0)[..., None], axis=-1)[..., 0]
    right_tb = (jnp.argmax(output_tb.logits, axis=-1) == label_tb).astype(jnp.float32)
    entropy_tb = -(jnp.exp(log_policy_tba) * log_policy_tba).sum(-1)
    losses = {"labels": -chosen_tb * known_tb / share}
    return Terms(losses, {"entropy": entropy_tb, "accuracy": right_tb * known_tb / share, "value": output_tb.value})


def reconstruction_terms(
    config: ObjectiveConfig, agent: Agent, params: Params, output_tb: Output, minibatch: Minibatch, count: Array | int
) -> dict[str, Array]:
    """How far each part of the observation is from what the decoders make of the memory's output, [T/every, B].

    Of one step in `reconstruct_every`, another one in each gradient step: the same loss on average.
    """
    pairs = (output_tb.y_d, minibatch.transitions_tb.inputs.observation)
    known_nb, shown_nb = every_nth(config.reconstruct_every, count, pairs)
    return agent.reconstruction(params, known_nb, shown_nb)


def every_nth(every: int, offset: Array | int, tree_t: Any) -> Any:
    """Steps t with t % every == offset % every, [T/every]: a reshape and one index, cheaper than a gather of rows."""
    if every == 1:
        return tree_t

    def pick(leaf_t: Array) -> Array:
        leaf_ne = leaf_t.reshape(-1, every, *leaf_t.shape[1:])
        picked_n: Array = jax.lax.dynamic_index_in_dim(leaf_ne, offset % every, axis=1, keepdims=False)
        return picked_n

    return jax.tree.map(pick, tree_t)
