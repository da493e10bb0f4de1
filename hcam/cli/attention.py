"""`hcam attention`: how much more an agent's memory attends to what is asked for than to what is not."""

import sys
from pathlib import Path
from typing import Annotated, Any

import tyro

from hcam.cli.evaluate import Levels
from hcam.runs.files import refuse_unwritable
from hcam.runs.pretrained import PREFIX
from hcam.runs.text import printable


def attention(
    agent: tyro.conf.Positional[str],
    level: Levels = (),
    episodes: int = 256,
    seed: int = 0,
    best: bool = False,
    out: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None,
) -> int:
    """Analyse what a trained agent's memory attends to when it is asked: attention.json, .png and .svg.

    Relative attention is the relevance of a chunk divided by the mean over all chunks that could be recalled, so that 1
    is no preference; docs/attention.md explains it. Of several seeds trained at once, the first is analysed.

    Args:
        agent: A run folder, an exported folder, or pretrained:NAME.
        level: Levels to play. Without any, those of its training.
        episodes: Episodes per level, played greedily.
        seed: Another number, other episodes.
        best: Take the checkpoint that was best in training instead of the last one.
        out: Where the numbers and the pictures go; into the agent's own folder, or here for a pretrained one.
    """
    from rich.console import Console

    from hcam.adapters import raising_host_errors
    from hcam.api import load
    from hcam.report.attention import PICTURE, VECTOR, draw
    from hcam.runs import attention as analysis
    from hcam.runs.progress import Display

    if not 0 <= seed < 2**31 - 1:
        raise ValueError(f"seed must be from 0 to {2**31 - 2:,}, but is {seed}.")
    trained = load(agent, best=best)
    folder = out or (Path() if agent.startswith(PREFIX) else Path(agent))
    refuse_unwritable(folder / analysis.FILE)  # before the minutes of playing, not after
    task, env = trained.config.task, trained.env
    params: dict[str, Any] = {name: task.level_params(env, name) for name in level or task.level_names(env)}
    title, found, total = f"{agent}, {trained.metadata['steps']:,} steps", dict[str, Any](), episodes * len(params)
    with Display(trained.config.run.steps, title) as display, raising_host_errors(env):
        for number, (name, env_params) in enumerate(params.items()):

            def tell(done: int, _: int, before: int = number * episodes) -> None:
                display.evaluating(before + done, total)

            played: Any = (trained.agent, env, trained.params, env_params)
            measured = analysis.measure(*played, episodes=episodes, seed=seed, on_progress=tell)
            found[name] = {"title": env.title(name)} | measured
    about = {"run": Path(agent).name, "steps": trained.metadata["steps"], "seed": seed}
    for name, part in found.items():
        for table in tables(name, part):
            Console().print(table)
    analysis.write(folder, about | {"levels": found})
    titles = {name: part["title"] for name, part in found.items()}
    draw(found, titles, folder / PICTURE, folder / VECTOR)
    written = ", ".join(printable(folder / file) for file in (analysis.FILE, PICTURE, VECTOR))
    print(f"relative attention: {written}", file=sys.stderr)
    return 0


def tables(name: str, level: dict[str, Any]) -> list[Any]:
    """What a level came to: solved and failed episodes, and what was attended to when something else was asked for."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from hcam.report.attention import HEAD, earlier_rows, rows, told
    from hcam.runs.attention import GROUPS

    def table(title: str, head: tuple[str, ...], lines: list[list[str]]) -> Any:
        look: Any = {"title_justify": "left", "box": box.SIMPLE, "padding": (0, 1, 0, 0)}
        made = Table(title=Text(printable(title), style="italic"), **look)
        for heading in head:
            made.add_column(heading, justify="right", no_wrap=True)
        for cells in lines:
            made.add_row(*(cell.replace(" to ", "-") for cell in cells))  # for a terminal of 80 columns
        return made

    made = [Text(""), Text(printable(f"{name}: {told(level)}"))]
    for group in (group for group in GROUPS if group in level):
        kind = group.split("_")[0]
        title = f"Relative attention in {kind} episodes, compared with {level['compared_with']}"
        made.append(table(title, HEAD, list(rows(level[group]))))
        if before := list(earlier_rows(level[group])):
            head = ("layer", "asked for", "while another was", "ratio")
            made.append(table(f"The same moment, {kind} episodes", head, before))
    return made
