"""Hierarchical Chunk Attention Memory: agents that remember, in JAX.

Importing `hcam` loads nothing else, so that `hcam --help` answers at once and `hcam.memory` needs only jax.
"""

__version__ = "0.1.0"
