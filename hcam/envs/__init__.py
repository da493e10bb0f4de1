"""Tasks that need a memory, as pure JAX environments: `make("NAME")`. The contract is in docs/environments.md."""

from hcam.envs.environment import Environment, EnvParams, Moments
from hcam.envs.levels import Mixture
from hcam.envs.registry import make, names

__all__ = ["EnvParams", "Environment", "Mixture", "Moments", "make", "names"]
