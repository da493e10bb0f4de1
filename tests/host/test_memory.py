"""Arrays in memory that processes share."""

import os

import numpy as np

from hcam.host import memory


def test_two_views_of_one_memory():
    fields = {"a": ((3, 2), "uint8"), "b": ((5,), "float32"), "c": ((2,), "bool")}
    descriptor = memory.create(fields)
    one, two = memory.arrays(descriptor, fields), memory.arrays(descriptor, fields)
    os.close(descriptor)  # the memory stays while it is used
    one["a"][:], one["b"][:], one["c"][1] = 1, np.arange(5), True
    assert two["a"].sum() == 6
    assert two["b"].tolist() == [0, 1, 2, 3, 4]
    assert two["c"].tolist() == [False, True]
    assert two["b"].ctypes.data % memory.ALIGNED == 0
