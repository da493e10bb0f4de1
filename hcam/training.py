"""The loop: act and learn, log, save, until the steps are done. Read this first: every import is one stage."""

import math
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hcam import agent
from hcam.config import Config, to_json
from hcam.envs.environment import Environment
from hcam.envs.levels import Mixture
from hcam.host.environment import WorkerEnvironment
from hcam.learning import metrics, objectives, optimiser
from hcam.learning.devices import EVERYWHERE, ONE, STATE, Devices
from hcam.learning.host_update import NONE, HostUpdate
from hcam.learning.layout import vmap_seeds
from hcam.learning.learner import Learner
from hcam.runs import checkpoint, hosts, measure, rewards
from hcam.runs.folder import RunFolder
from hcam.runs.loggers import Logger
from hcam.runs.progress import Display
from hcam.runs.resources import refuse_too_large
from hcam.types import TrainState

TIME_IS_UP = 14  # what `train` returns where a deadline ended it: the number of SIGALRM
AHEAD = 2  # updates that the host asks for before they are computed: the device never waits, and a signal not for long
Folder = RunFolder | hosts.Elsewhere


class DivergedError(ValueError):
    """A loss is no longer a number."""


def make_learner(config: Config, env: Environment | None = None, devices: Devices = ONE) -> Learner:
    """Everything that is decided before compilation: what does not fit is refused here."""
    every, unroll = config.objective.reconstruct_every, config.learner.unroll
    if unroll % every:
        raise ValueError(f"reconstruct_every is {every}, which does not divide an unroll of {unroll} steps evenly.")
    env = config.task.make() if env is None else env
    env_params = config.task.params(env)
    if config.learner.curriculum and not isinstance(env_params, Mixture):
        raise ValueError(f"a curriculum chooses among levels, but {config.task.task} has none: leave it out.")
    full_return_l = full_returns(config, env) if config.learner.curriculum and env.scored_by == "return" else None
    learner = Learner(
        agent=agent.make(config.agent, env),
        env=env,
        env_params=env_params,
        levels=len(config.task.level_names(env)),
        optimiser=optimiser.make(config.optimiser, config.updates * config.learner.gradient_steps),
        objective=objectives.make(config.objective, devices),
        config=config.learner,
        full_return_l=full_return_l,
        devices=devices,
    )
    refuse_too_large(learner, config.run.seeds)
    return learner


def full_returns(config: Config, env: Environment) -> Any:
    """What a curriculum measures returns by, for each level: the mean return of the task's expert. Float32 [L]."""
    levels = config.task.level_names(env)
    found = [rewards.expert_return(env, config.task.level_params(env, level)) for level in levels]
    if not all(full is not None and full > 0 for full in found):
        task = config.task.task
        raise ValueError(
            f"a curriculum compares the returns of {task} with those of an expert, and {task} has none that earns a "
            "reward: leave it out."
        )
    return jnp.array(found, jnp.float32)


