"""In a session with 64 bits (JAX_ENABLE_X64=1) every task is played, and an agent trained and evaluated."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from hcam import envs
from tests.test_training import TINY

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("task", envs.names())
def test_every_task_can_be_played(task: str):
    """Traced alone, which is where dtypes meet."""
    env = envs.make(task)
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):  # as in a session of a user's
        params = env.params()
        seen, state = jax.eval_shape(env.reset, jax.random.key(0), params)
        after = jax.eval_shape(env.step, jax.random.key(0), state, jnp.int32(0), params)
    assert jax.tree.map(lambda leaf: leaf.dtype, after[0]) == jax.tree.map(lambda leaf: leaf.dtype, seen)
    assert jax.tree.map(lambda leaf: leaf.dtype, after[1]) == jax.tree.map(lambda leaf: leaf.dtype, state)


def test_an_agent_is_trained_and_evaluated(tmp_path: Path):
    variables = os.environ | {"JAX_PLATFORMS": "cpu", "JAX_ENABLE_X64": "1", "PYTHONPATH": str(ROOT)}
    words = [["train", *TINY, "--steps", "64", "--run", "run"], ["eval", "run", "--episodes", "4"]]
    code = f"from hcam.cli import main; assert [main(words) for words in {words}] == [0, 0]"
    done = subprocess.run([sys.executable, "-c", code], env=variables, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "run, 64 steps, 4 episodes a level" in " ".join(done.stdout.split())
