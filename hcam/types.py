"""The values that travel between environment, agent and learner, and the letters of their axes.

Axis letters, in names and in einsum strings, everywhere in hcam:
    B environments, T time, D features, A actions, L levels, S seeds trained at once, N minibatches, P parameters;
    in a memory also M slots (chunks), C steps in a chunk, K recalled chunks, H heads (`hcam.memory` has the rest).
A name ends in the axes of its value: `x_td` is [T, D], `actors_b` a pytree whose leaves have the axis B in front.
"""

from typing import Any, NamedTuple

from hcam.envs.environment import EnvParams, Observation
from hcam.memory.types import Array, Params

__all__ = [
    "ActorState",
    "Array",
    "EnvParams",
    "EpisodeEnd",
    "Inputs",
    "Minibatch",
    "Observation",
    "Output",
    "Params",
    "TrainState",
    "Transition",
]


class Inputs(NamedTuple):
    """What an agent is given at a step."""

    observation: Observation  # as `Agent.preprocess` returned it
    first: Array  # bool, the first step of an episode
    action: Array  # int32, of the step before; not seen at an episode's first step
    reward: Array  # float32, of the step before; likewise


class Output(NamedTuple):
    """What an agent returns at a step."""

    logits: Array  # [A], float32
    value: Array  # float32
    y_d: Array  # the memory's output, which the decoders reconstruct from
    penalty: Array | None = None  # float32, a loss of the agent's own, such as a price for thinking longer; None: none


class ActorState(NamedTuple):
    """Where one environment and its agent are: everything that is carried from unroll to unroll."""

    env: Any  # the environment's state
    inputs: Inputs  # what the agent sees next
    memory: Any
    episode_return: Array  # float32, so far
    episode_length: Array  # int32, so far


class EpisodeEnd(NamedTuple):
    """Filled in by the step that ends an episode; zeros at all other steps."""

    done: Array  # bool
    episode_return: Array  # float32
    length: Array  # int32
    level: Array  # int32, its number in the mixture
    success: Array  # bool


class Transition(NamedTuple):
    """One step: [T] for one environment, [T, B] for many."""

    inputs: Inputs
    action: Array  # int32
    logits: Array  # [A], of the policy that acted
    reward: Array  # float32
    terminated: Array  # bool
    truncated: Array  # bool
    label: Array | None  # int32, the right action, -1 where there is none; None unless the objective needs labels
    end: EpisodeEnd


class Minibatch(NamedTuple):
    """What one gradient step learns from: an unroll of some of the environments."""

    memory_b: Any  # at the unroll's first step
    transitions_tb: Transition
    bootstrap_value_b: Array  # of the observation after the last step, by the agent that acted


class TrainState(NamedTuple):
    """Everything that a run consists of: saving it and restoring it continues the same run."""

    params: Params
    optimiser: Any  # its arrays have the names of the parameters
    actors_b: ActorState
    curriculum: Any  # how the last episodes of each level ended
    key: Array  # the run's one key; update u uses fold_in(key, u)
    updates: Array  # int32, so far
