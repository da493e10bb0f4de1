"""The page of Ballet's results: text and pictures from the run folders alone."""

from collections.abc import Callable, Sequence
from pathlib import Path

from hcam.envs.choreography import PAPER_LEVELS, parse
from hcam.experiments import BALLET
from hcam.report import panels
from hcam.report.markdown import block, code, escape, row
from hcam.report.results import Attempt, Outcome, collect, mean, score, shares, strangers
from hcam.report.runs import Run, short
from hcam.runs.progress import finite

PAGE = "results.md"

HEAD = """# Results: Ballet

Made by `hcam report ballet` from the run folders in {root} and from nothing else. No number of ours is typed
by hand, and what was not run says so. The paper's numbers stand in `hcam/experiments.py`, which says where it has them.

**{state}**
"""

READ = """## How to read it

* Ours is success in % of {episodes}evaluation episodes, played greedily after the last step of training. In round
  brackets: the 95 % interval of one run. Where an experiment has several seeds: the mean over seeds, in square brackets
  the lowest and the highest seed, and each seed below.
* The paper's is mean ± standard deviation over 3 runs, each the average over evaluations in the last 1 % of training
  (appendix "Detailed results"). "no number": the paper has a curve at most. Its runs were long: in a later sweep,
  stopped at 1.5 billion steps, the best HCAM agents were at 80 to 90 % on the hardest levels and the best TransformerXL
  agents at 25 to 35 % with 8 dances and delay 48 (appendix "Results are robust to reviewer-suggested hyperparameter
  sweeps").
* The settings are those of `--preset fast`: the paper's task and agent, narrower, with a recipe for one GPU
  (`hcam/presets.py`), the same for every memory: also a curriculum, by which each plays most what it is least sure of
  (`docs/training.md`). Evaluations play every level equally often. A single seed says little about how sure a result
  is; it is called so. Minutes and steps/s are those of the run, which may have shared its card with another one.
"""

REPRODUCE = """## Make one yourself

```
hcam reproduce ballet                      # the experiments, and which are done
hcam reproduce ballet hcam-k1 --seed 0     # runs one; if it was stopped, goes on
hcam report ballet                         # writes this page
```

The same as plain commands:

{commands}
"""

VARIANTS = """## Variants

Each differs from HCAM or TransformerXL above in what its name says. The paper prints no numbers for them. Most of its
own were run with a longer local attention window than its main experiments (note in "Supplemental experiments").
"""

SHOWN = (
    "Success of training episodes over agent steps, a panel per level. Bold: mean over seeds; thin: each seed. "
    "On grey: circles are greedy evaluations after training with their 95 % "
    "intervals, diamonds the paper's numbers."
)


def write(root: Path, out: Path) -> list[Path]:
    """Writes the page and its pictures; gives their paths."""
    outcomes = collect(root, BALLET)
    (out / "images").mkdir(parents=True, exist_ok=True)
    written = []
    for name, shown in pictures(outcomes).items():
        panels.draw(shown, shown[-1].experiment.levels, out / name)
        written.append(out / name)
    (out / PAGE).write_text(page(root, outcomes), encoding="utf-8")
    return [out / PAGE, *written]


