"""Run folders: `config.json`, `metrics.jsonl`, `checkpoints/` and `eval.json` of one run, and a lock on them.

Numbers that JSON does not have (NaN and the infinities) are written as null: a gap in a figure, and None when read.
Reading needs no lock. What a reader finds may be damaged or made up: it returns sound values or raises one sentence.
"""

import errno
import json
import math
import os
import re
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import jax

import hcam
from hcam.runs import metrics, migrate
from hcam.runs.files import as_json, clean, exists, explained, open_regular, parse_json, read_file, write_file
from hcam.runs.metrics import plain as plain  # part of this module's interface

try:
    import fcntl
except ImportError:  # Windows: nothing then keeps two processes from training in one folder
    fcntl = None  # type: ignore[assignment]

CONFIG, METRICS, EVAL, LOCK = "config.json", "metrics.jsonl", "eval.json", ".lock"
CHECKPOINTS, BEGUN = "checkpoints", ".begun"  # the latter stands in for the first checkpoint until there is one
EXPORTED = ("agent.safetensors", "agent.json")  # what an exported agent has in place of checkpoints
PACKAGE = Path(__file__).resolve().parents[1]  # whose commit a run was made from


class RunFolder:
    """A run folder that this process writes to. Make one with `create` or `open`; `with` releases its lock."""

    def __init__(self, path: Path, config: dict[str, Any], lock: int) -> None:
        self.path = path
        self.config = config
        self._lock = lock

    @classmethod
    def create(cls, path: Path, config: Mapping[str, Any]) -> Self:
        """Makes a new run folder. `config` must be plain JSON; config.json holds it and what the run is made by."""
        content = as_json({"format": migrate.FORMAT, "config": dict(config), "made_by": made_by()})
        with explained(f"the run folder {path} cannot be made"):
            path.mkdir(parents=True, exist_ok=True)
            lock = _lock(path)
            try:
                # A process that was killed before it wrote config.json leaves a lock and nothing else.
                clean(path, CONFIG)
                if any(entry.name != LOCK for entry in path.iterdir()):
                    raise FileExistsError(
                        f"{path} exists already: choose another --run, or continue it with --resume {path}."
                    )
                write_file(path / CONFIG, content)
            except BaseException:
                os.close(lock)
                raise
        return cls(path, read_config(path), lock)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Opens a run folder to continue its run, and removes what a killed process left half-written."""
        config = read_config(path)
        refuse_without_checkpoint(path)
        with explained(f"the run folder {path} cannot be written to"):
            run = cls(path, config, _lock(path))
        try:
            clean(path, CONFIG)
            clean(path, METRICS)
            run.rewind(math.inf)
        except BaseException:
            run.close()
            raise
        return run

    def amend(self, config: Mapping[str, Any]) -> None:
        """Changes the settings in config.json, as when a run is to take more steps; `made_by` stays as it was."""
        if json.loads(as_json(dict(config))) == self.config:
            return
        made = read_made_by(self.path)
        with explained(f"{self.path / CONFIG} cannot be written"):
            content = {"format": migrate.FORMAT, "config": dict(config), "made_by": made}
            write_file(self.path / CONFIG, as_json(content))
        self.config = read_config(self.path)

    @property
    def checkpoints(self) -> Path:
        return self.path / CHECKPOINTS

    def begin(self) -> None:
        """Notes that training starts at step 0: until the first checkpoint, its rows can be made again."""
        with explained(f"{self.checkpoints} cannot be written"):
            self.checkpoints.mkdir(exist_ok=True)
            write_file(self.checkpoints / BEGUN, b"")

    def saved(self) -> None:
        """Notes that there is a checkpoint: from now on, a run without one is refused."""
        with explained(f"{self.checkpoints} cannot be written"):
            (self.checkpoints / BEGUN).unlink(missing_ok=True)

    def append(self, row: Mapping[str, Any]) -> None:
        """Adds a line to metrics.jsonl, at once."""
        metrics.append(self.path / METRICS, row)

    def rewind(self, steps: float) -> int:
        """Drops the lines of metrics.jsonl after `steps`, and those that are damaged; returns how many."""
        return metrics.rewind(self.path / METRICS, steps)

    def close(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def refuse_without_checkpoint(path: Path, option: str = "--run") -> None:
    """Raises ValueError where resuming would start anew and drop what cannot be made again; touches nothing.

    A checkpoint counts by its record, a .json: without that, its arrays are not read. `option` is the one to give.
    """
    checkpoints, rows = path / CHECKPOINTS, path / METRICS
    can_resume = exists(checkpoints / BEGUN) or any(
        re.fullmatch(r"[0-9]{12,}\.json", entry.name) for entry in checkpoints.glob("*")
    )
    kept = [name for name in (EVAL, *EXPORTED) if exists(path / name)]
    if exists(rows) and os.lstat(rows).st_size:
        kept.insert(0, "metrics")
    if kept and not can_resume:
        raise ValueError(
            f"{path} has {kept[0]} but no checkpoint to continue from: it keeps what a run reported, not the run "
            f"itself. Start a new run in another folder, with {option}."
        )


def read_config(path: Path) -> dict[str, Any]:
    """Returns the settings that a run was started with."""
    return _read_parts(path)[0]


def read_made_by(path: Path) -> dict[str, Any]:
    """Returns what a run was made by: versions, commit, device. It is empty where config.json does not say."""
    return _read_parts(path)[1]


def _read_parts(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    if not os.path.isdir(path):
        raise FileNotFoundError(f"there is no run folder {path}.")
    try:
        content = parse_json(read_file(path / CONFIG), strict=True)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is no run folder: it has no {CONFIG}.") from None
    except ValueError:
        content = None
    parts = [content.get(name, {}) for name in ("config", "made_by")] if isinstance(content, dict) else []
    if not parts or "config" not in content or not all(isinstance(part, dict) for part in parts):
        raise ValueError(f"{path / CONFIG} is damaged: restore it from a copy or start a new run.")
    return (migrate.config(parts[0]) if content.get("format", 1) == 1 else parts[0]), parts[1]


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Returns the rows of a run folder's metrics.jsonl so far, without a last line that is not whole yet."""
    return [row for _, row in metrics.iterate(path / METRICS)]


