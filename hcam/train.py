"""The loop: act and learn, tell, save, until the steps are done. Read this first."""

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hcam import agent
from hcam.config import Config, to_json
from hcam.learning import metrics, optimiser
from hcam.learning.learner import Learner, TrainState, vmap_seeds
from hcam.runs import checkpoint
from hcam.runs.folder import RunFolder
from hcam.runs.progress import Display


class DivergedError(ValueError):
    """A loss is no longer a number."""


def make_learner(config: Config) -> Learner:
    """Everything that is decided before compilation: what does not fit is refused here."""
    every, unroll = config.loss.reconstruct_every, config.learner.unroll
    if unroll % every:
        raise ValueError(f"reconstruct_every is {every}, which does not divide an unroll of {unroll} steps evenly.")
    env = config.task.make()
    level = config.task.params(env)
    if config.learner.curriculum and not hasattr(level, "weight_l"):
        raise ValueError(f"a curriculum chooses among levels, which {config.task.task} does not mix: leave it out.")
    return Learner(
        agent=agent.make(config.agent, env),
        env=env,
        level=level,
        levels=len(config.task.names(env)),
        optimiser=optimiser.make(config.optimiser, config.updates * config.learner.gradient_steps),
        config=config.learner,
        loss=config.loss,
    )


def train(config: Config, folder: RunFolder, display: Display, loggers: Sequence[Any] = ()) -> tuple[TrainState, int]:
    """Trains to the end or until a signal: where all seeds stand (their axis comes first), and the signal or 0.

    A run folder that has checkpoints goes on from its last whole one: parameters, optimiser, environments, memories,
    random keys and counters, so that the run is the same, bit for bit, as if it had never stopped.
    """
    learner, levels = make_learner(config), config.task.names(config.task.make())
    seed_s = jnp.arange(config.run.seeds) + config.run.seed
    begin = jax.jit(jax.vmap(lambda seed: learner.init(jax.random.key(seed))))
    found = checkpoint.restore(
        folder.checkpoints, jax.eval_shape(begin, seed_s), numbers=("steps", "seconds", "best"), on_skip=display.say
    )
    state_s, about = found or (begin(seed_s), {"steps": 0, "seconds": 0.0, "best": -1.0})
    refuse_shorter(config, folder, about)
    folder.amend(folder.config | to_json(config))
    folder.rewind(about["steps"])
    if found:
        display.say(f"going on from {about['steps']:,} steps")
    else:
        folder.begin()

    display.compiling()
    update = jax.jit(vmap_seeds(learner.update, config.run.seeds), donate_argnums=0).lower(state_s).compile()
    rate_of = optimiser.learning_rate(config.optimiser, config.updates * config.learner.gradient_steps)

    done, clock = int(state_s.updates[0]), Clock(about["seconds"])
    pending: list[Any] = []  # told by updates that nobody has looked at yet
    unsaved: list[Any] = []  # told since the last checkpoint
    last = done >= config.updates
    with signals() as stopped:
        while not last:
            # Act and learn.
            state_s, seen_s = update(state_s)
            pending.append(seen_s)
            done += 1

            # Tell. The device is waited for only here. A signal that comes after this line is seen an update later:
            # whatever ends the loop has been told and saved.
            last = done >= config.updates or bool(stopped)
            if not (last or len(pending) == 1024 or clock.due("log", config.run.log_every)):
                continue
            pending = jax.device_get(pending)
            refuse_nan(pending, done, config, folder, about)
            seen_s = metrics.add(pending)
            row = metrics.row(
                seen_s,
                levels,
                update=done,
                steps=done * config.steps_per_update,
                seconds=clock.seconds,
                rate=len(pending) * config.steps_per_update / clock.lap("log"),
                learning_rate=float(rate_of(done * config.learner.gradient_steps)),
            )
            for write in (folder.append, display.update, *(logger.write for logger in loggers)):
                write(row)
            unsaved.append(seen_s)
            pending = []

            # Save.
            if last or clock.due("save", config.run.save_every):
                refuse_lost(state_s, row["steps"], folder, about)
                score = metrics.score(metrics.row(metrics.add(unsaved), levels))
                about = {"steps": row["steps"], "seconds": row["seconds"], "best": max(about["best"], score)}
                if score >= about["best"]:  # first: wherever this is killed, there is a best one if there is any
                    checkpoint.save_best(folder.checkpoints, {"params": state_s.params}, about | {"success": score})
                checkpoint.save(folder.checkpoints, state_s, done, about, keep=config.run.keep)
                folder.saved()
                clock.lap("save")
                unsaved = []
    if stopped:
        display.say(f"stopped and saved at {about['steps']:,} steps")
    return state_s, stopped[0] if stopped else 0


def refuse_shorter(config: Config, folder: RunFolder, about: dict[str, Any]) -> None:
    if config.updates * config.steps_per_update < about["steps"]:
        raise ValueError(
            f"{folder.path} is at {about['steps']:,} steps already and cannot end at {config.run.steps:,}: "
            "leave out --steps, or give more."
        )


def refuse_nan(pending: list[Any], done: int, config: Config, folder: RunFolder, about: dict[str, Any]) -> None:
    if found := metrics.first_not_finite(pending):
        number, term = found
        raise diverged(term, (done - len(pending) + number + 1) * config.steps_per_update, folder, about)


def refuse_lost(state_s: TrainState, steps: int, folder: RunFolder, about: dict[str, Any]) -> None:
    """A last gradient step may lose what its own losses do not show yet: that is not to be saved."""
    learned = jax.tree.leaves((state_s.params, state_s.optimiser))
    if not all(np.isfinite(leaf).all() for leaf in jax.device_get(learned)):
        raise diverged("a parameter", steps, folder, about)


def diverged(what: str, steps: int, folder: RunFolder, about: dict[str, Any]) -> DivergedError:
    where = f"the last good checkpoint is that of {about['steps']:,} steps in {folder.checkpoints}"
    return DivergedError(
        f"{what} is not a number any more at {steps:,} steps: lower --learning-rate or --clip, and start again; "
        + (where if about["steps"] else "there was no checkpoint yet")
        + "."
    )


class Clock:
    """Seconds of training, over all resumes, and since things were last done."""

    def __init__(self, before: float) -> None:
        self._begin = time.monotonic()
        self._before = before
        self._laps: dict[str, float] = {}

    @property
    def seconds(self) -> float:
        return self._before + time.monotonic() - self._begin

    def since(self, what: str) -> float:
        return time.monotonic() - self._laps.get(what, self._begin)

    def due(self, what: str, every: float) -> bool:
        return self.since(what) >= every

    def lap(self, what: str) -> float:
        seconds, self._laps[what] = max(self.since(what), 1e-9), time.monotonic()
        return seconds


@contextmanager
def signals() -> Iterator[list[int]]:
    """Ctrl-C, SIGTERM and a closed terminal ask the loop to finish its update and save; a second one is not waited for.

    A signal that is ignored, as `nohup` has it with the last of them, stays ignored.
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
    except ValueError:  # not the main thread: whoever started this one gets the signals
        yield caught
        return
    try:
        yield caught
    finally:
        for kind, handler in zip(kinds, before, strict=True):
            signal.signal(kind, handler)
