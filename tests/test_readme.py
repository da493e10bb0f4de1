"""What the documents show must run as shown."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("page", ["README.md", "docs/memory.md", "docs/environments.md", "docs/training.md"])
def test_python_blocks_run(page):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)
    assert blocks
    exec(compile("\n".join(blocks), page, "exec"), {})


def test_the_two_commands_are_the_makefiles():
    setup = re.search(r"```\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert setup
    commands = re.findall(r"^make (\w+)", setup.group(1), flags=re.MULTILINE)
    assert commands == ["train", "test"]
    assert all(re.search(rf"^{name}:", (ROOT / "Makefile").read_text(), flags=re.MULTILINE) for name in commands)


@pytest.mark.parametrize(
    "page", ["README.md", *(str(p.relative_to(ROOT)) for p in sorted((ROOT / "docs").glob("*.md")))]
)
def test_links_lead_somewhere(page):
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", (ROOT / page).read_text())
    missing = [target for target in targets if not ((ROOT / page).parent / target).exists()]
    assert not missing


def test_every_option_is_documented():
    """Each field of each configuration stands in docs/memory.md."""
    from dataclasses import fields

    from hcam.memory import MEMORIES

    page = (ROOT / "docs/memory.md").read_text()
    missing = {(name, f.name) for name, config in MEMORIES.items() for f in fields(config) if f"`{f.name}`" not in page}
    assert not missing
