"""The page of results: a chapter per task, text and pictures from the run folders alone."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hcam.config import TaskConfig
from hcam.envs.environment import Environment
from hcam.recipes import Recipe, Section, every, flags
from hcam.report import attention, goals, panels
from hcam.report.markdown import block, code, escape, row
from hcam.report.results import Attempt, Outcome, collect, mean, score, shares, strangers
from hcam.report.runs import Run, measure_of, short
from hcam.runs.files import exists, explained, write_file
from hcam.runs.goals import FILE, Goals, read
from hcam.runs.measure import find
from hcam.runs.pretrained import PREFIX
from hcam.runs.text import finite

PAGE = "results.md"
PRETRAINED = "pretrained"  # beside the tasks' folders: evaluations of the agents that come with the package

HEAD = """# Results

Made by `{command}` from run folders and from nothing else. No number of ours is typed by hand, and what was
not run says so. The paper's numbers stand in `hcam/recipes/`, which says where it has them.

* Ours is success in % of evaluation episodes, played greedily after the last step of training; or, where a task is
  scored by that, the mean return of episodes in which actions are sampled. In round brackets: the 95 % interval of one
  run. Where an experiment has several seeds: the mean over seeds, in square brackets the lowest and the highest seed,
  and each seed below.
* A single seed says little about how certain a result is; it is called so. Minutes and steps/s are those of the run,
  which may have shared its card with another one.
"""

CHAPTER = """## {title}

**{state}** Run folders: {root}; {episodes}evaluation episodes.

{reading}"""

REPRODUCE = """### {title}: make a run yourself

```
hcam reproduce {task}                       # the experiments, and which are done
hcam reproduce {task} {name} --seed 0  # runs one; if it was stopped, continues it
hcam report --all                           # writes the page of all tasks
```

The same as plain commands:

{commands}
"""

SHOWN = (
    "{title} of training episodes over agent steps, a panel per level, smoothed by a triangular window over a fiftieth "
    "of the longest run's log. Lines: mean over seeds; light bands: lowest to highest, dark: ± standard deviation, of "
    "three or more. On grey: circles are {way} evaluations after training with their 95 % "
    "intervals, diamonds the paper's numbers."
)


GOALS = (
    "Steps spent on the n-th goal of an episode, for each time that it was reached; a single run of each experiment, "
    "by sampling. Drawn as far as at least half of the episodes get; bands are 95 % intervals."
)


def write(recipes: Sequence[Recipe], roots: Mapping[str, Path], out: Path) -> list[Path]:
    """Writes the page and its pictures; returns their paths."""
    (out / "images").mkdir(parents=True, exist_ok=True)
    tasks = [recipe.task for recipe in recipes]
    command = f"hcam report {'--all' if tasks == list(every()) else ' '.join(tasks)}"
    texts, written = [HEAD.format(command=command)], [out / PAGE]
    for recipe in recipes:
        text, pictures = chapter(recipe, roots[recipe.task], out)
        texts.append(text)
        written += pictures
    with explained(f"{out / PAGE} cannot be written"):
        write_file(out / PAGE, "\n".join(texts).encode())
    return written


def chapter(recipe: Recipe, root: Path, out: Path) -> tuple[str, list[Path]]:
    """One task's part of the page, and its pictures, drawn."""
    outcomes, env = collect(root, recipe), TaskConfig(task=recipe.task).make()
    every, title = list(outcomes.values()), recipe.task.capitalize()
    head = CHAPTER.format(
        title=title,
        state=state(every),
        root=code(_shown(root)),
        episodes=_episodes(recipe, every),
        reading=recipe.reading,
    )
    parts, pictures = [head], []
    for section in recipe.sections:
        name = f"images/{recipe.task}-{section.figure}.png"
        shown = [outcomes[name] for name in (*section.beside, *section.experiments)]
        drawn = any(outcomes[name].runs for name in section.experiments)
        if drawn:
            panels.draw(shown, env, section, out / name)
            pictures.append(out / name)
        parts += [f"### {section.title}\n", f"{section.text}\n" if section.text else ""]
        parts += [table(outcomes, env, section), quotes([outcomes[name] for name in section.experiments])]
        parts += [_picture(shown, env, section, name)] if drawn else []
        if counted := goals_of(shown):
            name = f"images/{recipe.task}-{section.figure}-goals.png"
            goals.draw(counted, out / name, {level: env.title(level) for level in section.levels})
            pictures.append(out / name)
            parts += [f"![steps per goal]({name})\n\n{GOALS}\n"]
    text, drawings = attention.section(recipe.task, recorded(recipe, root, every), out)
    typed = block(commands(recipe, root, every))
    parts, pictures = [*parts, text, runs_table(title, root, every)], [*pictures, *drawings]
    parts += [REPRODUCE.format(title=title, task=recipe.task, name=recipe.experiments[-1].name, commands=typed)]
    return "\n".join(part for part in parts if part), pictures


