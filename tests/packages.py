"""Packages of other people, for tests: a module and its entry points, where pip would have put them."""

import sys
from pathlib import Path
from types import ModuleType

import pytest


def install(
    monkeypatch: pytest.MonkeyPatch, folder: Path, module: str, code: str, points: dict[str, dict[str, str]]
) -> None:
    """Until the test is over; `points` are {group: {name: value}}."""
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    groups = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in named.items())
        for group, named in points.items()
    ]
    (info / "entry_points.txt").write_text("\n".join(groups))
    (folder / f"{module}.py").write_text(code)
    monkeypatch.syspath_prepend(folder)
    forget(monkeypatch, module)


def forget(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    """A module is imported anew, and is forgotten again when the test is over."""
    monkeypatch.setitem(sys.modules, module, ModuleType(module))
    del sys.modules[module]
