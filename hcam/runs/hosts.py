"""Several processes, on one host or many, that train one run: joining, deciding alike, and what the first one tells.

`jax.distributed` joins their devices; each process runs the same program, and whatever crosses between devices must be
called by all of them in the same order. So they decide alike (`Agreement`, `told`), and the first alone writes files.
"""

import json
import os
import re
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import NamedSharding, PartitionSpec

from hcam.learning.devices import AXIS, EVERYWHERE, Devices
from hcam.runs.files import as_json, parse_json
from hcam.runs.folder import CHECKPOINTS, RunFolder
from hcam.runs.text import printable

HEARTBEAT = 30  # seconds without a sign of life after which a process counts as dead
ARRIVAL = 300  # seconds that the first process waits for the others
# How XLA begins where what it exchanges with another process did not arrive.
BROKEN_OFF = "(ABORTED|CANCELLED|DEADLINE_EXCEEDED|FAILED_PRECONDITION|INTERNAL|UNAVAILABLE|UNKNOWN): "
PIECE = 2**28  # bytes that are told at once
LOST = 4  # exit status of a process that cannot go on without another one

# Reads what to say in the end, and says it when its input ends: that is, however the process that writes it has ended.
LAST_WORDS = "import sys\ntext = ''\nfor text in sys.stdin: pass\nsys.stderr.write(text if text.strip() else '')\n"


@dataclass(frozen=True)
class Place:
    """Which of how many processes this is. Without a coordinator, SLURM, MPI or Kubernetes say so."""

    coordinator: str | None = None  # HOST:PORT, where the first process listens
    processes: int | None = None
    process: int | None = None

    def __post_init__(self) -> None:
        given = {"--coordinator": self.coordinator, "--processes": self.processes, "--process": self.process}
        missing = [name for name, value in given.items() if value is None]
        if 0 < len(missing) < len(given):
            raise ValueError(
                f"--coordinator HOST:PORT, --processes N and --process I go together: give {' and '.join(missing)} too."
            )
        if self.coordinator is None or self.processes is None or self.process is None:
            return
        if not re.fullmatch(r".+:[0-9]{1,5}", self.coordinator):
            raise ValueError(f"--coordinator must be HOST:PORT, but is {self.coordinator!r}.")
        if self.processes < 1:
            raise ValueError(f"--processes must be at least 1, but is {self.processes}.")
        if not 0 <= self.process < self.processes:
            raise ValueError(f"--process must be from 0 to {self.processes - 1}, but is {self.process}.")


def place(coordinator: str | None, processes: str | None, process: str | None) -> Place:
    """From words as they are typed."""
    for name, word in (("--processes", processes), ("--process", process)):
        if word is not None and not re.fullmatch("-?[0-9]{1,9}", word):
            raise ValueError(f"{name} must be a whole number, but is {word!r}.")
    return Place(coordinator, *(None if word is None else int(word) for word in (processes, process)))


class Watcher:
    """Says on stderr what to do where this process is killed, or ended by JAX because another one is gone."""

    def __init__(self) -> None:
        command = [sys.executable, "-I", "-S", "-c", LAST_WORDS]
        self.text = ""
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, start_new_session=True)

    def will_say(self, text: str) -> None:
        self.text = text
        assert self._child.stdin is not None
        self._child.stdin.write(f"{text}\n")
        self._child.stdin.flush()

    def close(self) -> None:
        """Nothing need be said any more."""
        self.will_say("")
        self._child.communicate()


_watchers: list[Watcher] = []


def together(place: Place, run: Callable[[], int]) -> int:
    """Joins the other processes, runs, and leaves with them. Where this one alone fails, it ends at once."""
    watcher = Watcher()
    _watchers.append(watcher)
    where = f" at {place.coordinator}" if place.coordinator else ""
    watcher.will_say(
        f"hcam train: this process was killed, or did not meet all others{where} in {ARRIVAL} seconds: start all of "
        "them, each where it can reach the first."
    )
    try:
        join(place)
        watcher.will_say(advice("start all of them again"))
        code = run()
    except BaseException as error:
        # An orderly end would wait for processes that wait for this one: they notice that it is gone.
        status = explain(error)
        watcher.close()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    leave: Any = jax.distributed.shutdown
    leave()
    watcher.close()
    _watchers.clear()
    return code


def join(place: Place) -> None:
    """Makes the devices of all processes those of this one; before JAX is used for anything else."""
    change: Any = jax.config.update
    with suppress(AttributeError):  # it has a handler for SIGTERM of its own, and complains when a process is gone
        change("jax_enable_preemption_service", False)
    times: Any = {"heartbeat_timeout_seconds": HEARTBEAT, "initialization_timeout": ARRIVAL}
    if place.coordinator is not None:
        who = place.coordinator, place.processes, place.process
        jax.distributed.initialize(*who, cluster_detection_method="deactivate", **times)
        return
    try:
        jax.distributed.initialize(**times)
    except ValueError as error:  # no such job was recognised
        raise ValueError(
            "this is no job of SLURM, MPI or Kubernetes that JAX recognises: give --coordinator HOST:PORT, --processes "
            "N and --process I."
        ) from error


def advice(what: str) -> str:
    here, all_of_them = jax.process_index(), jax.process_count()
    return (
        f"hcam train: process {here} of {all_of_them} was killed, or had to end because another one was gone: {what}."
    )


