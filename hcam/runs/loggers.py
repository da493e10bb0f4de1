"""Where else the rows of a run go, besides metrics.jsonl: TensorBoard and Weights & Biases."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from numbers import Real
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from hcam.runs.progress import Row, levels


class Logger(Protocol):
    def write(self, row: Row) -> None: ...

    def close(self) -> None: ...


def loggers(folder: Path, tensorboard: bool, wandb: bool, config: Mapping[str, Any]) -> list[Logger]:
    """What the user asked for, besides metrics.jsonl."""
    chosen: list[Logger] = [TensorBoard(folder)] if tensorboard else []
    return [*chosen, *([Wandb(folder, config)] if wandb else [])]


def scalars(row: Row) -> Iterator[tuple[str, float]]:
    """Every number of a row under a name with slashes: success/2_delay16, loss/policy, rate, seed_0/return."""
    for name, value in row.items():
        if name == "levels":
            yield from ((f"{what}/{level}", v) for level, of in levels(row).items() for what, v in _numbers(of))
        elif name == "seeds":
            yield from ((f"seed_{n}/{what}", v) for n, seed in enumerate(value or ()) for what, v in _numbers(seed))
        elif isinstance(value, Mapping):
            yield from ((f"{'loss' if name == 'losses' else name}/{what}", v) for what, v in _numbers(value))
        else:
            yield from _numbers({name: value})


def _numbers(values: Row | None) -> Iterator[tuple[str, float]]:
    return ((name, float(value)) for name, value in (values or {}).items() if isinstance(value, Real))


def _optional(module: str, extra: str) -> ModuleType:
    try:
        return import_module(module)
    except ImportError as error:
        raise ValueError(f'--{extra} needs {module}, which `pip install "hcam[{extra}]"` brings.') from error


class TensorBoard:
    """Event files in the run folder: `tensorboard --logdir runs`."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._module = folder / "tensorboard", _optional("tensorboardX", "tensorboard")
        self._writer: Any = None

    def write(self, row: Row) -> None:
        if self._writer is None:
            # A resumed run repeats the steps since its checkpoint: those of the killed run are to be forgotten.
            self._writer = self._module.SummaryWriter(str(self._folder), purge_step=row["steps"])
        for name, value in scalars(row):
            self._writer.add_scalar(name, value, row["steps"])

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


class Wandb:
    """A run of the project "hcam"; its id stays in the run folder, so that a resumed run goes on in the same place."""

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        module, known = _optional("wandb", "wandb"), folder / "wandb.id"
        run_id = known.read_text().strip() if known.exists() else None
        self._run = module.init(
            project="hcam", name=folder.name, dir=str(folder), config=dict(config), id=run_id, resume="allow"
        )
        known.write_text(self._run.id)

    def write(self, row: Row) -> None:
        self._run.log(dict(scalars(row)), step=row["steps"])

    def close(self) -> None:
        self._run.finish()
