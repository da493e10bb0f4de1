"""`hcam bench ...`: measure this machine."""

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from hcam.agent import memories
from hcam.cli import refuse_twice
from hcam.cli.train import Name, Pairs, pairs, parse
from hcam.config import TaskConfig
from hcam.runs.files import exists, explained, parse_json, read_file, write_file

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
        _keep(results, out)
    _show_bench("bench memory", out, figure.tables, figure.draw)


def bench_env(
    task: tyro.conf.Positional[Name] = "",
    level: Levels = (),
    env_arg: Pairs = (),
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
        task: A task from `hcam tasks`, or package.module:function.
        level: Levels, of which every episode draws one. Without any, the task's own mixture.
        env_arg: Options of the environment.
        batch: Numbers of environments at once. Without any, some that suit this machine.
        steps: Steps of each environment in one call of the program.
        rounds: How often each variant is timed; the median counts.
        out: Where bench.json and bench.png go.
        redraw: Measure nothing, print and draw what is in the folder.
    """
    from hcam import recipes
    from hcam.benchmarks import env

    if not redraw:
        out.mkdir(parents=True, exist_ok=True)
        made = TaskConfig(task=task or recipes.default_task(), options=pairs(env_arg))
        results = env.run(made, level, batch or env.batches_here(), steps, rounds, say=_say)
        _keep(results, out)
    _show_bench("bench env", out, lambda results: [env.show(results)], env.draw)


@dataclass(frozen=True, kw_only=True)
class BenchTrain:
    """Measure how many steps a second training makes on this machine, and what acting and learning take of it.

    Takes every option of `hcam train` as well, such as `--preset fast --width 512 --environments 1024`. Several
    memories are timed in turn, with the same settings, so that their ratio holds also on a machine that others use.
    """

    memory: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...")] = ("hcam",)  # hcam, trxl, lstm, ...
    rounds: int = 5  # how often each part is timed; the median counts
    profile: bool = False  # also show which operations the time goes into; without CUDA graphs, which would hide them
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("runs/bench-train")  # where bench.json goes


def bench_train(words: Sequence[str]) -> int:
    args: BenchTrain
    refuse_twice(words)
    args, others = tyro.cli(BenchTrain, args=words, prog="hcam bench train", return_unknown_args=True)
    if args.profile:  # read when the GPU is first used
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_gpu_enable_command_buffer=".strip()
    from rich.console import Console

    from hcam.benchmarks import profile, train

    if not args.memory:
        raise ValueError(f"--memory takes one or more names: {', '.join(memories.names())}.")
    configs = {name: parse([*others, "--memory", name]).config for name in args.memory}
    args.out.mkdir(parents=True, exist_ok=True)
    results, seen = train.run(configs, args.rounds, args.profile)
    _keep(results, args.out)
    console = Console()
    console.print(train.show(results))
    for name, operations in seen.items():
        write_file(args.out / f"profile-{name}.json", json.dumps(operations, indent=1).encode())
        for table in profile.tables(operations, f"{name}: an update"):
            console.print(table)
    for name, one in results["runs"].items():
        if "parts" in one:
            console.print(f"{name}: {train.sizes(one)}")
    if results["device_peak_bytes"]:
        console.print(f"the device's memory held {results['device_peak_bytes'] / 1e9:,.2f} GB at most")
    console.print(f"jax {results['jax']}. Numbers: {args.out}/bench.json")
    return 0


bench_train.parses_words = True  # type: ignore[attr-defined]


@dataclass(frozen=True, kw_only=True)
class BenchHost:
    """Measure how many steps a second training makes on environments in worker processes, as gymnasium:ID.

    Beside it, in turn: the same workers with random actions and no agent, and Gymnasium's AsyncVectorEnv with as many
    processes. Takes every option of `hcam train` as well, such as `--environments 512 --unroll 32`.
    """

    workers: Size = None  # processes that step the environments; one per core but one if not given
    rounds: int = 5  # how often each part is timed; the median counts
    seconds: float = 5.0  # of each part in a round
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("runs/bench-host")  # where bench.json goes


def bench_host(words: Sequence[str]) -> int:
    args: BenchHost
    refuse_twice(words)
    args, others = tyro.cli(BenchHost, args=words, prog="hcam bench host", return_unknown_args=True)
    from rich.console import Console

    from hcam.benchmarks import host

    config = parse(others).config
    args.out.mkdir(parents=True, exist_ok=True)
    results = host.run(config, args.workers, args.rounds, args.seconds)
    _keep(results, args.out)
    console = Console()
    console.print(host.show(results))
    console.print(f"training makes {host.ratio(results):.0%} of the steps that its workers make alone")
    console.print(f"jax {results['jax']}. Numbers: {args.out}/bench.json")
    return 0


bench_host.parses_words = True  # type: ignore[attr-defined]


def _keep(results: dict[str, Any], out: Path) -> None:
    """With what they were made by, as a run folder has it: a number says little without its commit."""
    from hcam.runs.folder import made_by

    with explained(f"{out / 'bench.json'} cannot be written"):
        write_file(out / "bench.json", f"{json.dumps(made_by() | results, indent=1)}\n".encode())


def _say(line: str) -> None:
    print(f"  {line}", file=sys.stderr, flush=True)


def _show_bench(
    command: str, out: Path, tables: Callable[[Any], Iterable[Any]], draw: Callable[[Any, Path], None]
) -> None:
    from rich.console import Console

    if not exists(out / "bench.json"):
        raise ValueError(f"there is no bench.json in {out}: run `hcam {command} --out {out}` first.")
    console = Console()
    with tempfile.TemporaryDirectory() as apart, explained(f"{out} cannot be written to"):
        picture = Path(apart) / "bench.png"
        try:
            results = parse_json(read_file(out / "bench.json"))
            found = list(tables(results))
            draw(results, picture)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ValueError(f"{out / 'bench.json'} is damaged: measure again, without --redraw.") from error
        write_file(out / "bench.png", picture.read_bytes())  # through no symbolic link, as all that commands write
    for table in found:
        console.print(table)
    console.print(f"{results['device']}, jax {results['jax']}. Numbers and figure: {out}/bench.json, {out}/bench.png")
