"""Trained agents: load one to act with, wherever it comes from, and export one to give away.

An exported agent is a small folder: `config.json`, `metrics.jsonl` and `eval.json` are its run's, `agent.safetensors`
has its parameters, of one seed and in bfloat16, and `agent.json` their checksum. Loading one never executes code.
"""

import secrets
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hcam import agent, config
from hcam.agent import Agent
from hcam.config import Config
from hcam.envs.environment import Environment
from hcam.memory.types import Params
from hcam.runs import checkpoint, metrics
from hcam.runs.files import exists, explained, read_file, write_file
from hcam.runs.folder import CHECKPOINTS, CONFIG, EVAL, EXPORTED, METRICS

AGENTS = Path(__file__).parents[1] / "pretrained_agents"  # those that come with the package
PREFIX = "pretrained:"
NAME = "agent"  # of the two files that hold an exported agent
KEPT = jnp.bfloat16
COPY_LIMIT = metrics.FILE_LIMIT  # bytes of a file that is copied


class Trained(NamedTuple):
    """An agent that has learned, and the environment that it learned in."""

    config: Config
    agent: Agent
    env: Environment
    params_s: Params  # what acting needs, in float32; the first axis is that of seeds trained at once
    metadata: dict[str, Any]  # of the checkpoint: `steps` and more
    folder: Path | None = None  # that it was loaded from

    @property
    def params(self) -> Params:
        """Those of the first seed; an exported agent has no other."""
        return self.of_seed(0)

    def of_seed(self, seed: int) -> Params:
        seeds = len(jax.tree.leaves(self.params_s)[0])
        if not 0 <= seed < seeds:
            raise ValueError(f"there is no seed {seed}: of seeds trained at once it has {seeds}, and the first is 0.")
        return _map_numpy(lambda leaf_s: leaf_s[seed], self.params_s)


def load(
    source: str | Path,
    *,
    best: bool = False,
    env: Environment | None = None,
    on_skip: Callable[[str], None] = checkpoint.warn,
) -> Trained:
    """Loads from `pretrained:NAME`, an exported folder or a run folder; of a run the last checkpoint, or the `best`.

    Takes `env` for the environment in place of one made from the settings. Calls `on_skip` with a sentence for each
    damaged checkpoint that it passes over; without it, the sentence goes to stderr.
    Raises ValueError or OSError with one sentence where the folder does not hold an agent of this version of hcam.
    """
    path = _locate(source)
    settings = config.read(path)
    exported = is_exported(path)
    if exported:
        if best:
            raise ValueError(f"{source} is an exported agent and has no other checkpoint: leave out best.")
        # It was trained elsewhere. Accelerators are fast in bfloat16, and most CPUs are slow in it.
        settings = replace(settings, agent=replace(settings.agent, dtype="auto").here())
    env, made, like = _build(settings, path, env)
    if exported:
        params_s, metadata = _exported(path, like, on_skip)
    else:
        params_s, metadata = _checkpoint(path, like, settings.run.seeds, best, on_skip)
    return Trained(settings, made, env, _acting(params_s), metadata, path)


def _locate(source: str | Path) -> Path:
    if not isinstance(source, str | Path):
        raise TypeError(f"an agent is loaded from a folder or {PREFIX}NAME, but this is {source!r}.")
    return find(str(source)) if str(source).startswith(PREFIX) else Path(source)


def _build(settings: Config, path: Path, env: Environment | None) -> tuple[Environment, Agent, Params]:
    """Returns the environment, the agent and the shapes of its parameters, or raises ValueError."""
    try:
        env = settings.task.make() if env is None else env
        made = agent.make(settings.agent, env)
        return env, made, jax.eval_shape(made.init_params, jax.random.key(0))
    except (TypeError, AttributeError, LookupError, ArithmeticError, MemoryError, RecursionError) as error:
        # Settings of the right types that fit nothing: sizes beyond any array, say, or a kind that is gone by now.
        raise ValueError(f"{path / CONFIG} does not describe an agent that this version of hcam can make.") from error