def write_eval(path: Path, results: Mapping[str, Any]) -> None:
    """Writes the run's eval.json, whole or not at all; another process may train in the folder."""
    with explained(f"{path / EVAL} cannot be written"):
        write_file(path / EVAL, as_json(plain(results)))


def fresh_name(root: Path, stem: str) -> Path:
    """Returns `runs/TASK-MEMORY-3` where the largest number of that name in `runs` is 2."""
    names = [entry.name for entry in root.iterdir()] if root.is_dir() else []
    taken = [int(found[1]) for name in names if (found := re.fullmatch(re.escape(stem) + r"-([0-9]+)", name))]
    return root / f"{stem}-{max(taken, default=0) + 1}"


def made_by() -> dict[str, Any]:
    """Returns the versions, the commit and the device that a run is made by now."""
    device = jax.devices()[0]
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "hcam": hcam.__version__,
        **_git(PACKAGE.parent),
        "jax": jax.__version__,
        "device": device.device_kind,
        "devices": jax.device_count(),
    }


def _git(tree: Path) -> dict[str, Any]:
    """Returns the commit of a working tree and whether its package differs; nothing where this is not one.

    Run folders may lie in the same tree: a run is not changed by others that were made before it.
    """

    def ask(*command: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(tree), *command], capture_output=True, text=True, timeout=10, check=True
        )
        return done.stdout.strip()

    try:
        # An installed package may lie inside somebody else's working tree, whose commit says nothing.
        if Path(ask("rev-parse", "--show-toplevel")).resolve() != tree:
            return {}
        return {"commit": ask("rev-parse", "HEAD"), "changed": bool(ask("status", "--porcelain", "--", PACKAGE.name))}
    except (OSError, subprocess.SubprocessError):
        return {}


def _lock(path: Path) -> int:
    """Returns a descriptor that locks the folder until it is closed, which happens however the process ends."""
    lock = open_regular(path / LOCK, os.O_RDWR | os.O_CREAT, follow=False)
    try:
        if fcntl is not None:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(lock, 0)
        os.write(lock, f"{os.getpid()}\n".encode())
    except BlockingIOError:
        holder = os.read(lock, 32).decode(errors="replace").strip()
        os.close(lock)
        process = f"process {holder}" if re.fullmatch("[0-9]+", holder) else "another process"
        raise BlockingIOError(
            f"{process} is training in {path}: wait until it ends, or choose another --run."
        ) from None
    except OSError as error:
        # Some network file systems have no locks: then it is as on Windows.
        if error.errno not in {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}:
            os.close(lock)
            raise
    return lock
