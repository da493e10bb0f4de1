"""`hcam report` and `hcam reproduce`: what runs have come to, and how to have them again."""

from pathlib import Path
from typing import Annotated

import tyro

from hcam.cli import train
from hcam.runs.text import printable

Folder = Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")]
Names = Annotated[tuple[str, ...], tyro.conf.arg(metavar="RUN ...")]


def report(runs: tyro.conf.Positional[Names], results: Folder = None, out: Folder = None) -> int:
    """Compare runs: a table and learning curves; or write a task's page of results.

    Args:
        runs: Run folders; or a task, such as ballet, for the page of its experiments.
        results: Where the runs of a task's experiments are; results/TASK if not given.
        out: Where pictures and page go; docs for a task, else here.
    """
    if not runs:
        raise ValueError("give run folders, as in `hcam report runs/*`, or a task, as in `hcam report ballet`.")
    from rich.console import Console

    from hcam import experiments
    from hcam.report import compare_tables, curve, page

    if len(runs) == 1 and runs[0] in experiments.TASKS and not Path(runs[0]).exists():
        for path in page.write(results or Path("results") / runs[0], out or Path("docs")):
            print(printable(path))
        return 0
    if results:
        raise ValueError(f"--results goes with a task ({', '.join(experiments.TASKS)}), not with run folders.")
    folders, target = [Path(run) for run in runs], out or Path()
    for table in compare_tables(folders):
        Console().print(table)
    target.mkdir(parents=True, exist_ok=True)
    curve(folders, target / "curves.png")
    print(f"learning curves: {printable(target / 'curves.png')}")
    return 0


def reproduce(
    task: tyro.conf.Positional[Annotated[str, tyro.conf.arg(metavar="TASK")]],
    experiment: tyro.conf.Positional[Annotated[str, tyro.conf.arg(metavar="[NAME]")]] = "",
    seed: int = 0,
    steps: int | None = None,
    runs: Folder = None,
) -> int:
    """Run an experiment of the paper; without a name, list them.

    Args:
        task: The task, such as ballet.
        experiment: The experiment, as listed. If its run was stopped, it goes on.
        seed: Another number, another repeat.
        steps: Fewer or more steps than `--preset fast` takes.
        runs: The folder that its run folder goes into, as NAME-SEED; results/TASK if not given.
    """
    from hcam import experiments
    from hcam.report.results import attempt, unlike
    from hcam.runs.folder import CONFIG, read_config, refuse_without_checkpoint

    root = runs or Path("results") / task
    if not experiment:
        print("\n".join(map(printable, listing(root, task))))
        return 0
    chosen = experiments.find(task, experiment)
    folder = chosen.folder(root, seed)
    begun, asked = (folder / CONFIG).exists(), [] if steps is None else ["--steps", str(steps)]
    if begun and (wrong := unlike(chosen, read_config(folder))):
        raise ValueError(f"{folder} is not {chosen.name}, {wrong}: move it away, or choose another --runs.")
    now = attempt(chosen, folder, seed)
    if begun and (now.run is None or now.run.steps < (steps or 0)):
        refuse_without_checkpoint(folder, "--runs")
    if now.run is None or now.run.steps < (steps or 0):
        code = train.train(["--resume", f"{folder}", *asked] if begun else chosen.train(folder, seed, asked))
        if code:
            return code
        now = attempt(chosen, folder, seed)
    if set(chosen.evaluate) & set(now.lacking):
        return train.evaluate(f"{folder}", level=chosen.evaluate, out=folder / experiments.EXTRA)
    print(printable(f"{folder}: {now}"))
    return 0


def listing(root: Path, task: str) -> list[str]:
    """Every experiment with its commands, and what has been done of it."""
    from hcam import experiments
    from hcam.report.results import collect

    lines = []
    for outcome in collect(root, experiments.of_task(task)):
        lines += [f"{outcome.experiment.name}: {outcome.experiment.title}"]
        for attempt in outcome.attempts:
            lines += [f"  seed {attempt.seed}: {attempt}"]
            typed = outcome.experiment.commands(attempt.folder, attempt.seed, attempt.more)
            lines += [f"    {command}" for command in typed]
    return lines
