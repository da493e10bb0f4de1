"""The check of the kernels on a GPU, run here at small sizes: it passes, and it notices a kernel that is wrong."""

import jax
import pytest

from hcam.agent.kernels import residual
from tests.agent.kernels import gpu


@pytest.mark.skipif(jax.default_backend() == "gpu", reason="run python -m tests.agent.kernels.gpu")
def test_it_passes_and_prints_a_table(capsys):
    assert gpu.main() == 0
    lines = capsys.readouterr().out.splitlines()
    for name in ("first_layer.embed", "residual.add, 16", "residual.add, 32", "ResNet"):
        rows = [line for line in lines if line.startswith(name)]
        assert rows
        assert all(line.endswith("yes") for line in rows)
    assert lines[-1].startswith("0 of the comparisons failed, ")


def test_a_wrong_kernel_is_noticed(monkeypatch, capsys):
    right = residual.fused_add
    monkeypatch.setattr(residual, "fused_add", lambda *args: 1.03 * right(*args))
    monkeypatch.setattr(gpu, "results", lambda sizes: gpu.compare_residual(sizes, 2, 16))
    assert gpu.main() == 1
    assert "NO" in capsys.readouterr().out
