"""What makes an agent: the settings of its encoder, its memory and its heads."""

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import jax

from hcam.agent.encoder import EncoderConfig
from hcam.agent.heads import HeadsConfig
from hcam.memory import HCAM, checks


@dataclass(frozen=True, kw_only=True)
class AgentConfig:
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    memory: Any = field(default_factory=HCAM)  # any configuration that `hcam.agent.memories` finds by name
    heads: HeadsConfig = field(default_factory=HeadsConfig)
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"  # of computation; parameters and losses are float32

    def __post_init__(self) -> None:
        checks.typed(self)

    def here(self) -> "AgentConfig":
        """The same, with `auto` decided for this machine: bfloat16 on accelerators, float32 on a CPU."""
        on_cpu = jax.default_backend() == "cpu"
        return self if self.dtype != "auto" else replace(self, dtype="float32" if on_cpu else "bfloat16")
