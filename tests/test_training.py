"""The loop: what it tells and saves, and that stopping it in any way changes nothing but the time it takes."""

import io
import json
import math
import os
import re
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache
from rich.console import Console
from safetensors import safe_open

from hcam import envs
from hcam import training as loop
from hcam.cli.train import parse
from hcam.config import Config, to_json
from hcam.envs.environment import Environment
from hcam.learning import curriculum
from hcam.learning.devices import ONE, Devices
from hcam.learning.metrics import EpisodeStats, UpdateMetrics
from hcam.runs import checkpoint
from hcam.runs.folder import RunFolder, read_metrics
from hcam.runs.progress import Display
from hcam.types import TrainState

TINY = ["first_symbol", "--levels", "blanks2", "--schedule", "constant", "--eval-episodes", "8"]
TINY += ["--environments", "4", "--unroll", "8", "--minibatches", "2", "--hidden", "8", "--mlp", "1"]
TINY += ["--width", "8", "--layers", "1", "--heads", "2", "--chunk", "2", "--slots", "2", "--top-k", "1"]
UPDATES, STEPS = 30, 32  # updates of a run, steps of an update
SELDOM, ALWAYS = 1e6, 1e-9  # seconds between checkpoints or rows


def compiled_in(base: Path) -> dict[str, str]:
    """Settings of JAX under which what one run has compiled is there for the next; also for other processes."""
    return {
        "jax_compilation_cache_dir": str(base / "compiled"),
        "jax_persistent_cache_min_compile_time_secs": "0",
    }


