"""All workers: environments in groups, each of which takes a step while the agent acts for another.

A worker has a part of every group. It is told to step a group by one byte, and answers with one when the results are in
shared memory. One that ends, or does not answer in time, is started again: its environments begin new episodes.
"""

import contextlib
import os
import select
import socket
import subprocess
import sys
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hcam.host import memory, messages
from hcam.host.messages import Json
from hcam.host.parts import Part
from hcam.host.source import Source

START = 300.0  # seconds in which a worker must have made its environments
STEP = 120.0  # in which it must have stepped a group
TRIES = 3  # restarts of a worker that never answers in between; then the run ends


class HostError(RuntimeError):
    """What a worker says of an exception in it, or that it cannot be kept alive."""

    def __init__(self, text: str, told: Json | None = None) -> None:
        super().__init__(text)
        self.told = told or {}


class Spaces(NamedTuple):
    """What an environment observes and does."""

    parts: list[Part]
    single: bool  # whether the observation is one part alone, not a dict of them
    actions: int
    start: int


class Step(NamedTuple):
    """What the environments of a group have returned; copies."""

    observation: dict[str, NDArray[Any]]
    reward: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    cut: NDArray[np.bool_]  # whether the episode ended because its worker did


@dataclass(eq=False)
class Worker:
    number: int
    slots: list[list[int]]  # by group
    process: subprocess.Popen[bytes]
    channel: socket.socket
    told: deque[int] = field(default_factory=deque)  # commands not answered yet
    answered: bool = False  # anything since it was started
    failed: int = 0  # starts in a row without an answer to a command
    deadline: float = 0.0


def look(source: Source) -> Spaces:
    """The spaces of an environment, from a process that makes one; what cannot be made is refused."""
    descriptor = memory.create({})
    process, channel = _start(descriptor)
    try:
        messages.send(channel, messages.FOUND, {"source": source._asdict()})
        channel.settimeout(START)
        _, found = messages.receive(channel)
    except messages.GoneError:
        raise ValueError(f"{source.task} cannot be made: its process {_ended(process)} at once.") from None
    finally:
        _finish([(process, channel)], descriptor)
    if "parts" not in found:
        raise _error(source, found, "")
    return Spaces([Part(*part) for part in found["parts"]], found["single"], found["actions"], found["start"])


