"""Everything that makes a run, as one frozen dataclass put together from its parts; and presets of it."""

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_type_hints

from hcam import envs
from hcam.agent import AgentConfig
from hcam.envs.environment import Environment, Params
from hcam.learning.learner import LearnerConfig
from hcam.learning.loss import LossConfig
from hcam.learning.optimiser import OptimiserConfig
from hcam.memory import checks
from hcam.runs.folder import CONFIG, read_config
from hcam.runs.schema import refuse_mismatch


@dataclass(frozen=True, kw_only=True)
class TaskConfig:
    task: str = "ballet"  # one of `hcam tasks`
    levels: tuple[str, ...] = ()  # of which every episode draws one; none: the task's own mixture
    weights: tuple[float, ...] = ()  # Ballet: how often each level is drawn, relative to the others; none: equally
    tile: int | None = None  # Ballet: pixels along a tile's side, 9 (as published), 3 or 1

    def make(self) -> Environment:
        for name, given in {"tile": self.tile is not None, "weights": bool(self.weights)}.items():
            if given and self.task != "ballet":
                raise ValueError(f"{name} is Ballet's, but the task is {self.task}: leave it out.")
        return envs.make(self.task, **({} if self.tile is None else {"tile": self.tile}))

    def params(self, env: Environment) -> Params:
        return env.params(*self.levels, **({"weights": self.weights} if self.weights else {}))

    def names(self, env: Environment) -> tuple[str, ...]:
        """What the levels are called, in the order in which the environment numbers them."""
        return self.levels or (env.levels if self.task == "ballet" else env.levels[:1]) or (self.task,)


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    steps: int = 1_500_000_000  # agent steps in all, over all environments; the paper's Ballet
    seed: int = 0
    seeds: int = 1  # agents trained at once, each from scratch, in one program
    log_every: float = 5.0  # seconds between rows of metrics
    save_every: float = 120.0  # seconds between checkpoints
    keep: int = 3  # checkpoints kept besides the best
    eval_episodes: int = 500  # per level, at the end

    def __post_init__(self) -> None:
        checks.positive(steps=self.steps, seeds=self.seeds, keep=self.keep, eval_episodes=self.eval_episodes)
        if not (self.log_every > 0 and self.save_every > 0):
            raise ValueError(f"log_every and save_every are seconds, but are {self.log_every} and {self.save_every}.")


@dataclass(frozen=True, kw_only=True)
class Config:
    task: TaskConfig = field(default_factory=TaskConfig)
    agent: AgentConfig = field(default_factory=AgentConfig)
    learner: LearnerConfig = field(default_factory=LearnerConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    optimiser: OptimiserConfig = field(default_factory=OptimiserConfig)
    run: RunConfig = field(default_factory=RunConfig)

    @property
    def steps_per_update(self) -> int:
        return self.learner.environments * self.learner.unroll

    @property
    def updates(self) -> int:
        """Unrolls of the whole run: the steps asked for, rounded up."""
        return -(-self.run.steps // self.steps_per_update)


def differences(one: Any, two: Any, path: str = "") -> list[str]:
    """Where two configurations differ: `agent.memory.width` and the like."""
    if not dataclasses.is_dataclass(one):
        return [path] if one != two else []
    names = [f.name for f in dataclasses.fields(one)]
    inner = [differences(getattr(one, name), getattr(two, name), f"{path}.{name}".lstrip(".")) for name in names]
    return [name for part in inner for name in part]


def to_json(config: Any) -> dict[str, Any]:
    return dataclasses.asdict(config)


def from_json(kind: type, values: dict[str, Any]) -> Any:
    """The way back from `to_json`: lists become tuples, dicts the dataclasses that they were.

    A setting that is younger than the file has its default, which is how things were before there was the setting.
    """
    hints = get_type_hints(kind)
    if unknown := sorted(set(values) - {f.name for f in dataclasses.fields(kind)}):
        raise ValueError(f"this run's config.json has settings that this version of hcam lacks: {', '.join(unknown)}.")

    def back(hint: Any, value: Any) -> Any:
        if dataclasses.is_dataclass(hint) and isinstance(value, dict):
            return from_json(hint, value)  # type: ignore[arg-type]
        return tuple(value) if isinstance(value, list) else value

    return kind(**{name: back(hints[name], value) for name, value in values.items()})


def read(folder: Path) -> Config:
    """What a run was started with, or an exported agent trained with."""
    saved = dict(read_config(folder))
    saved.pop("chance", None)  # for figures, no setting
    refuse_mismatch(Config, saved, folder / CONFIG)
    config: Config = from_json(Config, saved)
    return config
