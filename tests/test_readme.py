"""What the documents show must run as shown, and what they name must be there."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
DOCS = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "log")
LOG = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs" / "log").glob("*.md"))
PYTHON = re.compile(r"```python\n(.*?)```", flags=re.DOTALL)


def text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty working directory from which modules can be imported, and are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for path in tmp_path.glob("*.py"):
        sys.modules.pop(path.stem, None)


@pytest.mark.parametrize("page", [page for page in ("README.md", *DOCS, *LOG) if PYTHON.search(text(page))])
def test_python_blocks_run(page, folder):
    """In order, in one namespace. A block that starts with `# name.py` is a file that the others import."""
    names: dict[str, Any] = {}
    for found in PYTHON.finditer(text(page)):
        block = found[1]
        if file := re.match(r"# (\w+\.py)\n", block):
            (folder / file[1]).write_text(block, encoding="utf-8")
        else:
            line = text(page)[: found.start(1)].count("\n")
            exec(compile("\n" * line + block, str(ROOT / page), "exec"), names)


def test_the_two_commands_are_the_makefiles():
    setup = re.search(r"```\n(.*?)```", text("README.md"), flags=re.DOTALL)
    assert setup
    commands = re.findall(r"^make (\w+)", setup.group(1), flags=re.MULTILINE)
    assert commands == ["train", "test"]
    assert all(re.search(rf"^{name}:", text("Makefile"), flags=re.MULTILINE) for name in commands)


@pytest.mark.parametrize("page", ["README.md", *DOCS, *LOG])
def test_links_lead_somewhere(page):
    missing = []
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)", text(page)):
        path = (ROOT / page).parent / target if target else ROOT / page
        if not path.exists() or (anchor and anchor not in anchors(path)):
            missing.append(f"{target}#{anchor}" if anchor else target)
    assert not missing


def anchors(path: Path) -> set[str]:
    """The names by which GitHub links to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_log_lists_every_page():
    listed = re.findall(r"\]\(([^)]+)\)", text("docs/log/README.md"))
    assert sorted(listed) == [Path(page).name for page in LOG if not page.endswith("README.md")]
    assert all(re.match(r"\d{4}-\d\d-\d\d-[a-z0-9-]+\.md$", name) for name in listed)


@pytest.mark.parametrize("page", LOG)
def test_the_log_names_only_results_that_are_there(page):
    named = re.findall(r"results/[\w./*-]*[\w*]", text(page))
    assert not [name for name in named if not list(ROOT.glob(name))]


def test_every_option_is_documented():
    """Each field of each configuration is on docs/memory.md."""
    from dataclasses import fields

    from hcam.memory import MEMORIES

    page = text("docs/memory.md")
    missing = {(name, f.name) for name, config in MEMORIES.items() for f in fields(config) if f"`{f.name}`" not in page}
    assert not missing