def train(
    config: Config,
    learner: Learner,
    folder: Folder,
    display: Display,
    loggers: Sequence[Logger] = (),
    deadline: float = math.inf,
) -> tuple[TrainState, int]:
    """Trains to the end or until a signal: the state of all seeds (their axis S comes first), and the signal or 0.

    A `deadline`, a time of `time.monotonic`, ends it as a signal does: after the update in which it passes.

    A run folder that has checkpoints continues from its last whole one: parameters, optimiser, environments, memories,
    random keys and counters, so that the run is the same, bit for bit, as if it had never stopped.
    """
    levels, scored = config.task.level_names(learner.env), measure.find(learner.env.scored_by)
    state_s, saved = begin(config, learner, folder, display)
    display.compiling()
    update = updater(config, learner, state_s)
    learning_rate = optimiser.learning_rate(config.optimiser, config.updates * config.learner.gradient_steps)

    done, clock = int(state_s.updates[0]), Clock(saved["seconds"])
    pending: list[Any] = []  # metrics of updates since the last row
    unsaved: list[Any] = []  # metrics of rows since the last checkpoint
    agree = hosts.Agreement(learner.devices)
    stopped_by, last = 0, done >= config.updates
    with signals() as stopped:
        while not last:
            # Act and learn.
            state_s, metrics_s = update(state_s)
            pending.append(metrics_s)
            done += 1
            jax.block_until_ready(pending[:-AHEAD][-1:])  # type: ignore[no-untyped-call]
            if done < config.updates and time.monotonic() >= deadline:
                stopped.append(TIME_IS_UP)

            # Log. Only here does the host wait for the last update. A signal that comes after the next line is seen one
            # update later, so that whatever ends the loop has been logged and saved.
            wish = stopped[0] if stopped else 0, clock.due("log", config.run.log_every)
            stopped_by, log, save = agree(*wish, clock.due("save", config.run.save_every))
            last = done >= config.updates or stopped_by > 0
            if not (last or len(pending) == 1024 or log):
                continue
            agree.forget()
            pending = jax.device_get(pending)
            refuse_nan(pending, done, config, folder, saved)
            metrics_s = metrics.add(pending)
            head: Any = {"update": done, "steps": done * config.steps_per_update, "seconds": clock.seconds}
            head["rate"] = len(pending) * config.steps_per_update / clock.lap("log")
            head["learning_rate"] = float(learning_rate(done * config.learner.gradient_steps))
            row = metrics.row(metrics_s, levels, **head, **learner.devices.noted())
            for write in (folder.append, display.update, *(logger.write for logger in loggers)):
                write(row)
            unsaved.append(metrics_s)
            pending = []

            # Save.
            if last or save:
                refuse_not_finite(state_s, row["steps"], folder, saved)
                score = metrics.score(metrics.row(metrics.add(unsaved), levels), scored.name, scored.least)
                saved = {"steps": row["steps"], "seconds": row["seconds"], "best": max(saved["best"], score)}
                save_in(folder, learner.devices.whole(state_s), done, saved, {scored.name: score}, config.run.keep)
                clock.lap("save")
                unsaved = []
    if stopped_by:
        display.say(f"stopped and saved at {saved['steps']:,} steps")
    return state_s, stopped_by


def save_in(
    folder: Folder, whole_s: TrainState, done: int, saved: dict[str, Any], score: dict[str, float], keep: int
) -> None:
    if not isinstance(folder, RunFolder):
        return
    if next(iter(score.values())) >= saved["best"]:  # first: wherever this is killed, there is a best one if any
        checkpoint.save_best(folder.checkpoints, {"params": whole_s.params}, saved | score)
    checkpoint.save(folder.checkpoints, whole_s, done, saved, keep=keep)
    folder.saved()


def updater(config: Config, learner: Learner, state_s: TrainState) -> Callable[[TrainState], Any]:
    """One compiled program that acts and learns; for environments in worker processes, several, and what runs them."""
    if isinstance(learner.env, WorkerEnvironment):
        return HostUpdate(learner, config.run.seeds, config.updates)
    return compiled(config, learner, state_s)


def compiled(config: Config, learner: Learner, state_s: TrainState) -> Callable[[TrainState], Any]:
    every_seed = vmap_seeds(learner.update, config.run.seeds)
    every_device = learner.devices.spread(every_seed, config.learner.minibatches, found=(STATE, EVERYWHERE))
    update: Any = jax.jit(every_device, donate_argnums=0).lower(state_s).compile()
    return update  # type: ignore[no-any-return]