class Pool:
    """`environments` in `groups` of equal size, stepped by so many `workers`."""

    def __init__(
        self,
        source: Source,
        spaces: Spaces,
        environments: int,
        groups: int,
        workers: int,
        say: Callable[[str], None] = lambda line: print(line, file=sys.stderr),
        step_seconds: float = STEP,
    ) -> None:
        self.source, self.spaces, self.environments, self.say = source, spaces, environments, say
        self.groups, self.restarts, self.step_seconds = groups, 0, step_seconds
        self.fields: dict[str, tuple[tuple[int, ...], str]]
        self.fields = {name: ((environments,), kind) for name, kind in FLAGS.items()}
        for part in spaces.parts:
            self.fields |= {prefix + part.name: ((environments, *part.shape), part.dtype) for prefix in ("", "final ")}
        self.descriptor = memory.create(self.fields)
        self.arrays = memory.arrays(self.descriptor, self.fields)
        count = min(workers, environments // groups)
        processes: list[Any] = []
        self._finalizer = weakref.finalize(self, _finish, processes, self.descriptor)
        self._processes = processes
        self.workers = [self._started(number, self._share(number, count)) for number in range(count)]
        try:
            for worker in self.workers:
                self._answer(worker)
        except BaseException:
            self.close()
            raise

    # What a user of it calls ------------------------------------------------------------------------------------------

    def slots(self, group: int) -> slice:
        size = self.environments // self.groups
        return slice(group * size, (group + 1) * size)

    def reset(self, seeds: Sequence[int] | NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Begins an episode in every environment: the first observations."""
        self.arrays["seed"][:] = seeds
        for group in range(self.groups):
            self._tell(group + messages.RESET)
        for group in range(self.groups):
            self._wait(group + messages.RESET)
        return {part.name: self.arrays[part.name].copy() for part in self.spaces.parts}

    def send(self, group: int, action: NDArray[Any]) -> None:
        """Tells a group to take these actions, and returns at once."""
        self.arrays["action"][self.slots(group)] = action
        self._tell(group)

    def receive(self, group: int) -> Step:
        """Waits for the group's step."""
        self._wait(group)
        slots = self.slots(group)
        seen = {part.name: self.arrays[part.name][slots].copy() for part in self.spaces.parts}
        return Step(seen, *(self.arrays[name][slots].copy() for name in ("reward", "terminated", "truncated", "cut")))

    def finals(self) -> dict[str, NDArray[Any]]:
        """The last observation of the last episode that has ended, of every environment."""
        return {part.name: self.arrays["final " + part.name].copy() for part in self.spaces.parts}

    def close(self) -> None:
        self._finalizer()

    # Workers ----------------------------------------------------------------------------------------------------------

    def _share(self, number: int, count: int) -> list[list[int]]:
        size = self.environments // self.groups
        cuts = [size * n // count for n in range(count + 1)]
        return [list(range(g * size + cuts[number], g * size + cuts[number + 1])) for g in range(self.groups)]

    def _started(self, number: int, slots: list[list[int]]) -> Worker:
        process, channel = _start(self.descriptor)
        self._processes.append((process, channel))
        worker = Worker(number, slots, process, channel, deque([messages.READY]))
        worker.deadline = time.monotonic() + START
        with contextlib.suppress(messages.GoneError):  # noticed when its answer is waited for
            told = self.spaces._asdict() | {"fields": self.fields, "slots": slots, "source": self.source._asdict()}
            messages.send(channel, messages.FOUND, told)
        return worker

    def _tell(self, command: int) -> None:
        now = time.monotonic()
        for worker in self.workers:
            if not worker.told:
                worker.deadline = now + self.step_seconds
            worker.told.append(command)
            with contextlib.suppress(messages.GoneError):
                messages.send(worker.channel, command)

    def _wait(self, command: int) -> None:
        for number in range(len(self.workers)):
            while command in self.workers[number].told:
                self._answer(self.workers[number])

    def _answer(self, worker: Worker) -> None:
        """Waits for a worker's next answer; starts it again where it has ended or has no more time."""
        while True:
            left = worker.deadline - time.monotonic()
            ready = _readable(worker.channel, left) if left > 0 else False
            try:
                if not ready:
                    raise TimeoutError
                number, told = messages.receive(worker.channel)
                break
            except (messages.GoneError, TimeoutError) as error:
                self._restart(worker, hung=isinstance(error, TimeoutError))
        if number == messages.ERROR:
            raise _error(self.source, told, f" of environment {told['slot']}" if told["slot"] is not None else "")
        worker.told.popleft()
        worker.deadline = time.monotonic() + self.step_seconds
        if number != messages.READY:
            worker.failed = 0

    def _restart(self, worker: Worker, hung: bool) -> None:
        what = f"has not answered for {self.step_seconds:g} seconds" if hung else _ended(worker.process)
        self._processes.remove((worker.process, worker.channel))
        _end([worker.process], [worker.channel])
        slots = [slot for group in worker.slots for slot in group]
        name = f"worker {worker.number} ({_numbers(slots)} of {self.source.task})"
        if worker.failed >= TRIES:
            raise HostError(
                f"{name} {what}, for the {worker.failed + 1}th time in a row: fewer --workers or --environments may "
                "help if memory is short; --resume continues from the last checkpoint."
            )
        self.say(f"{name} {what}: it is started again, and their episodes end here")
        self.restarts += 1
        told, failed = worker.told, worker.failed + 1
        fresh = self._started(worker.number, worker.slots)
        worker.process, worker.channel, worker.failed = fresh.process, fresh.channel, failed
        worker.deadline = fresh.deadline
        worker.told = deque([messages.READY, *(command for command in told if command != messages.READY)])
        for command in list(worker.told)[1:]:
            with contextlib.suppress(messages.GoneError):
                messages.send(worker.channel, command)


FLAGS = {"reward": "float32", "terminated": "bool", "truncated": "bool", "cut": "bool"}
FLAGS |= {"action": "int32", "seed": "int64"}


def _start(descriptor: int) -> tuple[subprocess.Popen[bytes], socket.socket]:
    ours, theirs = socket.socketpair()
    # An environment that computes with JAX itself must not take the device from the agent, nor numpy all cores.
    alone = {"JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1", "PYGAME_HIDE_SUPPORT_PROMPT": "1"}
    paths = os.pathsep.join(os.path.abspath(path) for path in sys.path)
    with theirs:
        command = [sys.executable, "-m", "hcam.host.worker", str(theirs.fileno()), str(descriptor)]
        process = subprocess.Popen(
            command,
            pass_fds=(theirs.fileno(), descriptor),
            env={**os.environ, **alone, "PYTHONPATH": paths},
            stdin=subprocess.DEVNULL,
            stdout=2,  # this process's output is its own
        )
    return process, ours


def _readable(channel: socket.socket, seconds: float) -> bool:
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    return bool(poll.poll(max(1, int(1000 * seconds))))


def _finish(pairs: list[tuple[subprocess.Popen[bytes], socket.socket]], descriptor: int) -> None:
    _end([process for process, _ in pairs], [channel for _, channel in pairs])
    with contextlib.suppress(OSError):
        os.close(descriptor)


def _end(processes: Sequence[subprocess.Popen[bytes]], channels: Sequence[socket.socket]) -> None:
    for channel in channels:
        channel.close()
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.5)
        process.kill()
        process.wait()


def _ended(process: subprocess.Popen[bytes]) -> str:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(1)
    status = process.returncode
    if status is None:
        return "has closed its channel"
    return f"was ended by signal {-status}" if status < 0 else f"has ended with status {status}"


def _error(source: Source, told: Json, where: str) -> Exception:
    """A sentence of ours, or an exception of the environment with its frames."""
    if told.get("refused"):
        return ValueError(told["text"])
    return HostError(f"{source.task}{where} raised {told['type']}: {told['text'].rstrip('.')}", told)


def _numbers(slots: Sequence[int]) -> str:
    """`environments 0 to 3 and 8 to 11`."""
    runs: list[list[int]] = []
    for slot in slots:
        if runs and slot == runs[-1][-1] + 1:
            runs[-1].append(slot)
        else:
            runs.append([slot])
    shown = [str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs]
    return f"environment{'s' if len(slots) > 1 else ''} {' and '.join(shown)}"
