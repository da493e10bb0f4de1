"""`hcam bench host`: how fast an agent trains on environments in worker processes, beside how fast they step alone."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.table import Table

from hcam import __version__
from hcam.agent import memories
from hcam.benchmarks.figure import empty_table
from hcam.benchmarks.measure import device_name
from hcam.config import Config
from hcam.host.environment import WorkerEnvironment, use
from hcam.host.pool import Pool
from hcam.host.source import Source
from hcam.learning.host_update import HostUpdate
from hcam.memory import checks
from hcam.training import make_learner

BARE, VECTOR, TRAINING = "workers alone", "AsyncVectorEnv", "training"
FOREVER = 2**31 - 1  # updates: there is always another one to act for ahead


def run(config: Config, workers: int | None, rounds: int, seconds: float) -> dict[str, Any]:
    """Steps a second of each, all timed in turn, round after round."""
    checks.positive(rounds=rounds)
    env = config.task.make()
    if not isinstance(env, WorkerEnvironment):
        raise ValueError(f"{config.task.task} does not run in worker processes: give gymnasium:ID or dm_env:FUNCTION.")
    use(env, workers)
    learner = make_learner(config, env)
    seeds, source = config.run.seeds, env.workers.source
    pool = env.workers.start((seeds, config.learner.environments))
    bare = Pool(source, env.workers.spaces, pool.environments, pool.groups, len(pool.workers))
    vector = Vector(source, len(pool.workers))
    state = jax.jit(jax.vmap(lambda seed: learner.init(jax.random.key(seed))))(jnp.arange(seeds) + config.run.seed)
    training = Training(HostUpdate(learner, seeds, FOREVER), state, config.steps_per_update * seeds)
    parts: dict[str, Callable[[float], float | None]] = {
        BARE: Bare(bare).rate,
        VECTOR: vector.rate,
        TRAINING: training.rate,
    }
    try:
        for part in parts.values():  # compiles, and leaves the first episodes behind
            part(0.5)
        samples: dict[str, list[float]] = {name: [] for name in parts}
        for _ in range(rounds):
            for name, part in parts.items():
                if (found := part(seconds)) is not None:
                    samples[name].append(found)
    finally:
        bare.close()
        vector.close()
        env.close()
    return facts(config, learner, len(pool.workers), rounds, seconds) | {
        "rates": {name: found for name, found in samples.items() if found},
        "restarts": pool.restarts + bare.restarts,
    }


def facts(config: Config, learner: Any, workers: int, rounds: int, seconds: float) -> dict[str, Any]:
    """What was measured, and on what."""
    params = jax.eval_shape(learner.agent.init_params, jax.random.key(0))
    return {
        "device": device_name(),
        "cores": os.cpu_count(),
        "jax": jax.__version__,
        "hcam": __version__,
        "task": config.task.task,
        "options": dict(config.task.options),
        "memory": memories.name_of(config.agent.memory),
        "width": config.agent.memory.width,
        "parameters": sum(leaf.size for leaf in jax.tree.leaves(params)),
        "environments": config.learner.environments,
        "unroll": config.learner.unroll,
        "minibatches": config.learner.minibatches,
        "workers": workers,
        "rounds": rounds,
        "seconds": seconds,
    }


class Bare:
    """The same workers with as many environments and random actions, two groups in turn as in training."""

    def __init__(self, pool: Pool) -> None:
        self.pool, self.random = pool, np.random.default_rng(0)
        pool.reset(self.random.integers(2**31, size=pool.environments))

    def rate(self, seconds: float) -> float:
        groups, steps = range(self.pool.groups), 0
        for group in groups:
            self._send(group)
        start = time.perf_counter()
        while steps == 0 or time.perf_counter() - start < seconds:
            for group in groups:
                steps += len(self.pool.receive(group).reward)
                self._send(group)
        taken = time.perf_counter() - start
        for group in groups:
            self.pool.receive(group)
        return steps / taken

    def _send(self, group: int) -> None:
        size = self.pool.environments // self.pool.groups
        self.pool.send(group, self.random.integers(self.pool.spaces.actions, size=size))


class Training:
    """Updates, one after another, as `hcam train` makes them."""

    def __init__(self, update: HostUpdate, state: Any, steps: int) -> None:
        self.update, self.state, self.steps = update, state, steps

    def rate(self, seconds: float) -> float:
        self._finish(self.update(self.state))  # the first of a round is not counted
        updates, start = 0, time.perf_counter()
        while updates == 0 or time.perf_counter() - start < seconds:
            last = self.update(self.state)
            self.state = last[0]
            updates += 1
        self._finish(last)
        return self.steps * updates / (time.perf_counter() - start)

    def _finish(self, found: Any) -> None:
        self.state = jax.block_until_ready(found)[0]  # type: ignore[no-untyped-call]


class Vector:
    """Gymnasium's own, in a process without JAX, which it would fork."""

    def __init__(self, source: Source, workers: int) -> None:
        command = [sys.executable, "-m", "hcam.benchmarks.vector", json.dumps(source), str(workers)]
        paths = os.pathsep.join(os.path.abspath(path) for path in sys.path)
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "PYGAME_HIDE_SUPPORT_PROMPT": "1"},
        )

    def rate(self, seconds: float) -> float | None:
        """None: it cannot step this environment."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(f"{seconds}\n")
            self.process.stdin.flush()
            return float(self.process.stdout.readline())
        except (OSError, ValueError):
            return None

    def close(self) -> None:
        try:
            self.process.communicate(timeout=10)
        except (OSError, ValueError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.communicate()


def show(results: dict[str, Any]) -> Table:
    """A row each; the ratio is that to the workers alone."""
    title = f"{results['task']} with {results['workers']} workers, {results['environments']} environments"
    table = empty_table(f"{title}, on {results['device']}", ("", "steps/s", "slowest", "fastest", "ratio"))
    whole = median(results["rates"][BARE])
    for name in (BARE, VECTOR, TRAINING):
        found = results["rates"].get(name)
        if found is None:
            table.add_row(name, "not measured: it cannot step this environment")
            continue
        numbers = (median(found), min(found), max(found))
        table.add_row(name, *(f"{number:,.0f}" for number in numbers), f"{ratio(results, name) if whole else 0:.2f}")
    return table


def ratio(results: dict[str, Any], name: str = TRAINING) -> float:
    """The median over the rounds of each round's own ratio: a slow moment of the machine meets both."""
    pairs = zip(results["rates"][name], results["rates"][BARE], strict=True)
    return float(median(found / bare for found, bare in pairs))