def _exported(path: Path, like: Params, on_skip: Callable[[str], None]) -> tuple[Params, dict[str, Any]]:
    kept = jax.tree.map(lambda leaf: leaf.update(dtype=KEPT), _acting(like))
    found = checkpoint.restore(path, kept, name=NAME, numbers=("steps",), on_skip=on_skip)
    if found is None:
        raise ValueError(f"{path} does not hold a complete agent: restore it from a copy.")
    return _map_numpy(lambda leaf: leaf.astype(jnp.float32)[None], found[0]), found[1]


def _checkpoint(
    path: Path, like: Params, seeds: int, best: bool, on_skip: Callable[[str], None]
) -> tuple[Params, dict[str, Any]]:
    like_s = jax.tree.map(lambda leaf: leaf.update(shape=(seeds, *leaf.shape)), like)
    name = checkpoint.BEST if best else None
    found = checkpoint.restore(
        path / CHECKPOINTS, like_s, name=name, prefix="params", numbers=("steps",), on_skip=on_skip
    )
    if found is None:
        raise ValueError(
            f"{path} has no checkpoint: it keeps what a run reported, not its agent. Train one in another folder, with "
            "`hcam train --run FOLDER`, or evaluate a pretrained one, as in `hcam eval pretrained:NAME`."
        )
    return found


def _map_numpy(change: Callable[[Any], Any], params: Params) -> Params:
    """Maps with numpy, as JAX would compile the change for every shape, which takes seconds."""
    return jax.tree.map(lambda leaf: jnp.asarray(change(np.asarray(leaf))), params)


def _acting(params: Params) -> Params:
    """Returns the parameters without those of the decoders, which only training needs."""
    return {name: part for name, part in params.items() if name != "decoders"}


def is_exported(path: Path) -> bool:
    return any(exists(path / name) for name in EXPORTED)


def names() -> list[str]:
    """Returns the names of the agents that come with the package."""
    return sorted(path.parent.name for path in AGENTS.glob(f"*/{CONFIG}"))


def find(name: str) -> Path:
    """Returns the folder of an agent that comes with the package, such as `pretrained:quickstart`."""
    known = names()
    if name.removeprefix(PREFIX) not in known:
        listed = ", ".join(PREFIX + one for one in known)
        raise ValueError(f"there is no pretrained agent {name.removeprefix(PREFIX)!r}: there is {listed}.")
    return AGENTS / name.removeprefix(PREFIX)


def export(source: str | Path, out: Path, *, best: bool = False, seed: int = 0) -> Path:
    """Writes one agent of a run, the `seed`-th of those trained at once, to a new folder, whole or not at all.

    An agent that is exported already, or comes with the package, is checked and copied with all its files. Only
    regular files are copied: a symbolic link in somebody else's folder could name any file of the user's.
    """
    path = _locate(source)
    if exists(out) and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"{out} exists already: export to a new folder.")
    trained = load(source, best=best)
    params = trained.of_seed(seed)
    if is_exported(path):
        names = sorted(entry.name for entry in path.iterdir() if not entry.name.startswith("."))
    else:
        names = [name for name in (CONFIG, METRICS, EVAL) if exists(path / name)]
    copied = {name: read_file(path / name, COPY_LIMIT, follow=False) for name in names}
    with explained(f"the agent {out} cannot be written"):
        out.parent.mkdir(parents=True, exist_ok=True)
        unfinished = out.with_name(f".hcam-export.{secrets.token_hex(8)}.tmp")
        unfinished.mkdir()
        try:
            if not is_exported(path):
                kept = _map_numpy(lambda leaf: leaf.astype(KEPT), params)
                checkpoint.save_as(unfinished, NAME, kept, trained.metadata | {"seed": seed})
            for name, content in copied.items():
                write_file(unfinished / name, content)
            if out.exists():
                out.rmdir()  # it is empty, and Windows would not replace it
            unfinished.rename(out)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
    return out
