"""Hierarchical Chunk Attention Memory: agents that remember, in JAX.

Importing `hcam` registers our tasks with Gymnasium, where it is installed, and loads nothing else: `hcam --help`
answers at once, and `hcam.memory` needs only jax.
"""

from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hcam.config import Config
    from hcam.envs.environment import Environment
    from hcam.runs.pretrained import Trained

__version__ = "0.1.0"


def train(config: "Config | None" = None, env: "Environment | None" = None, **options: Any) -> "Trained":
    """Trains an agent in a run folder, evaluates it, and loads it: `hcam.api.train` has the arguments."""
    from hcam import api

    return api.train(config, env, **options)


def load(source: "str | Path", *, best: bool = False, env: "Environment | None" = None) -> "Trained":
    """A trained agent: `hcam.load("pretrained:NAME")`; see `hcam.runs.pretrained`."""
    from hcam import api

    return api.load(source, best=best, env=env)


def watch(source: "str | Path", **options: Any) -> "list[Path]":
    """Writes what a trained agent recalls in an episode, as a page: `hcam.api.watch` has the options."""
    from hcam import api

    return api.watch(source, **options)


def _register() -> None:
    try:
        from gymnasium.envs.registration import register, registry
    except ImportError:
        return
    for task in sorted(module.name for module in iter_modules([str(Path(__file__).parent / "envs" / "tasks")])):
        name = f"hcam/{task.title().replace('_', '')}-v0"  # the task itself is imported when it is made
        if name not in registry:
            register(
                name,
                entry_point="hcam.adapters.gymnasium:GymnasiumEnv",
                vector_entry_point="hcam.adapters.gymnasium:GymnasiumVectorEnv",
                kwargs={"env": task},
            )


_register()
