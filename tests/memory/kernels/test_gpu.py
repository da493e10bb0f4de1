"""The check of the kernels on a GPU, run here at small sizes: it passes, and it notices a kernel that is wrong."""

import jax
import jax.numpy as jnp
import pytest

from hcam.memory.kernels import step
from tests.memory.kernels import gpu


@pytest.mark.skipif(jax.default_backend() == "gpu", reason="run python -m tests.memory.kernels.gpu")
def test_it_passes_and_prints_a_table(capsys):
    assert gpu.main() == 0
    lines = capsys.readouterr().out.splitlines()
    names = (
        "window_step.attend",
        "step.summarise",
        "step.recall",
        "window_unroll.attend",
        "unroll.recall",
        "HCAM",
        "TrXL",
    )
    for name in names:
        rows = [line for line in lines if line.startswith(name)]
        assert rows
        assert all(line.endswith("yes") for line in rows)
    assert lines[-1].startswith("0 of the comparisons failed, ")
    assert lines[-1].endswith(" s")


def test_a_wrong_kernel_is_noticed(monkeypatch, capsys):
    right = step.recall
    monkeypatch.setattr(step, "recall", lambda *args: jax.tree.map(lambda leaf: 1.03 * leaf, right(*args)))
    monkeypatch.setattr(gpu, "results", gpu.compare_recall_step)
    assert gpu.main() == 1
    assert "NO" in capsys.readouterr().out


def test_nan_is_no_small_error():
    assert not gpu.Result("", float(jnp.nan), 1.0).ok
