"""`hcam train` and `hcam eval` as they are typed: in processes that are killed, and refusing what cannot be."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from hcam import api
from hcam import training as loop
from hcam.api import summary
from hcam.cli import main
from hcam.cli.evaluate import table_of
from hcam.cli.train import parse, value_of
from hcam.memory import GRU, TrXL
from hcam.recipes.ballet import fast, paper, quickstart
from hcam.runs import evaluate
from hcam.runs.folder import RunFolder, read_metrics
from tests.test_training import TINY, assert_same_bits, compiled_in, compiled_once, finite, last_of

__all__ = ["compiled_once"]  # a fixture

STEPS = 64_000
OFTEN = ["--save-every", "0.05", "--log-every", "0.02"]
SHARE = r" +[\d.]+% \([\d.]+ to [\d.]+\)"
WORDS = [*TINY, *OFTEN, "--steps", str(STEPS)]


class Typed:
    """`hcam train ...` in a process of its own."""

    def __init__(self, settings: dict[str, str], folder: Path, words: Sequence[str]) -> None:
        self.folder = folder
        command = [sys.executable, "-m", "hcam", "train", *words]
        self.process = subprocess.Popen(
            command,
            env=os.environ | {name.upper(): value for name, value in settings.items()},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(self) -> tuple[int, str, str]:
        try:
            out, err = self.process.communicate(timeout=240)
        finally:
            self.process.kill()
        return self.process.returncode, out, err

    def strike(self, kind: signal.Signals, steps: float) -> tuple[int, str, str]:
        """Sends a signal as soon as so many steps have been told, in this process."""
        metrics, begun = self.folder / "metrics.jsonl", time.monotonic()
        size = metrics.stat().st_size if metrics.exists() else 0
        while self.process.poll() is None and time.monotonic() - begun < 240:
            if metrics.exists() and metrics.stat().st_size != size:  # rewound at the start, and then longer and longer
                size = metrics.stat().st_size
                told = re.findall(rb'"steps": (\d+)', metrics.read_bytes())
                if told and int(told[-1]) >= steps and self.is_training():
                    break
            time.sleep(0.003)
        self.process.send_signal(kind)
        return self.end()

    def is_training(self) -> bool:
        """Whether the rows are this process's own: its lock names it."""
        return (self.folder / ".lock").read_text().strip() == str(self.process.pid)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return compiled_in(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="module")
