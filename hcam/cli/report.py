"""`hcam report`: what runs have come to."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import tyro

from hcam import recipes
from hcam.runs.files import exists
from hcam.runs.folder import CONFIG, METRICS
from hcam.runs.text import printable

Folder = Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")]
AllTasks = Annotated[bool, tyro.conf.arg(name="all"), tyro.conf.FlagCreatePairsOff]
Names = Annotated[tuple[str, ...], tyro.conf.arg(metavar="RUN ...")]


def report(
    runs: tyro.conf.Positional[Names], results: Folder = None, out: Folder = None, all_tasks: AllTasks = False
) -> int:
    """Compare runs: tables, learning curves and a page. Or write tasks' results, or the index of a folder.

    Runs are compared in report.html (one file that holds all it shows), report.md, curves.png and curves.svg.

    Args:
        runs: Run folders; or tasks, for the page of their experiments; or a folder of runs, for its index; or files of
            `hcam eval --out FILE.json`, for a picture of their scores over the delay of levels.
        results: Where the runs of the tasks' experiments are, a folder for each task; results if not given.
        out: Where pictures and page go; docs for tasks, else here.
        all_tasks: Write the page of all tasks: every figure and table of docs/results.md.
    """
    known = recipes.every()
    if all_tasks and runs:
        raise ValueError(f"--all is all tasks: leave out {' '.join(runs)}.")
    if all_tasks:
        return write_page(list(known.values()), results or Path("results"), out or Path("docs"))
    if not runs:
        raise ValueError(
            f"give run folders, as in `hcam report runs/*`, tasks, as in `hcam report {recipes.default_task()}` (or "
            "--all), or a folder of runs, as in `hcam report results`."
        )
    if all(name in known and not exists(Path(name)) for name in runs):
        return write_page([known[name] for name in runs], results or Path("results"), out or Path("docs"))
    if results:
        raise ValueError(f"--results goes with tasks ({', '.join(known)}), not with run folders.")
    if all(name.endswith(".json") and os.path.isfile(name) for name in runs):
        return draw_delays([Path(name) for name in runs], out or Path())
    if len(runs) == 1 and is_group(Path(runs[0])):
        from hcam.report import index

        print(printable(index.write(Path(runs[0]))))
        return 0
    return compare(folders_of(runs), out or Path())


def folders_of(runs: Sequence[str]) -> list[Path]:
    """Without files: `runs/*` also names the index and the pictures that this command has written there."""
    files = [run for run in runs if os.path.isfile(run)]
    if len(files) == len(runs):
        return [Path(run) for run in runs]  # refused as no run folder
    for file in files:
        print(f"hcam report: {printable(file)} is no folder and left out.", file=sys.stderr)
    return [Path(run) for run in runs if run not in files]


def is_group(path: Path) -> bool:
    """Whether this is no run folder, but holds some."""
    return os.path.isdir(path) and not exists(path / CONFIG) and any(path.rglob(METRICS))


def write_page(chosen: list[recipes.Recipe], results: Path, out: Path) -> int:
    from hcam.report import page

    for path in page.write(chosen, {recipe.task: results / recipe.task for recipe in chosen}, out):
        print(printable(path))
    return 0


def draw_delays(files: list[Path], out: Path) -> int:
    from hcam.report import delays

    known = delays.read(files)
    out.mkdir(parents=True, exist_ok=True)
    delays.draw(known, out / delays.PICTURE)
    print(f"scores over delay: {printable(out / delays.PICTURE)}")
    return 0


def compare(folders: list[Path], out: Path) -> int:
    from rich.console import Console

    from hcam.report import compare, compare_tables
    from hcam.report.goals import PICTURE
    from hcam.report.goals import draw as draw_goals
    from hcam.runs.goals import FILE as GOALS
    from hcam.runs.goals import read as read_goals

    for table in compare_tables(folders):
        Console().print(table)
    curves, vector, *texts = compare.write(folders, out)
    print(f"learning curves: {printable(curves)}, {printable(vector)}")
    print(f"report: {', '.join(map(printable, texts))}")
    counted = {folder.resolve().name: read_goals(folder) for folder in folders if exists(folder / GOALS)}
    if counted:
        draw_goals(counted, out / PICTURE)
        print(f"steps per goal: {printable(out / PICTURE)}")
    return 0
