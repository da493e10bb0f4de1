from typing import Any

import pytest


@pytest.fixture
def drawn(monkeypatch):
    """The figures that are made, kept for looking at."""
    import matplotlib.pyplot as plt

    kept: list[Any] = []
    monkeypatch.setattr(plt, "close", kept.append)
    yield kept
    monkeypatch.undo()
    plt.close("all")
