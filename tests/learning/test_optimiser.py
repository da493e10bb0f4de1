"""The learning rate over time, clipping, and Adam's first step by hand."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from hcam.learning import optimiser
from hcam.learning.optimiser import OptimiserConfig


def rates(steps, updates=100, **config):
    with jax.numpy_dtype_promotion("standard"):
        rate = optimiser.learning_rate(OptimiserConfig(learning_rate=1.0, **config), updates)
        return [float(rate(step)) for step in steps]


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("constant", [1, 1, 1, 1, 1]),
        ("linear", [1, 0.75, 0.5, 0, 0]),
        ("cosine", [1, (1 + np.cos(np.pi / 4)) / 2, 0.5, 0, 0]),
    ],
)
def test_schedules_from_start_to_end_and_after(schedule, expected):
    np.testing.assert_allclose(rates([0, 25, 50, 100, 150], schedule=schedule), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [("constant", [0, 0.5, 1, 1, 1]), ("linear", [0, 0.5, 1, 0.5, 0]), ("cosine", [0, 0.5, 1, 0.5, 0])],
)
def test_warm_up_grows_from_nothing_and_the_rest_of_the_run_is_the_schedule(schedule, expected):
    np.testing.assert_allclose(rates([0, 10, 20, 60, 100], schedule=schedule, warmup=20), expected, atol=1e-6)


def test_a_run_shorter_than_its_warm_up_only_grows():
    np.testing.assert_allclose(rates([0, 5, 10], updates=10, schedule="linear", warmup=20), [0, 0.25, 0.5], atol=1e-6)


def first_step(gradient, **config):
    made = optimiser.make(OptimiserConfig(**config), updates=10)
    params = {"a": jnp.zeros(2), "b": jnp.zeros(())}
    with jax.numpy_dtype_promotion("standard"):
        change, state = made.update(gradient, made.init(params), params)
    return change, optax.tree.get(state, "mu")


GRADIENT = {"a": jnp.array([3.0, 0.0]), "b": jnp.array(-4.0)}  # of norm 5


def test_adam_takes_its_first_step_of_one_learning_rate():
    change, _ = first_step(GRADIENT, learning_rate=0.25, clip=0)
    np.testing.assert_allclose(change["a"], [-0.25, 0], rtol=1e-5)
    np.testing.assert_allclose(change["b"], 0.25, rtol=1e-5)


@pytest.mark.parametrize(("clip", "norm"), [(1.0, 1.0), (2.5, 2.5), (5.5, 5.0), (0, 5.0)])
def test_clipping_limits_the_norm_of_the_whole_gradient(clip, norm):
    """Adam's first moment after one step is (1 - beta_1) of the gradient that it was given."""
    _, moment = first_step(GRADIENT, clip=clip, beta_1=0.5)
    given = jax.tree.map(lambda leaf: leaf / 0.5, moment)
    np.testing.assert_allclose(optax.tree.norm(given), norm, rtol=1e-5)
    np.testing.assert_allclose(given["b"], -4 * norm / 5, rtol=1e-5)  # the direction stays


def test_the_paper_says_adam_with_a_rate_of_two_in_ten_thousand():
    assert OptimiserConfig().learning_rate == 2e-4


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"learning_rate": -1.0}, "learning_rate must not be negative, but is -1.0."),
        ({"learning_rate": float("nan")}, "learning_rate must be a finite number, but is nan."),
        ({"clip": float("inf")}, "clip must be a finite number, but is inf."),
        ({"warmup": 0.5}, "warmup must be a whole number, but is 0.5."),
        ({"clip": -0.5}, "clip must not be negative, but is -0.5."),
        ({"warmup": -1}, "warmup must not be negative, but is -1."),
        ({"epsilon": -1e-8}, "epsilon must not be negative, but is -1e-08."),
        ({"beta_1": 1.0}, "beta_1 must be at least 0 and below 1, but is 1.0."),
        ({"beta_2": -0.1}, "beta_2 must be at least 0 and below 1, but is -0.1."),
        ({"schedule": "step"}, "schedule must be one of 'constant', 'linear', 'cosine', but is 'step'."),
    ],
)
def test_bad_values_are_refused(wrong, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        OptimiserConfig(**wrong)
