"""An environment in worker processes as one of ours: `gymnasium:ID` and `dm_env:package.module:function`.

Training asks its `pool` directly, for half of the environments at a time. Everything else (evaluation, the viewer) puts
it into jit like any other environment, and then the program calls back to the host for all environments at once.
"""

import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from hcam.adapters import HostEnvironmentError
from hcam.adapters.from_gymnasium import Host, HostEnvironment
from hcam.envs.spaces import Box, Discrete, Space, Tokens
from hcam.host import pool
from hcam.host.parts import Part
from hcam.host.pool import HostError, Pool
from hcam.host.source import DM_ENV, GYMNASIUM, Source

KINDS = (GYMNASIUM, DM_ENV)  # the words before the colon


def make(kind: str, name: str, options: Mapping[str, Any]) -> "WorkerEnvironment":
    """The environment, from one process that makes it to see what it observes."""
    if not hasattr(os, "memfd_create") and sys.platform != "darwin":
        raise ValueError(f"{kind}:{name} needs worker processes, which run on Linux and macOS alone.")
    if not name:
        what = "an id, as in gymnasium:CartPole-v1" if kind == GYMNASIUM else "a function, as in dm_env:my_envs:cart"
        raise ValueError(f"{kind}: needs {what}.")
    return WorkerEnvironment(Source(kind, name, dict(options)))


class WorkerEnvironment(HostEnvironment):
    def __init__(self, source: Source) -> None:
        with raising_errors():
            spaces = _look(_frozen(source))
        named = {part.name: _space(part) for part in spaces.parts}
        observation_space = next(iter(named.values())) if spaces.single else named
        self.workers = _Workers(source, spaces)
        super().__init__(Discrete(spaces.actions), observation_space, self.workers)

    @property
    def options(self) -> dict[str, Any]:
        """Those that it was made with, and the words that were found: what makes it again, with the same numbers."""
        given, texts = self.workers.source.options, [part for part in self.workers.spaces.parts if part.kind == "text"]
        if not texts:
            return dict(given)
        words = sorted({word for part in texts for word in part.vocabulary[2:]})
        return {**given, "vocabulary": words, "longest": max(part.shape[0] for part in texts)}


class _Workers(Host):
    """A pool, made anew where another number of environments is asked for."""

    def __init__(self, source: Source, spaces: pool.Spaces) -> None:
        super().__init__()
        self.source, self.spaces = source, spaces
        self.count = default_workers()
        self.say: Callable[[str], None] = lambda line: print(line, file=sys.stderr)
        self.pool: Pool | None = None

    def start(self, batch: tuple[int, ...]) -> Pool:
        """For environments of these axes, of which the last is cut into halves where it can be."""
        size, groups = math.prod(batch), 2 if batch and batch[-1] % 2 == 0 else 1
        if self.pool is None or (self.pool.environments, self.pool.groups) != (size, groups):
            self.close()
            with raising_errors():
                self.pool = Pool(self.source, self.spaces, size, groups, self.count, lambda line: self.say(line))
        return self.pool

    def close(self) -> None:
        if self.pool is not None:
            self.pool.close()
        self.pool = None

    def begin(self, seeds: list[int], batch: tuple[int, ...]) -> Any:
        with raising_errors():
            started = self.start(batch)
            return self.whole(_in_order(started, started.reset(_in_groups(started, np.array(seeds), batch)), batch))

    def advance(self, slots: list[int], actions: list[int], batch: tuple[int, ...]) -> tuple[Any, Any, Any, Any, Any]:
        if self.pool is None or slots != list(range(self.pool.environments)):
            raise RuntimeError("environments in worker processes are stepped all at once: step the whole batch.")
        with raising_errors():
            action_g = _in_groups(self.pool, np.array(actions), batch)
            for group in range(self.pool.groups):
                self.pool.send(group, action_g[self.pool.slots(group)])
            steps = [self.pool.receive(group) for group in range(self.pool.groups)]
            finals = self.pool.finals()
        joined = {name: np.concatenate([step.observation[name] for step in steps]) for name in finals}
        reward, terminated, truncated = (np.concatenate([step[n] for step in steps]) for n in (1, 2, 3))
        ended = terminated | truncated
        last = {name: np.where(_like(ended, finals[name]), finals[name], joined[name]) for name in finals}
        every = (self.whole(joined), self.whole(last), reward, terminated, truncated)
        ordered: tuple[Any, Any, Any, Any, Any] = _in_order(self.pool, every, batch)
        return ordered

    def whole(self, named: dict[str, Any]) -> Any:
        """An observation as the agent sees it: one part alone, or a dict of them."""
        return next(iter(named.values())) if self.spaces.single else named


def default_workers() -> int:
    """One per core, less the one that this process computes on."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores - 1)


def use(env: Any, workers: int | None) -> None:
    """Sets how many processes step an environment, for those that have any."""
    if workers is None:
        return
    if not isinstance(env, WorkerEnvironment):
        raise ValueError("--workers is for environments in worker processes, as gymnasium:ID: leave it out.")
    if workers < 1:
        raise ValueError(f"workers must be 1 or more, but is {workers}: leave it out for one per core.")
    env.workers.count = workers


@contextmanager
def telling(env: Any, say: Callable[[str], None]) -> Iterator[None]:
    """What happens to the workers of an environment is said by `say`; afterwards they end."""
    if not isinstance(env, WorkerEnvironment):
        yield
        return
    before, env.workers.say = env.workers.say, say
    try:
        yield
    finally:
        env.workers.say = before
        env.workers.close()


class raising_errors:  # noqa: N801  (a context manager, as contextlib's are called)
    """Turns what a worker says of an exception into the error that all environments on the host raise."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, HostError):
            raise HostEnvironmentError.told(str(error), error.told.get("frames", ())) from None


@cache
def _look(frozen: tuple[str, str, str]) -> pool.Spaces:
    import json

    kind, name, options = frozen
    return pool.look(Source(kind, name, json.loads(options)))


def _frozen(source: Source) -> tuple[str, str, str]:
    import json

    return source.kind, source.name, json.dumps(source.options, sort_keys=True)


def _space(part: Part) -> Space:
    match part.kind:
        case "discrete":
            return Discrete(int(part.high) + 1)
        case "text":
            return Tokens(tuple(part.vocabulary), part.shape[0])
    return Box(tuple(part.shape), part.low, part.high, part.dtype)


# A pool's groups are halves of the last axis of a batch, which are the halves that training acts for.


def _in_groups(started: Pool, array: Any, batch: tuple[int, ...]) -> Any:
    """[S * B] -> [G * S * B/G]."""
    groups = started.groups
    return array.reshape(-1, groups, _last(batch) // groups).swapaxes(0, 1).ravel()


def _in_order(started: Pool, tree: Any, batch: tuple[int, ...]) -> Any:
    """Undo `_in_groups`, for all arrays of a tree."""
    import jax

    groups = started.groups

    def back(leaf: Any) -> Any:
        cut = leaf.reshape(groups, -1, _last(batch) // groups, *leaf.shape[1:]).swapaxes(0, 1)
        return cut.reshape(-1, *leaf.shape[1:])

    return jax.tree.map(back, tree)


def _last(batch: tuple[int, ...]) -> int:
    return batch[-1] if batch else 1


def _like(flag: Any, array: Any) -> Any:
    return flag.reshape(-1, *(1,) * (array.ndim - 1))
