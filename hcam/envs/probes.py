"""Probes."""

from hcam.envs.environment import Environment

PROBES: dict[str, type[Environment]] = {}
