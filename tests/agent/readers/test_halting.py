"""Halting is bounded: shares sum to one, whatever the network says, and the cost is what they cost."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.agent.readers.halting import adaptive_shares, stopping_shares

CASES = {
    "at once": [1.0, 1.0, 1.0, 1.0],
    "never": [0.0, 0.0, 0.0, 0.0],
    "half": [0.5, 0.5, 0.5, 0.5],
    "slowly": [0.1, 0.2, 0.3, 0.1],
    "late": [0.0, 0.0, 0.7, 0.7],
}
ADAPTIVE: dict[str, Any] = {
    "at once": [1, 0, 0, 0],
    "never": [0, 0, 0, 1],
    "half": [0.5, 0.5, 0, 0],
    "slowly": [0.1, 0.2, 0.3, 0.4],
}
ADAPTIVE["late"] = [0, 0, 0.7, 0.3]
STOPPING: dict[str, Any] = {"at once": [1, 0, 0, 0], "never": [0, 0, 0, 1], "half": [0.5, 0.25, 0.125, 0.125]}
STOPPING |= {"slowly": [0.1, 0.18, 0.216, 0.504], "late": [0, 0, 0.7, 0.3]}
HOPS = {"at once": 1, "never": 4, "half": 2, "slowly": 4, "late": 4}


@pytest.mark.parametrize("name", CASES)
def test_shares_counted_by_hand(name):
    share_nt, cost_t = adaptive_shares(jnp.array(CASES[name])[:, None])
    np.testing.assert_allclose(share_nt[:, 0], ADAPTIVE[name], atol=1e-6)
    last = [share for share in ADAPTIVE[name] if share][-1]
    np.testing.assert_allclose(cost_t, [HOPS[name] + last], atol=1e-6)
    share_n, count = stopping_shares(jnp.array(CASES[name]))
    np.testing.assert_allclose(share_n, STOPPING[name], atol=1e-6)
    np.testing.assert_allclose(count, np.dot(STOPPING[name], [1, 2, 3, 4]), atol=1e-5)


def test_shares_sum_to_one_and_hops_are_bounded():
    stop_nt = jax.random.uniform(jax.random.key(0), (6, 500))
    share_nt, cost_t = adaptive_shares(stop_nt)
    np.testing.assert_allclose(share_nt.sum(0), 1, atol=1e-5)
    assert (share_nt >= 0).all()
    assert (cost_t <= 7).all()
    share_tn, count_t = jax.vmap(stopping_shares)(stop_nt.T)
    np.testing.assert_allclose(share_tn.sum(1), 1, atol=1e-5)
    assert ((count_t >= 1) & (count_t <= 6)).all()


def test_a_higher_price_makes_it_stop_earlier():
    """The gradient of the cost is towards stopping."""
    stop_n = jnp.full(4, 0.2)
    assert (jax.grad(lambda stop_n: stopping_shares(stop_n)[1])(stop_n)[:3] < 0).all()
    assert (jax.grad(lambda stop_n: adaptive_shares(stop_n[:, None])[1].sum())(stop_n)[:3] < 0).all()
