"""V-trace by hand, and against a slow loop over its definition."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hcam.learning.vtrace import vtrace


def trace(log_rho, reward, value, bootstrap_value, terminated=None, truncated=None, **constants):
    no = [False] * len(reward)
    flags = [jnp.array(no if flag is None else flag) for flag in (terminated, truncated)]
    numbers: list[Any] = [jnp.array(part, jnp.float32) for part in (log_rho, reward, value, bootstrap_value)]
    return vtrace(*numbers, *flags, **constants)


def test_on_policy_vtrace_is_the_discounted_return():
    """rho = 1, discount 1/2, rewards 1, 2, 4, bootstrap value 8:
    target_2 = 4 + 8/2 = 8, target_1 = 2 + 8/2 = 6, target_0 = 1 + 6/2 = 4. Advantages: minus the values 1, 1, 1."""
    target, advantage = trace([0.0] * 3, [1, 2, 4], [1, 1, 1], 8, discount=0.5)
    np.testing.assert_allclose(target, [4, 6, 8])
    np.testing.assert_allclose(advantage, [3, 5, 7])


def test_vtrace_off_policy_by_hand():
    """discount 1/2, rho = 1/2 and 4 (clipped to 1), rewards 1 and 2, values 2 and 4, bootstrap value 8.

    delta_1 = 1 (2 + 8/2 - 4) = 2                    target_1 = 4 + 2 = 6
    delta_0 = 1/2 (1 + 4/2 - 2) = 1/2
    error_0 = 1/2 + 1/2 * 1/2 * 2 = 1                target_0 = 2 + 1 = 3
    advantage_1 = 1 (2 + 8/2 - 4) = 2
    advantage_0 = 1/2 (1 + 6/2 - 2) = 1
    """
    target, advantage = trace(np.log([0.5, 4.0]), [1, 2], [2, 4], 8, discount=0.5)
    np.testing.assert_allclose(target, [3, 6], rtol=1e-6)
    np.testing.assert_allclose(advantage, [1, 2], rtol=1e-6)


def test_nothing_follows_a_terminated_step():
    """The second step terminates an episode: its target is its reward, whatever comes later."""
    target, advantage = trace([0.0] * 3, [1, 2, 4], [1, 1, 1], 8, terminated=[False, True, False], discount=0.5)
    np.testing.assert_allclose(target, [1 + 2 / 2, 2, 8])
    np.testing.assert_allclose(advantage, [1, 1, 7])


def test_a_truncated_episode_continues_with_the_value_of_its_last_observation():
    """Time is up at the second step: it teaches nothing, and the first continues with the value 10 that it led to."""
    target, advantage = trace([0.0] * 3, [1, 2, 4], [1, 10, 1], 8, truncated=[False, True, False], discount=0.5)
    np.testing.assert_allclose(target, [1 + 10 / 2, 10, 8])
    np.testing.assert_allclose(advantage, [5, 0, 7])


def slow_vtrace(log_rho, reward, value, bootstrap_value, terminated, truncated, *, discount, max_rho, max_c, lambda_):
    """Equation 1 of the V-trace paper, term by term: a sum over all later steps, weighted by a product of traces."""
    steps, rho = len(reward), np.exp(log_rho)
    values = np.append(value, bootstrap_value)
    discount_t = np.where(terminated, 0.0, discount)
    weight = np.where(truncated, 0.0, np.minimum(rho, max_rho))
    traces = np.where(truncated, 0.0, lambda_ * np.minimum(rho, max_c))
    target = np.zeros(steps + 1)
    target[-1] = bootstrap_value
    for s in range(steps):
        target[s] = value[s]
        for t in range(s, steps):
            factor = np.prod([discount_t[i] * traces[i] for i in range(s, t)])
            target[s] += factor * weight[t] * (reward[t] + discount_t[t] * values[t + 1] - value[t])
    advantage = [weight[s] * (reward[s] + discount_t[s] * target[s + 1] - value[s]) for s in range(steps)]
    return target[:-1], np.array(advantage)


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.sampled_from([(1.0, 1.0, 1.0), (2.0, 0.7, 1.0), (1.0, 1.0, 0.9)]))
def test_vtrace_equals_the_slow_loop(seed, clipped):
    rng, steps = np.random.default_rng(seed), 7
    log_rho, reward, value = (rng.normal(size=steps).astype(np.float32) for _ in range(3))
    terminated = rng.random(steps) < 0.2
    truncated = (rng.random(steps) < 0.2) & ~terminated
    constants = dict(zip(("max_rho", "max_c", "lambda_"), clipped, strict=True)) | {"discount": 0.9}
    arrays = [jnp.asarray(part) for part in (log_rho, reward, value, np.float32(1.5), terminated, truncated)]
    found = vtrace(*arrays, **constants)
    expected = slow_vtrace(log_rho, reward, value, 1.5, terminated, truncated, **constants)
    for one, two in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-5)
