"""The loop: act and learn, tell, save, until the steps are done; then evaluate."""

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hcam import agent, checkpoint, evaluate, optimiser
from hcam.config import Config
from hcam.folder import RunFolder
from hcam.learner import Learner, TrainState
from hcam.progress import Display


class Diverged(ValueError):
    """A loss is no longer a number."""


def make_learner(config: Config) -> Learner:
    """Everything that is decided before compilation; what does not fit is refused here."""
    env = config.task.make()
    gradient_steps = config.updates * config.learner.minibatches
    return Learner(
        agent.make(config.agent, env),
        env,
        config.task.params(env),
        optimiser.make(config.optimiser, gradient_steps),
        config.learner,
        config.loss,
    )


def train(config: Config, folder: RunFolder, display: Display, loggers: Sequence[Any] = ()) -> TrainState:
    """Trains to the end, or until a signal; a run that was begun goes on where its last whole checkpoint stands."""
    learner = make_learner(config)
    levels = config.task.names(learner.env)

    # Begin, or go on: parameters, optimiser, environments, memories, random keys and counters, all or nothing.
    key_s = jax.vmap(jax.random.key)(jnp.arange(config.run.seeds) + config.run.seed)
    begin = jax.jit(jax.vmap(learner.init))
    found = checkpoint.restore(folder.checkpoints, jax.eval_shape(begin, key_s))
    state_s, about = (begin(key_s), {"seconds": 0.0, "best": -1.0}) if found is None else found
    if found is not None:
        folder.rewind(int(about["steps"]))
        display.say(f"goes on from {about['steps']:,} steps")

    display.compiling()
    update = jax.jit(jax.vmap(learner.update), donate_argnums=0).lower(state_s).compile()
    done, clock = int(state_s.updates[0]), Clock(about["seconds"])
    pending: list[Any] = []
    with signals() as stop:
        while done < config.updates and not stop:
            # Act and learn.
            state_s, seen_s = update(state_s)
            pending.append(seen_s)
            done += 1

            # Tell. Waiting for the device only here keeps it busy.
            last = done == config.updates or bool(stop)
            if not (last or clock.due("log", config.run.log_every) or len(pending) >= 256):
                continue
            row = summary(config, levels, done, clock, jax.device_get(pending))
            check_finite(row, pending, done, config, folder)
            pending.clear()
            for write in (folder.append, display.update, *(logger.write for logger in loggers)):
                write(row)

            # Save.
            if last or clock.due("save", config.run.save_every):
                about = {
                    "steps": row["steps"],
                    "seconds": row["seconds"],
                    "best": max(about["best"], row["success"] or 0),
                }
                checkpoint.save(folder.checkpoints, state_s, done, about, keep=config.run.keep)
    return state_s
