"""Run folders: `config.json`, `metrics.jsonl`, `checkpoints/` and `eval.json` of one run, and a lock on them.

Numbers that JSON does not have (NaN and the infinities) are written as null: a gap in a figure, and None when read.
"""

import errno
import json
import math
import os
import re
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import jax

import hcam
from hcam.runs import migrate
from hcam.runs.checkpoint import as_json, clean, explained, write_file

try:
    import fcntl
except ImportError:  # Windows: nothing then keeps two processes from training in one folder
    fcntl = None  # type: ignore[assignment]

CONFIG, METRICS, EVAL, LOCK = "config.json", "metrics.jsonl", "eval.json", ".lock"
CHECKPOINTS, BEGUN = "checkpoints", ".begun"  # the latter stands in for the first checkpoint until there is one


class RunFolder:
    """A run folder that this process writes to: use `create` or `open`, and `with`, which lets go of it at the end."""

    def __init__(self, path: Path, config: dict[str, Any], lock: int) -> None:
        self.path = path
        self.config = config
        self._lock = lock

    @classmethod
    def create(cls, path: Path, config: Mapping[str, Any]) -> Self:
        """A new run folder; `config` is plain JSON and stands in config.json together with what the run was made by."""
        content = as_json({"format": migrate.FORMAT, "config": dict(config), "made_by": made_by()})
        with explained(f"the run folder {path} cannot be made"):
            path.mkdir(parents=True, exist_ok=True)
            lock = _lock(path)
            try:
                # Before its config.json is there, a folder may hold a lock and nothing else: the process was killed.
                clean(path, CONFIG)
                if any(entry.name != LOCK for entry in path.iterdir()):
                    raise FileExistsError(
                        f"{path} exists already: choose another --run, or go on with --resume {path}."
                    )
                write_file(path / CONFIG, content)
            except BaseException:
                os.close(lock)
                raise
        return cls(path, read_config(path), lock)

    @classmethod
    def open(cls, path: Path) -> Self:
        """A run folder to go on with."""
        config = read_config(path)
        refuse_without_checkpoint(path)
        with explained(f"the run folder {path} cannot be written to"):
            run = cls(path, config, _lock(path))
            clean(path, CONFIG)
            clean(path, METRICS)
        run.rewind(math.inf)
        return run

    def amend(self, config: Mapping[str, Any]) -> None:
        """Changes what config.json says, as when a run is to go on for longer; who made it stays."""
        if json.loads(as_json(dict(config))) == self.config:
            return
        made = json.loads((self.path / CONFIG).read_bytes())["made_by"]
        with explained(f"{self.path / CONFIG} cannot be written"):
            content = {"format": migrate.FORMAT, "config": dict(config), "made_by": made}
            write_file(self.path / CONFIG, as_json(content))
        self.config = read_config(self.path)

    @property
    def checkpoints(self) -> Path:
        return self.path / CHECKPOINTS

    def begin(self) -> None:
        """Notes that training starts at step 0: until the first checkpoint, the same rows can be made again."""
        with explained(f"{self.checkpoints} cannot be written"):
            self.checkpoints.mkdir(exist_ok=True)
            (self.checkpoints / BEGUN).touch()

    def saved(self) -> None:
        """Notes that there is a checkpoint: from now on its loss is noticed."""
        (self.checkpoints / BEGUN).unlink(missing_ok=True)

    def append(self, row: Mapping[str, Any]) -> None:
        """Adds a line to metrics.jsonl, at once."""
        line = (json.dumps(plain(row), allow_nan=False) + "\n").encode()
        path = self.path / METRICS
        with explained(f"{path} cannot be written"), open(path, "ab", buffering=0) as file:
            end = file.seek(0, os.SEEK_END)
            try:
                written = 0
                while written < len(line):  # a disk that fills up takes the first part and refuses the next
                    written += file.write(line[written:])
            except OSError:
                with suppress(OSError):
                    file.truncate(end)
                raise

    def rewind(self, steps: float) -> int:
        """Drops the lines of metrics.jsonl that came after `steps`, and what a killed process left half-written.

        Returns how many.
        """
        path = self.path / METRICS
        if not path.exists():
            return 0
        with explained(f"{path} cannot be written"):
            text = path.read_bytes()
            lines = [line for line in text.splitlines() if (row := _row(line)) is not None and _at(row) <= steps]
            kept = b"".join(line + b"\n" for line in lines)
            if kept != text:
                write_file(path, kept)
            return len(text.splitlines()) - len(lines)

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
    """Raises where resuming would begin anew and drop rows that cannot be made again: nothing has been touched yet."""
    checkpoints, metrics = path / CHECKPOINTS, path / METRICS
    can_resume = (checkpoints / BEGUN).exists() or any(checkpoints.glob("[0-9]*.safetensors"))
    if not can_resume and metrics.exists() and metrics.stat().st_size:
        raise ValueError(
            f"{path} has metrics but no checkpoint to go on from: it keeps what a run reported, not the run itself. "
            f"Start a new run in another folder, with {option}."
        )


