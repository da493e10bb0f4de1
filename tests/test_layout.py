"""The rules that keep the package flat, checked by parsing the files (nothing is imported)."""

import ast
import os
import pkgutil
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "hcam"

MAX_FILE_LINES = 300
MAX_FUNCTION_LINES = 60
LONGER_FUNCTIONS = {("hcam/training.py", "train"): 120}  # the one loop, which reads best in one piece

# Made by tools or by runs, never published: what they hold is nobody's source.
SKIPPED_FOLDERS = {".git", ".venv", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", "__pycache__"}
SKIPPED_FOLDERS |= {"build", "dist", "site", ".gpu"}
RUNS = ROOT / "runs"  # what training leaves; hcam/runs and tests/runs are source
SKIPPED_FILES = {"requirements.lock", ".git"}  # in a git worktree, .git is a file
# In parts, so that this file does not hold what it looks for.
MACHINE_PATHS = ["/" + rest for rest in ("root/", "tmp/bash_jobs", "work/main", "work/shared")]


def python_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)


def source_files() -> Iterator[Path]:
    """Yields every file of the repository, committed or not, outside what tools and runs leave behind."""
    for folder, subfolders, names in os.walk(ROOT):
        kept = (n for n in subfolders if n not in SKIPPED_FOLDERS and not n.endswith(".egg-info"))
        subfolders[:] = sorted(n for n in kept if Path(folder) / n != RUNS)
        yield from (Path(folder) / name for name in sorted(names) if name not in SKIPPED_FILES)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache  # every rule reads every file
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=name_of(path))


def imports_of(path: Path) -> Iterator[tuple[int, bool, str]]:
    """Yields (line, whether relative, full dotted name) for every import, at any depth of the file.

    `from .chunks import write` in hcam/memory/hcam.py gives "hcam.memory.chunks.write": the name is made absolute,
    and an imported name is joined on, because it may be a module (`from hcam import memory`).
    """
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, False, alias.name
        elif isinstance(node, ast.ImportFrom):
            # One dot is the file's own package, each further dot is one level up.
            base = package[: len(package) - (node.level - 1)] if node.level else ()
            module = (node.module,) if node.module else ()
            for alias in node.names:
                yield node.lineno, node.level > 0, ".".join((*base, *module, alias.name))


def is_inside(name: str, module: str) -> bool:
    return name == module or name.startswith(module + ".")


def listed(problems: list[str]) -> str:
    return "\n  " + "\n  ".join(problems)


def test_memory_imports_only_jax():
    problems = []
    for path in python_files(PACKAGE / "memory"):
        for line, relative, name in imports_of(path):
            top = name.split(".")[0]
            allowed = is_inside(name, "hcam.memory") if relative else top == "jax" or top in sys.stdlib_module_names
            if not allowed:
                problems.append(f"{name_of(path)}:{line} imports {name}")
    assert not problems, (
        "hcam/memory is a folder that people copy into their own project: it may import jax, the standard library and, "
        f"relatively, its own files.{listed(problems)}"
    )


def test_adapters_import_only_what_they_adapt():
    problems = [
        f"{name_of(path)}:{line} imports {name}"
        for path in python_files(PACKAGE / "adapters")
        for line, _, name in imports_of(path)
        if is_inside(name, "hcam")
        and not any(is_inside(name, part) for part in ("hcam.memory", "hcam.envs", "hcam.adapters"))
    ]
    assert not problems, f"From the package, hcam/adapters may import hcam.memory and hcam.envs.{listed(problems)}"


def test_envs_import_only_jax_and_numpy():
    problems = []
    for path in python_files(PACKAGE / "envs"):
        for line, _, name in imports_of(path):
            top = name.split(".")[0]
            allowed = is_inside(name, "hcam.envs") or top in {"jax", "numpy"} or top in sys.stdlib_module_names
            if not allowed and path.name != "registry.py":  # which also finds and adapts other people's
                problems.append(f"{name_of(path)}:{line} imports {name}")
    assert not problems, f"A task is pure JAX: hcam/envs may import jax, numpy and its own files.{listed(problems)}"


def tasks() -> list[str]:
    """Those that come with the package; a probe is none."""
    folder = PACKAGE / "envs" / "tasks"
    return sorted(path.stem for path in folder.iterdir() if path.stem not in {"__init__", "__pycache__"})


# Tasks whose names are English words, or the beginning of one (a pair), which any sentence may use.
PLAIN_WORDS = {"match", "objects", "pai", "words"}


