"""No page shows a command that does not exist: commands, their options, tasks, presets, levels and agents are known."""

import re
import shlex
from collections.abc import Sequence
from contextlib import redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from hcam import cli, envs, recipes
from hcam.agent.memories import names as known_memories
from hcam.runs import pretrained

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(str(path.relative_to(ROOT)) for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```(?:bash|sh)?\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
TOML = re.compile(r"^```toml\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)  # the entry points of a package
INLINE = re.compile(r"(?<!`)`(hcam\s[^`]+)`(?!`)")
FOLDERS = ("attention", "eval", "export", "report", "watch")  # commands whose words are folders of runs, or agents


def commands(text: str) -> list[list[str]]:
    """The words of every command, without its comment; those in a line of text as well."""
    lines = [line for block in BLOCK.findall(text) for line in block.replace("\\\n", " ").splitlines()]
    lines += [" ".join(line.split()) for line in INLINE.findall(BLOCK.sub("", text))]
    return [shlex.split(line, comments=True) for line in lines if re.match(r"hcam\s+[a-z-]", line)]


def problem(words: list[str], own: Sequence[str] = ()) -> str:
    """What is wrong with a command, or nothing; the page has tasks of its `own`."""
    _, *words = words
    name = next((name for name in cli.COMMANDS if words[: len(name.split())] == name.split()), None)
    if name is None:
        return "" if words in (["--help"], ["--version"], ["bench"]) else "there is no such command"
    rest = words[len(name.split()) :]
    named = values(rest)
    given, task = named.keys() - {""}, task_of(name, named)
    unknown = given - flags(name, *memories(named))
    if unknown and name == "train" and task in recipes.every():  # whose memories may have options of their own
        unknown = given - flags(f"train {task}", *memories(named))
    return f"no option {', '.join(sorted(unknown))}" if unknown else wrong_value("" if task in own else task, named)


def values(words: list[str]) -> dict[str, list[str]]:
    """What stands behind each option; behind none, under ""."""
    found: dict[str, list[str]] = {"": []}
    flag = ""
    for word in words:
        if word.startswith("-"):
            flag, _, value = word.partition("=")
            found[flag] = [value] if value else []
        else:
            found[flag].append(word)
    return found


def memories(named: dict[str, list[str]]) -> list[str]:
    """Those that decide which options there are; of somebody's own memory, nothing is known."""
    return sorted(set(named.get("--memory", [])) & set(known_memories())) or ["hcam"]


@cache
def flags(command: str, *memory: str) -> frozenset[str]:
    """All options of a command, from its help."""
    if command in ("bench train", "bench host"):  # which take the options of training as well
        return flags(f"{command} alone") | flags("train", *memory)
    if command.startswith("train") and len(memory) > 1:
        return frozenset.union(*(flags(command, one) for one in memory))
    words = [*command.removesuffix(" alone").split(), "--help"]
    words += ["--memory", *memory] if command.startswith("train") else []
    with redirect_stdout(StringIO()) as shown, pytest.raises(SystemExit):
        cli.main(words)
    return frozenset(re.findall(r"(?<![\w-])--?[a-z][\w-]*", shown.getvalue()))


def wrong_value(task: str, named: dict[str, list[str]]) -> str:
    if task and task not in envs.names() and ":" not in task and not task.isupper():
        return f"there is no task {task}"
    agents = [word.removeprefix("pretrained:") for word in named[""] if word.startswith("pretrained:")]
    if missing := set(agents) - {"NAME", *pretrained.names()}:
        return f"there is no agent {', '.join(missing)}"
    recipe = recipes.find(task)
    if wrong := set(named.get("--preset", [])) - {"general", *(recipe.presets if recipe else ())}:
        return f"{task} has no preset {', '.join(wrong)}"
    if task in envs.names() and "--env-arg" not in named:
        for level in [*named.get("--level", []), *named.get("--levels", [])]:
            if level.startswith("$"):  # of a loop in a shell
                continue
            try:
                environment(task).level(level)
            except ValueError as error:
                return f"{error}"
    return ""


def task_of(command: str, named: dict[str, list[str]]) -> str:
    """The task that a command is about; "" if it is of no known one."""
    first = next(iter(named[""]), "")
    if command in FOLDERS:
        agent = re.match(r"(?:runs/|pretrained:)(\w+)", first)
        found = agent[1].replace("quickstart", "ballet") if agent else ""
        return found if found in envs.names() else ""
    if (command, first) == ("reproduce", "next"):
        return ""
    return first or ("ballet" if command in ("train", "bench train", "bench env") else "")


@cache
def environment(task: str) -> Any:
    return envs.make(task)


@pytest.mark.parametrize("page", [page for page in PAGES if commands((ROOT / page).read_text(encoding="utf-8"))])
def test_every_command_exists(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    own = [name for block in TOML.findall(text) for name in re.findall(r"^(\w+) =", block, flags=re.MULTILINE)]
    wrong = [f"{shlex.join(words)}: {found}" for words in commands(text) if (found := problem(words, own))]
    assert not wrong, "\n".join(wrong)


def test_every_make_target_exists():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        shown = re.findall(r"^make ([a-z]+)|`make ([a-z]+)`", text, flags=re.MULTILINE)
        assert {first or second for first, second in shown} <= targets, page


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("hcam dream", "no such command"),
        ("hcam train --window 3  # as it is", ""),
        ("hcam train --memory lstm --window 3", "no option --window"),
        ("hcam train --memroy hcam", "no option --memroy"),
        ("hcam train chess", "no task chess"),
        ("hcam train pai --preset huge", "no preset huge"),
        ("hcam eval pretrained:chess", "no agent chess"),
        ("hcam show ballet --level delay16", "no Ballet level"),
        ("hcam show my_module:MyTask --level any --out x.gif", ""),
    ],
)
def test_a_mistake_is_found(command, reason):
    (words,) = commands(f"```\n{command}\n```")
    assert reason in problem(words) if reason else not problem(words)
