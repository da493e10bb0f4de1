"""The agent: encoder -> memory -> heads. `step` acts, `unroll` learns, and both give the same."""

from hcam.agent.agent import Agent, AgentConfig, make

__all__ = ["Agent", "AgentConfig", "make"]
