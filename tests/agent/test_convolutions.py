"""Convolutions of many images are those of each; `test_encoder.py` has them against a slow loop."""

import jax
import numpy as np
import pytest

from hcam.agent import convolutions


@pytest.mark.parametrize(("size", "stride"), [(3, 2), (2, 2)])
def test_leading_axes_are_images(size, stride):
    x = jax.random.normal(jax.random.key(0), (2, 3, 4, 6, 2))
    params = convolutions.init_conv(jax.random.key(1), size, 2, 5)
    found = convolutions.conv(params, x, size, stride)
    assert found.shape == (2, 3, 2, 3, 5)
    np.testing.assert_allclose(found[1, 2], convolutions.conv(params, x[1, 2], size, stride), rtol=1e-5, atol=1e-6)


def test_patches_of_many_are_those_of_each():
    x = jax.random.normal(jax.random.key(0), (2, 4, 6, 2))
    np.testing.assert_array_equal(convolutions.patches(x, 2)[1], convolutions.patches(x[1], 2))
    assert convolutions.flat(x[0]).shape == (1, 4, 6, 2)
