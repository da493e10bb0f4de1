"""Several processes that train one run: what they are told, that they end alike, and that a killed one is noticed."""

import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import multihost_utils

from hcam.cli import main
from hcam.learning.devices import ONE
from hcam.runs import hosts
from hcam.runs.folder import read_metrics
from tests.test_training import arrays, assert_same_bits, compiled_in, last_of, names

TINY = ["first_symbol", "--levels", "blanks2", "--memory", "lstm", "--width", "8", "--layers", "1", "--hidden", "8"]
TINY += ["--environments", "8", "--unroll", "8", "--minibatches", "2", "--schedule", "constant", "--eval-episodes", "8"]
TINY += ["--save-every", "0.3", "--log-every", "0.1"]
STEPS = 64  # of an update
MINUTE = 60.0  # in which the others must have ended


class Job:
    """`hcam train` in several processes over loopback."""

    def __init__(self, base: Path, words: Sequence[str], processes: int = 2) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        cached = {name.upper(): value for name, value in compiled_in(base.parent).items()}
        command = [sys.executable, "-m", "hcam", "train", *words, "--coordinator", f"127.0.0.1:{port}"]
        command += ["--processes", f"{processes}", "--process"]
        self.logs = [base / f"log-{port}-{number}" for number in range(processes)]
        self.processes = []
        for number, log in enumerate(self.logs):
            with log.open("w") as out:
                started = subprocess.Popen(
                    [*command, f"{number}"], env=os.environ | cached, stdout=out, stderr=subprocess.STDOUT
                )
            self.processes.append(started)

    def end(self, seconds: float = 500) -> list[int]:
        try:
            return [process.wait(seconds) for process in self.processes]
        finally:
            for process in self.processes:
                process.kill()

    def texts(self) -> list[str]:
        return [log.read_text() for log in self.logs]

    def has_begun(self, run: Path) -> bool:
        """Whether the first process has the run folder, and so all have joined."""
        lock = run / ".lock"
        return lock.exists() and lock.read_text().strip() == str(self.processes[0].pid)

    def wait_for_begin(self, run: Path) -> None:
        while not self.has_begun(run) and self.processes[0].poll() is None:
            time.sleep(0.02)

    def wait_for_save(self, run: Path) -> None:
        """Until there is another checkpoint than before."""
        known = names(run) if (run / "checkpoints").exists() else []
        while self.processes[0].poll() is None:
            now = names(run) if (run / "checkpoints").exists() else []
            if [name for name in now if name.startswith("0") and name.endswith(".json") and name not in known]:
                break
            time.sleep(0.02)


def kill_one(job: Job, which: int, run: Path) -> float:
    """Kills a process. The others must end, and all must say how to go on; seconds until the last one had ended."""
    job.processes[which].send_signal(signal.SIGKILL)
    begun = time.monotonic()
    codes = job.end(MINUTE)
    seconds = time.monotonic() - begun
    time.sleep(0.2)  # what a killed process has to say, another one says
    assert codes[which] == -signal.SIGKILL
    assert all(code in (hosts.LOST, -signal.SIGABRT) for number, code in enumerate(codes) if number != which), codes
    for number, text in enumerate(job.texts()):
        assert re.search(
            rf"hcam train: process {number} of {len(codes)} was killed, or had to end because another one was gone: "
            rf"start all of them again(\.| with --resume {run}, to continue)",  # without, before the folder was there
            text,
        ), text
    return seconds


@pytest.fixture
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("job")


def test_where_one_is_killed_the_others_end_and_say_how_to_go_on(base: Path):
    run = base / "run"
    job = Job(base, [*TINY, "--steps", "6400000", "--run", f"{run}"])
    while not (run / "metrics.jsonl").exists() and job.processes[0].poll() is None:
        time.sleep(0.05)
    assert kill_one(job, 1, run) < MINUTE
    assert all(f"again with --resume {run}, to continue" in text for text in job.texts())


