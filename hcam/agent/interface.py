"""What learning, acting and evaluation ask of an agent."""

from typing import Any, Protocol

from hcam.agent.config import AgentConfig
from hcam.memory.types import Recall
from hcam.types import Array, Inputs, Observation, Output, Params


class Agent(Protocol):
    """Pure functions for one environment; hashed by identity, to be a static argument of `jax.jit`."""

    @property
    def config(self) -> AgentConfig: ...

    def init_params(self, key: Array) -> Params:
        """Nested dicts of float32 arrays."""

    def init_state(self) -> Any:
        """The memory of one environment before its first step."""

    def prepare(self, params: Params) -> Params:
        """The parameters for repeated acting; `step` takes either, with the same results."""

    def preprocess(self, observation: Observation) -> Observation:
        """An environment's observation as the agent stores it: `Inputs.observation`."""

    def step(self, params: Params, state: Any, inputs: Inputs) -> tuple[Any, Output]:
        """Acting: one step."""

    def step_recalling(self, params: Params, state: Any, inputs: Inputs) -> tuple[Any, Output, Recall]:
        """`step`, and what the memory attended to."""

    def unroll(self, params: Params, state: Any, inputs_t: Inputs) -> tuple[Any, Output]:
        """T steps at once, with the results of T times `step`."""

    def unroll_batch(self, params: Params, state_b: Any, inputs_tb: Inputs) -> Output:
        """Learning: the outputs [T, B] of T steps of B environments, from their states at the first step."""

    def undo(self, before: Any, after: Any) -> Any:
        """A state without the step from `before` to `after`: drop `before` and continue with this."""

    def reconstruction(self, params: Params, y_d: Array, observation: Observation) -> dict[str, Array]:
        """The reconstruction loss of each part of a preprocessed observation, by name; of one step or of many."""
