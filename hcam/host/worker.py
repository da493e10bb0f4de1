"""A worker process: `python -m hcam.host.worker CHANNEL MEMORY` steps its environments whenever it is told to.

It ends when the process that started it does: then the channel closes. Signals from a terminal are not for it.
"""

import os
import random
import signal
import socket
import sys
import traceback
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hcam.host import memory, messages, source
from hcam.host.messages import Json
from hcam.host.parts import WHOLE, Part, Writer, describe, is_text
from hcam.host.source import Source

EPISODES = 32  # that are begun to collect words
STEPS = 8  # that are tried before a run begins

FINAL = "final "  # before the name of a part: its last value in an episode that has ended


def main(channel: socket.socket, descriptor: int) -> None:
    _, spec = messages.receive(channel, (messages.FOUND,))
    given = Source(**spec["source"])
    try:
        if "parts" not in spec:
            messages.send(channel, messages.FOUND, look(given))
            return
        worker = Worker(given, spec, memory.arrays(descriptor, _fields(spec["fields"])))
        messages.send(channel, messages.READY)
        while True:
            command, _ = messages.receive(channel)
            group = command % messages.RESET
            (worker.reset if command >= messages.RESET else worker.step)(group)
            messages.send(channel, group)
    except messages.GoneError:
        return
    except Exception as error:
        messages.send(channel, messages.ERROR, explain(error))


def _fields(given: Json) -> memory.Fields:
    return {name: (tuple(shape), dtype) for name, (shape, dtype) in given.items()}


# Before a run ---------------------------------------------------------------------------------------------------------


def look(given: Source) -> Json:
    """What the environment observes and how many actions it has; tries some steps, so that what fails fails now."""
    env = source.make(given)
    actions, decided = env.action_space, source.choices(given, env)
    if type(actions).__name__ != "Discrete":
        raise ValueError(f"actions must be Discrete here, but {given.task} has {actions}: wrap it, or choose another.")
    named = getattr(env.observation_space, "spaces", None)
    named = named if isinstance(named, Mapping) else None
    parts = {WHOLE: env.observation_space} if named is None else named
    texts: dict[str, set[str]] = {name: set() for name, space in parts.items() if is_text(space)}
    seen: list[Any] = []
    for seed in range(EPISODES if texts else 2):
        seen.append(env.reset(seed=seed)[0])
        for step in range(STEPS):
            observation, _, terminated, truncated, _ = env.step(np.int64((seed + step) % actions.n + actions.start))
            seen.append(observation)
            if terminated or truncated:
                break
    for observation in seen:
        for name, found in texts.items():
            found.add(str(_part(observation, name, named is None)))
    described = describe(env.observation_space, decided, {name: sorted(found) for name, found in texts.items()})
    _try(described, seen, named is None)
    env.close()
    return {"parts": described, "single": named is None, "actions": int(actions.n), "start": int(actions.start)}


def _try(parts: Sequence[Part], seen: Iterable[Any], single: bool) -> None:
    """Refuses observations that are not what the spaces say."""
    for part in parts:
        row, writer = np.zeros(tuple(part.shape), part.dtype), Writer(part)
        for observation in seen:
            writer.write(row, _part(observation, part.name, single))


def _part(observation: Any, name: str, single: bool) -> Any:
    return observation if single else observation[name]


# In a run -------------------------------------------------------------------------------------------------------------


class FailedError(Exception):
    """An environment has raised an exception, the cause of this one."""

    def __init__(self, slot: int) -> None:
        super().__init__()
        self.slot = slot


class Worker:
    """The environments of one process, and where they are to be written."""

    def __init__(self, given: Source, spec: Json, arrays: dict[str, Any]) -> None:
        self.arrays, self.single, self.start = arrays, spec["single"], spec["start"]
        self.slots: list[list[int]] = spec["slots"]  # by group
        self.writers = [Writer(Part(*part)) for part in spec["parts"]]
        self.envs = {slot: source.make(given, slot) for slots in self.slots for slot in slots}
        # After a restart there is no episode to go on with: a first step begins one, and says that the last was cut.
        self.begun = dict.fromkeys(self.envs, False)

    def reset(self, group: int) -> None:
        for slot in self.slots[group]:
            self._begin(slot, int(self.arrays["seed"][slot]))

    def step(self, group: int) -> None:
        arrays = self.arrays
        for slot in self.slots[group]:
            if self.begun[slot]:
                reward, terminated, truncated = self._step(slot)
                cut = False
            else:
                self._begin(slot, None)
                self._write(FINAL, slot, self.first)
                reward, terminated, truncated, cut = 0.0, False, True, True
            arrays["reward"][slot] = reward
            arrays["terminated"][slot] = terminated
            arrays["truncated"][slot] = truncated and not terminated  # Gymnasium may say both
            arrays["cut"][slot] = cut

    def _begin(self, slot: int, seed: int | None) -> None:
        try:
            # One that was restarted begins where chance leads it: its seed would repeat the episodes that it had.
            fresh = seed is None and not self.begun[slot]
            self.first = self.envs[slot].reset(seed=random.SystemRandom().getrandbits(31) if fresh else seed)[0]
            self._write("", slot, self.first)
        except Exception as error:
            raise FailedError(slot) from error
        self.begun[slot] = True

    def _step(self, slot: int) -> tuple[float, bool, bool]:
        action = np.int64(self.arrays["action"][slot] + self.start)
        try:
            observation, reward, terminated, truncated, _ = self.envs[slot].step(action)
            if not (terminated or truncated):
                self._write("", slot, observation)
            else:
                self._write(FINAL, slot, observation)
        except Exception as error:
            raise FailedError(slot) from error
        if terminated or truncated:
            self._begin(slot, None)
        return float(reward), bool(terminated), bool(truncated)

    def _write(self, prefix: str, slot: int, observation: Any) -> None:
        for writer in self.writers:
            name = writer.part.name
            writer.write(self.arrays[prefix + name][slot, ...], observation if self.single else observation[name])


def explain(error: Exception) -> Json:
    """An exception as JSON: what it says, and the frames of code that is not ours, nor Gymnasium's around it."""
    slot = error.slot if isinstance(error, FailedError) else None
    cause = error.__cause__ if isinstance(error, FailedError) and error.__cause__ else error
    frames = traceback.extract_tb(cause.__traceback__)
    around = (str(Path(__file__).parent), f"{os.sep}gymnasium{os.sep}core.py", f"{os.sep}gymnasium{os.sep}wrappers")
    inner = [n for n, frame in enumerate(frames) if any(path in frame.filename for path in around)]
    kept = frames[max(inner, default=-1) + 1 :]
    plain = [[frame.filename, frame.lineno, frame.name, frame.line] for frame in kept]
    refused = isinstance(cause, ValueError) and slot is None and not kept
    return {"slot": slot, "type": type(cause).__name__, "text": str(cause), "frames": plain, "refused": refused}


if __name__ == "__main__":
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):  # for the process that started this one, which then closes the channel
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    warnings.simplefilter("ignore")  # of hundreds of environments
    main(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))