@pytest.mark.slow
@pytest.mark.parametrize("process", [0, 1])
def test_who_waits_for_others_in_vain_says_so(process: int):
    words = ["train", *TINY, "--coordinator", "127.0.0.1:7", "--processes", "2", "--process", f"{process}"]
    if process == 0:
        words[words.index("127.0.0.1:7")] = "127.0.0.1:23457"
    code = f"from hcam.runs import hosts\nhosts.ARRIVAL = 3\nfrom hcam.cli import main\nmain({words!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=200)
    assert done.returncode == -signal.SIGABRT
    said = r"hcam train: this process was killed, or did not meet all others at \S+ in 3 seconds: .*"
    assert re.fullmatch(said, done.stderr.splitlines()[-1])


def train_alone(base: Path, words: Sequence[str], devices: int, run: Path) -> None:
    """`hcam train` in one process of so many emulated devices, whose number is decided before JAX begins."""
    cached = {name.upper(): value for name, value in compiled_in(base.parent).items()}
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    command = [sys.executable, "-m", "hcam", "train", *words, "--run", f"{run}"]
    subprocess.run(command, check=True, env=os.environ | cached | {"XLA_FLAGS": flags}, capture_output=True)


def saved_at(run: Path, update: int) -> dict[str, np.ndarray]:
    return arrays(run / "checkpoints" / f"{update:012}.safetensors")


def until(rows: Sequence[dict[str, Any]], update: int) -> dict[str, np.ndarray]:
    """What the rows report of all updates up to this one: means, and sums of episodes."""
    rows = [row for row in rows if row["update"] <= update]
    weights = np.diff([0, *(row["update"] for row in rows)])
    means = [row["losses"] | row["diagnostics"] for row in rows]
    found = {name: np.average([mean[name] for mean in means], weights=weights, axis=0) for name in means[0]}
    return found | {"episodes": np.sum([row["levels"]["blanks2"]["episodes"] for row in rows], axis=0)}


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 4])
def test_several_processes_train_evaluate_and_save_what_one_does(base: Path, processes: int):
    """A run of so many processes is that of one, to the rounding of sums; and of two, to the bit.

    Two numbers have one sum, so two processes end with the bits of one process of two devices. More may be added in
    another order, and one device adds as it likes. That rounding grows: what differs by 1e-8 after one update differs
    by 1e-4 after ten, also on one device that begins with parameters 1e-7 apart (docs/scaling.md). So numbers are
    compared after two updates, and episodes after ten.
    """
    seldom = TINY.index("--save-every")
    words = [*TINY[:seldom], "--save-every", "1e-9", "--log-every", "1e-9", "--keep", "10", "--steps", f"{10 * STEPS}"]
    job = Job(base, [*words, "--run", f"{base / 'many'}"], processes)
    assert job.end() == [0] * processes, job.texts()
    rows = read_metrics(base / "many")
    assert (rows[-1]["update"], rows[-1]["devices"]) == (10, processes)
    assert (base / "many" / "eval.json").exists()
    assert [text.count("steps/s, one seed") for text in job.texts()] == [1] + [0] * (processes - 1)

    for devices in (1, processes):
        alone = base / f"alone-{devices}"
        train_alone(base, words, devices, alone)
        for update in (2, 10):
            one, many = saved_at(alone, update), saved_at(base / "many", update)
            assert list(one) == list(many)
            parts = ("actors_b/env", "actors_b/inputs", "actors_b/episode", "curriculum", "key", "updates")
            exact = [name for name in one if any(part in name for part in parts)]
            assert len(exact) > 10
            for name in exact if update == 10 else one:
                rtol, atol = (0, 0) if name in exact else (1e-5, 1e-6)
                np.testing.assert_allclose(one[name], many[name], rtol=rtol, atol=atol, err_msg=name)
        reported, expected = until(rows, 2), until(read_metrics(alone), 2)
        assert list(reported) == list(expected)
        for name in reported:
            np.testing.assert_allclose(reported[name], expected[name], rtol=1e-4, atol=1e-6, err_msg=name)
    if processes == 2:
        assert_same_bits(last_of(base / "alone-2"), last_of(base / "many"))
        assert (base / "alone-2" / "eval.json").read_bytes() == (base / "many" / "eval.json").read_bytes()

    assert main(["train", "--resume", f"{base / 'many'}", "--steps", f"{20 * STEPS}"]) == 0  # alone, on one device
    assert read_metrics(base / "many")[-1]["update"] == 20


