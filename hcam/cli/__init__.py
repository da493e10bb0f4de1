"""The command line: `hcam COMMAND ...`, each command a function and its options that function's arguments."""

import os
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import tyro

from hcam.cli import bench, export, report, tasks, train
from hcam.runs.text import printable

COMMANDS: dict[str, Callable[..., Any]] = {
    "train": train.train,
    "eval": train.evaluate,
    "report": report.report,
    "reproduce": report.reproduce,
    "export": export.export,
    "tasks": tasks.tasks,
    "show": tasks.show,
    "bench train": bench.bench_train,
    "bench env": bench.bench_env,
    "bench memory": bench.bench_memory,
}


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    name = next((name for name in COMMANDS if words[: len(name.split())] == name.split()), None)
    if name is None:
        return _usage(words)
    command, rest = COMMANDS[name], words[len(name.split()) :]
    try:
        if command in (train.train, bench.bench_train):  # their options depend on the preset that is among them
            return int(command(rest))
        return tyro.cli(command, args=rest, prog=f"hcam {name}") or 0
    except SystemExit as stopped:  # tyro has said what it does not understand
        if stopped.code:
            print(_switches(rest), end="", file=sys.stderr)
        raise
    except BrokenPipeError:  # whoever reads has enough, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:  # nobody wants to see where; training that can be saved does not come here
        print(f"hcam {name}: stopped.", file=sys.stderr)
        return 130
    except (ValueError, TypeError, OSError) as error:  # refused input and unwritable folders: the sentence is enough
        print(f"hcam {name}: {printable(error)}", file=sys.stderr)
        return 2


def _switches(words: Sequence[str]) -> str:
    """What to write instead of `--curriculum False`, which reads as if it had to work."""
    split = [part for word in words for part in (word.split("=", 1) if word.startswith("--") else [word])]
    found = ""
    for option, value in pairwise(split):
        if option.startswith("--") and value.lower() in ("true", "false"):
            name = option.removeprefix("--").removeprefix("no-")
            found += f"If --{name} is a switch, it takes no value: write --{name} or --no-{name}.\n"
    return found


def _usage(words: list[str]) -> int:
    group = words[0] if words and any(name.split()[0] == words[0] for name in COMMANDS) else ""
    asked = [word for word in words if word != group] in ([], ["-h"], ["--help"], ["help"])
    if words[:1] == ["--version"]:
        from hcam import __version__

        print(f"hcam {__version__}")
        return 0
    lines = ["hcam: agents that remember", "", "commands:"]
    shown = {name: command for name, command in COMMANDS.items() if name.startswith(group)}
    lines += [f"  hcam {name:<16} {(command.__doc__ or '').splitlines()[0]}" for name, command in shown.items()]
    lines += ["", "`hcam COMMAND --help` shows a command's options."]
    if not asked:
        lines.insert(0, f"hcam: there is no command {' '.join(words)!r}.")
    print("\n".join(lines), file=sys.stdout if asked else sys.stderr)
    return 0 if asked else 2
