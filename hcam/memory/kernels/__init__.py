"""GPU kernels (Pallas on Triton) for what XLA would do with a copy of the stored rows.

`window_step.py` and `step.py` serve acting, `window_unroll.py` and `unroll.py` serve learning. Each kernel stands
beside its plain form: the same function in plain JAX, which is its oracle in the tests and which other machines run.
Without a GPU the kernels are interpreted, which is slow and meant for tests.
"""

from . import common, step, unroll, window_step, window_unroll

__all__ = ["common", "step", "unroll", "window_step", "window_unroll"]
