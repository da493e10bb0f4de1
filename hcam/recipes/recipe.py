"""What a recipe consists of: settings to start from, the paper's experiments with its numbers, and words for a page."""

import dataclasses
import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from hcam.agent import memories
from hcam.config import Config, override

Preset = Callable[[str], Config]  # of a memory's name

# Places in the queue of all tasks: `hcam reproduce next` runs the lowest first. Runs of one place are wanted in the
# order of tasks, experiments and seeds. So other seeds come when all experiments have had their first.
FIRST_SEEDS, OTHER_SEEDS = 100, 200


@dataclass(frozen=True)
class Reported:
    """A number of the paper, as printed: mean and standard deviation over runs, or a bound where there is none."""

    mean: float
    deviation: float | None = None

    def __str__(self) -> str:
        return f"at least {self.mean:g}" if self.deviation is None else f"{self.mean} ± {self.deviation}"


@dataclass(frozen=True)
class Experiment:
    """Training runs that differ in their seeds alone."""

    name: str
    title: str
    memory: str = "hcam"
    overrides: Mapping[str, Any] = field(default_factory=dict)  # of the preset: {"agent.memory.top_k": 1}
    preset: str = "fast"
    seeds: tuple[int, ...] = (0,)
    paper: Mapping[str, Reported] = field(default_factory=dict)  # by level, where the paper prints a number
    quote: str = ""  # the paper's words, where it prints no number or has more to say
    evaluate: tuple[str, ...] = ()  # levels that are played after training and never trained on
    slots: int | Literal["auto"] | None = None  # of memory on these levels, in place of those of training
    places: tuple[int, int] | None = None  # in the queue, if not those of its recipe

    def folder(self, root: Path, seed: int) -> Path:
        return root / f"{self.name}-{seed}"


@dataclass(frozen=True)
class Section:
    """A table and a figure of a results page."""

    title: str
    text: str
    experiments: tuple[str, ...]  # by name, a row each
    levels: tuple[str, ...]  # a column and a panel each
    figure: str  # the name of its picture
    columns: int = 3  # of panels
    hardest: str = ""  # the level that the text below the figure mentions
    beside: tuple[str, ...] = ()  # experiments of an earlier section that are shown again, for comparison


@dataclass(frozen=True)
class Recipe:
    task: str
    order: int  # tasks are listed in this order, which is the paper's; the first is what `hcam train` trains on
    presets: Mapping[str, Preset]
    experiments: tuple[Experiment, ...] = ()
    sections: tuple[Section, ...] = ()
    reading: str = ""  # how to read the page: where the paper's numbers come from, how settings differ
    try_levels: tuple[str, ...] = ()  # for the end of a quickstart: levels that it was never trained on
    places: tuple[int, int] = (
        FIRST_SEEDS,
        OTHER_SEEDS,
    )  # in the queue: of an experiment's first seed, and of the others

    def preset(self, name: str, memory: str = "hcam") -> Config:
        if name not in self.presets:
            raise ValueError(f"{self.task} has no preset {name!r}: choose from {', '.join(self.presets)}, general.")
        return self.presets[name](memory)

    def find(self, name: str) -> Experiment:
        known = {experiment.name: experiment for experiment in self.experiments}
        if name not in known:
            raise ValueError(f"{self.task} has no experiment {name!r}: there are {', '.join(known)}.")
        return known[name]

    def config(self, experiment: Experiment, seed: int = 0) -> Config:
        """What an experiment trains with."""
        changes = dict(experiment.overrides) | {"run.seed": seed}
        config: Config = override(self.preset(experiment.preset, experiment.memory), changes)
        return config

    def place(self, experiment: Experiment, seed: int) -> int:
        """Where a run stands in the queue of all tasks."""
        return (experiment.places or self.places)[seed != experiment.seeds[0]]

    def levels(self, experiment: Experiment) -> tuple[str, ...]:
        """Those of training first, then those that are only evaluated on."""
        task = self.config(experiment).task
        return (*task.level_names(task.make()), *experiment.evaluate)

    def commands(self, experiment: Experiment, folder: Path, seed: int, more: Mapping[str, Any]) -> list[str]:
        """What to type for a run; `more` are other settings that it was given."""
        words = ["hcam", "train", self.task, "--preset", experiment.preset]
        words += [] if experiment.memory == "hcam" else ["--memory", experiment.memory]
        words += flags({**experiment.overrides, **more})
        lines = [shlex.join([*words, "--seed", str(seed), "--run", folder.as_posix()])]
        if experiment.evaluate:
            out = (folder / OTHER_LEVELS).as_posix()
            room = [] if experiment.slots is None else ["--slots", str(experiment.slots)]
            words = ["hcam", "eval", folder.as_posix(), "--level", *experiment.evaluate, *room, "--out", out]
            lines += [shlex.join(words)]
        return lines


OTHER_LEVELS = "eval-other-levels.json"  # where a run's evaluation on levels that it never trained on goes


def flags(settings: Mapping[str, Any]) -> list[str]:
    """Settings as options of `hcam train`: {"agent.memory.top_k": 1} as `--top-k 1`."""
    words: list[str] = []
    for path, value in settings.items():
        name = path.rpartition(".")[2].replace("_", "-").rstrip("-")
        if isinstance(value, bool):
            words += [f"--{name}" if value else f"--no-{name}"]
        elif isinstance(value, Mapping):  # the options of an environment
            words += ["--env-arg", *(f"{key}={_as_text(part)}" for key, part in value.items())]
        else:
            words += [f"--{name}", *(str(part) for part in (value if isinstance(value, list | tuple) else [value]))]
    return words


def _as_text(value: Any) -> str:
    """JSON, which `--env-arg` reads; a text as it is, unless that would be read as something else."""
    try:
        json.loads(value)
    except ValueError:
        return str(value)
    except TypeError:  # no text
        pass
    return json.dumps(value)


def memory_of(name: str, common: Mapping[str, Any], own: Mapping[str, Mapping[str, Any]]) -> Any:
    """A memory's configuration: sizes that all memories share, as far as it has them, and its own settings."""
    kind = memories.find(name)
    known = {field.name for field in dataclasses.fields(kind)}
    return kind(**{key: value for key, value in common.items() if key in known}, **own.get(name, {}))
