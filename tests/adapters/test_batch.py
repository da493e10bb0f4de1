"""What the Gymnasium adapters share: forks are noticed, and processes that are spawned work."""

import subprocess
import sys

import pytest

from hcam.adapters import batch

PROGRAM = """
import gymnasium, hcam

if __name__ == "__main__":
    options = {"vector_kwargs": {"context": "CONTEXT"}} if "CONTEXT" != "fork" else {}
    envs = gymnasium.make_vec("hcam/Ballet-v0", 2, vectorization_mode="async", level="1_delay0", tile=1, **options)
    observation, _ = envs.reset(seed=0)
    print(observation["image"].shape)
    envs.close()
"""


def run(context, tmp_path):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM.replace("CONTEXT", context))
    return subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.skipif(sys.platform != "linux", reason="only there processes are forked unless asked otherwise")
def test_a_forked_process_says_so_and_does_not_hang(tmp_path):
    done = run("fork", tmp_path)
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1] == f"RuntimeError: {batch.FORKED}"


def test_a_spawned_process_plays(tmp_path):
    done = run("spawn", tmp_path)
    assert done.stdout == "(2, 11, 11, 3)\n", done.stderr


def test_this_process_is_not_forked():
    assert not batch.is_forked()
