"""`hcam.train`, `hcam.load`, `hcam.watch`: what the command line does, from Python, also with one's own environment."""

import math
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from hcam import recipes
from hcam.adapters import raising_host_errors
from hcam.config import Config, TaskConfig, differences, read, to_json
from hcam.envs import registry
from hcam.envs.environment import Environment
from hcam.host.environment import WorkerEnvironment, telling, use
from hcam.learning.devices import choose
from hcam.runs import evaluate, hosts, loggers, measure, pretrained, progress, rewards
from hcam.runs.folder import RunFolder, fresh_name, write_eval
from hcam.runs.pretrained import Trained
from hcam.training import make_learner
from hcam.training import train as loop

RESUMABLE = ("run.steps", "run.log_every", "run.save_every", "run.keep", "run.eval_episodes")  # may change on the way


class StoppedError(Exception):
    """A signal or the end of its minutes ended training, and its state is saved."""

    def __init__(self, number: int, folder: Path) -> None:
        super().__init__(f"training was stopped and saved in {folder}.")
        self.number = number

    @property
    def exit_status(self) -> int:
        """That of a process which this signal ended; the end of its minutes counts as SIGALRM."""
        return 128 + self.number


def train(
    config: Config | None = None,
    env: Environment | None = None,
    *,
    run: Path | str | None = None,
    resume: Path | str | None = None,
    tensorboard: bool = False,
    wandb: bool = False,
    minutes: float | None = None,
    devices: int | None = None,
    workers: int | None = None,
) -> Trained:
    """Trains an agent in a run folder, evaluates it, and loads it.

    Args:
      config: the settings; without them those of the run that is resumed, or general ones for `env`.
      env: an environment of your own, in place of the one that `config.task` names.
      run: the run folder; runs/TASK-MEMORY-NUMBER if not given.
      resume: a run folder to continue.
      tensorboard: also write TensorBoard files into the run folder.
      wandb: also log to Weights & Biases.
      minutes: stop and save after this time, compilation included, as a signal would; `resume` continues.
      workers: processes that step environments on the host, as gymnasium:ID; one per core but one if not given.
      devices: how many share the environments; if not given, all that divide a minibatch. It may change on a resume.

    Raises StoppedError where a signal or the end of its minutes stopped it.
    """
    deadline = after(minutes)
    config = settings(config, env, resume)
    env, config = on_host(config.task.make() if env is None else env, config, workers)
    shared = choose(devices, config.learner.environments, config.learner.minibatches, not env.is_saved)
    learner = make_learner(config, env, shared)  # refuses what does not fit, before there is a folder
    start(env, config)  # likewise
    folder = hosts.open_folder(_folder(config, env, run, resume), to_json(config))
    steps, chosen = config.updates * config.steps_per_update, list[loggers.Logger]()
    scored: Any = {"measure": measure.find(env.scored_by), "oracle": folder.config.get("oracle")}
    display = progress.Display(steps, f"{folder.path}", None if hosts.is_first() else progress.silent(), **scored)
    with folder, display, raising_host_errors(env), telling(env, display.say):
        try:
            if hosts.is_first():
                chosen += loggers.loggers(folder.path, tensorboard, wandb, to_json(config))
            for line in summary(config, learner):
                display.say(line)
            state_s, stopped = loop(config, learner, folder, display, chosen, deadline)
            if stopped:
                display.say(f"continue with: hcam train --resume {folder.path}")
                raise StoppedError(stopped, folder.path)
            levels = {name: config.task.level_params(env, name) for name in config.task.level_names(env)}
            params_s = shared.local(state_s.params)
            results = evaluate.evaluate_all(
                learner.agent, env, params_s, levels, config.run.eval_episodes, on_progress=display.evaluating
            )
            if hosts.is_first():
                write_eval(folder.path, results)
        finally:
            for logger in chosen:
                logger.close()
    if not hosts.is_first():  # they may not see the folder
        return Trained(config, learner.agent, env, params_s, {"steps": steps}, folder.path)
    return pretrained.load(folder.path, env=env)


def on_host(env: Environment, config: Config, workers: int | None) -> tuple[Environment, Config]:
    """The environment with so many workers, and settings that hold the words which were found in its texts.

    With those, the same words have the same numbers whenever the environment is made again.
    """
    use(env, workers)
    if not isinstance(env, WorkerEnvironment) or config.task.options == env.options:
        return env, config
    return env, replace(config, task=replace(config.task, options=env.options))


def start(env: Environment, config: Config) -> None:
    """Starts the worker processes of an environment, if it has any."""
    if isinstance(env, WorkerEnvironment):
        env.workers.start((config.run.seeds, config.learner.environments))


def after(minutes: float | None) -> float:
    """The time of `time.monotonic` at which these minutes are over."""
    if minutes is None:
        return math.inf
    if not 0 < minutes < math.inf:
        raise ValueError(f"minutes must be a number above 0, but is {minutes}: leave it out for no limit.")
    return time.monotonic() + 60 * minutes


def _folder(config: Config, env: Environment, run: Path | str | None, resume: Path | str | None) -> Any:
    """How to make or open the run folder."""
    if resume:
        return lambda: RunFolder.open(Path(resume))
    known = to_json(config) | facts(config.task, env)
    short = config.task.task.rpartition(":")[2].replace("/", "-")
    path = Path(run) if run else fresh_name(Path("runs"), f"{short}-{_memory(config)}")
    return lambda: RunFolder.create(path, known)


