"""Run folders that somebody has tampered with: whatever is in them, every reader uses it or says one sentence.

A good folder is copied, one of its files is changed in one of many ways, and everything that reads run folders is let
loose on it. A reader that waits for ever, a traceback, or a warning with a line of source is a failure.
"""

import json
import math
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

from hcam import report
from hcam.cli import main
from hcam.cli.train import parse
from hcam.config import to_json
from hcam.runs import checkpoint, files, pretrained
from hcam.runs.folder import RunFolder
from hcam.training import make_learner
from tests.report.folders import judge
from tests.test_training import TINY

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes or links here")

LEVELS = ("blanks2", "blanks8")
LAST, BEST = "checkpoints/000000000005", "checkpoints/best"
PARTS = 20  # of the mutations, for as many tests

DEEP: Any = 1
for _ in range(900):
    DEEP = [DEEP]
GONE = object()
# What stands in place of anything in a JSON file.
VALUES: dict[str, Any] = {
    "null": None,
    "text": "x",
    "list": [1, "x", None],
    "lists": [[]],
    "object": {"x": {}},
    "empty": {},
}
VALUES |= {"number": 3, "true": True, "huge": 10**400, "negative": -7, "fraction": 0.5, "nan": math.nan}
VALUES |= {"deep": DEEP, "control": "\x1b[31m\n\udcff", "gone": GONE}
# Where.
CONFIG = ". config made_by config.task config.agent config.learner config.run config.chance config.agent.memory"
CONFIG += " format config.task.options config.objective config.objective.discount config.task.weights"
CONFIG += " config.optimiser.learning_rate config.run.log_every config.agent.encoder.channels"
CONFIG += " config.task.levels config.task.task config.agent.memory.width config.agent.memory.memory config.run.seeds"
ROW = (
    ". steps success seconds losses losses.policy levels levels.blanks2 levels.blanks2.success levels.blanks2.episodes"
)
ROW += " seeds seeds.0 seeds.0.success"
EVALUATION = ". greedy sampled greedy.blanks2 greedy.blanks2.success greedy.blanks2.low greedy.blanks2.episodes"
RECORD = ". format sha256 bytes keys keys.key metadata metadata.steps seal"
# What may stand in place of a file.
CONTENTS = {"empty": b"", "zeros": b"\0" * 100, "not UTF-8": b"\xff\xfe{}", "half": b'{"a": [1, ', "a list": b"[]\n"}
CONTENTS |= {"text": b'"x"\n', "a number": b"7\n", "null": b"null\n", "NaN": b"NaN\n", "digits": b"1" * 5000}
CONTENTS |= {"deep": b"[" * 1000 + b"]" * 1000, "deeper": b'{"a":' * 100_000, "utf-16": '{"a": {}}'.encode("utf-16")}


def sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 2**43)  # a hole, which takes no space


