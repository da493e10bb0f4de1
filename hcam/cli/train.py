"""`hcam train`."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from hcam import recipes
from hcam.agent import memories
from hcam.cli import as_typed, refuse_twice
from hcam.config import Config, TaskConfig, read
from hcam.runs.pretrained import Trained
from hcam.runs.text import printable

Folder = Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")]
Name = Annotated[str, tyro.conf.arg(metavar="NAME")]
Pairs = Annotated[tuple[str, ...], tyro.conf.arg(metavar="KEY=VALUE ...")]


@dataclass(frozen=True, kw_only=True)
class Train:
    """Train an agent that remembers.

    Without options, the quickstart: a small task that two CPU cores learn in minutes. `--preset paper` has the
    published settings, `--preset fast` settings for one GPU, `--preset general` small ones for any task. Every option
    below can be changed, whatever the preset. Ctrl-C saves and stops; `--resume FOLDER` continues the same run.
    """

    preset: Name = ""  # what the options below start from: quickstart, fast, paper or general
    memory: Name = (
        "hcam"  # hcam, trxl, lstm, gru, epn, none, a reader, or package.module:Class; decides its options below
    )
    env_arg: Pairs = ()  # options of the environment, as `hcam tasks` lists them
    run: Folder = None  # where the run goes; runs/TASK-MEMORY-NUMBER if not given
    resume: Folder = None  # a run folder to continue
    tensorboard: bool = False  # also write TensorBoard files into the run folder
    wandb: bool = False  # also log to Weights & Biases
    minutes: float | None = None  # stop and save after this time, as Ctrl-C does; --resume continues
    workers: int | None = None  # processes that step environments on the host, as gymnasium:ID; one per core but one
    devices: int | None = None  # that share the environments; all that divide a minibatch if not given
    distributed: bool = False  # one of several processes: a job of SLURM, MPI or Kubernetes says which
    coordinator: Annotated[str | None, tyro.conf.arg(metavar="HOST:PORT")] = None  # of the first of several processes
    processes: int | None = None  # how many there are in all
    process: int | None = None  # which of them this is, from 0
    config: Config


def train(words: Sequence[str]) -> int:
    """Alone, or as one of several processes, which join before anything else."""
    named = [value_of(words, f"--{name}") for name in ("coordinator", "processes", "process")]
    if {"-h", "--help"} & set(words) or ("--distributed" not in words and named == [None] * 3):
        return alone(words)
    from hcam.runs import hosts

    return hosts.together(hosts.place(*named), lambda: alone(words))


def alone(words: Sequence[str]) -> int:
    args = parse(words)
    from hcam.api import StoppedError
    from hcam.api import train as run
    from hcam.runs.hosts import is_first
    from hcam.training import DivergedError

    try:
        where: Any = {"run": args.run, "resume": args.resume, "minutes": args.minutes, "devices": args.devices}
        where |= {"workers": args.workers}
        trained = run(args.config, tensorboard=args.tensorboard, wandb=args.wandb, **where)
    except StoppedError as stopped:
        return stopped.exit_status
    except DivergedError as error:  # after the display's last line, so that this is below it
        print(f"hcam train: {printable(error)}", file=sys.stderr)
        return 3
    if is_first():
        show(trained)
    return 0


train.parses_words = True  # type: ignore[attr-defined]


def parse(words: Sequence[str]) -> Train:
    """Options as changes to a preset, or to the run that is resumed."""
    words = [as_typed(word) for word in words]
    if words and not words[0].startswith("-"):
        words.insert(0, "--task")
    refuse_twice(words)
    start = resumed(words) if value_of(words, "--resume") is not None else fresh(words)
    refuse_collisions(start)
    args: Train = tyro.cli(Train, default=start, args=words, prog="hcam train", config=(tyro.conf.OmitArgPrefixes,))
    options = dict(args.config.task.options) | pairs(args.env_arg)
    config = replace(args.config, task=replace(args.config.task, options=options))
    return replace(args, config=replace(config, agent=config.agent.here()))


def fresh(words: Sequence[str]) -> Train:
    """What a new run starts from."""
    name = value_of(words, "--task")
    task = TaskConfig(task=recipes.default_task() if name is None else name, options=pairs(_values(words, "--env-arg")))
    preset, memory = value_of(words, "--preset"), value_of(words, "--memory")
    preset = recipes.preset_name(task.task) if preset is None else preset
    memory = "hcam" if memory is None else memory
    config = recipes.preset(preset, task, task.make(), memory)
    return Train(preset=preset, memory=memory, config=config)


def resumed(words: Sequence[str]) -> Train:
    """What a run that is resumed was started with."""
    if other := [flag for flag in ("--run", "--preset") if value_of(words, flag)]:
        raise ValueError(f"a run continues where it is and as it was started: leave out {' and '.join(other)}.")
    from hcam.runs import hosts

    config = read(Path(value_of(words, "--resume") or ""), hosts.told)
    name, asked = memories.name_of(config.agent.memory), value_of(words, "--memory")
    if asked not in (None, name):
        raise ValueError(f"a run continues as it was started, but its memory is {name}: leave out --memory.")
    return Train(memory=name, config=config)


def refuse_collisions(start: Train) -> None:
    """Options have no prefixes: those of a memory must not be called as others are."""
    config, kind = start.config, type(start.config.agent.memory)
    parts = (start, config.task, config.agent, config.agent.encoder, config.agent.heads, config.learner)
    every: Any = (*parts, config.objective, config.optimiser, config.run)
    taken = {f.name for part in every for f in fields(part) if not is_dataclass(getattr(part, f.name))}
    if both := sorted(taken & {f.name for f in fields(kind)}):
        raise ValueError(f"{kind.__name__} has options that hcam train has as well: rename {', '.join(both)}.")


def value_of(words: Sequence[str], flag: str) -> str | None:
    """`--flag value` or `--flag=value`."""
    return next(iter(_values(words, flag)), None)


def _values(words: Sequence[str], flag: str) -> list[str]:
    """All words after a flag, up to the next one."""
    for number, word in enumerate(words):
        if word.startswith(flag + "="):
            return [word.removeprefix(flag + "=")]
        if word == flag:
            after = list(words[number + 1 :])
            end = next((n for n, other in enumerate(after) if other.startswith("--")), len(after))
            return after[:end]
    return []


def pairs(words: Sequence[str]) -> dict[str, Any]:
    """{"tile": 1} of ("tile=1",): values are JSON where they can be read so, else text."""
    found: dict[str, Any] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or not key:
            raise ValueError(f"--env-arg takes KEY=VALUE, but was given {word!r}.")
        try:
            found[key] = json.loads(text)
        except ValueError:
            found[key] = text
    return found


def show(trained: Trained) -> None:
    """The table, the picture, and what to try next."""
    from rich.console import Console

    from hcam import report

    path, config, env = trained.folder, trained.config, trained.env
    assert path is not None
    report.curve([path], path / "curve.png")
    Console().print(report.final_table(path))
    print(f"learning curve: {printable(path / 'curve.png')}")
    recipe, memory = recipes.find(config.task.task), memories.name_of(config.agent.memory)
    if recipe and memory == "hcam":
        print(f"the same agent without memory:  hcam train {config.task.task} --memory none")
    others = recipe.try_levels if recipe else [name for name in env.levels if name not in config.task.level_names(env)]
    if others:
        print(f"levels it never trained on:     hcam eval {printable(path)} --level {' '.join(others)}")