@pytest.mark.slow
def test_a_signal_at_any_of_them_stops_and_saves(base: Path):
    run = base / "run"
    job = Job(base, [*TINY, "--steps", "6400000", "--run", f"{run}"])
    while not (run / "metrics.jsonl").exists() and job.processes[0].poll() is None:
        time.sleep(0.05)
    job.processes[1].send_signal(signal.SIGTERM)
    assert job.end(MINUTE) == [128 + signal.SIGTERM] * 2, job.texts()
    rows = read_metrics(run)
    assert f"stopped and saved at {rows[-1]['steps']:,} steps" in job.texts()[0]
    assert int(last_of(run)["updates"][0]) == rows[-1]["update"]


@pytest.mark.slow
def test_killed_twenty_times_it_ends_with_the_bits_of_an_undisturbed_run(base: Path):
    chance = random.Random(22)
    words = [*TINY, "--steps", f"{1200 * STEPS}"]
    undisturbed = Job(base, [*words, "--run", f"{base / 'whole'}"])
    assert undisturbed.end() == [0, 0], undisturbed.texts()
    run, seconds, went_on = base / "run", [], []
    for _ in range(20):
        there = (run / "config.json").exists()
        job = Job(base, ["--resume", f"{run}"] if there else [*words, "--run", f"{run}"])
        job.wait_for_begin(run)
        if chance.random() < 0.8:  # while it trains; else while it reads or compiles
            job.wait_for_save(run)
        time.sleep(chance.uniform(0, 2))
        seconds.append(kill_one(job, chance.randrange(2), run))
        rows = read_metrics(run) if (run / "metrics.jsonl").exists() else []
        went_on.append(rows[-1]["update"] if rows else 0)
    print("seconds until the other one had ended:", [round(one, 1) for one in seconds], "updates:", went_on)
    assert went_on[-1] > 100  # most were killed while they trained
    job = Job(base, ["--resume", f"{run}"])
    assert job.end() == [0, 0], job.texts()
    assert_same_bits(last_of(run), last_of(base / "whole"))
    assert sum(row["levels"]["blanks2"]["episodes"] for row in read_metrics(run)) == 1200 * STEPS // 4
    assert (run / "eval.json").read_bytes() == (base / "whole" / "eval.json").read_bytes()


# Where there is one process ------------------------------------------------------------------------------------------


def test_alone_a_wish_is_granted_at_once():
    agree = hosts.Agreement(ONE)
    assert agree(0, True, False) == (0, True, False)
    agree.forget()
    assert agree(15, 0, 1) == (15, 0, 1)