def recorded(recipe: Recipe, root: Path, outcomes: Sequence[Outcome]) -> dict[str, Path]:
    """Folders that may hold an analysis of attention: of the task's pretrained agent, and of runs that are done."""
    runs = [(one.experiment.title, attempt) for one in outcomes for attempt in one.attempts if attempt.run]
    named = {f"{title}, seed {attempt.seed}": attempt.folder for title, attempt in runs}
    return {f"{PREFIX}{recipe.task}": root.parent / PRETRAINED / recipe.task} | named


def goals_of(outcomes: Sequence[Outcome]) -> dict[str, dict[str, Goals]]:
    """The goals.json of each experiment's first run that has one, by the experiment's title."""
    found: dict[str, dict[str, Goals]] = {}
    for outcome in outcomes:
        folders = [one.folder for one in outcome.attempts if one.run and exists(one.folder / FILE)]
        if folders:
            found[outcome.experiment.title] = read(folders[0])
    return found


def _shown(path: Path) -> str:
    """A path of one machine means nothing on another."""
    return path.name if path.is_absolute() else path.as_posix()


def state(outcomes: Sequence[Outcome]) -> str:
    attempts = [attempt for outcome in outcomes for attempt in outcome.attempts]
    count = {kind: sum(attempt.state == kind for attempt in attempts) for kind in ("done", "unfinished")}
    if not any(count.values()):
        return (
            f"Nothing has been run yet: none of {len(attempts)} runs. Below are the paper's numbers and the commands."
        )
    unfinished = f", {count['unfinished']} unfinished" if count["unfinished"] else ""
    rest = len(attempts) - sum(count.values())
    return f"{count['done']} of {len(attempts)} runs done{unfinished}" + (f", {rest} not run." if rest else ".")


def _episodes(recipe: Recipe, outcomes: Sequence[Outcome]) -> str:
    parts = [score(run, level) for o in outcomes for run in o.runs for level in recipe.levels(o.experiment)]
    found = sorted({int(part["episodes"]) for part in parts if part and finite(part.get("episodes"))})
    return " or ".join(map(str, found)) + " " * bool(found)


def table(outcomes: Mapping[str, Outcome], env: Environment, section: Section) -> str:
    """A row for our runs, one for each seed if there are several, one for the paper's numbers."""
    rows, levels = [outcomes[name] for name in section.experiments], section.levels
    headings = [_heading(rows, env, level) for level in levels]
    lines = [row("", *headings), row(*["---"] * (1 + len(headings)))]
    for name in section.beside:  # in a table above already: one row is enough
        lines += [row(f"{outcomes[name].experiment.title}, as above", *(cell(outcomes[name], lv) for lv in levels))]
    for outcome in rows:
        experiment, runs = outcome.experiment, outcome.runs
        lines += [row(_about(outcome), *(cell(outcome, level) for level in levels))]
        for attempt in outcome.attempts if len(runs) > 1 else ():
            if attempt.run:
                lines += [row(f"seed {attempt.seed}", *(_alone(attempt.run, level) for level in levels))]
        if experiment.paper:
            lines += [row("the paper", *(str(experiment.paper.get(level, "no number")) for level in levels))]
    runs = [run for outcome in rows for run in outcome.runs]
    lines += [row("chance", *(_yardstick(runs, env, "chance", level) for level in levels))]
    if any(oracle := [_yardstick(runs, env, "oracle", level) for level in levels]):
        lines += [row("oracle", *oracle)]
    return "\n".join(lines) + "\n"


def _yardstick(runs: Sequence[Run], env: Environment, name: str, level: str) -> str:
    """What guessing or the expert scores, without its unit; nothing where it is not known."""
    scale = find(env.scored_by).scale
    return " or ".join(f"{scale * value:.4g}" for value in sorted(panels.yardsticks(runs, env, name, level)))


def _heading(outcomes: Sequence[Outcome], env: Environment, level: str) -> str:
    unseen = all(level in outcome.experiment.evaluate for outcome in outcomes)
    return env.title(level).replace(", ", "<br>") + "<br>never trained on" * unseen


def _about(outcome: Outcome) -> str:
    """The experiment, and what it took."""
    name, runs = f"**{outcome.experiment.title}**", outcome.runs
    if not runs:
        return name
    seeds = sum(run.seeds for run in runs)
    minutes = _span([run.seconds / 60 for run in runs if run.seconds], _minutes)
    rates = _span([run.rate for run in runs if run.rate], lambda rate: f"{rate:,.0f}")
    cost = [
        "single seed" if seeds == 1 else f"{seeds} seeds",
        f"{_span([run.steps for run in runs], short)} steps",
        f"{minutes} minutes" + " each" * (len(runs) > 1),
        f"{rates} steps/s",
    ]
    return f"{name}<br>{', '.join(cost)}"


