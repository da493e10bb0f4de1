"""Encoder, memory and heads as one agent: `step` acts, `unroll` learns, and both give the same."""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from hcam.agent import encoder, heads
from hcam.agent.encoder import EncoderConfig
from hcam.agent.heads import HeadsConfig
from hcam.envs.environment import Environment, Observation
from hcam.envs.spaces import Spaces
from hcam.memory import HCAM, LSTM, Local, TrXL, checks
from hcam.memory import make as make_memory
from hcam.memory.layers import in_dtype
from hcam.memory.types import Array, Memory, Params


@dataclass(frozen=True, kw_only=True)
class MemoryConfig:
    """Which memory, and its sizes; those that a memory does not have are not used. docs/memory.md explains each."""

    memory: Literal["hcam", "trxl", "lstm", "none"] = "hcam"
    width: int = 512
    layers: int = 4
    heads: int = 8
    chunk: int = 32
    slots: int = 64
    top_k: int = 8
    overlap: int = 0
    window: int | None = None  # None: one chunk for hcam and none, 320 for trxl
    gated: bool | None = None  # None: as in the paper, trxl is and the others are not
    trxl_top_k: int | None = None
    mlp: int = 4

    def __post_init__(self) -> None:
        checks.choice(("hcam", "trxl", "lstm", "none"), memory=self.memory)
        self.build()

    def build(self) -> HCAM | TrXL | LSTM | Local:
        """The memory's own configuration, which checks that the sizes fit."""
        sizes: dict[str, Any] = {"width": self.width, "layers": self.layers}
        if self.memory == "lstm":
            return LSTM(**sizes)
        sizes |= {"heads": self.heads, "mlp": self.mlp}
        if self.gated is not None:
            sizes["gated"] = self.gated
        if self.memory == "trxl":
            return TrXL(**sizes, window=320 if self.window is None else self.window, top_k=self.trxl_top_k)
        if self.memory == "none":
            return Local(**sizes, window=self.chunk if self.window is None else self.window)
        chunks: dict[str, Any] = {
            "chunk": self.chunk,
            "slots": self.slots,
            "top_k": self.top_k,
            "overlap": self.overlap,
        }
        return HCAM(**sizes, **chunks, window=self.window)


@dataclass(frozen=True, kw_only=True)
class AgentConfig:
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    heads: HeadsConfig = field(default_factory=HeadsConfig)
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"  # of computation; parameters and losses are float32

    def __post_init__(self) -> None:
        checks.choice(("auto", "float32", "bfloat16"), dtype=self.dtype)

    def here(self) -> "AgentConfig":
        """The same, with `auto` decided for this machine: bfloat16 on accelerators, float32 on a CPU."""
        return self if self.dtype != "auto" else replace(self, dtype=_dtype_here())


def _dtype_here() -> Literal["float32", "bfloat16"]:
    return "float32" if jax.default_backend() == "cpu" else "bfloat16"


class Inputs(NamedTuple):
    """What an agent is given at a step."""

    observation: Observation  # as `Agent.preprocess` gave it
    first: Array  # bool, the first step of an episode
    action: Array  # int32, the one before; not seen at an episode's first step
    reward: Array  # float32, the one before; likewise


class Output(NamedTuple):
    logits: Array  # [A], float32
    value: Array  # float32
    y_d: Array  # what the memory gave: the decoders reconstruct from it


@dataclass(frozen=True, eq=False)  # hashed by identity, to be a static argument of jax.jit
class Agent:
    """Pure functions for one environment, like a memory's."""

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
            "decoders": heads.init_decoders(key_decoders, config.encoder, self.space, width),
        }

    def init_state(self) -> Any:
        return self.memory.init_state()

    def prepare(self, params: Params) -> Params:
        """The same parameters for many steps: in the dtype of computation, and what each would make of them made once.

        `step` takes either, and gives the same.
        """
        weights = in_dtype(params, self.config.dtype)
        return weights | {"memory": self.memory.prepare(weights["memory"])}

    @jax.named_scope("encoder")
    def preprocess(self, observation: Observation) -> Observation:
        """What the environment shows, as it is kept, encoded and reconstructed: `Inputs.observation`."""
        return encoder.preprocess(self.config.encoder, self.space, observation)

    @jax.named_scope("encoder")
    def encode(self, params: Params, inputs: Inputs) -> Array:
        own, config = (params["encoder"], self.config.encoder, self.space), self.config
        return encoder.encode(*own, inputs.observation, *self._before(inputs), dtype=config.dtype)

    @jax.named_scope("encoder")
    def encode_all(self, params: Params, inputs_tb: Inputs) -> Array:
        """Many steps of many environments, as they lie: [T, B, D]."""
        own, config = (params["encoder"], self.config.encoder, self.space), self.config
        begun_tb = encoder.begin(*own, inputs_tb.observation, config.dtype)

        def finish(inputs: Inputs, begun: dict[str, Array]) -> Array:
            return encoder.finish(*own, begun, *self._before(inputs), dtype=config.dtype)

        return jax.vmap(jax.vmap(finish))(inputs_tb, begun_tb)

    def _before(self, inputs: Inputs) -> tuple[Array, Array]:
        """What was done, one-hot, and gained a step ago: nothing at an episode's first, where it would be a leak."""
        known = ~inputs.first
        action = jnp.where(known, jax.nn.one_hot(inputs.action, self.actions), 0.0)
        return action, jnp.where(known, inputs.reward, 0.0)

    def step(self, params: Params, state: Any, inputs: Inputs) -> tuple[Any, Output]:
        x_d = self.encode(params, inputs)
        state, y_d = self.memory.step(params["memory"], state, x_d, inputs.first)
        return state, Output(*heads.policy_value(params["heads"], y_d), y_d)

    def unroll(self, params: Params, state: Any, inputs_t: Inputs) -> tuple[Any, Output]:
        """T steps at once: inputs and outputs have a time axis in front."""
        x_tbd = self.encode_all(params, jax.tree.map(lambda leaf_t: leaf_t[:, None], inputs_t))
        return self.unroll_encoded(params, state, x_tbd[:, 0], inputs_t.first)

    def unroll_encoded(self, params: Params, state: Any, x_td: Array, first_t: Array) -> tuple[Any, Output]:
        """`unroll` of what is encoded already."""
        state, y_td = self.memory.unroll(params["memory"], state, x_td, first_t)
        return state, Output(*jax.vmap(partial(heads.policy_value, params["heads"]))(y_td), y_td)

    def reconstruction(self, params: Params, y_d: Array, observation: Observation) -> dict[str, Array]:
        """The loss of each part of an observation that `preprocess` gave, by name."""
        with jax.named_scope("reconstruction"):
            return heads.losses(params["decoders"], self.config.encoder, self.space, y_d, observation)


# Names of parameters beside an observation's parts, and of losses and what is told with them.
RESERVED = {"join", "norm", "policy", "baseline", "entropy", "rho", "drift", "rho_first", "drift_first"}
RESERVED |= {"value", "advantage", "gradient"}


def make(config: AgentConfig, env: Environment) -> Agent:
    """An agent for what this environment shows and takes."""
    for name, part in encoder.parts(env.observation_space).items():
        if name in RESERVED:
            raise ValueError(
                f"a part of an observation is called {name!r}, which names something else here: rename it."
            )
        encoder.features_of(config.encoder, part)  # refuses sizes that do not fit
    config = config.here()
    memory = make_memory(config.memory.build(), dtype=config.dtype)
    return Agent(config, memory, env.observation_space, env.action_space.n)
