"""Trained agents: load one to act with, wherever it comes from, and export one to give away.

An exported agent is a small folder: `config.json`, `metrics.jsonl` and `eval.json` are its run's, `agent.safetensors`
has its parameters, of one seed and in bfloat16, and `agent.json` their checksum. Loading one never executes code.
"""

import os
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
from hcam.runs import checkpoint
from hcam.runs.folder import CONFIG, EVAL, METRICS

AGENTS = Path(__file__).parents[1] / "pretrained_agents"  # those that come with the package
PREFIX = "pretrained:"
NAME = "agent"  # of the two files that hold an exported agent
KEPT = jnp.bfloat16


class Trained(NamedTuple):
    """An agent that has learned, and the environment that it learned in."""

    config: Config
    agent: Agent
    env: Environment
    params_s: Params  # all that acting needs, in float32; the axis of seeds trained at once is first
    about: dict[str, Any]  # when it was saved: `steps` and more

    @property
    def params(self) -> Params:
        """Of the first seed; an exported agent has no other."""
        return self.of_seed(0)

    def of_seed(self, seed: int) -> Params:
        seeds = len(jax.tree.leaves(self.params_s)[0])
        if not 0 <= seed < seeds:
            raise ValueError(f"there is no seed {seed}: of seeds trained at once it has {seeds}, and the first is 0.")
        return _each(lambda leaf_s: leaf_s[seed], self.params_s)


def load(source: str | Path, *, best: bool = False) -> Trained:
    """From `pretrained:NAME`, an exported folder or a run folder; of a run the last checkpoint, or the `best` one."""
    path = find(str(source)) if str(source).startswith(PREFIX) else Path(source)
    settings = config.read(path)
    exported = is_exported(path)
    if exported:
        if best:
            raise ValueError(f"{source} is an exported agent and has no other checkpoint: leave out best.")
        # Trained elsewhere: bfloat16, which an accelerator is fast at, is slow on most CPUs.
        settings = replace(settings, agent=replace(settings.agent, dtype="auto").here())
    env = settings.task.make()
    trained = agent.make(settings.agent, env)
    like = jax.eval_shape(trained.init_params, jax.random.key(0))
    params_s, about = _exported(path, like) if exported else _checkpoint(path, like, settings.run.seeds, best)
    return Trained(settings, trained, env, _acting(params_s), about)


def _exported(path: Path, like: Params) -> tuple[Params, dict[str, Any]]:
    kept = jax.tree.map(lambda leaf: leaf.update(dtype=KEPT), _acting(like))
    found = checkpoint.restore(path, kept, name=NAME)
    if found is None:
        raise ValueError(f"{path} holds no whole agent: bring it back from a copy.")
    return _each(lambda leaf: leaf.astype(jnp.float32)[None], found[0]), found[1]


def _checkpoint(path: Path, like: Params, seeds: int, best: bool) -> tuple[Params, dict[str, Any]]:
    like_s = jax.tree.map(lambda leaf: leaf.update(shape=(seeds, *leaf.shape)), like)
    name = checkpoint.BEST if best else None
    found = checkpoint.restore(path / "checkpoints", like_s, name=name, prefix="params")
    if found is None:
        raise ValueError(
            f"{path} has no checkpoint: it keeps what a run reported, not its agent. Train one in another folder, with "
            "`hcam train --run FOLDER`, or evaluate a pretrained one, as in `hcam eval pretrained:NAME`."
        )
    return found


def _each(change: Callable[[Any], Any], params: Params) -> Params:
    """Done by numpy: JAX would compile it for every shape that there is, which takes seconds."""
    return jax.tree.map(lambda leaf: jnp.asarray(change(np.asarray(leaf))), params)


def _acting(params: Params) -> Params:
    """Without the decoders, which only training needs."""
    return {name: part for name, part in params.items() if name != "decoders"}


def is_exported(path: Path) -> bool:
    return any((path / f"{NAME}.{kind}").exists() for kind in ("safetensors", "json"))


def names() -> list[str]:
    """Of the agents that come with the package."""
    return sorted(path.parent.name for path in AGENTS.glob(f"*/{CONFIG}"))


def find(name: str) -> Path:
    """The folder of an agent that comes with the package: `pretrained:quickstart`."""
    known = names()
    if name.removeprefix(PREFIX) not in known:
        listed = ", ".join(PREFIX + one for one in known)
        raise ValueError(f"there is no pretrained agent {name.removeprefix(PREFIX)!r}: there is {listed}.")
    return AGENTS / name.removeprefix(PREFIX)


def export(run: Path, out: Path, *, best: bool = False, seed: int = 0) -> Path:
    """Writes one agent of a run, the `seed`-th of those trained at once, to a new folder, whole or not at all."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"{out} exists already: export to a new folder.")
    if is_exported(run):
        raise ValueError(f"{run} is an exported agent already: copy the folder.")
    trained = load(run, best=best)
    kept = _each(lambda leaf: leaf.astype(KEPT), trained.of_seed(seed))
    copied = {name: (run / name).read_bytes() for name in (CONFIG, METRICS, EVAL) if (run / name).exists()}
    unfinished = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    with checkpoint.explained(f"the agent {out} cannot be written"):
        try:
            checkpoint.save_as(unfinished, NAME, kept, trained.about | {"seed": seed})
            for name, content in copied.items():
                checkpoint.write_file(unfinished / name, content)
            if out.exists():
                out.rmdir()  # it is empty, and Windows would not replace it
            unfinished.rename(out)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
    return out
