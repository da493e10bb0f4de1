"""The index of a folder of results: every run and every benchmark below it, group by group."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from hcam.report.markdown import code, escape, row
from hcam.report.runs import Scores, read, read_evaluation, short
from hcam.runs.files import exists, explained, parse_json, read_file, write_file
from hcam.runs.folder import EVAL, METRICS
from hcam.runs.measure import SUCCESS, Measure

INDEX = "README.md"
QUESTION = "question.txt"  # in a group's folder: what its runs are to answer, in a sentence
QUESTION_LIMIT = 10_000  # bytes
BENCH = "bench.json"

RUN_HEAD = ("run", "memory", "steps", "minutes", "{score}", "seeds", "commit")
EVAL_HEAD = ("evaluation", "success, greedy")
BENCH_HEAD = ("benchmark", "device", "jax", "commit")


def write(root: Path) -> Path:
    """Writes the index into the folder; returns its path."""
    groups = find(root)
    if not groups:
        raise ValueError(f"there is no run and no benchmark below {root}: give a folder that holds some.")
    text = f"# What is in {escape(root.resolve().name)}\n\nMade by `hcam report` from the folders below.\n"
    for group, folders in groups.items():
        text += f"\n## {escape(group)}\n\n" + _group(root / group, folders)
    with explained(f"{root / INDEX} cannot be written"):
        write_file(root / INDEX, text.encode())
    return root / INDEX


def find(root: Path) -> dict[str, list[Path]]:
    """Folders of runs, evaluations and benchmarks, by the folder that they are in."""
    marks = sorted({mark.parent for name in (METRICS, EVAL, BENCH) for mark in root.rglob(name)})
    groups: dict[str, list[Path]] = {}
    for folder in marks:
        if folder != root:
            groups.setdefault(folder.parent.relative_to(root).as_posix(), []).append(folder)
    return groups


def _group(folder: Path, members: list[Path]) -> str:
    text = f"{_question(folder / QUESTION)}\n\n" if exists(folder / QUESTION) else ""
    runs = [path for path in members if (path / METRICS).exists()]
    benches = [path for path in members if (path / BENCH).exists()]
    others = [path for path in members if path not in runs and path not in benches]
    tables = [
        _table(tuple(word.format(score=_scored_by(runs)) for word in RUN_HEAD), [_run(path) for path in runs]),
        _table(EVAL_HEAD, [_evaluation(path) for path in others]),
        _table(BENCH_HEAD, [_bench(path) for path in benches]),
    ]
    return text + "\n".join(table for table in tables if table)


def _question(path: Path) -> str:
    """What is shown of it gets published, so it is not read through a link."""
    try:
        return escape(read_file(path, QUESTION_LIMIT, follow=False).decode(errors="replace").strip())
    except OSError as error:
        return escape(f"The question cannot be read: {error}")


def _table(head: tuple[str, ...], rows: list[list[str]]) -> str:
    return "\n".join([row(*head), row(*["---"] * len(head)), *(row(*cells) for cells in rows)]) + "\n" if rows else ""


def _scored_by(folders: list[Path]) -> str:
    """Returns what the runs of a table are scored by, and how they acted; `score` where that differs."""
    found = set()
    for folder in folders:
        with suppress(ValueError, OSError):
            found.add(read(folder).measure)
    one = found.pop() if len(found) == 1 else SUCCESS if not found else None
    return f"{one.name}, {one.way}" if one else "score"


def _run(folder: Path) -> list[str]:
    try:
        run = read(folder)
    except (ValueError, OSError) as error:
        return [code(folder.name), escape(f"cannot be read: {error}"), *[""] * (len(RUN_HEAD) - 2)]
    minutes = "?" if run.seconds is None else f"{run.seconds / 60:,.1f}"
    return [
        code(folder.name),
        escape(run.memory),
        short(run.steps),
        minutes,
        _scores(run.evaluation, run.measure),
        str(run.seeds),
        _commit(run.made_by),
    ]


def _evaluation(folder: Path) -> list[str]:
    try:
        return [code(folder.name), _scores(read_evaluation(folder, None), SUCCESS)]
    except (ValueError, OSError) as error:
        return [code(folder.name), escape(f"cannot be read: {error}")]


def _scores(evaluation: Scores, measure: Measure) -> str:
    parts = {level: part for level, part in evaluation.get(measure.way, {}).items() if measure.name in part}
    shares = {level: measure.of_oracle(measure.score(part), part.get("oracle")) for level, part in parts.items()}
    lines = [
        f"{escape(level)} {measure.text(measure.score(part))}" + (f", {shares[level]}" if shares[level] else "")
        for level, part in parts.items()
    ]
    return "<br>".join(lines) or "not evaluated"


def _bench(folder: Path) -> list[str]:
    try:
        content = parse_json(read_file(folder / BENCH))
    except (ValueError, OSError) as error:
        return [code(folder.name), escape(f"cannot be read: {error}"), "", ""]
    known = content if isinstance(content, dict) else {}
    return [
        code(folder.name),
        escape(str(known.get("device", "not known"))),
        escape(str(known.get("jax", "not known"))),
        _commit(known),
    ]


def _commit(made_by: dict[str, Any]) -> str:
    return code(str(made_by["commit"])[:10]) if made_by.get("commit") else "not known"
