"""Runs side by side as a document: scores by level and memory beside the paper's, learning curves, what it took."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from hcam import recipes
from hcam.config import TaskConfig
from hcam.recipes import Experiment
from hcam.report import document
from hcam.report.curves import curve
from hcam.report.document import Block, Cell, Heading, Picture, Table
from hcam.report.results import unlike
from hcam.report.runs import Run, first_text, kinds, last, measure_of, read, seeds_of, share, short
from hcam.runs.measure import Measure
from hcam.runs.progress import Row
from hcam.runs.text import finite

CURVES, VECTOR, MARKDOWN, PAGE = "curves.png", "curves.svg", "report.md", "report.html"
COSTS = ("run", "memory", "seeds", "steps", "minutes", "steps/s", "device", "hcam", "commit")


@dataclass(frozen=True)
class Group:
    """Runs that differ in their seeds alone."""

    label: str
    runs: Sequence[Run]
    experiment: Experiment | None  # the one of the paper's that they repeat


def write(folders: Sequence[Path], out: Path) -> list[Path]:
    """Writes learning curves and report into the folder `out`; returns the paths."""
    pictures, texts = [out / CURVES, out / VECTOR], [out / MARKDOWN, out / PAGE]
    document.refuse_foreign(*texts)
    runs = [read(folder) for folder in dict.fromkeys(folders)]
    title, blocks = contents(runs, out / VECTOR)
    out.mkdir(parents=True, exist_ok=True)
    curve(folders, *pictures)
    document.write(title, blocks, *texts)
    return [*pictures, *texts]


def contents(runs: Sequence[Run], picture: Path) -> tuple[str, list[Block]]:
    """The title of a report and what it consists of."""
    measure, groups = measure_of(runs), [Group(*item, _experiment(item[1][0])) for item in kinds(runs).items()]
    tasks = list(dict.fromkeys(first_text(run.config, "task") or "?" for run in runs))
    judged = all(measure.way in run.evaluation for run in runs)
    blocks: list[Block] = [_about_scores(runs, measure, judged), _scores(groups, measure, judged)]
    blocks += [f"{note}" for note in dict.fromkeys(_notes(groups))]
    blocks += [Heading("Learning curves"), Picture(picture, "learning curves"), Heading("Training"), _costs(runs)]
    return f"{', '.join(tasks)}: {len(runs)} run{'s' * (len(runs) > 1)} compared", blocks


def _about_scores(runs: Sequence[Run], measure: Measure, judged: bool) -> str:
    text = f"{measure.title}{f' in {unit}' if (unit := measure.unit.strip()) else ''}"
    if judged:
        parts = [row for run in runs for row in run.evaluation[measure.way].values()]
        counts = sorted({int(count) for row in parts if (count := finite(row.get("episodes")))})
        text += f" of {' or '.join(map(str, counts)) or 'some'} {measure.way} evaluation episodes after training."
        text += " In round brackets: the 95 % interval of one run."
    else:
        text += " of training episodes at the end of training, since not all of these runs were evaluated."
    return f"{text} Of several runs: mean ± standard deviation, in square brackets the lowest and the highest."


def _scores(groups: Sequence[Group], measure: Measure, judged: bool) -> Table:
    """A row for each kind of run, one for each of its runs if there are several, one for the paper's numbers."""
    runs = [run for group in groups for run in group.runs]
    levels = list(dict.fromkeys(n for run in runs for n in (run.evaluation[measure.way] if judged else run.levels)))
    rows: list[list[Cell]] = []
    strong = set()
    for group in groups:
        strong.add(len(rows))
        label = f"{group.label}, {seeds_of(group.runs)}"
        rows.append([label, *(_cell(group.runs, level, measure, judged) for level in levels)])
        each = group.runs if len(group.runs) > 1 else ()
        rows += [[run.name, *(_cell([run], level, measure, judged) for level in levels)] for run in each]
        paper = group.experiment.paper if group.experiment else {}
        if any(level in paper for level in levels):
            rows.append(["the paper", *(str(paper.get(level, "no number")) for level in levels)])
    for name in ("chance", "oracle"):
        known = [_yardsticks(runs, name, level, measure) for level in levels]
        rows += [[name, *known]] if any(known) else []
    return Table(["", *(_title(runs, level) for level in levels)], rows, frozenset(strong))


def _title(runs: Sequence[Run], level: str) -> Cell:
    """What a level is called, broken as in the pages of results."""
    titles = [run.config.get("titles") for run in runs]
    found = [known[level] for known in titles if isinstance(known, Mapping) and isinstance(known.get(level), str)]
    return tuple((found[0] if found else level).split(", "))


def _cell(runs: Sequence[Run], level: str, measure: Measure, judged: bool) -> Cell:
    parts: list[Row] = [run.evaluation[measure.way].get(level, {}) for run in runs] if judged else []
    values = [share(part, measure.name) for part in parts] if judged else [last(run, level) for run in runs]
    known = [value for value in values if value is not None]
    if not known:
        return "-"
    if len(runs) == 1:
        around = measure.around(parts[0]) if judged else ""
        return (measure.bare(known[0]), *([f"({around})"] if around else []))
    spread = f" ± {measure.bare(stdev(known))}" if len(known) > 1 else ""
    some = [f"{len(known)} of {len(runs)} runs"] if len(known) < len(runs) else []
    extremes = f"[{measure.bare(min(known))} to {measure.bare(max(known))}]"
    return (f"{measure.bare(mean(known))}{spread}", extremes, *some)


def _yardsticks(runs: Sequence[Run], name: str, level: str, measure: Measure) -> str:
    found = {run.oracle(level) if name == "oracle" else run.fact(name, level) for run in runs}
    return " or ".join(
        f"{measure.scale * value:.4g}" for value in sorted(value for value in found if value is not None)
    )


def _experiment(run: Run) -> Experiment | None:
    """The experiment of the paper whose own settings a run has; of several, the one with most."""
    recipe = recipes.every().get(_task(run).get("task", ""))
    fitting = [one for one in recipe.experiments if not unlike(recipe, one, run.config)] if recipe else []
    return max(fitting, key=lambda one: len(one.overrides), default=None)


def _task(run: Run) -> Mapping[str, Any]:
    """The settings of the task; only a name says which it is."""
    task = run.config.get("task")
    return task if isinstance(task, Mapping) and isinstance(task.get("task"), str) else {}


def _notes(groups: Sequence[Group]) -> Iterator[str]:
    """What keeps a group's numbers from being the paper's."""
    for group in groups:
        run = group.runs[0]
        if group.experiment and (smaller := _smaller(run)):
            yield f"{group.label}: the task is smaller than the published one in {', '.join(smaller)}."


def _smaller(run: Run) -> list[str]:
    """In what a run's task is easier than the published one; nothing where its settings make no task."""
    options = _task(run).get("options") or {}
    try:
        env = TaskConfig(task=_task(run)["task"], options=dict(options)).make()
        return env.smaller(run.levels or env.default_levels)
    except (ValueError, TypeError, KeyError):
        return []


def _costs(runs: Sequence[Run]) -> Table:
    rows = []
    for run in runs:
        made = run.made_by
        minutes = "-" if run.seconds is None else f"{run.seconds / 60:,.1f}"
        rate = "-" if run.rate is None else f"{run.rate:,.0f}"
        facts = [str(made.get(name) or "-")[:length] for name, length in (("device", 40), ("hcam", 20), ("commit", 10))]
        rows.append([run.name, run.memory, str(run.seeds), short(run.steps), minutes, rate, *facts])
    return Table(COSTS, rows)
