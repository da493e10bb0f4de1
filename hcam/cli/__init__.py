"""The command line: `hcam COMMAND ...`. A command is imported when it is called: `hcam --version` loads nothing."""

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import pairwise
from shutil import get_terminal_size
from typing import Any, NamedTuple

NARROWEST = 10  # columns of a help page: tyro never ends in fewer


class Command(NamedTuple):
    module: str  # in this folder
    function: str
    summary: str


COMMANDS = {
    "train": Command("train", "train", "Train an agent that remembers; without options, the quickstart."),
    "eval": Command("evaluate", "evaluate", "Evaluate a trained agent: its score per level, greedy and sampled."),
    "attention": Command("attention", "attention", "Analyse what an agent's memory attends to when it is asked."),
    "report": Command("report", "report", "Compare runs, write a task's results, or list what a folder of runs holds."),
    "reproduce": Command("reproduce", "reproduce", "Run an experiment of the paper; without a name, list them."),
    "export": Command("export", "export", "Write a trained agent to a small folder, to give away."),
    "tasks": Command("tasks", "tasks", "List the tasks, their levels and options."),
    "show": Command("tasks", "show", "Draw an episode: an animation or a contact sheet."),
    "watch": Command(
        "watch", "watch", "Watch a trained agent remember: a page that shows what it recalls at each step."
    ),
    "bench train": Command("bench", "bench_train", "Measure training: steps a second, acting against learning."),
    "bench env": Command("bench", "bench_env", "Measure a task: steps a second, pixels included."),
    "bench host": Command("bench", "bench_host", "Measure training on environments in worker processes."),
    "bench memory": Command("bench", "bench_memory", "Measure what recalling costs."),
}


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    name = next((name for name in COMMANDS if words[: len(name.split())] == name.split()), None)
    if name is None:
        return _usage(words)
    command, rest = COMMANDS[name], words[len(name.split()) :]
    try:
        refuse_twice(rest)
        with _quiet_interrupt(name):
            function = getattr(import_module(f"hcam.cli.{command.module}"), command.function)
            import tyro
        if {"-h", "--help"} & set(rest) and get_terminal_size().columns < NARROWEST:
            os.environ["COLUMNS"] = f"{NARROWEST}"
        if getattr(function, "parses_words", False):  # its options depend on each other; empty ones are named there
            return int(function(rest))
        if "" in rest:
            raise ValueError("one of the words is empty: is a variable of the shell not set?")
        return tyro.cli(function, args=rest, prog=f"hcam {name}", description=command.summary) or 0
    except SystemExit as stopped:  # tyro has printed what it does not understand
        if stopped.code:
            print(_switches(rest), end="", file=sys.stderr)
        raise
    except BrokenPipeError:  # the reader has enough, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:  # no traceback; training that can be saved does not come here
        print(f"hcam {name}: stopped.", file=sys.stderr)
        return 130
    except (ValueError, TypeError, OSError) as error:  # refused input and unwritable folders: the sentence is enough
        from hcam.runs.text import printable

        print(f"hcam {name}: {printable(_sentence(error))}", file=sys.stderr)
        return 2
    except RuntimeError as error:
        if not hasattr(error, "frames"):  # not an exception of an environment on the host
            raise
        _tell(name, error, error.frames)
        return 3


def _tell(name: str, error: Exception, frames: Any) -> None:
    """An exception of the user's own environment: its frames, and a sentence."""
    from traceback import format_list

    from hcam.runs.text import printable

    for frame in format_list(frames):
        print(frame, end="", file=sys.stderr)
    print(f"hcam {name}: {printable(error)}", file=sys.stderr)


@contextmanager
def _quiet_interrupt(name: str) -> Iterator[None]:
    """While JAX is imported, Ctrl-C ends the process at once: an exception inside that import may crash it."""

    def leave(number: int, frame: Any) -> None:
        os.write(2, f"hcam {name}: stopped.\n".encode())
        os._exit(130)

    try:
        before = signal.signal(signal.SIGINT, leave)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _sentence(error: Exception) -> str:
    """What an error says; of one that the system has raised, no number: `Not a directory: x/y`."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}{f': {error.filename}' if error.filename else ''}."
    return str(error)


def refuse_twice(words: Sequence[str]) -> None:
    """Refuses an option that is given twice: which of its values is meant must not be guessed."""
    flags = [as_typed(word).partition("=")[0] for word in words if word.startswith("--") and word != "--"]
    names = [flag.replace("--no-", "--", 1) for flag in flags]
    if twice := next((flag for flag, name in zip(flags, names, strict=True) if names.count(name) > 1), None):
        raise ValueError(f"{twice} is given twice: give it once, with all of its values.")


def as_typed(word: str) -> str:
    """`--env_arg=a_b` as `--env-arg=a_b`: the parser of options takes both."""
    flag, equals, value = word.partition("=")
    return (flag.replace("_", "-") if flag.startswith("--") else flag) + equals + value


def _switches(words: Sequence[str]) -> str:
    """What to write instead of `--curriculum False`, which looks as if it had to work."""
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
    lines += [f"  hcam {name:<16} {command.summary}" for name, command in COMMANDS.items() if name.startswith(group)]
    lines += ["", "`hcam COMMAND --help` shows a command's options."]
    if not asked:
        lines.insert(0, f"hcam: there is no command {' '.join(words)!r}.")
    print("\n".join(lines), file=sys.stdout if asked else sys.stderr)
    return 0 if asked else 2
