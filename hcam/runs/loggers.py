"""Copies of a run's rows for other programs: TensorBoard and Weights & Biases."""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from numbers import Real
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from hcam.runs.files import exists, explained, read_file, write_file
from hcam.runs.progress import Row, levels

ID_LIMIT = 1000  # bytes


class Logger(Protocol):
    def write(self, row: Row) -> None: ...

    def close(self) -> None: ...


def loggers(folder: Path, tensorboard: bool, wandb: bool, config: Mapping[str, Any]) -> list[Logger]:
    """Returns the loggers that the user asked for."""
    chosen: list[Logger] = [TensorBoard(folder)] if tensorboard else []
    return [*chosen, *([Wandb(folder, config)] if wandb else [])]


def scalars(row: Row) -> Iterator[tuple[str, float]]:
    """Yields every number of a row under a name with slashes: success/2_delay16, loss/policy, rate, seed_0/return."""
    for name, value in row.items():
        if name == "levels":
            yield from ((f"{what}/{level}", v) for level, of in levels(row).items() for what, v in _numbers(of))
        elif name == "seeds" and isinstance(value, list | tuple):
            yield from ((f"seed_{n}/{what}", v) for n, seed in enumerate(value) for what, v in _numbers(seed))
        elif isinstance(value, Mapping):
            yield from ((f"{'loss' if name == 'losses' else name}/{what}", v) for what, v in _numbers(value))
        else:
            yield from _numbers({name: value})


def _numbers(values: Any) -> Iterator[tuple[str, float]]:
    for name, value in values.items() if isinstance(values, Mapping) else ():
        if isinstance(value, Real):
            with suppress(OverflowError):  # an integer that no float holds
                yield name, float(value)


def _optional(module: str, extra: str) -> ModuleType:
    try:
        return import_module(module)
    except ImportError as error:
        raise ValueError(f'--{extra} needs {module}, which `pip install "hcam[{extra}]"` brings.') from error


class TensorBoard:
    """Writes event files into the run folder: `tensorboard --logdir runs` shows them."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._module = folder / "tensorboard", _optional("tensorboardX", "tensorboard")
        self._writer: Any = None

    def write(self, row: Row) -> None:
        if self._writer is None:
            # A resumed run repeats the steps since its checkpoint: those of the killed run are dropped.
            self._writer = self._module.SummaryWriter(str(self._folder), purge_step=row["steps"])
        for name, value in scalars(row):
            self._writer.add_scalar(name, value, row["steps"])

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


class Wandb:
    """Logs to a run of the project "hcam". The run folder keeps its id, so that a resumed run continues it."""

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        module, file = _optional("wandb", "wandb"), folder / "wandb.id"
        self._run = module.init(
            project="hcam", name=folder.name, dir=str(folder), config=dict(config), id=_known_id(file), resume="allow"
        )
        with explained(f"{file} cannot be written"):
            write_file(file, str(self._run.id).encode())

    def write(self, row: Row) -> None:
        self._run.log(dict(scalars(row)), step=row["steps"])

    def close(self) -> None:
        self._run.finish()


def _known_id(file: Path) -> str | None:
    """Returns the id in a file; None where there is none, or what is there is not one."""
    if not exists(file):
        return None
    found = read_file(file, ID_LIMIT).decode(errors="replace").strip()
    return found if re.fullmatch(r"[A-Za-z0-9_-]{1,128}", found) else None