@pytest.fixture(scope="module", autouse=True)
def compiled_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The same small run is trained many times in this file, and would be compiled every time."""
    base = tmp_path_factory.getbasetemp()
    before = {name: getattr(jax.config, name) for name in compiled_in(base)}
    jax.config.update("jax_compilation_cache_dir", compiled_in(base)["jax_compilation_cache_dir"])
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    compilation_cache.reset_cache()
    yield
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


def tiny(*words: str, **run: Any) -> Config:
    config = parse([*TINY, *words]).config
    return replace(config, run=replace(config.run, **({"steps": UPDATES * STEPS, "log_every": ALWAYS} | run)))


class Told(NamedTuple):
    """A run that has come back."""

    path: Path
    state_s: TrainState
    stopped: int
    rows: list[dict[str, Any]]
    said: str


class Listener:
    """A logger that calls somebody with every row."""

    def __init__(self, hear: Callable[[dict[str, Any]], None]) -> None:
        self.write = hear


def run(config: Config, path: Path, loggers: Sequence[Any] = (), deadline: float = math.inf) -> Told:
    """Begins in a new folder, goes on in one that is there."""
    out = io.StringIO()
    with (
        RunFolder.open(path) if path.exists() else RunFolder.create(path, to_json(config)) as folder,
        Display(config.run.steps, "tiny", Console(file=out, width=500, _environ={})) as display,
    ):
        state_s, stopped = loop.train(config, loop.make_learner(config), folder, display, loggers, deadline)
    return Told(path, state_s, stopped, read_metrics(path), out.getvalue())


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


def arrays(path: Path) -> dict[str, np.ndarray]:
    with safe_open(path, "numpy") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (not a dict)


def last_of(folder: Path) -> dict[str, np.ndarray]:
    """Every array of the newest checkpoint."""
    return arrays(max((folder / "checkpoints").glob("0*.safetensors")))


def assert_same_bits(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    assert list(one) == list(other)
    kinds = {name.split("/")[0] for name in one}
    assert kinds == {"params", "optimiser", "actors_b", "curriculum", "key", "updates"}
    assert [name for name in one if one[name].tobytes() != other[name].tobytes()] == []


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """A run that nobody disturbs."""
    return run(tiny(save_every=ALWAYS), tmp_path_factory.mktemp("whole") / "run")


# What is told and saved


def test_rows_have_what_reports_read(whole: Told):
    assert [row["update"] for row in whole.rows] == list(range(1, UPDATES + 1))
    assert [row["steps"] for row in whole.rows] == [STEPS * n for n in range(1, UPDATES + 1)]
    seconds = [row["seconds"] for row in whole.rows]
    assert seconds[0] > 0
    assert seconds == sorted(set(seconds))
    for row in whole.rows:
        assert row["rate"] > 0
        assert row["learning_rate"] == pytest.approx(1e-3)
        assert set(row["losses"]) == {"policy", "baseline", "observation"}
        assert {"ratio", "gradient_norm"} <= set(row["diagnostics"])
        assert 0 < row["diagnostics"]["entropy"] <= np.log(4) + 1e-6
        assert set(row["levels"]) == {"blanks2"}
        level = row["levels"]["blanks2"]
        assert row["success"] == level["success"]
        assert row["return"] == level["return"]
        assert "seeds" not in row  # there is one
        assert level["length"] in (4, None)
        assert 0 <= (level["success"] or 0) <= 1
    # Episodes have four steps: none is forgotten between rows, and none is told twice.
    assert sum(row["levels"]["blanks2"]["episodes"] for row in whole.rows) == UPDATES * STEPS // 4


def test_what_the_display_says(whole: Told):
    assert "compiling" in whole.said
    assert f"{UPDATES * STEPS} / {UPDATES * STEPS} steps" in whole.said
    assert "continuing" not in whole.said
    assert whole.stopped == 0


def test_the_last_checkpoint_is_what_training_gives_back(whole: Told):
    found = checkpoint.restore(whole.path / "checkpoints", whole.state_s)
    assert found is not None
    state_s, metadata = found
    for one, other in zip(jax.tree.leaves(state_s), jax.tree.leaves(whole.state_s), strict=True):
        if jnp.issubdtype(one.dtype, jax.dtypes.prng_key):
            one, other = jax.random.key_data(one), jax.random.key_data(other)
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()
    assert metadata["steps"] == UPDATES * STEPS
    assert metadata["seconds"] == whole.rows[-1]["seconds"]


def test_three_checkpoints_and_the_best_are_kept(whole: Told):
    stems = [f"{n:012d}" for n in range(UPDATES - 2, UPDATES + 1)] + ["best"]
    assert names(whole.path) == [f"{stem}.{end}" for stem in stems for end in ("json", "safetensors")]


def test_the_best_holds_parameters_only(whole: Told):
    best = arrays(whole.path / "checkpoints" / "best.safetensors")
    assert {name.split("/")[0] for name in best} == {"params"}
    metadata = json.loads((whole.path / "checkpoints" / "best.json").read_text())["metadata"]
    scores = {row["steps"]: row["success"] or 0.0 for row in whole.rows}  # every row was saved
    assert metadata["success"] == max(scores.values())
    assert scores[metadata["steps"]] == metadata["success"]


def test_each_of_several_seeds_is_the_run_it_would_be_alone(whole: Told, tmp_path: Path):
    """Not bit for bit, as sums are taken in another order; and Adam makes much of little, so only a few updates."""
    few = {"steps": 3 * STEPS, "save_every": ALWAYS}
    both = run(tiny(seeds=2, **few), tmp_path / "both")
    alone = [run(tiny(seed=seed, **few), tmp_path / f"{seed}") for seed in (0, 1)]
    assert [row["losses"] for row in alone[0].rows] == [row["losses"] for row in whole.rows[:3]]
    for s, one in enumerate(alone):
        for update, most in ((1, 1e-5), (3, 2e-4)):
            joint, single = (arrays(told.path / "checkpoints" / f"{update:012d}.safetensors") for told in (both, one))
            for name in [name for name in joint if name.startswith("params")]:
                np.testing.assert_allclose(joint[name][s], single[name][0], rtol=0, atol=most, err_msg=name)
    zero, first = (jax.tree.leaves(one.state_s.params["memory"]) for one in alone)
    assert not all(np.allclose(a, b, atol=1e-2) for a, b in zip(zero, first, strict=True))
    for number, row in enumerate(both.rows):
        assert [seed["success"] for seed in row["seeds"]] == [one.rows[number]["success"] for one in alone]
        counts = [one.rows[number]["levels"]["blanks2"]["episodes"] for one in alone]
        assert row["levels"]["blanks2"]["episodes"] == sum(counts)


# Stopping and going on


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_the_run_goes_on_as_if_nothing_had_happened(
    whole: Told, tmp_path: Path, kind: signal.Signals
):
    """The signal comes while rows are told, when it is too late to be seen by this update."""
    before = signal.getsignal(kind)
    config, path = tiny(save_every=SELDOM), tmp_path / "run"
    first = run(config, path, [Listener(lambda row: os.kill(os.getpid(), kind) if row["update"] == 7 else None)])
    assert first.stopped == kind
    assert signal.getsignal(kind) is before
    assert [row["update"] for row in first.rows] == list(range(1, 9))
    assert names(path)[:2] == ["000000000008.json", "000000000008.safetensors"]  # nothing that was done is lost
    assert f"stopped and saved at {8 * STEPS} steps" in first.said

    second = run(config, path)
    assert second.stopped == 0
    assert f"continuing from {8 * STEPS} steps" in second.said
    assert [row["steps"] for row in second.rows] == [row["steps"] for row in whole.rows]
    assert [row["losses"] for row in second.rows] == [row["losses"] for row in whole.rows]
    seconds = [row["seconds"] for row in second.rows]
    assert seconds == sorted(set(seconds))
    assert_same_bits(last_of(path), last_of(whole.path))


def test_a_deadline_saves_and_the_run_goes_on_as_if_nothing_had_happened(whole: Told, tmp_path: Path):
    path = tmp_path / "run"
    first = run(tiny(save_every=SELDOM), path, deadline=time.monotonic() - 1)
    assert (first.stopped, len(first.rows)) == (loop.TIME_IS_UP, 1)
    assert names(path) == ["000000000001.json", "000000000001.safetensors", "best.json", "best.safetensors"]
    assert f"stopped and saved at {STEPS} steps" in first.said
    second = run(tiny(save_every=SELDOM), path, deadline=time.monotonic() + 1e6)
    assert (second.stopped, len(second.rows)) == (0, UPDATES)
    assert_same_bits(last_of(path), last_of(whole.path))


def test_a_deadline_does_not_stop_what_is_done(tmp_path: Path):
    """A run of one update is whole when its time is up: it is to be evaluated, not continued."""
    assert run(tiny(steps=STEPS), tmp_path / "run", deadline=0.0).stopped == 0


def test_a_damaged_checkpoint_costs_an_update_and_not_the_run(whole: Told, tmp_path: Path):
    path = tmp_path / "run"
    shutil.copytree(whole.path, path)
    newest = path / "checkpoints" / f"{UPDATES:012d}.safetensors"
    newest.write_bytes(newest.read_bytes()[:-100])
    again = run(tiny(save_every=SELDOM), path)
    assert f"{UPDATES - 1:012d}.safetensors is used instead" in again.said
    assert f"continuing from {(UPDATES - 1) * STEPS} steps" in again.said
    assert [row["steps"] for row in again.rows] == [row["steps"] for row in whole.rows]
    assert_same_bits(last_of(path), last_of(whole.path))


def test_a_run_that_is_done_stays_as_it_is(whole: Told, tmp_path: Path):
    path = tmp_path / "run"
    shutil.copytree(whole.path, path)
    again = run(tiny(save_every=ALWAYS), path)
    assert again.rows == whole.rows
    assert names(path) == names(whole.path)
    assert_same_bits(last_of(path), last_of(whole.path))


# With a learner that does nothing, so that the loop stands alone


class Idle(NamedTuple):
    """Counts. Its one episode per update succeeds when `success` says so, and `break_at` is when numbers are lost."""

    success: tuple[float, ...] = (0.5,)
    loss_breaks_at: int = -1
    params_break_at: int = -1
    devices: Devices = ONE

    @property
    def env(self) -> Environment:
        return envs.make("first_symbol")

    def init(self, key: jax.Array) -> TrainState:
        params = {"w": jax.random.uniform(key, (2,))}
        actors_b: Any = {"x": jnp.zeros(3)}
        record = curriculum.init(1)
        return TrainState(params, {"m": jnp.zeros(2)}, actors_b, record, jax.random.key(7), jnp.int32(0))

    def update(self, state: TrainState) -> tuple[TrainState, UpdateMetrics]:
        done = state.updates + 1
        lost = jnp.where(done == self.params_break_at, jnp.inf, 0.0)
        params = {"w": state.params["w"] + 1.0 + lost}
        losses = {
            "policy": jnp.float32(1.0),
            "baseline": jnp.where(done == self.loss_breaks_at, jnp.nan, done.astype(jnp.float32)),
        }
        score = jnp.array(self.success, jnp.float32)[state.updates % len(self.success)][None]
        tally = EpisodeStats(jnp.ones(1), score, score, jnp.full(1, 4.0))
        return state._replace(params=params, updates=done), UpdateMetrics(losses, tally)


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Idle]:
    def use(**options: Any) -> Idle:
        learner = Idle(**options)
        monkeypatch.setattr(loop, "make_learner", lambda config: learner)
        return learner

    return use


def finite(folder: Path) -> bool:
    files = list((folder / "checkpoints").glob("*.safetensors"))
    return bool(files) and all(np.isfinite(array).all() for path in files for array in arrays(path).values())


@pytest.mark.parametrize("log_every", [ALWAYS, SELDOM])
def test_a_loss_that_is_no_number_stops_the_run(tmp_path: Path, idle: Any, log_every: float):
    """The update is named, also when nobody looked until the end."""
    idle(loss_breaks_at=6)
    path = tmp_path / "run"
    with pytest.raises(loop.DivergedError) as caught:
        run(tiny(save_every=ALWAYS, log_every=log_every, steps=9 * STEPS), path)
    sentence = str(caught.value)
    assert sentence.startswith(f"baseline is not a number any more at {6 * STEPS} steps: lower --learning-rate")
    if log_every == ALWAYS:
        assert f"the last good checkpoint is that of {5 * STEPS} steps in {path / 'checkpoints'}." in sentence
        assert names(path)[:6:2] == [f"{n:012d}.json" for n in (3, 4, 5)]
        assert finite(path)
        assert [row["update"] for row in read_metrics(path)] == [1, 2, 3, 4, 5]
    else:
        assert sentence.endswith("; there was no checkpoint yet.")
        assert names(path) == [".begun"]


def test_parameters_that_are_no_numbers_are_not_saved(tmp_path: Path, idle: Any):
    """Losses are those of the parameters before the step, so they do not show it yet."""
    idle(params_break_at=4)
    path = tmp_path / "run"
    sentence = f"a parameter is not a number any more at {4 * STEPS} steps.*last good checkpoint is that of {3 * STEPS}"
    with pytest.raises(loop.DivergedError, match=sentence):
        run(tiny(save_every=ALWAYS, steps=9 * STEPS), path)
    assert finite(path)
    assert names(path)[4] == "000000000003.json"


def test_rows_come_by_the_clock_and_checkpoints_less_often(tmp_path: Path, idle: Any, monkeypatch: pytest.MonkeyPatch):
    """Time passes only in updates here: a tenth of a second each."""
    learner, now = idle(), [100.0]
    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=lambda: now[0]))

    class Slow(NamedTuple):
        env: Environment = learner.env
        devices: Devices = ONE

        def init(self, key: jax.Array) -> TrainState:
            return learner.init(key)

        def update(self, state: TrainState) -> tuple[TrainState, UpdateMetrics]:
            jax.debug.callback(lambda: now.__setitem__(0, now[0] + 0.1))
            return learner.update(state)

    monkeypatch.setattr(loop, "make_learner", lambda config: Slow())
    saved: list[int] = []
    save = checkpoint.save

    def noted(folder: Path, tree: Any, number: int, *args: Any, **options: Any) -> Path:
        saved.append(number)
        return save(folder, tree, number, *args, **options)

    monkeypatch.setattr(checkpoint, "save", noted)
    get = jax.device_get
    monkeypatch.setattr(jax, "device_get", lambda tree: (jax.effects_barrier(), get(tree))[1])
    config = tiny(steps=40 * STEPS, log_every=0.45, save_every=1.75)
    told = run(config, tmp_path / "run")
    updates = [row["update"] for row in told.rows]
    assert updates[-1] == saved[-1] == 40
    assert 3 <= len(updates) <= 9
    assert len(saved) < len(updates)
    assert set(saved) <= set(updates)
    # Each row speaks for all updates since the one before: a mean of losses, a sum of episodes.
    for before, row in zip([{"update": 0, "seconds": 0.0}, *told.rows], told.rows, strict=False):
        count = row["update"] - before["update"]
        assert row["levels"]["blanks2"]["episodes"] == count
        assert row["losses"]["baseline"] == pytest.approx((before["update"] + 1 + row["update"]) / 2)
        assert row["rate"] == pytest.approx(count * STEPS / (row["seconds"] - before["seconds"]), rel=1e-6)


def test_the_host_is_never_far_ahead_of_the_device(tmp_path: Path, idle: Any, monkeypatch: pytest.MonkeyPatch):
    """Updates of seconds would otherwise be queued by the dozen, and a row or a signal would wait for all of them."""
    learner = idle()

    class Slow(NamedTuple):
        env: Environment = learner.env
        devices: Devices = ONE

        def init(self, key: jax.Array) -> TrainState:
            return learner.init(key)

        def update(self, state: TrainState) -> tuple[TrainState, UpdateMetrics]:
            x = jnp.full((256, 256), state.updates.astype(jnp.float32))
            slow = jax.lax.fori_loop(0, 100, lambda _, x: jnp.tanh(x @ x), x).sum()
            return learner.update(state._replace(updates=state.updates + jnp.isnan(slow).astype(jnp.int32)))

    updater = loop.updater
    asked: list[Any] = []
    ahead: list[int] = []

    def noted(*args: Any) -> Callable[[TrainState], Any]:
        update = updater(*args)

        def ask(state_s: TrainState) -> Any:
            found = update(state_s)
            asked.append(jax.tree.leaves(found[1])[0])
            ahead.append(sum(not leaf.is_ready() for leaf in asked))
            return found

        return ask

    monkeypatch.setattr(loop, "make_learner", lambda config: Slow())
    monkeypatch.setattr(loop, "updater", noted)
    run(tiny(steps=20 * STEPS, log_every=SELDOM), tmp_path / "run")
    assert len(ahead) == 20
    assert max(ahead) == 1 + loop.AHEAD  # those two and the one that was just asked for


def test_a_run_of_one_update_has_a_believable_rate(tmp_path: Path, idle: Any):
    idle()
    begun = time.monotonic()
    told = run(tiny(steps=1), tmp_path / "run")
    (row,) = told.rows
    assert row["steps"] == STEPS  # rounded up to whole updates
    assert row["rate"] == pytest.approx(STEPS / row["seconds"], rel=0.5)
    assert row["seconds"] < time.monotonic() - begun


def contents(path: Path) -> dict[str, bytes]:
    return {f"{file.relative_to(path)}": file.read_bytes() for file in path.rglob("*") if file.is_file()}


GONE = {
    "nothing": ["checkpoints"],
    "an empty folder": ["0*", "best*"],
    "the best alone": ["0*"],
    "arrays without their records": ["0*.json"],
    "an evaluation without rows": ["checkpoints", "metrics.jsonl"],
}


@pytest.mark.parametrize("left", GONE)
def test_a_run_whose_checkpoints_are_gone_is_not_wiped(tmp_path: Path, whole: Told, left: str):
    path = tmp_path / "run"
    shutil.copytree(whole.path, path, ignore=shutil.ignore_patterns(*GONE[left], ".lock"))
    (path / "eval.json").write_text("{}")
    before = contents(path)
    sentence = r"has (metrics|eval\.json) but no checkpoint to continue from: .* another folder, with --run"
    with pytest.raises(ValueError, match=sentence):
        run(tiny(save_every=ALWAYS), path)
    assert contents(path) == before


def test_a_run_that_was_killed_before_its_first_checkpoint_goes_on(tmp_path: Path, whole: Told):
    path = tmp_path / "run"

    def die(row: dict[str, Any]) -> None:
        if row["update"] == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tiny(save_every=SELDOM), path, [Listener(die)])
    assert len(read_metrics(path)) == 3
    assert names(path) == [".begun"]
    again = run(tiny(save_every=SELDOM), path)
    assert [row["update"] for row in again.rows] == list(range(1, UPDATES + 1))
    assert ".begun" not in names(path)  # from now on a loss of checkpoints is noticed
    assert_same_bits(last_of(path), last_of(whole.path))


def test_a_run_does_not_end_before_where_it_is(tmp_path: Path, whole: Told):
    path = tmp_path / "run"
    shutil.copytree(whole.path, path)
    before = contents(path)
    sentence = f"is at {UPDATES * STEPS} steps already and cannot end at {STEPS}: leave out --steps, or give more."
    with pytest.raises(ValueError, match=re.escape(sentence)):
        run(tiny(steps=STEPS), path)
    assert {name: content for name, content in contents(path).items() if name != ".lock"} == {
        name: content for name, content in before.items() if name != ".lock"
    }
    assert run(tiny(steps=(UPDATES + 1) * STEPS, save_every=ALWAYS), path).rows[-1]["update"] == UPDATES + 1


def test_the_best_is_the_best_over_a_resume(tmp_path: Path, idle: Any):
    """0.9 comes before the stop; what comes after is worse and must not replace it."""
    idle(success=(0.1, 0.9, 0.3, 0.2, 0.5, 0.4))
    path, config = tmp_path / "run", tiny(save_every=ALWAYS, steps=6 * STEPS)
    run(config, path, [Listener(lambda row: os.kill(os.getpid(), signal.SIGINT) if row["update"] == 2 else None)])
    run(config, path)
    metadata = json.loads((path / "checkpoints" / "best.json").read_text())["metadata"]
    assert metadata["steps"] == 2 * STEPS
    assert metadata["success"] == pytest.approx(0.9)


def test_wherever_a_save_ends_there_is_a_best_one_if_there_is_any(
    tmp_path: Path, idle: Any, monkeypatch: pytest.MonkeyPatch
):
    idle(success=(0.9, 0.1))
    path, config = tmp_path / "run", tiny(save_every=ALWAYS, steps=4 * STEPS)
    save, save_best = checkpoint.save, checkpoint.save_best
    wanted = [2]  # files of checkpoints that are still written

    def or_die(function: Any) -> Any:
        def written(*args: Any, **options: Any) -> Any:
            wanted[0] -= 1
            if wanted[0] < 0:
                raise KeyboardInterrupt
            return function(*args, **options)

        return written

    monkeypatch.setattr(checkpoint, "save", or_die(save))
    monkeypatch.setattr(checkpoint, "save_best", or_die(save_best))
    for _ in range(3):
        wanted[0] = 1
        with pytest.raises(KeyboardInterrupt):
            run(config, path)
        if list((path / "checkpoints").glob("0*.json")):
            assert (path / "checkpoints" / "best.json").exists()
    wanted[0] = 1000
    run(config, path)
    metadata = json.loads((path / "checkpoints" / "best.json").read_text())["metadata"]
    assert metadata["success"] == pytest.approx(0.9)


def test_a_terminal_that_closes_asks_to_save_as_well():
    with loop.signals() as stopped:
        os.kill(os.getpid(), signal.SIGHUP)
        assert stopped == [signal.SIGHUP]


def test_what_is_ignored_stays_ignored():
    """As nohup has it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with loop.signals() as stopped:
            os.kill(os.getpid(), signal.SIGHUP)
            assert stopped == []
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_second_signal_is_not_waited_for():
    with loop.signals() as stopped:
        os.kill(os.getpid(), signal.SIGTERM)
        assert stopped == [signal.SIGTERM]
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_outside_the_main_thread_signals_are_left_alone():
    from threading import Thread

    before, seen = signal.getsignal(signal.SIGINT), []

    def inside() -> None:
        with loop.signals() as stopped:
            seen.append((signal.getsignal(signal.SIGINT), list(stopped)))

    thread = Thread(target=inside)
    thread.start()
    thread.join()
    assert seen == [(before, [])]


def test_the_clock_goes_on_from_where_it_was():
    clock = loop.Clock(1000.0)
    time.sleep(0.01)
    assert 1000.01 <= clock.seconds < 1001
    assert clock.due("log", 0.005)
    assert clock.lap("log") >= 0.01
    assert not clock.due("log", 0.005)
    assert clock.due("save", 0.005)  # a clock of its own


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"task": "waltz"}, "no task 'waltz'"),
        ({"levels": ("blanks2", "items4")}, "no FirstSymbol level 'items4'"),
    ],
)
def test_what_does_not_fit_is_refused_before_compilation(change: dict[str, Any], sentence: str):
    config = tiny()
    with pytest.raises(ValueError, match=sentence):
        loop.make_learner(replace(config, task=replace(config.task, **change)))


def test_reconstructed_steps_must_divide_an_unroll():
    config = tiny()
    every = config.learner.unroll - 1
    sentence = f"reconstruct_every is {every}, which does not divide an unroll of {every + 1} steps evenly."
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        loop.make_learner(replace(config, objective=replace(config.objective, reconstruct_every=every)))
    fits = replace(config, objective=replace(config.objective, reconstruct_every=config.learner.unroll))
    assert loop.make_learner(fits).config.unroll == config.learner.unroll