def knows(text: str, task: str) -> bool:
    """Whether a name, a text or the path of an import speaks of a task."""
    if task not in PLAIN_WORDS:
        return bool(re.search(rf"\b{task}", text, re.IGNORECASE))
    return bool(re.search(rf"hcam\.(envs\.tasks|recipes)\.{task}\b|hcam/{task}-", text, re.IGNORECASE))


def test_plain_words_are_tasks():
    """A word that is no task's name any more would be allowed for nothing."""
    assert set(tasks()) >= PLAIN_WORDS


def test_a_task_is_named_in_its_own_files_only():
    """Everything else asks the environment, or its recipe. Examples in docstrings and comments are no knowledge."""
    assert tasks()
    problems = []
    for path in python_files(PACKAGE):
        tree = parse(path)
        texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)} - docstrings(tree)
        known = {name for node in ast.walk(tree) for name in (getattr(node, "id", ""), getattr(node, "attr", ""))}
        known |= texts | {name for _, _, name in imports_of(path)}
        for task in tasks():
            own = (PACKAGE / "envs" / "tasks" / task, PACKAGE / "recipes" / task)
            if any(folder in path.parents or path == folder.with_suffix(".py") for folder in own):
                continue
            found = [text for text in known if isinstance(text, str) and knows(text, task)]
            found += [task] if task in texts else []
            problems += [f"{name_of(path)} knows {text!r}" for text in found]
    assert not problems, f"A task owns its facts: ask the environment or the recipe.{listed(problems)}"


def docstrings(tree: ast.Module) -> set[str]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    return {ast.get_docstring(node, clean=False) or "" for node in nodes}


def test_a_recipe_belongs_to_a_task():
    recipes = {module.name for module in pkgutil.iter_modules([f"{PACKAGE / 'recipes'}"])} - {"recipe", "general"}
    assert recipes <= set(tasks())


def test_files_are_short():
    problems = []
    for path in python_files(PACKAGE):
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines > MAX_FILE_LINES:
            problems.append(f"{name_of(path)} has {lines} lines")
    assert not problems, f"A file has at most {MAX_FILE_LINES} lines: split it by what it is about.{listed(problems)}"


def test_functions_are_short():
    problems = []
    for path in python_files(PACKAGE):
        for node in ast.walk(parse(path)):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            limit = LONGER_FUNCTIONS.get((name_of(path), node.name), MAX_FUNCTION_LINES)
            if lines > limit:
                problems.append(f"{name_of(path)}:{node.lineno} {node.name} has {lines} lines, {limit} allowed")
    assert not problems, f"A function fits on a screen: give its steps names of their own.{listed(problems)}"


def test_every_module_has_its_test_file():
    problems = []
    for path in python_files(PACKAGE):
        if path.name in {"__init__.py", "__main__.py"}:
            continue
        test = ROOT / "tests" / path.relative_to(PACKAGE).with_name(f"test_{path.name}")
        if not test.is_file():
            problems.append(f"{name_of(path)} needs {name_of(test)}")
    assert not problems, f"tests/ mirrors hcam/ file by file.{listed(problems)}"


def test_nothing_is_called_utils():
    problems = [name_of(path) for path in source_files() if path.name == "utils.py"]
    assert not problems, f"utils.py says nothing about what is inside: name the file after that.{listed(problems)}"


def test_no_machine_paths():
    problems = []
    for path in source_files():
        content = path.read_bytes()
        if b"\0" in content:  # not text
            continue
        for number, line in enumerate(content.decode("utf-8", errors="replace").splitlines(), start=1):
            problems += [f"{name_of(path)}:{number} holds {needle}" for needle in MACHINE_PATHS if needle in line]
    assert not problems, f"A path of one machine means nothing on another: write it relative.{listed(problems)}"


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_no_page_has_a_section_twice():
    for page in pages():
        headings = re.findall(r"^##+ .*$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert len(headings) == len(set(headings)), f"{name_of(page)} repeats a heading: {headings}"


def test_pages_name_only_results_that_are_there():
    """Besides the page of results itself, which also names the runs that nobody has made yet."""
    for page in pages():
        if page.name != "results.md":
            for found in re.findall(r"results/[\w./*-]*[\w*]", page.read_text(encoding="utf-8")):
                assert list(ROOT.glob(found)), f"{name_of(page)} names {found}"
