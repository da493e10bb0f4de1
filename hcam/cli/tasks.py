"""`hcam tasks` and `hcam show`: what there is to do, and what it looks like."""

from pathlib import Path
from typing import Annotated, Literal

import tyro

from hcam.cli.train import Name, Pairs, pairs

Levels = Annotated[tuple[str, ...], tyro.conf.arg(metavar="LEVEL ...")]


OTHERS = """\
Environments of other packages have no entry here: gymnasium:ID and dm_env:package.module:function run in worker
processes, gymnax:NAME in the agent's own program, package.module:function as what it makes."""


def tasks() -> None:
    """List the tasks, their levels and options."""
    from rich.console import Console

    from hcam.viewer.show import task_table

    console = Console()
    console.print(task_table())
    console.print(OTHERS, markup=False, emoji=False, highlight=False)


def show(
    task: tyro.conf.Positional[Name] = "",
    level: Levels = (),
    env_arg: Pairs = (),
    out: Annotated[Path, tyro.conf.arg(metavar="FILE")] = Path("episode.gif"),
    policy: Literal["auto", "expert", "random"] = "auto",
    seed: int = 0,
    fps: int = 10,
    scale: int = 4,
) -> None:
    """Draw an episode: an animation (.gif, .mp4) or a contact sheet (.png), with the instruction on it.

    Args:
        task: A task from `hcam tasks`, or package.module:function. Numbers without an image are drawn as cells.
        level: The level to play; of several, one is drawn.
        env_arg: Options of the environment.
        out: The file to write; its ending decides what it is.
        policy: Who plays: an expert who knows the answer, or chance; auto is an expert where the task has one.
        seed: Another number, another episode.
        fps: Frames a second.
        scale: How many times larger than the agent sees it.
    """
    from hcam import recipes
    from hcam.viewer.show import show

    for line in show(task or recipes.default_task(), pairs(env_arg), level, out, policy, seed, fps, scale):
        print(line)
