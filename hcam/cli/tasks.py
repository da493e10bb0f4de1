"""`hcam tasks` and `hcam show`: what there is to do, and what it looks like."""

from pathlib import Path
from typing import Annotated, Literal

import tyro

Levels = Annotated[tuple[str, ...], tyro.conf.arg(metavar="LEVEL ...")]


def tasks() -> None:
    """List the tasks and their levels."""
    from rich.console import Console

    from hcam.viewer.show import task_table

    Console().print(task_table())


def show(
    task: tyro.conf.Positional[str] = "ballet",
    level: Levels = (),
    out: Annotated[Path, tyro.conf.arg(metavar="FILE")] = Path("episode.gif"),
    policy: Literal["expert", "random"] = "expert",
    seed: int = 0,
    fps: int = 10,
    scale: int = 4,
) -> None:
    """Draw an episode: an animation (.gif, .mp4) or a contact sheet (.png), with the instruction on it.

    Args:
        task: A task from `hcam tasks` that has pictures.
        level: The level to play, such as 4_delay16; of several, one is drawn.
        out: The file to write; its ending decides what it is.
        policy: Who plays: an expert who knows the answer, or chance.
        seed: Another number, another episode.
        fps: Frames a second.
        scale: How many times larger than the agent sees it.
    """
    from hcam.viewer.show import show

    for line in show(task, level, out, policy, seed, fps, scale):
        print(line)