def settings(config: Config | None, env: Environment | None, resume: Path | str | None) -> Config:
    """The settings of a run, complete; those of a run that is resumed may differ in little."""
    if env is not None and not isinstance(env, Environment):
        raise TypeError(f"env must be an environment of hcam, but is {env!r}: see docs/add_a_task.md.")
    saved = read(Path(resume), hosts.told) if resume else None
    config = config or saved
    if config is None and env is None:
        raise ValueError("train needs settings, an environment or a run to resume: give config, env or resume.")
    if env is not None:
        base = config.task if config else TaskConfig(task="")
        task = task_of(env, base)
        config = replace(config, task=task) if config else recipes.preset(recipes.GENERAL, task, env)
    assert config is not None
    config = replace(config, agent=config.agent.here())
    if saved:
        changed = [name for name in differences(saved, config) if name not in RESUMABLE]
        if changed:
            raise ValueError(
                f"a run continues as it was started, but {', '.join(changed)} would change: leave it out, or start a "
                "new run."
            )
    return config


def task_of(env: Environment, task: TaskConfig) -> TaskConfig:
    """The task that makes this environment again, where it can be written down."""
    found = registry.spec(env) or (f"{registry.GIVEN}:{type(env).__name__}", {})
    return replace(task, task=found[0], options=found[1])


def facts(task: TaskConfig, env: Environment) -> dict[str, Any]:
    """What figures and tables need to know of the levels, so that a run folder is enough to draw them."""
    levels = task.level_names(env)
    chance = {level: score for level in levels if (score := env.chance(level)) is not None}
    titles = {level: title for level in levels if (title := env.title(level)) != level}
    known = {"chance": chance, "titles": titles, "scored_by": env.scored_by}
    if env.scored_by == "success":
        return known
    params = {level: task.level_params(env, level) for level in levels}
    guessed = {level: rewards.random_return(env, params[level]) for level in levels if level not in chance}
    oracle = {level: full for level in levels if (full := rewards.expert_return(env, params[level])) is not None}
    return known | {"chance": chance | guessed, "oracle": oracle}


def summary(config: Config, learner: Any) -> list[str]:
    """What is about to be trained, in a few lines."""
    import jax

    env, task, memory = learner.env, config.task, config.agent.memory
    params = jax.eval_shape(learner.agent.init_params, jax.random.key(0))
    size = sum(leaf.size for leaf in jax.tree.leaves(params))
    space = env.observation_space
    parts = space if isinstance(space, dict) else {"observation": space}
    shown = ", ".join(f"{name} {'x'.join(map(str, part.shape))}".strip() for name, part in parts.items())
    smaller = env.smaller(task.level_names(env))
    layers = f"{memory.layers} layers, " if hasattr(memory, "layers") else ""
    return [
        f"{task.task}: {', '.join(task.level_names(env))}; the agent sees {shown}",
        *([f"smaller than the published task: {', '.join(smaller)}"] if smaller else []),
        f"memory {_memory(config)}: {layers}width {memory.width}; {size:,} parameters; on "
        f"{learner.devices.shown()}{jax.devices()[0].device_kind}",
        f"{config.run.steps:,} steps: {config.learner.environments} environments, unrolls of {config.learner.unroll}",
        *nothing_to_remember(config, env),
    ]


def nothing_to_remember(config: Config, env: Environment) -> list[str]:
    """A warning where every episode is one step: a memory between steps carries nothing, and may stay at chance."""
    from hcam.agent.readers import READERS, given

    memory, levels = config.agent.memory, config.task.level_names(env)
    if hasattr(memory, "network") or any(env.max_steps_in_episode(level) != 1 for level in levels):
        return []
    fitting = []
    for name in READERS:
        with suppress(ValueError):
            given.sizes(name, env.observation_space, env.action_space.n)
            fitting.append(name)
    instead = f": --memory {', '.join(fitting)} would read what an observation holds" if fitting else ""
    name = _memory(config)
    return [f"an episode is one step, so {name} has nothing to remember and sees all of it as one vector{instead}"]


def _memory(config: Config) -> str:
    from hcam.agent import memories

    return memories.name_of(config.agent.memory).rpartition(":")[2].lower()


def load(source: Path | str, *, best: bool = False, env: Environment | None = None) -> Trained:
    """A trained agent: `hcam.load("pretrained:NAME")`, of a run folder, or of an exported one."""
    return pretrained.load(source, best=best, env=env, on_skip=lambda line: print(line, file=sys.stderr))


def watch(source: Path | str, *, best: bool = False, env: Environment | None = None, **options: Any) -> list[Path]:
    """Plays episodes of a trained agent, writes what it recalled, and returns the files.

    The options are those of `hcam.viewer.watch.Options`: `levels`, `episodes`, `seed`, `greedy`, `layer`, `out`, `gif`,
    `mp4` and `fps`. Without a file to write, this is `watch.html`.
    """
    from hcam.viewer import watch as viewer

    files = {name: Path(options[name]) for name in ("out", "gif", "mp4") if options.get(name) is not None}
    levels = options.get("levels", ())
    given = options | files | {"levels": (levels,) if isinstance(levels, str) else tuple(levels)}
    lines = viewer.watch(load(source, best=best, env=env), str(source), viewer.Options(**given))
    return [path for path, _ in lines if path is not None]