def explain(error: BaseException) -> int:
    """Says on stderr why this process ends, and returns its exit status."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 1
    if isinstance(error, KeyboardInterrupt):
        print("hcam train: stopped.", file=sys.stderr)
        return 130
    text = f"{error}"
    if re.match(BROKEN_OFF, text):
        print(f"hcam train: {printable(text.splitlines()[0])}", file=sys.stderr)
        for watcher in _watchers:
            print(watcher.text, file=sys.stderr)
        return LOST
    if isinstance(error, ValueError | TypeError | OSError):
        print(f"hcam train: {printable(error)}", file=sys.stderr)
        return 2
    traceback.print_exception(error)
    return 1


# Alike on all processes -----------------------------------------------------------------------------------------------


def is_first() -> bool:
    return jax.process_index() == 0


def told(ask: Callable[[], Any]) -> Any:
    """What `ask` returns on the first process, plain JSON, on all of them; or the sentence that it raises."""
    if jax.process_count() == 1:
        return ask()
    answer: dict[str, Any] = {}
    if is_first():
        try:
            answer = {"found": ask()}
        except (ValueError, OSError) as error:
            answer = {"refused": f"{error}"}
    answer = parse_json(_bytes_of_first(as_json(answer)))
    if "refused" in answer:
        raise ValueError(answer["refused"])
    return answer["found"]


def told_array(leaf: Any) -> Any:
    """An array of the first process, bit for bit, on the host of each; the others give its shape and dtype."""
    if jax.process_count() == 1:
        return leaf
    if not jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        data = np.asarray(leaf, order="C").tobytes() if is_first() else b""
        return np.frombuffer(_bytes_of_first(data), leaf.dtype).reshape(leaf.shape)
    impl: list[Any] = []
    jax.eval_shape(lambda key: impl.append(jax.random.key_impl(key)), leaf)
    data_of: Any = jax.random.key_data
    inside = data_of(leaf) if is_first() else jax.eval_shape(data_of, leaf)
    return jax.random.wrap_key_data(told_array(inside), impl=impl[0])


def _bytes_of_first(data: bytes) -> bytes:
    """As bytes, since numbers would be added to zeros: that loses the sign of a zero. In pieces, which devices hold."""
    send: Any = multihost_utils.broadcast_one_to_all
    pieces, rest = map(int, send(np.array(divmod(len(data), PIECE), np.int32)))
    size = pieces * PIECE + rest
    found = []
    for begin in range(0, size, PIECE):
        length = min(PIECE, size - begin)
        piece = np.frombuffer(data, np.uint8, length, begin) if is_first() else np.zeros(length, np.uint8)
        found.append(np.asarray(send(piece)).tobytes())
    return b"".join(found)


class Agreement:
    """What all processes do next, of what each wishes. Each wish is a number, and the largest one counts.

    With several processes, an answer is that to the wishes of the update before: so the devices never wait for it.
    """

    def __init__(self, devices: Devices) -> None:
        self._devices, self._before = devices, None
        if jax.process_count() > 1:
            self._shared = NamedSharding(devices.mesh(), PartitionSpec(AXIS))  # type: ignore[no-untyped-call]
            everywhere = NamedSharding(devices.mesh(), EVERYWHERE)
            self._largest = jax.jit(lambda wish_dn: wish_dn.max(axis=0), out_shardings=everywhere)

    def __call__(self, *wishes: int) -> tuple[int, ...]:
        if jax.process_count() == 1:
            return wishes
        shape, mine = (self._devices.count, len(wishes)), np.array([wishes], np.int32)
        wish_dn = jax.make_array_from_callback(shape, self._shared, lambda _: mine)
        before, self._before = self._before, self._largest(wish_dn)
        return (0,) * len(wishes) if before is None else tuple(map(int, np.asarray(before)))

    def forget(self) -> None:
        """Wishes on their way are dropped: they are older than what has just been done."""
        self._before = None


# The run folder -------------------------------------------------------------------------------------------------------


class Elsewhere:
    """The run folder as the other processes have it: only the first writes."""

    def __init__(self, path: Path, config: dict[str, Any]) -> None:
        self.path, self.config, self.checkpoints = path, config, path / CHECKPOINTS

    def amend(self, config: Mapping[str, Any]) -> None: ...

    def begin(self) -> None: ...

    def saved(self) -> None: ...

    def append(self, row: Mapping[str, Any]) -> None: ...

    def rewind(self, steps: float) -> int:
        return 0

    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None: ...


def open_folder(make: Callable[[], RunFolder], settings: Mapping[str, Any]) -> RunFolder | Elsewhere:
    """The first process makes or opens the folder; the others know its name. All must have the same settings."""
    made: list[RunFolder] = []

    def ask() -> dict[str, Any]:
        made.append(make())
        return {"path": f"{made[0].path}", "config": made[0].config, "settings": dict(settings)}

    about = told(ask)
    path = Path(about["path"])
    for watcher in _watchers:
        watcher.will_say(advice(f"start all of them again with --resume {path}, to continue from what was saved"))
    if about["settings"] != json.loads(as_json(dict(settings))):
        raise ValueError(
            f"process {jax.process_index()} was started with other settings than process 0: give the same."
        )
    return made[0] if made else Elsewhere(path, about["config"])
