"""Gymnasium's own processes, for a comparison."""

import subprocess
import sys

# In a process without JAX, which must not be forked.
SCRIPT = """
from hcam.benchmarks import vector
from hcam.host.source import Source
envs = vector.make(Source("gymnasium", "tests.host.toys:clock"), 2)
envs.reset(seed=0)
assert vector.rate(envs, 0.1) > 0
envs.close()
"""


def test_random_steps_are_counted():
    subprocess.run([sys.executable, "-c", SCRIPT], check=True, timeout=60)