def test_alone_nothing_is_sent():
    assert hosts.told(lambda: {"x": 1}) == {"x": 1}
    leaf = jnp.ones(2)
    assert hosts.told_array(leaf) is leaf
    with pytest.raises(OSError, match="full"):
        hosts.told(lambda: (_ for _ in ()).throw(OSError("full")))


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What crosses between two processes, without any: what the first sends, the second receives."""
    sent: list[Any] = []

    def be(number: int) -> None:
        def send(value: Any) -> Any:
            if number == 0:
                sent.append(np.asarray(value))
                return value
            return sent.pop(0)

        monkeypatch.setattr(jax, "process_index", lambda: number)
        monkeypatch.setattr(multihost_utils, "broadcast_one_to_all", send)

    monkeypatch.setattr(jax, "process_count", lambda: 2)
    return be


def test_what_the_first_reads_or_refuses_all_know(others: Any):
    others(0)
    assert hosts.told(lambda: {"steps": 5, "who": None}) == {"steps": 5, "who": None}
    with pytest.raises(ValueError, match=r"^no such folder$"):
        hosts.told(lambda: (_ for _ in ()).throw(FileNotFoundError("no such folder")))
    others(1)
    assert hosts.told(lambda: pytest.fail("only the first asks")) == {"steps": 5, "who": None}
    with pytest.raises(ValueError, match=r"^no such folder$"):
        hosts.told(lambda: pytest.fail("only the first asks"))


@pytest.mark.parametrize("piece", [hosts.PIECE, 3])
def test_arrays_arrive_bit_for_bit(others: Any, piece: int, monkeypatch: pytest.MonkeyPatch):
    """A zero keeps its sign and a NaN its payload; also keys, and kinds of numbers that others cannot add."""
    monkeypatch.setattr(hosts, "PIECE", piece)
    bits = np.array([0x80000000, 0x7FC00123, 1], np.uint32).view(np.float32)
    tree: Any = {"x": bits, "b": np.array([True, False]), "half": jnp.full((2, 3), -0.0, jnp.bfloat16)}
    tree |= {"key": jax.random.key(3), "empty": np.zeros((0, 2), np.int8), "one": np.int32(7)}
    kinds = jax.eval_shape(lambda: jax.tree.map(jnp.asarray, tree))
    others(0)
    jax.tree.map(hosts.told_array, tree)
    others(1)
    found = jax.tree.map(hosts.told_array, kinds)
    for name in tree:
        one, two = (jax.random.key_data(t[name]) if name == "key" else np.asarray(t[name]) for t in (tree, found))
        assert np.asarray(one).tobytes() == np.asarray(two).tobytes()
        assert (one.shape, one.dtype) == (two.shape, two.dtype)


# What is said ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--coordinator", "here:1"], "--coordinator HOST:PORT, --processes N and --process I go together: give "),
        (["--processes", "2"], "give --coordinator and --process too."),
        (["--coordinator", "here", "--processes", "2", "--process", "0"], "--coordinator must be HOST:PORT, but is 'h"),
        (["--coordinator", "a:1", "--processes", "2", "--process", "2"], "--process must be from 0 to 1, but is 2."),
        (["--coordinator", "a:1", "--processes", "2", "--process", "-1"], "--process must be from 0 to 1, but is -1."),
        (["--coordinator", "a:1", "--processes", "0", "--process", "0"], "--processes must be at least 1, but is 0."),
        (["--coordinator", "a:1", "--processes", "two", "--process", "0"], "--processes must be a whole number, but i"),
    ],
)
def test_which_process_this_is_must_make_sense(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]):
    assert main(["train", *TINY, *words]) == 2
    err = capsys.readouterr().err
    assert sentence in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(("written", "said"), [("one\ntwo\n", "two\n"), ("one\n\n", ""), ("", "")])
def test_the_last_words_are_said_when_nobody_writes_any_more(written: str, said: str):
    command = [sys.executable, "-I", "-S", "-c", hosts.LAST_WORDS]
    done = subprocess.run(command, input=written, capture_output=True, text=True)
    assert (done.stderr, done.stdout) == (said, "")


def test_an_orderly_end_needs_no_last_words(capfd: pytest.CaptureFixture[str]):
    watcher = hosts.Watcher()
    watcher.will_say("killed")
    watcher.close()
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (ValueError("UNKNOWN: Gloo failed\nat great length"), hosts.LOST, "hcam train: UNKNOWN: Gloo failed\n"),
        (ValueError("RESOURCE_EXHAUSTED: out of memory"), 2, "hcam train: RESOURCE_EXHAUSTED: out of memory\n"),
        (ValueError("no such level."), 2, "hcam train: no such level.\n"),
        (OSError("the disk is full."), 2, "hcam train: the disk is full.\n"),
        (KeyboardInterrupt(), 130, "hcam train: stopped.\n"),
        (SystemExit(2), 2, ""),
    ],
)
def test_why_a_process_ends(error: BaseException, status: int, said: str, capsys: pytest.CaptureFixture[str]):
    assert hosts.explain(error) == status
    assert capsys.readouterr().err == said
