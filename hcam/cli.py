"""The command line: `hcam COMMAND ...`, each command a function below and its options that function's arguments."""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

Levels = Annotated[tuple[str, ...], tyro.conf.arg(metavar="LEVEL ...")]
Size = Annotated[int | None, tyro.conf.arg(metavar="INT")]  # None: the size that suits this machine


def bench_memory(
    lengths: tuple[int, ...] = (512, 1024, 2048, 4096, 8192, 16384, 32768, 65536),
    batch: Size = None,
    actors: Size = None,
    unroll: Size = None,
    width: Size = None,
    heads: Size = None,
    chunk: Size = None,
    top_k: Size = None,
    layers: Size = None,
    dtype: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None,
    rounds: int = 7,
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("runs/bench-memory"),
    redraw: bool = False,
) -> None:
    """Measure what recalling costs on this machine.

    Times the HCAM read, forward and with gradients, against the released formulation and against full attention over
    the same history, and one acting step of the whole memory; prints tables and draws a figure. Sizes that are not
    given are the paper's on an accelerator and small ones on a CPU.

    Args:
        lengths: Steps of history to measure at.
        batch: Environments learned from at once.
        actors: Environments acting at once.
        unroll: Steps per environment in learning: the queries of one read.
        width: Features.
        heads: Attention heads.
        chunk: Steps in a chunk.
        top_k: Chunks recalled per query.
        layers: Layers of the memory that acts.
        dtype: float32 or bfloat16.
        rounds: How often each variant is timed; the median counts.
        out: Where bench.json and bench.png go.
        redraw: Measure nothing, print and draw what is in the folder.
    """
    from hcam.benchmarks import figure, memory

    given: dict[str, Any] = {"batch": batch, "actors": actors, "unroll": unroll, "width": width, "heads": heads}
    given |= {"chunk": chunk, "top_k": top_k, "layers": layers, "dtype": dtype}
    if not redraw:
        sizes = replace(memory.sizes_here(), **{name: value for name, value in given.items() if value is not None})
        out.mkdir(parents=True, exist_ok=True)  # before the minutes of measuring, not after
        results = memory.run(sizes, lengths, rounds, say=_say)
        (out / "bench.json").write_text(json.dumps(results, indent=1))
    _show_bench("bench memory", out, figure.tables, figure.draw)


def bench_env(
    task: tyro.conf.Positional[str] = "ballet",
    level: Levels = (),
    batch: Annotated[tuple[int, ...], tyro.conf.arg(metavar="INT ...")] = (),
    steps: int = 64,
    rounds: int = 7,
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("runs/bench-env"),
    redraw: bool = False,
) -> None:
    """Measure how many steps a second a task makes on this machine.

    Random actions in one compiled program, with every observation drawn, beside the same without drawing and the bare
    writing of as many bytes; prints a table and draws a figure.

    Args:
        task: A task from `hcam tasks`.
        level: Levels, of which every episode draws one. Without any, the task's own mixture.
        batch: Numbers of environments at once. Without any, some that suit this machine.
        steps: Steps of each environment in one call of the program.
        rounds: How often each variant is timed; the median counts.
        out: Where bench.json and bench.png go.
        redraw: Measure nothing, print and draw what is in the folder.
    """
    from hcam.benchmarks import env

    if not redraw:
        out.mkdir(parents=True, exist_ok=True)
        results = env.run(task, level, batch or env.batches_here(), steps, rounds, say=_say)
        (out / "bench.json").write_text(json.dumps(results, indent=1))
    _show_bench("bench env", out, lambda results: [env.show(results)], env.draw)


def _say(line: str) -> None:
    print(f"  {line}", file=sys.stderr, flush=True)


def _show_bench(
    command: str, out: Path, tables: Callable[[Any], Iterable[Any]], draw: Callable[[Any, Path], None]
) -> None:
    from rich.console import Console

    if not (out / "bench.json").exists():
        raise ValueError(f"there is no bench.json in {out}: run `hcam {command} --out {out}` first.")
    results, console = json.loads((out / "bench.json").read_text()), Console()
    for table in tables(results):
        console.print(table)
    draw(results, out / "bench.png")
    console.print(f"{results['device']}, jax {results['jax']}. Numbers and figure: {out}/bench.json, {out}/bench.png")


def tasks() -> None:
    """List the tasks and their levels."""
    from rich.console import Console

    from hcam.show import task_table

    Console().print(task_table())


def show(
    task: tyro.conf.Positional[str] = "ballet",
    level: Levels = (),
    out: Annotated[Path, tyro.conf.arg(metavar="FILE")] = Path("episode.gif"),
    policy: Literal["expert", "random"] = "expert",
    seed: int = 0,
    fps: int = 10,
    scale: int = 4,
) -> None:
    """Draw an episode: an animation (.gif, .mp4) or a contact sheet (.png), with the instruction on it.

    Args:
        task: A task from `hcam tasks` that has pictures.
        level: The level to play, such as 4_delay16; of several, one is drawn.
        out: The file to write; its ending decides what it is.
        policy: Who plays: an expert who knows the answer, or chance.
        seed: Another number, another episode.
        fps: Frames a second.
        scale: How many times larger than the agent sees it.
    """
    from hcam.show import show

    for line in show(task, level, out, policy, seed, fps, scale):
        print(line)


COMMANDS: dict[str, Callable[..., Any]] = {
    "tasks": tasks,
    "show": show,
    "bench memory": bench_memory,
    "bench env": bench_env,
}


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    name = next((name for name in COMMANDS if words[: len(name.split())] == name.split()), None)
    if name is None:
        return _usage(words)
    try:
        tyro.cli(COMMANDS[name], args=words[len(name.split()) :], prog=f"hcam {name}")
    except (ValueError, TypeError, OSError) as error:  # refused input and unwritable folders: the sentence is enough
        print(f"hcam {name}: {error}", file=sys.stderr)
        return 2
    return 0


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