def begin(config: Config, learner: Learner, folder: Folder, display: Display) -> tuple[TrainState, dict[str, Any]]:
    """The state to go on from, on its devices, and what is known of it: a checkpoint, whole, or a new one."""
    devices, minibatches = learner.devices, config.learner.minibatches
    seed_s = jnp.arange(config.run.seeds, dtype=jnp.int32) + config.run.seed
    every_seed = jax.vmap(lambda seed: learner.init(jax.random.key(seed)))
    init = jax.jit(devices.spread(every_seed, minibatches, given=EVERYWHERE))
    kinds, numbers = devices.whole_kinds(jax.eval_shape(init, seed_s)), ("steps", "seconds", "best")
    if isinstance(learner.env, WorkerEnvironment):  # then a state has no actors
        kinds = kinds._replace(actors_b=NONE)
    read: list[Any] = []  # by the first process

    def restore() -> dict[str, Any] | None:
        with devices.aside():
            found = checkpoint.restore(folder.checkpoints, kinds, numbers=numbers, on_skip=display.say)
        read.append(found[0] if found else None)
        return found[1] if found else None

    found = hosts.told(restore)
    saved = found or {"steps": 0, "seconds": 0.0, "best": -math.inf}
    whole_s = read[0] if hosts.is_first() else kinds
    state_s = devices.place(whole_s, minibatches, hosts.told_array) if found else init(seed_s)
    if found and not learner.env.is_saved:
        display.say("environments on the host cannot be saved: their episodes start anew, everything else continues")
        # Other episodes than those with which the run began.
        state_s = state_s._replace(actors_b=init(seed_s + state_s.updates).actors_b)
    refuse_shorter(config, folder, saved)
    folder.amend(folder.config | to_json(config))
    folder.rewind(saved["steps"])
    if found:
        display.say(f"continuing from {saved['steps']:,} steps")
    else:
        folder.begin()
    return state_s, saved


def refuse_shorter(config: Config, folder: Folder, saved: dict[str, Any]) -> None:
    if config.updates * config.steps_per_update < saved["steps"]:
        raise ValueError(
            f"{folder.path} is at {saved['steps']:,} steps already and cannot end at {config.run.steps:,}: "
            "leave out --steps, or give more."
        )


def refuse_nan(pending: list[Any], done: int, config: Config, folder: Folder, saved: dict[str, Any]) -> None:
    if found := metrics.first_not_finite(pending):
        number, term = found
        raise diverged(term, (done - len(pending) + number + 1) * config.steps_per_update, folder, saved)


def refuse_not_finite(state_s: TrainState, steps: int, folder: Folder, saved: dict[str, Any]) -> None:
    """The last gradient step may have lost parameters without its own losses showing it yet."""
    learned = jax.tree.leaves((state_s.params, state_s.optimiser))
    if not all(np.isfinite(leaf).all() for leaf in jax.device_get(learned)):
        raise diverged("a parameter", steps, folder, saved)


def diverged(what: str, steps: int, folder: Folder, saved: dict[str, Any]) -> DivergedError:
    where = f"the last good checkpoint is that of {saved['steps']:,} steps in {folder.checkpoints}"
    return DivergedError(
        f"{what} is not a number any more at {steps:,} steps: lower --learning-rate or --clip, and start again; "
        + (where if saved["steps"] else "there was no checkpoint yet")
        + "."
    )


class Clock:
    """Seconds of training, over all resumes, and since each of several events."""

    def __init__(self, before: float) -> None:
        self._begin = time.monotonic()
        self._before = before
        self._laps: dict[str, float] = {}

    @property
    def seconds(self) -> float:
        return self._before + time.monotonic() - self._begin

    def since(self, event: str) -> float:
        return time.monotonic() - self._laps.get(event, self._begin)

    def due(self, event: str, every: float) -> bool:
        return self.since(event) >= every

    def lap(self, event: str) -> float:
        seconds, self._laps[event] = max(self.since(event), 1e-9), time.monotonic()
        return seconds


@contextmanager
def signals() -> Iterator[list[int]]:
    """Ctrl-C, SIGTERM and SIGHUP ask the loop to finish its update and save; a second one interrupts at once.

    A signal that is ignored, as SIGHUP is under `nohup`, stays ignored.
    """
    caught: list[int] = []

    def note(number: int, _: Any) -> None:
        if caught:
            raise KeyboardInterrupt
        caught.append(number)

    names = ("SIGINT", "SIGTERM", "SIGHUP")  # Windows lacks the last
    kinds = [getattr(signal, name) for name in names if hasattr(signal, name)]
    kinds = [kind for kind in kinds if signal.getsignal(kind) != signal.SIG_IGN]
    try:
        before = [signal.signal(kind, note) for kind in kinds]
    except ValueError:  # not the main thread, which alone receives signals
        yield caught
        return
    try:
        yield caught
    finally:
        for kind, handler in zip(kinds, before, strict=True):
            signal.signal(kind, handler)
