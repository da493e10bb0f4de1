"""Hierarchical Chunk Attention Memory: agents that remember, in JAX.

Importing `hcam` tells Gymnasium, where it is installed, the names of our tasks, and loads nothing else: `hcam --help`
answers at once, and `hcam.memory` needs only jax.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from hcam.runs.pretrained import Trained

__version__ = "0.1.0"


def load(source: "str | Path", *, best: bool = False) -> "Trained":
    """A trained agent: `hcam.load("pretrained:quickstart")`; see `hcam.runs.pretrained`."""
    from hcam.runs import pretrained

    return pretrained.load(source, best=best)


def _register() -> None:
    try:
        from gymnasium.envs.registration import register, registry
    except ImportError:
        return
    for name, task in {"hcam/Ballet-v0": "ballet"}.items():
        if name not in registry:
            register(
                name,
                entry_point="hcam.adapters.gymnasium:GymnasiumEnv",
                vector_entry_point="hcam.adapters.gymnasium:GymnasiumVectorEnv",
                kwargs={"env": task},
            )


_register()
