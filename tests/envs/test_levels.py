"""Mixtures of levels: stacking, weights and drawing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.envs.levels import LEVEL_KEY, Mixture, draw, level_of, mixture, pick

LEVELS = [{"size": jnp.int32(n), "flags": jnp.array([n > 1, True])} for n in (1, 2, 3)]


def counts(levels, number=6000):
    keys = jax.random.split(jax.random.key(0), number)
    return np.bincount(np.asarray(jax.vmap(lambda key: draw(key, levels))(keys)), minlength=3)


def test_levels_are_stacked_and_picked_again():
    levels = mixture(LEVELS)
    assert levels.level_l["flags"].shape == (3, 2)
    second = pick(levels, jnp.int32(1))
    assert (int(second["size"]), second["flags"].tolist()) == (2, [True, True])


@pytest.mark.parametrize("weights", [[1, 1, 2], [1e-50, 1e-50, 2e-50], [1e300, 1e300, 2e300]])
def test_only_the_ratio_of_weights_matters(weights):
    """Weights of 1e-50 are zero in float32, and once always drew the first level."""
    share = counts(mixture(LEVELS, weights)) / 6000
    np.testing.assert_allclose(share, [0.25, 0.25, 0.5], atol=4 * np.sqrt(0.25 / 6000))


def test_a_weight_of_zero_is_never_drawn():
    assert counts(mixture(LEVELS, [0, 1, 1]))[0] == 0


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        ([1, 2], "3 levels need as many weights, but there are 2"),
        ([1, 1, -1], "none negative"),
        ([0, 0, 0], "not all 0"),
        ([1, 1, float("nan")], "must be finite"),
        ([1, 1, float("inf")], "must be finite"),
    ],
)
def test_weights_that_are_refused(weights, sentence):
    with pytest.raises(ValueError, match=sentence):
        mixture(LEVELS, weights)


def test_a_single_level_needs_no_drawing():
    """So that its episodes do not depend on how levels are drawn."""
    one = mixture(LEVELS[:1])
    assert "random" not in str(jax.make_jaxpr(draw)(jax.random.key(0), one))
    assert int(draw(jax.random.key(0), one)) == 0


def test_the_level_shares_no_key_with_what_an_environment_splits():
    """jax.random.split(key, n)[i] is fold_in(key, i): the number for levels must be none of these."""
    key = jax.random.key(7)
    parts = jax.random.key_data(jax.random.split(key, 64)).tolist()
    assert jax.random.key_data(jax.random.fold_in(key, 3)).tolist() == parts[3]
    assert jax.random.key_data(jax.random.fold_in(key, LEVEL_KEY)).tolist() not in parts


def test_params_that_are_no_mixture_are_a_level():
    assert level_of((), object()) == ()
    assert level_of(5, object()) == 5
    assert int(level_of(Mixture(jnp.ones(1), jnp.array([4])), object())) == 4