def _minutes(minutes: float) -> str:
    return f"{minutes:.1f}" if minutes < 10 else f"{minutes:,.0f}"


def _span(values: Sequence[float], shown: Callable[[float], str]) -> str:
    if not values:
        return "?"
    low, high = shown(min(values)), shown(max(values))
    return low if low == high else f"{low} to {high}"


def cell(outcome: Outcome, level: str) -> str:
    runs, found = outcome.runs, shares(outcome.runs, level)
    if not found:
        return outcome.absent
    if len(runs) == 1:
        return f"**{runs[0].measure.bare(found[0])}**{_interval(runs[0], level)}"
    some = "" if len(found) == len(runs) else f", {len(found)} of {len(runs)} runs"
    mean_, low, high = map(measure_of(runs).bare, (sum(found) / len(found), min(found), max(found)))
    share = measure_of(runs).of_oracle(sum(found) / len(found), runs[0].oracle(level))
    return f"**{mean_}** [{low} to {high}]{some}" + f", {share}" * bool(share)


def _alone(run: Run, level: str) -> str:
    found = shares([run], level)
    return f"{run.measure.bare(found[0])}{_interval(run, level)}" if found else "not run"


def _interval(run: Run, level: str) -> str:
    part = score(run, level) or {}
    around = run.measure.around(part)
    share = run.measure.of_oracle(run.measure.score(part), run.oracle(level))
    return f" ({around})" * bool(around) + f", {share}" * bool(share)


def quotes(outcomes: Sequence[Outcome]) -> str:
    quoted = [outcome.experiment for outcome in outcomes if outcome.experiment.quote]
    lines = [f"* **{experiment.title}**. {experiment.quote}" for experiment in quoted]
    return "The paper says:\n\n" + "\n".join(lines) + "\n" if lines else ""


def _picture(outcomes: Sequence[Outcome], env: Environment, section: Section, name: str) -> str:
    """The picture, what it shows, and how its hardest level ended."""
    level = section.hardest
    ends = [(o.experiment.title, share) for o in outcomes if (share := mean(o.runs, level)) is not None]
    measure, runs = find(env.scored_by), [run for outcome in outcomes for run in outcome.runs]
    ended = "; ".join(f"{title} {measure.text(share)}" for title, share in ends) or "none"
    chance = _yardstick(runs, env, "chance", level) if level else ""
    text = f" Evaluated with {env.title(level)}: {ended}." if level else ""
    text += f" Chance is {chance}{measure.unit}." if chance else ""
    return f"![learning curves]({name})\n\n{SHOWN.format(title=measure.title, way=measure.way)}{text}\n"


def runs_table(title: str, root: Path, outcomes: Sequence[Outcome]) -> str:
    """Where every number comes from."""
    head = ("run folder", "state", "steps", "minutes", "steps/s", "device", "hcam", "commit", "also set")
    lines = [f"### {title}: all runs\n", row(*head), row(*["---"] * len(head))]
    lines += [row(code(f"{_shown(root)}/{a.folder.name}"), *_facts(a)) for o in outcomes for a in o.attempts]
    if others := strangers(root, outcomes):
        lines += ["", f"Not counted, since they belong to no experiment: {', '.join(code(name) for name in others)}."]
    return "\n".join(lines) + "\n"


def _facts(attempt: Attempt) -> list[str]:
    if (run := attempt.run) is None:
        return [escape(f"{attempt}"), *[""] * 7]
    made = run.made_by
    commit = code(str(made["commit"])[:10]) if made.get("commit") else "not known"
    return [
        escape(f"{attempt}"),
        short(run.steps),
        "?" if run.seconds is None else _minutes(run.seconds / 60),
        "?" if run.rate is None else f"{run.rate:,.0f}",
        escape(str(made.get("device", "not known"))),
        escape(str(made.get("hcam", "not known"))),
        commit + ", changed files" * bool(made.get("changed")),
        code(" ".join(flags(attempt.more))) if attempt.more else "",
    ]


def commands(recipe: Recipe, root: Path, outcomes: Sequence[Outcome]) -> list[str]:
    """For each experiment's first seed, with the settings that its run was given."""
    lines = []
    for outcome in outcomes:
        first = outcome.attempts[0]
        folder = Path(_shown(root)) / first.folder.name
        lines += recipe.commands(outcome.experiment, folder, first.seed, first.more or {})
    return lines
