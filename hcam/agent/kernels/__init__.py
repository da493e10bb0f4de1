"""GPU kernels (Pallas on Triton) for the convolutions of a ResNet, whose few channels leave XLA's matrix units idle.

`first_layer.py` reads an image's bytes, `residual.py` is a residual pair of convolutions. As in `hcam.memory.kernels`,
each kernel stands beside its plain form, which is its oracle in the tests and which other machines run, and without a
GPU the kernels are interpreted, which is slow and meant for tests.
"""

from typing import Any

from hcam.memory.kernels import common

from . import first_layer, residual

__all__ = ["first_layer", "residual", "used"]


def used(dtype: Any) -> bool:
    """Whether there are kernels for this machine and dtype of computation; each has its own `supported` for sizes."""
    return common.supported(common.MIN_SIZE, common.MIN_SIZE, dtype)
