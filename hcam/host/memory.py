"""Memory that processes share, as named arrays: an open file without a name, so that nothing is left when they end."""

import math
import mmap
import os
import tempfile
from collections.abc import Mapping
from typing import Any

import numpy as np

ALIGNED = 64  # bytes: a cache line

Fields = Mapping[str, tuple[tuple[int, ...], str]]  # by name: shape and dtype


def create(fields: Fields) -> int:
    """A file descriptor of memory for these arrays, zeros at first."""
    size = max(_ends(fields).values(), default=1)
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("hcam")
    else:  # macOS
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, size)
    return descriptor


def arrays(descriptor: int, fields: Fields) -> dict[str, Any]:
    """The arrays in that memory, to read and to write."""
    ends = _ends(fields)
    shared = mmap.mmap(descriptor, max(ends.values(), default=1))
    found = {}
    for name, (shape, dtype) in fields.items():
        start = ends[name] - _size(shape, dtype)
        found[name] = np.frombuffer(shared, dtype, math.prod(shape), start).reshape(shape)
    return found


def _size(shape: tuple[int, ...], dtype: str) -> int:
    return -(-math.prod(shape) * np.dtype(dtype).itemsize // ALIGNED) * ALIGNED


def _ends(fields: Fields) -> dict[str, int]:
    ends, end = {}, 0
    for name, (shape, dtype) in fields.items():
        end += _size(shape, dtype)
        ends[name] = end
    return ends