def pictures(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    """Which experiments each picture shows; none that would be empty. Variants stand beside what they vary."""
    memory, held_out, variants = (_group(outcomes, group) for group in ("memory", "held out", "variant"))
    plan = {"memories": memory, "246": held_out, "variants": variants}
    kept = {name: shown for name, shown in plan.items() if any(outcome.runs for outcome in shown)}
    kept |= {"variants": [*memory[:2], *variants]} if "variants" in kept else {}
    return {f"images/ballet-{name}.png": shown for name, shown in kept.items()}


def _group(outcomes: Sequence[Outcome], group: str) -> list[Outcome]:
    return [outcome for outcome in outcomes if outcome.experiment.group == group]


def page(root: Path, outcomes: Sequence[Outcome]) -> str:
    drawn = pictures(outcomes)
    memory, held_out, variants = (_group(outcomes, group) for group in ("memory", "held out", "variant"))
    parts = [
        HEAD.format(root=code(_shown(root)), state=state(outcomes)),
        READ.format(episodes=_episodes(outcomes)),
        "## The memories\n\nAll learn the same mixture of six levels: 2, 4 or 8 dances, 16 or 48 frames of delay.\n",
        table(memory, PAPER_LEVELS),
        said(memory),
        _picture(drawn, "images/ballet-memories.png", "8_delay48"),
        "## Trained on up to 6 dances, asked about 8\n",
        table(held_out, held_out[0].experiment.levels),
        said(held_out),
        _picture(drawn, "images/ballet-246.png", "8_delay48"),
        VARIANTS,
        table(variants, PAPER_LEVELS, beside=memory[:2]),
        said(variants),
        _picture(drawn, "images/ballet-variants.png", "8_delay48"),
        runs_table(root, outcomes),
        REPRODUCE.format(commands=block(commands(root, outcomes))),
    ]
    return "\n".join(part for part in parts if part)


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


def _episodes(outcomes: Sequence[Outcome]) -> str:
    parts = [score(run, level) for o in outcomes for run in o.runs for level in o.experiment.levels]
    found = sorted({int(part["episodes"]) for part in parts if part and finite(part.get("episodes"))})
    return " or ".join(map(str, found)) + " " * bool(found)


def table(outcomes: Sequence[Outcome], levels: Sequence[str], beside: Sequence[Outcome] = ()) -> str:
    """A row for our runs, one for each seed if there are several, one for the paper's numbers.

    What is `beside` stands in a table above already: one row is enough.
    """
    names = [_heading(outcomes, level) for level in levels]
    lines = [row("", *names), row(*["---"] * (1 + len(names)))]
    lines += [row(f"{o.experiment.title}, as above", *(cell(o, level) for level in levels)) for o in beside]
    for outcome in outcomes:
        experiment, runs = outcome.experiment, outcome.runs
        lines += [row(_about(outcome), *(cell(outcome, level) for level in levels))]
        for attempt in outcome.attempts if len(runs) > 1 else ():
            if attempt.run:
                lines += [row(f"seed {attempt.seed}", *(_alone(attempt.run, level) for level in levels))]
        if experiment.paper:
            reported = [experiment.paper.get(level, "no number") for level in levels]
            lines += [row("the paper", *map(str, reported))]
    lines += [row("chance", *(f"{100 / parse(level).dancers:.4g}" for level in levels))]
    return "\n".join(lines) + "\n"


def _heading(outcomes: Sequence[Outcome], level: str) -> str:
    unseen = all(level in outcome.experiment.evaluate for outcome in outcomes)
    return panels.called(level).replace(", ", "<br>") + "<br>never trained on" * unseen


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
        return f"**{100 * found[0]:.1f}**{_interval(runs[0], level)}"
    some = "" if len(found) == len(runs) else f", {len(found)} of {len(runs)} runs"
    return f"**{100 * sum(found) / len(found):.1f}** [{100 * min(found):.1f} to {100 * max(found):.1f}]{some}"


def _alone(run: Run, level: str) -> str:
    found = shares([run], level)
    return f"{100 * found[0]:.1f}{_interval(run, level)}" if found else "not run"


def _interval(run: Run, level: str) -> str:
    part = score(run, level) or {}
    low, high = finite(part.get("low")), finite(part.get("high"))
    return "" if low is None or high is None else f" ({100 * low:.1f} to {100 * high:.1f})"


def said(outcomes: Sequence[Outcome]) -> str:
    told = [outcome.experiment for outcome in outcomes if outcome.experiment.said]
    lines = [f"* **{experiment.title}**. {experiment.said}" for experiment in told]
    return "The paper says:\n\n" + "\n".join(lines) + "\n"


def _picture(drawn: dict[str, list[Outcome]], name: str, level: str) -> str:
    """The picture, what it shows, and how its hardest level ended."""
    if name not in drawn:
        return ""
    ends = [(o.experiment.title, share) for o in drawn[name] if (share := mean(o.runs, level)) is not None]
    told = "; ".join(f"{title} {100 * share:.1f} %" for title, share in ends) or "none"
    chance = f"{100 / parse(level).dancers:.4g} %"
    told = f"Evaluated with {panels.called(level)}: {told}. Chance is {chance}."
    return f"![learning curves]({name})\n\n{SHOWN} {told}\n"


def runs_table(root: Path, outcomes: Sequence[Outcome]) -> str:
    """Where every number comes from."""
    head = ("run folder", "state", "steps", "minutes", "steps/s", "device", "hcam", "commit", "also set")
    lines = ["## The runs\n", row(*head), row(*["---"] * len(head))]
    lines += [row(code(f"{_shown(root)}/{a.folder.name}"), *_facts(a)) for o in outcomes for a in o.attempts]
    if others := strangers(root, outcomes):
        lines += ["", f"Not counted, since they belong to no experiment: {', '.join(map(code, others))}."]
    return "\n".join(lines) + "\n"


def _facts(attempt: Attempt) -> list[str]:
    if (run := attempt.run) is None:
        return [escape(attempt), *[""] * 7]
    made = run.made_by
    commit = code(f"{made['commit']}"[:10]) if made.get("commit") else "not known"
    return [
        escape(attempt),
        short(run.steps),
        "?" if run.seconds is None else _minutes(run.seconds / 60),
        "?" if run.rate is None else f"{run.rate:,.0f}",
        escape(made.get("device", "not known")),
        escape(made.get("hcam", "not known")),
        commit + ", changed files" * bool(made.get("changed")),
        code(" ".join(attempt.more)) if attempt.more else "",
    ]


def commands(root: Path, outcomes: Sequence[Outcome]) -> list[str]:
    """For each experiment's first seed, with the options that its run was given."""
    lines = []
    for outcome in outcomes:
        first = outcome.attempts[0]
        lines += outcome.experiment.commands(Path(_shown(root)) / first.folder.name, first.seed, first.more)
    return lines