def read_config(path: Path) -> dict[str, Any]:
    """What a run was started with; for this, and for reading metrics and checkpoints, no lock is needed."""
    if not path.is_dir():
        raise FileNotFoundError(f"there is no run folder {path}.")
    try:
        content = json.loads((path / CONFIG).read_bytes())
        config = content["config"]
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is no run folder: it has no {CONFIG}.") from None
    except (ValueError, TypeError, KeyError):
        raise ValueError(f"{path / CONFIG} is damaged: bring it back from a copy or begin a new run.") from None
    if not isinstance(config, dict):
        raise ValueError(f"{path / CONFIG} is damaged: bring it back from a copy or begin a new run.")
    return migrate.config(config) if content.get("format", 1) == 1 else config


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The rows of a run folder's metrics.jsonl so far; a last line that is not whole yet is left out."""
    file = path / METRICS
    if not file.exists():
        return []
    lines = file.read_bytes().splitlines()
    rows = [_row(line) for line in lines]
    if rows and rows[-1] is None:
        rows.pop()
    for number, row in enumerate(rows, start=1):
        if row is None:
            raise ValueError(f"{file} is damaged: line {number} is not a JSON object, delete it.")
    return [migrate.row(row) for row in rows if row is not None]


def write_eval(path: Path, results: Mapping[str, Any]) -> None:
    """The run's eval.json, whole or not at all; also while another process trains."""
    with explained(f"{path / EVAL} cannot be written"):
        write_file(path / EVAL, as_json(plain(results)))


def fresh_name(root: Path, stem: str) -> Path:
    """`runs/ballet-hcam-3` where the largest number there is 2."""
    names = [entry.name for entry in root.iterdir()] if root.is_dir() else []
    taken = [int(found[1]) for name in names if (found := re.fullmatch(re.escape(stem) + r"-([0-9]+)", name))]
    return root / f"{stem}-{max(taken, default=0) + 1}"


def plain(value: Any) -> Any:
    """As JSON has it: numbers out of arrays, lists for tuples, null for what is no finite number."""
    if isinstance(value, Mapping):
        return {str(name): plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if hasattr(value, "tolist"):  # an array or a number of numpy's or JAX's
        return plain(value.tolist())
    if isinstance(value, Path):
        return str(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def made_by() -> dict[str, Any]:
    """What a run was made by, and when."""
    device = jax.devices()[0]
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "hcam": hcam.__version__,
        **_git(Path(__file__).resolve().parents[2]),
        "jax": jax.__version__,
        "device": device.device_kind,
        "devices": jax.device_count(),
    }


def _git(tree: Path) -> dict[str, Any]:
    """The commit of a working tree and whether files differ from it; nothing where this is not one."""

    def ask(*command: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(tree), *command], capture_output=True, text=True, timeout=10, check=True
        )
        return done.stdout.strip()

    try:
        # An installed package may lie inside somebody else's working tree, whose commit says nothing.
        if Path(ask("rev-parse", "--show-toplevel")).resolve() != tree:
            return {}
        return {"commit": ask("rev-parse", "HEAD"), "changed": bool(ask("status", "--porcelain"))}
    except (OSError, subprocess.SubprocessError):
        return {}


def _lock(path: Path) -> int:
    """Holds the folder until the descriptor is closed, which happens however the process ends."""
    lock = os.open(path / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if fcntl is not None:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(lock, 0)
        os.write(lock, f"{os.getpid()}\n".encode())
    except BlockingIOError:
        holder = os.read(lock, 32).decode(errors="replace").strip()
        os.close(lock)
        process = f"process {holder}" if holder else "another process"
        raise BlockingIOError(
            f"{process} is training in {path}: wait until it ends, or choose another --run."
        ) from None
    except OSError as error:
        # A file system without locks, as some networks have, is like Windows.
        if error.errno not in {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}:
            os.close(lock)
            raise
    return lock


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def _at(row: dict[str, Any]) -> float:
    steps = row.get("steps")
    return float(steps) if isinstance(steps, int | float) else -math.inf
