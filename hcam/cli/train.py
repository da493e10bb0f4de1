"""`hcam train` and `hcam eval`."""

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from hcam.config import Config, differences, read, to_json
from hcam.envs.choreography import DANCES
from hcam.envs.choreography import parse as parse_level
from hcam.envs.render.sprites import TILE
from hcam.presets import preset
from hcam.runs.files import as_json, explained, write_file
from hcam.runs.text import printable

Folder = Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")]
Levels = Annotated[tuple[str, ...], tyro.conf.arg(metavar="LEVEL ...")]


@dataclass(frozen=True, kw_only=True)
class Train:
    """Train an agent that remembers.

    Without options, the quickstart: a small Ballet that two CPU cores learn in minutes. `--preset paper` has the
    published settings, `--preset fast` a recipe for one GPU. Whatever the preset, every option below can be changed.
    Ctrl-C saves and stops; `--resume FOLDER` goes on, as if nothing had happened.
    """

    preset: str = "quickstart"  # quickstart, fast or paper: what the options below start from
    run: Folder = None  # where the run goes; runs/TASK-MEMORY-NUMBER if not given
    resume: Folder = None  # a run folder to go on with
    tensorboard: bool = False  # also write TensorBoard files into the run folder
    wandb: bool = False  # also log to Weights & Biases
    config: Config


def train(words: Sequence[str]) -> int:
    """Train an agent that remembers; without options, the quickstart."""
    args = parse(words)
    from hcam.runs import progress
    from hcam.runs.folder import RunFolder, fresh_name
    from hcam.runs.loggers import loggers as chosen_loggers
    from hcam.train import DivergedError, make_learner
    from hcam.train import train as run

    config = args.config
    learner = make_learner(config)  # refuses what does not fit, before there is a folder
    if args.resume:
        folder = RunFolder.open(args.resume)
    else:
        path = args.run or fresh_name(Path("runs"), f"{config.task.task}-{config.agent.memory.memory}")
        folder = RunFolder.create(path, to_json(config) | {"chance": chances(config, learner.env)})
    loggers: list[Any] = []
    try:
        with folder, progress.Display(config.updates * config.steps_per_update, f"{folder.path}") as display:
            try:
                loggers += chosen_loggers(folder.path, args.tensorboard, args.wandb, to_json(config))
                for line in story(config, learner, folder.path):
                    display.say(line)
                state_s, stopped = run(config, folder, display, loggers)
                if stopped:
                    display.say(f"go on with: hcam train --resume {folder.path}")
                    return 128 + stopped
                finish(config, learner, folder.path, state_s.params, display)
            finally:
                for logger in loggers:
                    logger.close()
    except DivergedError as error:  # when the display has said its last line, so that this one is below it
        print(f"hcam train: {printable(error)}", file=sys.stderr)
        return 3
    show(folder.path, config, learner.env.levels)
    return 0


def parse(words: Sequence[str]) -> Train:
    """Options as changes to a preset, or to the run that is resumed."""
    words = list(words)
    if words and not words[0].startswith("-"):
        words.insert(0, "--task")
    refuse_twice(words, "--task", "--preset", "--memory", "--run", "--resume")
    task = value_of(words, "--task") or "ballet"
    name, memory = value_of(words, "--preset") or "quickstart", value_of(words, "--memory") or "hcam"
    resume = value_of(words, "--resume")
    if resume:
        if other := [flag for flag in ("--run", "--preset") if value_of(words, flag)]:
            raise ValueError(f"a run goes on where it is and as it was begun: leave out {' and '.join(other)}.")
        base = read(Path(resume))
    else:
        base = preset(name, task, memory)
    default = Train(preset=name, config=base)
    args: Train = tyro.cli(Train, default=default, args=words, prog="hcam train", config=(tyro.conf.OmitArgPrefixes,))
    args = replace(args, config=replace(args.config, agent=args.config.agent.here()))
    if resume:
        changed = [field for field in differences(base, args.config) if not field.startswith("run.")]
        changed += [field for field in differences(base, args.config) if field in ("run.seed", "run.seeds")]
        if changed:
            raise ValueError(
                f"a run goes on as it was begun, but {', '.join(changed)} would change: leave it out, or start anew."
            )
    return args


def refuse_twice(words: Sequence[str], *flags: str) -> None:
    """Of these options others depend: which of two values is meant must not be guessed."""
    for flag in flags:
        if sum(word == flag or word.startswith(flag + "=") for word in words) > 1:
            raise ValueError(f"{flag} is given twice: give it once.")


def value_of(words: Sequence[str], flag: str) -> str | None:
    """`--flag value` or `--flag=value`."""
    for number, word in enumerate(words):
        if word == flag and number + 1 < len(words):
            return words[number + 1]
        if word.startswith(flag + "="):
            return word.removeprefix(flag + "=")
    return None


def chances(config: Config, env: Any) -> dict[str, float]:
    """What guessing scores, where that is known."""
    levels = config.task.names(env)
    if config.task.task == "ballet":
        return {level: 1 / int(level[0]) for level in levels}
    return {}


