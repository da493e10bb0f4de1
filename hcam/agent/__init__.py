"""The agent: encoder -> memory -> heads. `step` acts, `unroll` learns, and both give the same."""

from hcam.agent.agent import make
from hcam.agent.config import AgentConfig
from hcam.agent.interface import Agent

__all__ = ["Agent", "AgentConfig", "make"]
