"""`hcam watch`: what an agent remembers, to look at."""

from pathlib import Path
from typing import Annotated

import tyro

Levels = Annotated[tuple[str, ...], tyro.conf.arg(metavar="LEVEL ...")]
File = Annotated[Path | None, tyro.conf.arg(metavar="FILE")]


def watch(
    agent: tyro.conf.Positional[str],
    level: Levels = (),
    episodes: int = 1,
    seed: int = 0,
    sampled: bool = False,
    best: bool = False,
    layer: int | None = None,
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE|FOLDER")] = None,
    gif: File = None,
    mp4: File = None,
    fps: int = 12,
    open: bool = False,
) -> int:
    """Watch a trained agent remember: a page that shows what it recalls at each step of an episode.

    Args:
        agent: A run folder, an exported folder, or pretrained:NAME.
        level: Levels to play, also ones that it was never trained on; of several, each episode draws one. Without any,
            those of its training.
        episodes: Episodes on the page, which lets choose between them.
        seed: Another number, other episodes; those of `hcam eval` with this seed and number of episodes.
        sampled: Draw each action from the policy instead of taking the most probable one.
        best: Take the checkpoint that was best in training instead of the last one.
        layer: The memory layer that is shown first, from 1 on. Without it, the one that recalls most of what matters.
        out: The page to write, one .html file that needs no server; in a folder it is called after the run. Without
            --out, --gif and --mp4 it is watch.html.
        gif: Write the first episode as an animation.
        mp4: Write the first episode as a video.
        fps: Steps a second of an animation or a video.
        open: Open the page in the browser.
    """
    import webbrowser

    from hcam import api
    from hcam.runs.text import printable
    from hcam.viewer.watch import Options
    from hcam.viewer.watch import watch as play

    if open and out is None and (gif or mp4):
        raise ValueError("--open opens a page: give --out as well.")
    options = Options(
        levels=level, episodes=episodes, seed=seed, greedy=not sampled, layer=layer, out=out, gif=gif, mp4=mp4, fps=fps
    )
    for path, line in play(api.load(agent, best=best), agent, options):
        print(printable(line) if path else line)
        if open and path and path.suffix not in (".gif", ".mp4"):
            webbrowser.open(path.resolve().as_uri())
    return 0
