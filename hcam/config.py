"""Everything that makes a run, as one frozen dataclass put together from its parts; and its way to JSON and back."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from tyro.conf import Fixed, Suppress

from hcam import envs
from hcam.agent import AgentConfig, memories
from hcam.envs.environment import Environment, EnvParams
from hcam.learning.learner import LearnerConfig
from hcam.learning.objectives import ObjectiveConfig
from hcam.learning.optimiser import OptimiserConfig
from hcam.memory import checks
from hcam.runs.folder import read_config
from hcam.runs.metrics import plain


@dataclass(frozen=True, kw_only=True)
class TaskConfig:
    task: str  # one of `hcam tasks`, or package.module:function that makes an environment
    levels: tuple[str, ...] = ()  # of which every episode draws one; none: the task's own mixture
    weights: tuple[float, ...] = ()  # how often each level is drawn, relative to the others; none: equally often
    options: Annotated[dict[str, Any], Fixed, Suppress] = field(default_factory=dict)  # of the environment: plain JSON

    def __post_init__(self) -> None:
        checks.typed(self)

    def make(self) -> Environment:
        return envs.make(self.task, **self.options)

    def params(self, env: Environment) -> EnvParams:
        return env.params(*self.levels, weights=self.weights or None)

    def level_names(self, env: Environment) -> tuple[str, ...]:
        """The levels in the order in which the environment numbers them; a task without levels counts as one."""
        return self.levels or env.default_levels or (self.task.rpartition(":")[2],)

    def level_params(self, env: Environment, level: str) -> EnvParams:
        """One level alone, by a name that `level_names` gave or any other that the environment knows."""
        unnamed = not env.default_levels and level in self.level_names(env)
        return env.params() if unnamed else env.params(level)


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    steps: int = 1_500_000_000  # agent steps in all, over all environments
    seed: int = 0
    seeds: int = 1  # agents trained at once, each from scratch, in one program
    log_every: float = 5.0  # seconds between rows of metrics
    save_every: float = 120.0  # seconds between checkpoints
    keep: int = 3  # checkpoints kept besides the best
    eval_episodes: int = 500  # per level, at the end

    def __post_init__(self) -> None:
        checks.typed(self)
        checks.positive(steps=self.steps, seeds=self.seeds, keep=self.keep, eval_episodes=self.eval_episodes)
        if not 0 <= self.seed <= 2**31 - 1 - self.seeds:
            raise ValueError(f"seed must be from 0 to {2**31 - 1 - self.seeds:,}, but is {self.seed}.")
        if not (self.log_every > 0 and self.save_every > 0):
            raise ValueError(f"log_every and save_every are seconds, but are {self.log_every} and {self.save_every}.")


@dataclass(frozen=True, kw_only=True)
class Config:
    task: TaskConfig
    agent: AgentConfig = field(default_factory=AgentConfig)
    learner: LearnerConfig = field(default_factory=LearnerConfig)
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    optimiser: OptimiserConfig = field(default_factory=OptimiserConfig)
    run: RunConfig = field(default_factory=RunConfig)

    def __post_init__(self) -> None:
        checks.typed(self)
        if (count := self.updates * self.learner.gradient_steps) >= 2**31:  # the optimiser counts in int32
            most = "at most 2,147,483,647 can be counted: lower steps or epochs"
            raise ValueError(f"the run would take {count:,} gradient steps, but {most}.")

    @property
    def steps_per_update(self) -> int:
        return self.learner.environments * self.learner.unroll

    @property
    def updates(self) -> int:
        """Unrolls of the whole run: the steps asked for, rounded up."""
        return -(-self.run.steps // self.steps_per_update)


def override(config: Any, changes: Mapping[str, Any]) -> Any:
    """The configuration with other values: `{"agent.memory.top_k": 1}`."""
    for path, value in changes.items():
        config = _replaced(config, tuple(path.split(".")), path, value)
    return config


def _replaced(config: Any, names: tuple[str, ...], path: str, value: Any) -> Any:
    if not names:
        return value
    if not dataclasses.is_dataclass(config) or names[0] not in {f.name for f in dataclasses.fields(config)}:
        raise ValueError(f"there is no setting {path}: {type(config).__name__} has no {names[0]}.")
    inner = _replaced(getattr(config, names[0]), names[1:], path, value)
    return dataclasses.replace(config, **{names[0]: inner})  # type: ignore[type-var]


def differences(one: Any, two: Any, path: str = "") -> list[str]:
    """Where two configurations differ: `agent.memory.width` and the like."""
    if not dataclasses.is_dataclass(one) or type(one) is not type(two):
        return [path] if one != two else []
    names = [f.name for f in dataclasses.fields(one)]
    inner = [differences(getattr(one, name), getattr(two, name), f"{path}.{name}".lstrip(".")) for name in names]
    return [name for part in inner for name in part]


def to_json(config: Config) -> dict[str, Any]:
    """Plain JSON; the memory's part also names the memory."""
    content: dict[str, Any] = plain(dataclasses.asdict(config))
    content["agent"]["memory"] = {"memory": memories.name_of(config.agent.memory), **content["agent"]["memory"]}
    return content


def from_json(values: Any) -> Config:
    """The way back from `to_json`. A setting that the file lacks has its default."""
    values = _object("config", values)
    agent = _object("agent", values.get("agent", {}))
    memory = dict(_object("memory", agent.get("memory", {})))
    kind = memories.find(str(memory.pop("memory", "hcam")))
    found = _built(Config, {**values, "agent": {**agent, "memory": _built(kind, memory)}})
    assert isinstance(found, Config)
    return found


def _object(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        shown = "a list" if isinstance(value, list) else f"{repr(value)[:60]}"
        raise ValueError(f"config.json is damaged: {name} must be an object, but is {shown}.")
    return value


def _built(kind: type, values: Mapping[str, Any]) -> Any:
    """Lists become tuples, objects the dataclasses that they were."""
    hints = get_type_hints(kind)
    if unknown := sorted(set(values) - {f.name for f in dataclasses.fields(kind)}):
        raise ValueError(f"config.json has settings that this version of hcam lacks: {', '.join(unknown)}.")

    def back(name: str, value: Any) -> Any:
        if dataclasses.is_dataclass(hints[name]):
            return _built(hints[name], _object(name, value))
        return tuple(value) if isinstance(value, list) else value

    try:
        return kind(**{name: back(name, value) for name, value in values.items()})
    except TypeError as error:  # a setting without a default is missing
        raise ValueError(f"config.json is damaged: {error}.") from error


def read(folder: Path, told: Callable[[Callable[[], Any]], Any] = lambda ask: ask()) -> Config:
    """What a run was started with, or an exported agent trained with; `told` may ask another process."""
    saved = dict(told(lambda: read_config(folder)))
    for name in ("chance", "titles", "scored_by", "oracle"):  # facts for figures, no settings
        saved.pop(name, None)
    return from_json(saved)
