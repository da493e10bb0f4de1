"""An agent that is one network from a whole observation to an answer, for tasks that show all there is to remember.

A configuration with a method `network(space, actions, dtype) -> Network`, in place of a memory's `build`, makes one. It
needs no encoder, no heads and no memory between steps: `hcam/agent/readers/` has examples.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax

from hcam.agent.config import AgentConfig
from hcam.memory.layers import in_dtype
from hcam.memory.types import Recall
from hcam.types import Array, Inputs, Observation, Output, Params


class Network(NamedTuple):
    """Two pure functions for one environment."""

    init_params: Callable[[Array], Params]  # key -> params, float32
    answer: Callable[[Params, Observation], Output]  # logits, value and penalty in float32


@dataclass(frozen=True, eq=False)  # hashed by identity, to be a static argument of jax.jit
class NetworkAgent:
    """Keeps nothing from step to step: its state is empty, and an unroll is a `vmap`."""

    config: AgentConfig
    network: Network

    def init_params(self, key: Array) -> Params:
        return {"network": self.network.init_params(key)}

    def init_state(self) -> tuple[()]:
        return ()

    def prepare(self, params: Params) -> Params:
        return in_dtype(params, self.config.dtype)

    def preprocess(self, observation: Observation) -> Observation:
        return observation

    def step(self, params: Params, state: Any, inputs: Inputs) -> tuple[Any, Output]:
        return state, self.network.answer(params["network"], inputs.observation)

    def step_recalling(self, params: Params, state: Any, inputs: Inputs) -> tuple[Any, Output, Recall]:
        """It has nothing to recall: the observation is all there is."""
        return *self.step(params, state, inputs), Recall()

    def unroll(self, params: Params, state: Any, inputs_t: Inputs) -> tuple[Any, Output]:
        return state, jax.vmap(lambda inputs: self.step(params, state, inputs)[1])(inputs_t)

    def unroll_batch(self, params: Params, state_b: Any, inputs_tb: Inputs) -> Output:
        del state_b  # empty
        output_tb: Output = jax.vmap(lambda inputs_b: self.unroll(params, (), inputs_b)[1])(inputs_tb)
        return output_tb

    def undo(self, before: Any, after: Any) -> Any:
        del after
        return before

    def reconstruction(self, params: Params, y_d: Array, observation: Observation) -> dict[str, Array]:
        """It has no decoders."""
        return {}