def story(config: Config, learner: Any, path: Path) -> list[str]:
    """What is about to happen, in a few lines."""
    import jax

    env, memory = learner.env, config.agent.memory
    weights = jax.eval_shape(learner.agent.init_params, jax.random.key(0))
    size = sum(leaf.size for leaf in jax.tree.leaves(weights))
    seen = env.observation_space
    parts = seen if isinstance(seen, dict) else {"observation": seen}
    shown = ", ".join(f"{name} {'x'.join(map(str, part.shape))}" for name, part in parts.items())
    device = jax.devices()[0].device_kind
    return [
        f"{config.task.task}: {', '.join(config.task.names(env))}; the agent sees {shown}",
        *reductions(config, env),
        f"memory {memory.memory}: {memory.layers} layers, width {memory.width}; {size:,} parameters; on {device}",
        f"{config.run.steps:,} steps: {config.learner.environments} environments, unrolls of {config.learner.unroll}",
    ]


def reductions(config: Config, env: Any) -> list[str]:
    """In what the task is smaller than the published one."""
    if config.task.task != "ballet":
        return []
    known = {len(parse_level(level).dances) for level in config.task.names(env)}
    smaller = [f"{max(known)} of {len(DANCES)} dances"] if max(known) < len(DANCES) else []
    if env.tile != TILE:
        smaller.append(f"{env.tile} pixel a tile instead of {TILE}")
    return [f"smaller than the published task: {', '.join(smaller)}"] if smaller else []


def finish(config: Config, learner: Any, path: Path, params_s: Any, display: Any) -> None:
    """The evaluation at the end: every level of the run, greedy and sampled, all seeds together."""
    from hcam.runs import evaluate as ev
    from hcam.runs.folder import write_eval

    levels = config.task.names(learner.env)
    known = config.task.levels or learner.env.levels
    params = {level: learner.env.params(*((level,) if known else ())) for level in levels}
    results = ev.evaluate_all(
        learner.agent, learner.env, params_s, params, config.run.eval_episodes, tell=display.evaluating
    )
    write_eval(path, results)


def show(path: Path, config: Config, levels: Sequence[str]) -> None:
    """The table, the picture, and where to go from here."""
    from rich.console import Console

    from hcam import report

    report.curve([path], path / "curve.png")
    Console().print(report.final_table(path))
    print(f"learning curve: {printable(path / 'curve.png')}")
    ballet = config.task.task == "ballet"
    if ballet and config.agent.memory.memory == "hcam":
        print("the same agent without memory:  hcam train --memory none")
    others = (
        ("2_delay16_of4", "3_delay5_of4") if ballet else [name for name in levels if name not in config.task.levels]
    )
    if others:
        print(f"other levels, longer delays:    hcam eval {printable(path)} --level {' '.join(others)}")


def evaluate(
    agent: tyro.conf.Positional[str],
    level: Levels = (),
    episodes: int = 500,
    seed: int = 0,
    best: bool = False,
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
) -> int:
    """Evaluate a trained agent: success per level with 95 % intervals, greedy and sampled.

    Args:
        agent: A run folder, an exported folder, or pretrained:NAME.
        level: Levels to play, also ones that it was never trained on. Without any, those of its training.
        episodes: Episodes per level.
        seed: Other episodes.
        best: Take the checkpoint that was best in training instead of the last one.
        out: Also write the numbers to this file, as JSON.
    """
    from rich.console import Console

    from hcam.runs import evaluate as ev
    from hcam.runs.pretrained import load
    from hcam.runs.progress import Display

    config, actor, env, params_s, about, _ = load(agent, best=best)
    if out:
        refuse_unwritable(out)  # before the minutes of playing, not after
    levels = level or config.task.names(env)
    known = level or config.task.levels or env.levels
    params = {name: env.params(*((name,) if known else ())) for name in levels}
    title = f"{agent}, {about['steps']:,} steps"
    with Display(config.run.steps, title) as display:
        results = ev.evaluate_all(actor, env, params_s, params, episodes, seed=seed, tell=display.evaluating)
    Console().print(table_of(results, title))
    if out:
        content = {"run": Path(agent).name, "steps": about["steps"], "seed": seed, **results}
        with explained(f"{out} cannot be written"):
            write_file(out, as_json(content))
    return 0


def refuse_unwritable(path: Path) -> None:
    """Raises where a file could not be written later; makes the folder that it goes into."""
    with explained(f"{path} cannot be written"):
        if path.is_dir():
            raise IsADirectoryError(f"{path} is a folder: give --out the name of a file.")
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass


def table_of(results: dict[str, dict[str, dict[str, float]]], title: str) -> Any:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    episodes = next(iter(results["greedy"].values()))["episodes"]
    look: Any = {"title_justify": "left", "box": box.SIMPLE, "padding": (0, 1, 0, 0)}  # for a terminal of 80 columns
    table = Table(title=Text(printable(f"{title}, {episodes} episodes a level"), style="italic"), **look)
    for heading in ("level", *results, "return", "length"):
        table.add_column(heading, justify="left" if heading == "level" else "right", no_wrap=True)
    for level, greedy in results["greedy"].items():
        ways = [results[way][level] for way in results]
        cells = [f"{one['success']:.1%} ({100 * one['low']:.1f} to {100 * one['high']:.1f})" for one in ways]
        table.add_row(Text(printable(level)), *cells, f"{greedy['return']:.3f}", f"{greedy['length']:.1f}")
    return table
