"""`hcam eval`."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import tyro

from hcam.agent import memories
from hcam.runs.evaluate import most_at_once
from hcam.runs.files import as_json, exists, explained, parse_json, read_file, refuse_unwritable, write_file
from hcam.runs.measure import SUCCESS, Measure
from hcam.runs.pretrained import Trained
from hcam.runs.room import Room, resized, room_of
from hcam.runs.text import printable

Levels = Annotated[tuple[str, ...], tyro.conf.arg(metavar="LEVEL ...")]


def evaluate(
    agent: tyro.conf.Positional[str],
    level: Levels = (),
    episodes: int = 500,
    seed: int = 0,
    best: bool = False,
    slots: Room = None,
    window: Room = None,
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    goals: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None,
) -> int:
    """Evaluate a trained agent.

    Args:
        agent: A run folder, an exported folder, or pretrained:NAME.
        level: Levels to play, also ones that it was never trained on. Without any, those of its training.
        episodes: Episodes per level.
        seed: Another number, other episodes.
        best: Take the checkpoint that was best in training instead of the last one.
        slots: Slots of memory in place of those of its training, or `auto`: as many as the longest episode needs.
        window: The same for a memory that holds the last steps alone, such as trxl.
        out: Also write the numbers to this file, as JSON.
        goals: Also count the steps to each goal of an episode, and write goals.json and goals.png into this folder,
            which may be the run's own. For tasks that are scored by their return.
    """
    from rich.console import Console

    from hcam.adapters import raising_host_errors
    from hcam.api import load
    from hcam.runs import goals as counts
    from hcam.runs import measure
    from hcam.runs.evaluate import evaluate_all
    from hcam.runs.progress import Display

    if not 0 <= seed < 2**31 - 1:
        raise ValueError(f"seed must be from 0 to {2**31 - 2:,}, but is {seed}.")
    trained = load(agent, best=best)
    if out:
        refuse_to_replace(out)  # before the minutes of playing, not after
    task, env = trained.config.task, trained.env
    if goals:
        counts.refuse_without_goals(env)
        refuse_to_replace(goals / counts.FILE)
    params = {name: task.level_params(env, name) for name in level or task.level_names(env)}
    trained, sizes = resized(trained, params, min(episodes, most_at_once()), slots=slots, window=window)
    more = [f"{name} {size:,}" for name, size in sizes.items()]
    title = ", ".join([agent, f"{trained.metadata['steps']:,} steps", *more])
    with Display(trained.config.run.steps, title) as display, raising_host_errors(env):
        played: Any = (trained.agent, env, trained.params_s, params, episodes)
        results = evaluate_all(*played, seed=seed, on_progress=display.evaluating)
        steps_by_goal = counts.measure(*played, seed=seed) if goals else {}
    about = {"run": Path(agent).name, "steps": trained.metadata["steps"], "seed": seed} | facts(trained, params)
    try:
        Console().print(table_of(results, title, measure.find(env.scored_by)))
        tell_goals(steps_by_goal)
    finally:  # what was asked for as a file is not lost with the reader of the table, as in `| head -1`
        write_files(out, goals, about, results, steps_by_goal, {level: env.title(level) for level in params})
    return 0


def write_files(
    out: Path | None,
    goals: Path | None,
    about: dict[str, Any],
    results: dict[str, Any],
    steps_by_goal: dict[str, Any],
    titles: dict[str, str],
) -> None:
    """Writes those that were asked for."""
    from hcam.runs.checkpoint import warn

    if out:
        with explained(f"{out} cannot be written"):
            write_file(out, as_json(about | results))
        warn(f"numbers: {out}")
    if goals:
        write_goals(goals, about, steps_by_goal, titles)


def facts(trained: Trained, levels: Iterable[str]) -> dict[str, Any]:
    """What a figure of success over delay needs to know, so that the numbers are enough to draw it."""
    env, names = trained.env, trained.config.task.level_names(trained.env)
    delays = {level: delay for level in levels if (delay := env.delay(level)) is not None}
    chance = {level: share for level in delays if (share := env.chance(level)) is not None}
    memory = trained.config.agent.memory
    found = {
        "memory": memories.name_of(memory),
        "trained": [name for name in names if name in delays],
        **room_of(memory),
    }
    shown = {level: {"steps": delay.steps, "of": delay.of} for level, delay in delays.items()}
    return found | {"scored_by": env.scored_by, "delays": shown, "chance": chance} if delays else {}


def tell_goals(levels: dict[str, Any]) -> None:
    """Says what the steps per goal come to."""
    from hcam.report import goals as picture

    for level, players in levels.items():
        for name, player in players.items():
            shown = picture.points(player)
            ends = [f"{one['steps']:.1f} for goal {one['goal']}" for one in (*shown[:1], *shown[1:][-1:])]
            steps = ", ".join(ends) or "not known, less than half of the episodes reach a goal"
            print(printable(f"{level}, {name}: steps {steps}"))


def write_goals(folder: Path, about: dict[str, Any], levels: dict[str, Any], titles: dict[str, str]) -> None:
    """Writes the numbers and the picture."""
    from hcam.report import goals as picture
    from hcam.runs import goals
    from hcam.runs.checkpoint import warn

    path = goals.write(folder, about | {"levels": levels})
    picture.draw({"agent": levels}, folder / picture.PICTURE, titles)
    warn(f"steps per goal: {path}, {folder / picture.PICTURE}")


def refuse_to_replace(path: Path) -> None:
    """Raises where a file cannot be written later, or is there and no evaluation's; makes its folder."""
    refuse_unwritable(path)
    if exists(path) and not is_evaluation(path):
        raise FileExistsError(f"{path} is there already and holds no evaluation: choose another name.")


def is_evaluation(path: Path) -> bool:
    """Whether a file holds what `hcam eval` has written, or nothing: anything else must not be replaced."""
    try:
        text = read_file(path, follow=False)
        content = parse_json(text) if text else {"greedy": {}}
    except (ValueError, OSError):
        return False
    return isinstance(content, dict) and bool({"greedy", "levels"} & set(content))


def table_of(results: dict[str, dict[str, dict[str, float]]], title: str, measure: Measure = SUCCESS) -> Any:
    """Returns a row per level; returns go with the part of the oracle's that they are."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    episodes = next(iter(results["greedy"].values()))["episodes"]
    look: Any = {"title_justify": "left", "box": box.SIMPLE, "padding": (0, 1, 0, 0)}  # for a terminal of 80 columns
    table = Table(title=Text(printable(f"{title}, {episodes} episodes a level"), style="italic"), **look)
    by_return = measure.name == "return"
    other = ("oracle", "of oracle") if by_return else ("return",)
    for heading in ("level", *results, *other, "length"):
        table.add_column(heading, justify="left" if heading == "level" else "right", no_wrap=True)
    for level, greedy in results["greedy"].items():
        ways = [results[way][level] for way in results]
        cells = [f"{measure.bare(measure.score(one))}{measure.unit.strip()} ({measure.around(one)})" for one in ways]
        full = greedy.get("oracle")
        shares = "/".join(f"{100 * one[measure.name] / full:.0f}" if full else "-" for one in ways)
        cells += [measure.text(full), f"{shares} %"] if by_return else [f"{greedy['return']:.3f}"]
        table.add_row(Text(printable(level)), *cells, f"{greedy['length']:.1f}")
    return table
