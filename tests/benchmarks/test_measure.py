import time

import jax.numpy as jnp
import pytest

from hcam.benchmarks.measure import Cost, Failed, compare, compile_all


class Sleeper:
    """Stands in for a compiled function whose time is known."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.temp_size_in_bytes = 0

    def __call__(self):
        time.sleep(self.seconds)

    def memory_analysis(self):
        return self


def test_seconds_are_seconds():
    costs = compare({"short": Sleeper(0.01), "long": Sleeper(0.05)}, rounds=3, seconds=0.02)
    assert isinstance(costs["short"], Cost)
    assert isinstance(costs["long"], Cost)
    assert costs["short"].seconds == pytest.approx(0.01, rel=0.5)
    assert costs["long"].seconds == pytest.approx(0.05, rel=0.5)


def test_scratch_grows_with_what_must_be_held():
    def hold(x):
        return jnp.cumsum(jnp.sort(x @ x, axis=0), axis=1).sum()  # neither the product nor the sort can be fused away

    small = compare(compile_all({"f": hold}, jnp.ones((64, 64))), jnp.ones((64, 64)), rounds=1)["f"]
    large = compare(compile_all({"f": hold}, jnp.ones((256, 256))), jnp.ones((256, 256)), rounds=1)["f"]
    assert isinstance(small, Cost)
    assert isinstance(large, Cost)
    assert small.scratch >= 64 * 64 * 4
    assert large.scratch >= 256 * 256 * 4


def test_what_cannot_be_compiled_or_run_is_a_result():
    def broken(x):
        raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory")

    compiled = compile_all({"broken": broken}, jnp.ones(1))
    assert compare(compiled, jnp.ones(1), rounds=1) == {"broken": Failed("out of memory")}
    assert compare({"broken": broken}, jnp.ones(1), rounds=1) == {"broken": Failed("out of memory")}