def undisturbed(settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    path = tmp_path_factory.mktemp("undisturbed") / "run"
    code, out, err = Typed(settings, path, [*WORDS, "--run", str(path)]).end()
    assert code == 0, err
    return path, out, err


def assert_whole(path: Path) -> None:
    """Every update has been told once and in order, and time has only gone on."""
    rows = read_metrics(path)
    for name in ("steps", "update", "seconds"):
        values = [row[name] for row in rows]
        assert values == sorted(set(values))
    assert rows[-1]["steps"] == STEPS
    assert sum(row["levels"]["blanks2"]["episodes"] for row in rows) == STEPS // 4


# What a run leaves


def test_a_run_ends_with_a_table_a_picture_and_what_to_do_next(undisturbed: tuple[Path, str, str]):
    path, out, err = undisturbed
    assert "run (hcam): 64,000 steps" in out
    assert re.search(r"blanks2 +[\d.]+ % +[\d.]+ % +\([\d.]+ to [\d.]+\) +[\d.]+ % +\([\d.]+ to [\d.]+\)", out)
    assert f"hcam eval {path} --level blanks8 blanks0 blanks32 blanks128" in out
    assert "ballet" not in out.lower()
    assert "_delay" not in out  # a level of another task would be refused
    assert (path / "curve.png").read_bytes().startswith(b"\x89PNG")
    evaluation = json.loads((path / "eval.json").read_text())
    assert set(evaluation) == {"greedy", "sampled"}
    assert evaluation["greedy"]["blanks2"]["episodes"] == 8
    assert "compiling, once" in err
    assert "memory hcam: 1 layers, width 8" in err
    assert_whole(path)


def test_the_next_step_works_as_printed(undisturbed: tuple[Path, str, str], capsys: pytest.CaptureFixture[str]):
    out = undisturbed[1]
    words = out[out.index("hcam eval") :].split()[1:]
    assert main([*words[:4], "--episodes", "20"]) == 0
    out = capsys.readouterr().out
    assert re.search(rf"blanks8 {SHARE} {SHARE} +[\d.]+ +10\.0", out)
    assert "20 episodes a level" in " ".join(out.split())


def test_the_table_of_eval_fits_a_terminal():
    part = {"episodes": 500, "success": 1.0, "low": 0.9925, "high": 1.0, "return": 1.0, "length": 1234.5}
    levels = {"2_delay16_of4": part, "8_delay48": part | {"success": 0.125, "low": 0.1, "high": 0.15}}
    console = Console(record=True, width=80)
    console.print(table_of({"greedy": levels, "sampled": levels}, "runs/ballet-hcam-1, 1,500,000,000 steps"))
    lines = console.export_text().splitlines()
    assert re.search(rf"2_delay16_of4 {SHARE} {SHARE} +1.000 +1234.5", lines[4])
    assert "12.5% (10.0 to 15.0)" in lines[5]


def test_eval_of_the_best_and_of_the_levels_of_training(
    undisturbed: tuple[Path, str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path, _, _ = undisturbed
    metadata = json.loads((path / "checkpoints" / "best.json").read_text())["metadata"]
    written = tmp_path / "new" / "numbers.json"
    words = ["--best", "--episodes", "20", "--slots", "5", "--out", str(written)]
    assert main(["eval", str(path), *words]) == 0
    numbers = json.loads(written.read_text())
    assert (numbers["run"], numbers["steps"]) == (path.name, metadata["steps"])
    assert numbers["greedy"]["blanks2"]["episodes"] == 20
    assert (numbers["memory"], numbers["slots"], numbers["trained"]) == ("hcam", 5, ["blanks2"])
    assert (numbers["delays"], numbers["chance"]) == ({"blanks2": {"steps": 2, "of": ""}}, {"blanks2": 0.25})
    out = capsys.readouterr().out
    assert f"{metadata['steps']:,} steps, slots 5, 20 episodes" in " ".join(out.split())
    assert re.search(rf"blanks2 {SHARE}", out)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--level", "items4"], "there is no FirstSymbol level 'items4'"),
        (["--episodes", "0"], "episodes must be a whole number of at least 1"),
        (["--slots", "0"], "slots must be a whole number of at least 1, but is 0."),
        (["--slots", "1000000000000"], "GB, but this machine has"),
        (["--window", "9"], "the memory hcam has no window to change: leave out --window"),
    ],
)
def test_eval_refuses_in_one_sentence(
    undisturbed: tuple[Path, str, str], words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
):
    assert main(["eval", str(undisturbed[0]), *words]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("hcam eval: ")
    assert sentence in last


@pytest.mark.parametrize("where", ["folder", "file/below", "closed/numbers.json"])
def test_eval_looks_whether_it_can_write_before_it_plays(
    where: str,
    undisturbed: tuple[Path, str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "closed").mkdir()

    def refuse(dir: Path) -> Any:  # root may write everywhere, so permissions alone would not do
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    monkeypatch.setattr(evaluate, "evaluate_all", lambda *args, **options: pytest.fail("it was played"))
    assert main(["eval", str(undisturbed[0]), "--out", str(tmp_path / where)]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert re.search(r"(is a folder: give the name of a file|cannot be written \(.*\))", last)


def test_eval_prints_before_it_writes(
    undisturbed: tuple[Path, str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
):
    def full(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("hcam.cli.evaluate.write_file", full)
    words = ["eval", str(undisturbed[0]), "--episodes", "4", "--out", str(tmp_path / "numbers.json")]
    assert main(words) == 2
    told = capsys.readouterr()
    assert "cannot be written (No space left on device)" in told.err
    assert re.search(rf"blanks2 {SHARE}", told.out)


def test_eval_of_a_run_without_checkpoints_does_not_advise_to_wipe_it(
    undisturbed: tuple[Path, str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "kept"
    shutil.copytree(undisturbed[0], path, ignore=shutil.ignore_patterns("checkpoints", ".lock"))
    assert main(["eval", str(path)]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert "has no checkpoint: it keeps what a run reported, not its agent" in last
    assert "--resume" not in last


def test_training_goes_on_when_nobody_reads_what_it_says(settings: dict[str, str], tmp_path: Path):
    path = tmp_path / "run"
    typed = Typed(settings, path, [*WORDS, "--run", str(path)])
    assert typed.process.stderr is not None
    typed.process.stderr.readline()
    typed.process.stderr.close()
    typed.process.stderr = None  # communicate would read it
    code, _, _ = typed.end()
    assert code == 0
    assert_whole(path)
    assert (path / "eval.json").exists()


# Kills


def begin_or_go_on(settings: dict[str, str], path: Path) -> Typed:
    if (path / "config.json").exists():
        return Typed(settings, path, ["--resume", str(path)])
    return Typed(settings, path, [*WORDS, "--run", str(path)])


def test_killed_stopped_and_damaged_it_ends_with_the_same_bits(
    settings: dict[str, str], undisturbed: tuple[Path, str, str], tmp_path: Path
):
    path, draw = tmp_path / "run", random.Random()
    for low, high in ((0.0, 0.1), (0.1, 0.3), (0.3, 0.45)):
        code, _, err = begin_or_go_on(settings, path).strike(signal.SIGKILL, STEPS * draw.uniform(low, high))
        assert code == -signal.SIGKILL, err

    for kind, share, wanted in ((signal.SIGINT, 0.5, 130), (signal.SIGTERM, 0.6, 143), (signal.SIGHUP, 0.7, 129)):
        code, _, err = begin_or_go_on(settings, path).strike(kind, STEPS * share)
        assert code == wanted, err
        steps = read_metrics(path)[-1]["steps"]
        assert f"stopped and saved at {steps:,} steps" in err
        assert f"continue with: hcam train --resume {path}" in err
        assert f"continuing from {steps:,} steps" not in err

    newest, *_ = sorted((path / "checkpoints").glob("0*.safetensors"), reverse=True)
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1
    newest.write_bytes(content)
    code, _, err = begin_or_go_on(settings, path).end()
    assert code == 0, err
    assert f"{newest.name} does not hold the bytes that were saved" in err
    assert "is used instead" in err
    assert_whole(path)
    assert_same_bits(last_of(path), last_of(undisturbed[0]))


@pytest.mark.slow
def test_twenty_four_kills_at_random_moments(
    settings: dict[str, str], undisturbed: tuple[Path, str, str], tmp_path: Path
):
    """Every fourth one comes at any moment of the start, the others in training, ever later."""
    path, draw = tmp_path / "run", random.Random()
    told: list[int] = []
    for kill in range(24):
        typed = begin_or_go_on(settings, path)
        if kill % 4 == 0:
            time.sleep(draw.uniform(0, 2.5))  # later, so small a run may have ended
            typed.process.kill()
            code, _, err = typed.end()
        else:
            code, _, err = typed.strike(signal.SIGKILL, STEPS * 0.6 * (kill + draw.uniform(0, 1)) / 24)
        assert code == -signal.SIGKILL, err
        told.append(read_metrics(path)[-1]["steps"] if (path / "metrics.jsonl").exists() else 0)
    code, _, err = begin_or_go_on(settings, path).end()
    assert code == 0, err
    print(f"killed after {told} of {STEPS} steps")
    assert_whole(path)
    assert_same_bits(last_of(path), last_of(undisturbed[0]))


@pytest.mark.slow
def test_an_absurd_learning_rate_is_told_and_what_is_saved_is_sound(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """It grows from 0, so that the first checkpoints are good ones."""
    path = tmp_path / "run"
    absurd = [
        "--learning-rate",
        "1e37",
        "--warmup",
        "100",
        "--clip",
        "0",
        "--save-every",
        "1e-9",
        "--log-every",
        "1e-9",
    ]
    assert main(["train", *TINY, "--minibatches", "1", *absurd, "--steps", "6400", "--run", str(path)]) == 3
    last = capsys.readouterr().err.splitlines()[-1]
    assert re.fullmatch(
        r"hcam train: .* is not a number any more at \d+ steps: lower --learning-rate or --clip, and start again; "
        rf"the last good checkpoint is that of \d+ steps in {re.escape(str(path))}/checkpoints\.",
        last,
    )
    assert finite(path)
    assert not (path / "eval.json").exists()


# Refusals


@pytest.fixture
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "loop", lambda *args, **options: pytest.fail("it was run"))


def refusal(words: Sequence[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What is said: one line of our own, or the same sentence in tyro's box, for a value refused as it was read."""
    try:
        code = main(["train", *words])
    except SystemExit as exit:
        code = exit.code  # type: ignore[assignment]
    assert code == 2
    err = capsys.readouterr().err
    assert "Traceback" not in err
    if "Value error" in err:
        return re.sub(r"[│\s]+", " ", err)
    assert err.startswith("hcam train: ")
    assert err.count("\n") == 1
    return err


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["waltz"], "no task 'waltz'"),
        (["--task", "waltz"], "no task 'waltz'"),
        (["--levels", "9_delay1"], "a level is {N}_delay{d}"),
        (["first_symbol", "--levels", "2_delay1"], "no FirstSymbol level '2_delay1'"),
        (["--memory", "lsmt"], "there is no memory 'lsmt': choose from hcam, trxl, lstm, gru, epn, none"),
        (["--preset", "papper"], "ballet has no preset 'papper': choose from quickstart, fast, paper, general."),
        (["first_symbol", "--preset", "fast"], "there is no recipe for first_symbol, so it has no preset 'fast'"),
        (["--width", "66"], "66"),
        (["--heads", "5"], "not divisible by heads 5"),
        (["--environments", "63"], "63 environments cannot be split evenly into 4 minibatches"),
        (["--steps", "0"], "steps must be a whole number of at least 1"),
        (["--log-every", "0"], "log_every and save_every are seconds"),
        (["--env-arg", "tile=2"], "tile must be 9 (as published), 3 or 1 pixels, but is 2"),
        (["--env-arg", "tiles=2"], "ballet has no option tiles: choose from tile"),
        (["--env-arg", "tile"], "--env-arg takes KEY=VALUE, but was given 'tile'"),
        (["--levels", "2_delay5_of99"], "asks for 99 dances, but there are 13"),
        (["--seed", "2147483648"], "seed must be from 0 to"),
        (["--seed", "-1"], "seed must be from 0 to"),
        (["--environments", "1000000000", "--minibatches", "1"], "GB of memory, but this machine has"),
        (["--slots", "100000000000"], "memory"),
        (["--unroll", "2147483648"], "GB of memory, but this machine has"),
        (["--memory", "trxl", "--top-k", "0"], "top_k must be a whole number of at least 1"),
        (["--layers", "10000000"], "layers must be at most 128, but is 10000000"),
        (["--memory", "trxl", "--layers", "129"], "layers must be at most 128, but is 129"),
        (["--memory", "none", "--layers", "129"], "layers must be at most 128, but is 129"),
        (["--memory", "lstm", "--layers", "129"], "layers must be at most 128, but is 129"),
        (["--memory", "gru", "--layers", "129"], "layers must be at most 128, but is 129"),
        (["--vision", "resnet", "--blocks", "10000000"], "blocks[0] must be at most 128, but is 10000000"),
        (["--steps", "1000000000000000000000"], "gradient steps, but at most 2,147,483,647 can be counted"),
        (["--epochs", "1000000000000"], "gradient steps, but at most 2,147,483,647 can be counted"),
        (["--warmup", "2147483648"], "warmup must be below 2,147,483,648"),
        (["--blocks", "0"], "blocks[0] must be a whole number of at least 1"),
        (["--kernel-sizes", "12"], "is larger than an image of 11 x 11"),
        (["--strides", "99"], "is larger than an image of 11 x 11"),
        (["--learning-rate", "inf"], "learning_rate must be a finite number, but is inf"),
        (["--discount", "nan"], "discount must be a finite number, but is nan"),
        (["--channels", "8", "8"], "one per layer"),
        (["--preset", "paper", "--env-arg", "tile=1"], "cannot be cut into patches of 9: choose kernel_sizes"),
        (["--resume", "nowhere"], "there is no run folder nowhere"),
        (["--resume", "tests"], "tests is no run folder: it has no config.json"),
    ],
)
def test_what_does_not_fit_is_one_sentence(
    words: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "run"
    where = [] if "--resume" in words else ["--run", str(path)]
    assert sentence in refusal([*words, *where], capsys)
    assert not path.exists()


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--schedule", "cubic"], ["constant", "linear", "cosine"]),
        (["--vision", "vit"], ["cnn", "resnet"]),
        (["--widht", "3"], ["--widht"]),
        (["ballet", "echo"], ["echo"]),
        (["--width", "many"], ["many"]),
    ],
)
def test_unknown_options_and_choices_are_named(words: list[str], named: list[str], capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as caught:
        main(["train", *words])
    assert caught.value.code == 2
    err = capsys.readouterr().err
    assert all(name in err for name in named)


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """A run folder in which nothing has happened yet."""
    from hcam.config import to_json

    path = tmp_path / "begun"
    RunFolder.create(path, to_json(parse(TINY).config) | {"chance": {}}).close()
    return path


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--width", "32"], "a run continues as it was started, but agent.memory.width would change"),
        (["--learning-rate", "1", "--seed", "2"], "optimiser.learning_rate, run.seed would change"),
        (["--task", "echo"], "task.task would change"),
        (["--memory", "lstm"], "its memory is hcam: leave out --memory"),
        (["--run", "other"], "leave out --run"),
        (["--preset", "paper"], "leave out --preset"),
    ],
)
def test_a_run_is_not_changed_on_the_way(
    words: list[str], sentence: str, begun: Path, capsys: pytest.CaptureFixture[str]
):
    before = (begun / "config.json").read_bytes()
    assert sentence in refusal(["--resume", str(begun), *words], capsys)
    assert (begun / "config.json").read_bytes() == before


@pytest.mark.usefixtures("nothing_runs")
def test_a_task_in_front_is_not_ignored_when_resuming(begun: Path, capsys: pytest.CaptureFixture[str]):
    assert "task.task would change" in refusal(["echo", "--resume", str(begun)], capsys)


def test_how_often_it_speaks_may_change_on_the_way(begun: Path):
    found = parse(["--resume", str(begun), "--log-every", "7", "--steps", "99"]).config
    assert (found.run.log_every, found.run.steps) == (7.0, 99)
    assert found.agent == parse(TINY).config.agent


@pytest.mark.usefixtures("nothing_runs")
def test_two_do_not_train_in_one_folder(begun: Path, capsys: pytest.CaptureFixture[str]):
    with RunFolder.open(begun):
        assert f"process {os.getpid()} is training in" in refusal(["--resume", str(begun)], capsys)


@pytest.mark.usefixtures("nothing_runs")
def test_a_folder_that_is_taken_or_cannot_be_made(begun: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert f"continue it with --resume {begun}" in refusal([*TINY, "--run", str(begun)], capsys)
    (tmp_path / "file").touch()
    assert "cannot be made" in refusal([*TINY, "--run", str(tmp_path / "file" / "run")], capsys)


# Options


def shown(words: Sequence[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit, match="0"):
        main([*words, "--help"])
    text = re.sub(r"[│\s]+", " ", capsys.readouterr().out)
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


@pytest.mark.parametrize(("preset", "width"), [("quickstart", 64), ("fast", 256), ("paper", 512)])
def test_help_shows_what_the_preset_says(preset: str, width: int, capsys: pytest.CaptureFixture[str]):
    for words in (["--preset", preset], [f"--preset={preset}"], [] if preset == "quickstart" else ["--preset", preset]):
        text = shown(["train", *words], capsys)
        assert re.search(rf'--width INT "memory dimension", appendix A\.2, [^(]*\(default: {width}\)', text)
        assert f"(default: {preset})" in text


def test_help_of_eval_teaches(capsys: pytest.CaptureFixture[str]):
    text = shown(["eval"], capsys)
    assert "also ones that it was never trained on" in text
    assert "best in training" in text


def test_options_change_the_preset():
    config = parse(["ballet", "--preset", "paper", "--memory=trxl", "--width", "64", "--seeds", "3"]).config
    assert config.agent.memory == TrXL(width=64, window=320)
    assert config.objective.policy == 0.3  # TrXL's column
    assert config.run.seeds == 3
    assert parse([]).config.task.levels == ("2_delay5_of4",)


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize(
    "words",
    [
        ["--resume", "a", "--resume", "b"],
        ["--memory", "hcam", "--memory=lstm"],
        ["--preset=fast", "--preset", "paper"],
        ["--run", "a", "--run", "b"],
        ["ballet", "--task", "echo"],
    ],
)
def test_which_of_two_values_is_meant_is_not_guessed(words: list[str], capsys: pytest.CaptureFixture[str]):
    assert re.search(r"--(resume|memory|preset|run|task) is given twice: give it once, with", refusal(words, capsys))


def test_value_of_an_option():
    assert value_of(["--a", "1", "--b=2"], "--a") == "1"
    assert value_of(["--a", "1", "--b=2"], "--b") == "2"
    assert value_of(["--a"], "--a") is None
    assert value_of(["--ab", "1"], "--a") is None


def test_runs_are_numbered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.chdir(tmp_path)

    def diverge(*args: Any) -> Any:
        raise loop.DivergedError("enough.")

    monkeypatch.setattr(api, "loop", diverge)
    assert [main(["train", *TINY]) for _ in range(2)] == [3, 3]
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["first_symbol-hcam-1", "first_symbol-hcam-2"]
    assert "hcam train: enough." in capsys.readouterr().err
    shutil.rmtree(tmp_path / "runs")
    assert main(["train", "--levels", "2_delay5_of4", "4_delay2"]) == 3
    config = json.loads((tmp_path / "runs" / "ballet-hcam-1" / "config.json").read_text())["config"]
    assert config["chance"] == {"2_delay5_of4": 0.5, "4_delay2": 0.25}


def test_a_smaller_task_is_called_smaller():
    small, published = quickstart("hcam"), paper("hcam")
    line = "smaller than the published task: 4 of 13 dances, 1 pixel a tile instead of 9"
    assert line in summary(small, loop.make_learner(small))
    assert not [text for text in summary(published, loop.make_learner(published)) if "smaller" in text]


def test_a_preset_takes_options_of_the_environment():
    config = parse(["--preset", "paper", "--env-arg", "tile=9", "--levels", "2_delay16"]).config
    assert config.task.options == {"tile": 9}
    for flag in ("--env-arg", "--env_arg"):
        assert parse([flag, "tile=3"]).config.task.options == {"tile": 3}  # in place of the quickstart's own
    with pytest.raises(ValueError, match="env-arg is given twice"):
        parse(["--env-arg", "tile=3", "--env_arg", "tile=9"])
    assert parse(["--preset", "fast", "--memory", "gru"]).config.agent.memory == GRU(width=256)
    assert fast("gru").agent.memory == GRU(width=256)


def test_options_of_a_memory_are_those_of_its_dataclass(capsys: pytest.CaptureFixture[str]):
    """And of no other."""
    assert parse(["--memory", "lstm", "--max-timescale", "9"]).config.agent.memory.max_timescale == 9
    assert "--max-timescale" in shown(["train", "--memory", "lstm"], capsys)
    assert "--chunk" not in shown(["train", "--memory", "lstm"], capsys)
    with pytest.raises(SystemExit):
        parse(["--memory", "lstm", "--chunk", "9"])


def test_a_memory_whose_options_are_taken_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    text = "from dataclasses import dataclass\n@dataclass\nclass Mine:\n  width: int = 3\n  hidden: int = 4\n"
    (tmp_path / "my_taken.py").write_text(text + "  def build(self, dtype): ...\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        assert "Mine has options that hcam train has as well: rename hidden." in refusal(
            ["--memory", "my_taken:Mine"], capsys
        )
