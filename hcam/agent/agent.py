"""Encoder, memory and heads as one agent: `step` acts, `unroll` learns, and both give the same."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from hcam import memory
from hcam.agent import decoders, encoder, heads
from hcam.agent.config import AgentConfig
from hcam.agent.interface import Agent
from hcam.agent.network import NetworkAgent
from hcam.envs.environment import Environment
from hcam.envs.spaces import Spaces
from hcam.memory.layers import in_dtype
from hcam.memory.types import Memory, Recall
from hcam.types import Array, Inputs, Observation, Output, Params


@dataclass(frozen=True, eq=False)  # hashed by identity, to be a static argument of jax.jit
class MemoryAgent:
    """Encoder, memory and heads. Pure functions for one environment, like a memory's."""

    config: AgentConfig
    memory: Memory
    space: Spaces
    actions: int

    def init_params(self, key: Array) -> Params:
        key_encoder, key_memory, key_heads, key_decoders = jax.random.split(key, 4)
        config, width = self.config, self.config.memory.width
        return {
            "encoder": encoder.init(key_encoder, config.encoder, self.space, self.actions, width),
            "memory": self.memory.init_params(key_memory),
            "heads": heads.init(key_heads, config.heads, self.actions, width),
            "decoders": decoders.init(key_decoders, config.encoder, self.space, width),
        }

    def init_state(self) -> Any:
        return self.memory.init_state()

    def prepare(self, params: Params) -> Params:
        """The parameters for repeated acting: cast to the dtype of computation, and all that depends on them alone
        computed once. `step` takes either, with the same results.
        """
        cast = in_dtype(params, self.config.dtype)
        return cast | {"memory": self.memory.prepare(cast["memory"])}

    @jax.named_scope("encoder")
    def preprocess(self, observation: Observation) -> Observation:
        """An environment's observation as the agent stores, encodes and reconstructs it: `Inputs.observation`."""
        return encoder.preprocess(self.config.encoder, self.space, observation)

    @jax.named_scope("encoder")
    def encode(self, params: Params, inputs: Inputs) -> Array:
        own, config = (params["encoder"], self.config.encoder, self.space), self.config
        return encoder.encode(*own, inputs.observation, *self._before(inputs), dtype=config.dtype)

    @jax.named_scope("encoder")
    def encode_all(self, params: Params, inputs_tb: Inputs) -> Array:
        """Many steps of many environments, without moving any of them: [T, B, D]."""
        own, config = (params["encoder"], self.config.encoder, self.space), self.config
        embedded_tb = encoder.embed(*own, inputs_tb.observation, config.dtype)

        def join(inputs: Inputs, embedded: dict[str, Array]) -> Array:
            return encoder.join(*own, embedded, *self._before(inputs), dtype=config.dtype)

        return jax.vmap(jax.vmap(join))(inputs_tb, embedded_tb)

    def _before(self, inputs: Inputs) -> tuple[Array, Array]:
        """The last action (one-hot) and reward: zeros at an episode's first step, where they would be a leak."""
        known = ~inputs.first
        action = jnp.where(known, jax.nn.one_hot(inputs.action, self.actions), 0.0)
        return action, jnp.where(known, inputs.reward, 0.0)

    def step(self, params: Params, state: Any, inputs: Inputs) -> tuple[Any, Output]:
        x_d = self.encode(params, inputs)
        state, y_d = self.memory.step(params["memory"], state, x_d, inputs.first)
        return state, Output(*heads.policy_value(params["heads"], y_d), y_d)

    def step_recalling(self, params: Params, state: Any, inputs: Inputs) -> tuple[Any, Output, Recall]:
        """`step`, and what the memory attended to."""
        x_d = self.encode(params, inputs)
        state, y_d, recall = self.memory.step(params["memory"], state, x_d, inputs.first, recall=True)
        return state, Output(*heads.policy_value(params["heads"], y_d), y_d), recall

    def unroll(self, params: Params, state: Any, inputs_t: Inputs) -> tuple[Any, Output]:
        """T steps at once: inputs and outputs have the axis T in front."""
        x_tbd = self.encode_all(params, jax.tree.map(lambda leaf_t: leaf_t[:, None], inputs_t))
        return self.unroll_encoded(params, state, x_tbd[:, 0], inputs_t.first)

    def unroll_encoded(self, params: Params, state: Any, x_td: Array, first_t: Array) -> tuple[Any, Output]:
        """`unroll` of inputs that are encoded already."""
        state, y_td = self.memory.unroll(params["memory"], state, x_td, first_t)
        return state, Output(*jax.vmap(partial(heads.policy_value, params["heads"]))(y_td), y_td)

    def unroll_batch(self, params: Params, state_b: Any, inputs_tb: Inputs) -> Output:
        """The outputs [T, B] of T steps of B environments, from their states at the first step: learning's pass.

        Frames are encoded as they lie, time first: environments first would move every one of them.
        """
        x_tbd = self.encode_all(params, inputs_tb)
        unroll = jax.vmap(partial(self.unroll_encoded, params), in_axes=(0, 1, 1), out_axes=(0, 1))
        output_tb: Output = unroll(state_b, x_tbd, inputs_tb.first)[1]
        return output_tb

    def undo(self, before: Any, after: Any) -> Any:
        """A state without the step from `before` to `after`: drop `before` and continue with this."""
        return self.memory.undo(before, after)

    def reconstruction(self, params: Params, y_d: Array, observation: Observation) -> dict[str, Array]:
        """The reconstruction loss of each part of a preprocessed observation, by name; of one step or of many."""
        with jax.named_scope("reconstruction"):
            return decoders.losses(params["decoders"], self.config.encoder, self.space, y_d, observation)


# Names of parameters, losses and diagnostics: a part of an observation must not be called so.
RESERVED = {"join", "norm", "policy", "baseline", "negative_entropy", "labels", "entropy", "ratio", "ratio_first"}
RESERVED |= {"ratio_deviation", "ratio_deviation_first", "value", "advantage", "accuracy", "gradient_norm", "penalty"}


def make(config: AgentConfig, env: Environment) -> Agent:
    """An agent for the observations and actions of an environment.

    A configuration that brings a `network` for whole observations is the agent; any other is the memory of one.
    """
    for name in encoder.parts(env.observation_space):
        if name in RESERVED:
            raise ValueError(f"a part of an observation is called {name!r}, which hcam uses itself: rename it.")
    config, space, actions = config.here(), env.observation_space, env.action_space.n
    if hasattr(config.memory, "network"):
        return NetworkAgent(config, config.memory.network(space, actions, config.dtype))
    for part in encoder.parts(space).values():
        encoder.features_of(config.encoder, part)  # refuses sizes that do not fit
    # What enters the memory comes out of a layer norm, and training stops at the first loss that is not a number.
    built = memory.unguarded(memory.make(config.memory, dtype=config.dtype))
    return MemoryAgent(config, built, space, actions)