KINDS: dict[str, Callable[[Path], Any]] = {
    "a pipe": lambda path: os.mkfifo(path),  # looked up late, as Windows has none
    "a folder": Path.mkdir,
    "gone": lambda path: None,
    "a link to nowhere": lambda path: path.symlink_to("nowhere"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "far too large": sparse,
}

Change = Callable[[Path], Any]


def replaced(tree: Any, where: tuple[Any, ...], value: Any) -> Any:
    if not where:
        return value
    copy = dict(tree) if isinstance(tree, dict) else list(tree)
    if value is GONE and len(where) == 1:
        del copy[where[0]]
    else:
        copy[where[0]] = replaced(copy[where[0]], where[1:], value)
    return copy


def in_json(where: tuple[Any, ...], value: Any) -> Change:
    return lambda path: path.write_text(json.dumps(replaced(json.loads(path.read_text()), where, value)))


def in_row(number: int) -> Callable[[tuple[Any, ...], Any], Change]:
    def change(path: Path, where: tuple[Any, ...], value: Any) -> None:
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        path.write_text("".join(json.dumps(row) + "\n" for row in replaced(rows, (number, *where), value)))

    return lambda where, value: lambda path: change(path, where, value)


def in_record(where: tuple[Any, ...], value: Any) -> Change:
    """With a checksum that fits, as somebody who means it would have it."""

    def change(path: Path) -> None:
        record = replaced(json.loads(path.read_text()), where, value)
        if isinstance(record, dict) and where != ("seal",) and value is not DEEP and value == value:
            record = checkpoint._sealed(record)
        path.write_text(json.dumps(record))

    return change


def with_arrays(data: bytes | Callable[[bytes], bytes]) -> Change:
    """With checksums that fit."""

    def change(path: Path) -> None:
        content = data if isinstance(data, bytes) else data(path.read_bytes())
        path.write_bytes(content)
        record = json.loads(path.with_suffix(".json").read_text())
        record |= {"bytes": len(content), "sha256": checkpoint._sha256(content)}
        path.with_suffix(".json").write_bytes(files.as_json(checkpoint._sealed(record)))

    return change


def retyped(dtype: bytes) -> Callable[[bytes], bytes]:
    """In the header, whose length stays as it is."""
    return lambda data: data.replace(b'"F32"', b'"' + dtype + b'"', 1)


ARRAYS: dict[str, bytes | Callable[[bytes], bytes]] = {
    "no header": b"",
    "a short header": b"\0" * 7,
    "a long header": b"\xff" * 64,
    "no JSON": b"\x02" + b"\0" * 7 + b"{]",
    "an unknown dtype": retyped(b"F99"),
    "a longer dtype": retyped(b"F8_E4M3"),
    "too few bytes": lambda data: data[:-5],
}
OTHERS: dict[str, bytes | Callable[[bytes], bytes]] = {
    "no arrays": safetensors.numpy.save({}),
    "other arrays": safetensors.numpy.save({"x": np.ones(3, np.float32)}),
    "another dtype": retyped(b"I32"),
}


def replacing(make: Callable[[Path], Any]) -> Change:
    def change(path: Path) -> None:
        path.unlink()
        make(path)

    return change


def places(text: str) -> list[tuple[Any, ...]]:
    return [tuple(int(part) if part.isdigit() else part for part in where.split(".") if part) for where in text.split()]


def mutations() -> Iterator[tuple[str, str, Change]]:
    """Yields a file of the folder, what happens to it, and how."""
    for name in ("config.json", "metrics.jsonl", "eval.json", "eval-more.json", f"{LAST}.json", f"{LAST}.safetensors"):
        for what, content in CONTENTS.items():
            yield name, what, replacing(lambda path, content=content: path.write_bytes(content))  # type: ignore[misc]
        for what, make in KINDS.items():
            yield name, what, replacing(make)
    for name, text, change in (
        ("config.json", CONFIG, in_json),
        ("eval.json", EVALUATION, in_json),
        ("metrics.jsonl", ROW, in_row(-1)),
        ("metrics.jsonl", ROW, in_row(1)),
        (f"{LAST}.json", RECORD, in_record),
        (f"{BEST}.json", "format metadata.steps", in_record),
    ):
        for where in places(text):
            for what, value in VALUES.items():
                if where or value is not GONE:
                    yield name, f"{where} is {what}", change(where, value)
    for what, data in {**ARRAYS, **OTHERS}.items():
        yield f"{LAST}.safetensors", what, with_arrays(data)
    for what, line in {"a line that is not UTF-8": b"\xff", "an endless line": b"x" * 2**25}.items():
        more = line + b'\n{"steps": 900}\n'
        yield "metrics.jsonl", what, lambda path, more=more: path.write_bytes(path.read_bytes() + more)  # type: ignore[misc]


MUTATIONS = list(mutations())


def settings() -> tuple[Any, Any]:
    """The settings of a small agent, and the shapes of its parameters."""
    config = parse(TINY).config
    return config, jax.eval_shape(make_learner(config).agent.init_params, jax.random.key(0))


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with two checkpoints and a best one, a log with two seeds, and two evaluations."""
    path, (config, like) = tmp_path_factory.mktemp("good") / "run", settings()
    params_s = jax.tree.map(lambda leaf: jnp.zeros((1, *leaf.shape), leaf.dtype), like)
    with RunFolder.create(path, to_json(config) | {"chance": dict.fromkeys(LEVELS, 0.5)}) as folder:
        for number in range(1, 6):
            level = {"episodes": 10, "success": 0.5, "return": 0.5, "length": 4.0}
            row: dict[str, Any] = {"update": number, "steps": 100 * number, "seconds": 1.0 * number, "success": 0.5}
            row |= {"losses": {"policy": 0.1}, "health": {"rho": 1.0}, "levels": dict.fromkeys(LEVELS, level)}
            folder.append(row | {"return": 0.5, "seeds": [{"success": 0.4}, {"success": 0.6}]})
        for number in (4, 5):
            metadata = {"steps": 100 * number, "seconds": 1.0 * number, "best": 0.5}
            tree = {"params": params_s, "key": jax.random.key(number)}
            checkpoint.save(folder.checkpoints, tree, number, metadata)
        checkpoint.save_best(folder.checkpoints, {"params": params_s}, {"steps": 500, "success": 0.5})
    judge(path / "eval.json", dict.fromkeys(LEVELS, 0.5))
    judge(path / "eval-more.json", {"blanks32": 0.25}, steps=500)
    return path


@pytest.fixture(scope="module")
def like_s() -> Any:
    return jax.tree.map(lambda leaf: leaf.update(shape=(1, *leaf.shape)), settings()[1])


def attempt(read: Callable[[], Any]) -> Any:
    """What a reader gives, or the error that it raises, which must be one sentence of the right kind."""
    try:
        return read()
    except UnicodeError:  # a ValueError too, but no sentence
        raise
    except (ValueError, OSError) as error:
        refused = error
    assert re.fullmatch(r"[^\[\n][^\n]{10,1000}\.", str(refused)), refused  # [Errno 2] is no sentence either
    return refused


def restored(folder: Path, like_s: Any) -> float:
    said: list[str] = []
    # All of it, with the key, and then the parameters alone.
    tree = {"params": like_s, "key": jax.ShapeDtypeStruct((), jax.random.key(0).dtype)}
    found = checkpoint.restore(folder / "checkpoints", tree, numbers=("steps",), on_skip=said.append)
    again = checkpoint.restore(
        folder / "checkpoints", like_s, prefix="params", numbers=("steps",), on_skip=lambda sentence: None
    )
    assert found is not None
    assert again is not None
    assert all(re.fullmatch(r"in [^\n]{10,1000}\.", sentence) for sentence in said), said
    return float(found[1]["steps"])


def check(folder: Path, name: str, like_s: Any) -> None:
    """Everything that reads the file."""
    if name.startswith(LAST):  # it gives way to the one before it, unless it can be used, with other steps
        steps = attempt(lambda: restored(folder, like_s))
        assert steps in (400, 500, 3, -7, 0.5) or re.search("another architecture|newer than this hcam", str(steps))
    if name.startswith("checkpoints"):
        attempt(lambda: pretrained.load(folder, best=name.startswith(BEST)))
        return
    run = attempt(lambda: report.read(folder))
    if not isinstance(run, Exception):
        attempt(lambda: report.compare_tables([folder]))
        attempt(lambda: report.final_table(folder))
    if name == "config.json":
        attempt(lambda: pretrained.load(folder))
        attempt(lambda: parse(["--resume", str(folder)]))
    if not name.startswith("eval"):
        opened = attempt(lambda: RunFolder.open(folder))
        if isinstance(opened, RunFolder):
            with opened:
                attempt(lambda: opened.amend(opened.config | {"more": 1}))
                attempt(lambda: opened.rewind(300))


def test_there_are_many_and_they_differ(good: Path):
    assert len(MUTATIONS) > 500
    assert all((good / name).is_file() for name, _, _ in MUTATIONS)


@pytest.mark.parametrize("part", range(PARTS))
def test_every_reader_uses_it_or_says_one_sentence(good: Path, like_s: Any, part: int, tmp_path: Path):
    for number, (name, what, change) in list(enumerate(MUTATIONS))[part::PARTS]:
        folder = Path(shutil.copytree(good, tmp_path / f"{number}"))
        change(folder / name)
        try:
            check(folder, name, like_s)
        except BaseException as error:
            raise AssertionError(f"{name}: {what}") from error
        shutil.rmtree(folder)


@pytest.mark.parametrize("begin", [0, pytest.param(17, marks=pytest.mark.slow)])
def test_hcam_report_ends_well_whatever_it_finds(
    begin: int, good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """As it is typed. Only some of the mutations, as it draws a picture for each that it can use."""
    monkeypatch.chdir(tmp_path)
    shown = [one for one in MUTATIONS if not one[0].startswith("checkpoints")][begin::34]
    codes = []
    for number, (name, what, change) in enumerate(shown):
        change(Path(shutil.copytree(good, tmp_path / f"{number}")) / name)
        codes.append(main(["report", f"{number}"]))
        said = capsys.readouterr()
        assert said.err.count("\n") == (0 if codes[-1] == 0 else 1), f"{name}: {what}"
        assert ("learning curves: curves.png, curves.svg\n" in said.out) == (codes[-1] == 0)
        assert not {"\x1b", "\r"} & set(said.out + said.err)
    assert set(codes) == {0, 2}
    assert len(codes) > 20
