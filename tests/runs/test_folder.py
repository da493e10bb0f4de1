"""Run folders: what a run leaves behind is whole and readable, and one process at a time writes to it."""

import errno
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hcam
from hcam.runs import folder
from hcam.runs.folder import RunFolder, fresh_name, read_config, read_made_by, read_metrics, write_eval

ROOT = Path(__file__).resolve().parents[2]
CONFIG = {"task": "ballet", "rate": 1e-4, "levels": ["2_delay16", "4_delay16"], "window": None}


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunFolder]:
    with RunFolder.create(tmp_path / "run", CONFIG) as made:
        yield made


def text_of(run: RunFolder) -> str:
    return (run.path / "metrics.jsonl").read_text()


# Creating and opening


def test_config_says_everything_that_made_the_run(run: RunFolder):
    content = json.loads((run.path / "config.json").read_text())
    made_by = content["made_by"]
    assert content["config"] == CONFIG == run.config == read_config(run.path)
    assert made_by["hcam"] == hcam.__version__
    assert made_by["jax"] == jax.__version__
    assert made_by["device"] == jax.devices()[0].device_kind
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", made_by["created"])
    assert run.checkpoints == run.path / "checkpoints"


def test_the_commit_is_that_of_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Of a working tree of its own, and of no other one around it."""
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    try:
        subprocess.run([*git, "init", "-q"], check=True, capture_output=True)
    except OSError:
        pytest.skip("no git here")
    assert folder._git(tmp_path) == {}  # no commit yet
    (tmp_path / "hcam").mkdir()
    (tmp_path / "hcam" / "file.py").write_text("1")
    subprocess.run([*git, "add", "hcam"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "first"], check=True)
    clean = folder._git(tmp_path)
    assert re.fullmatch("[0-9a-f]{40}", clean["commit"])
    assert clean["changed"] is False
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "config.json").write_text("{}")
    assert folder._git(tmp_path) == clean  # another run's folder changes nothing
    (tmp_path / "hcam" / "new.py").write_text("2")
    assert folder._git(tmp_path) == {**clean, "changed": True}
    (tmp_path / "hcam" / "new.py").unlink()
    (tmp_path / "hcam" / "file.py").write_text("2")
    assert folder._git(tmp_path) == {**clean, "changed": True}
    (tmp_path / "inside").mkdir()
    assert folder._git(tmp_path / "inside") == {}
    monkeypatch.setenv("PATH", "")
    assert folder._git(tmp_path) == {}


def test_an_existing_run_is_refused(run: RunFolder):
    run.close()
    with pytest.raises(
        FileExistsError, match="exists already: choose another --run, or continue it with --resume"
    ) as caught:
        RunFolder.create(run.path, {})
    assert str(run.path) in str(caught.value)
    assert read_config(run.path) == CONFIG
    RunFolder.open(run.path).close()  # the refusal has let go of it


def test_a_folder_with_something_else_is_refused(tmp_path: Path):
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(FileExistsError, match="exists already"):
        RunFolder.create(tmp_path, {})


def test_a_folder_whose_creation_was_killed_can_be_created(tmp_path: Path):
    (tmp_path / ".lock").write_text("1")
    (tmp_path / ".config.json.12.tmp").write_text("{")
    RunFolder.create(tmp_path, CONFIG).close()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "config.json"]


def test_what_is_not_json_is_refused_before_anything_is_made(tmp_path: Path):
    with pytest.raises(TypeError, match="not plain JSON"):
        RunFolder.create(tmp_path / "run", {"rate": float("nan")})
    assert not (tmp_path / "run").exists()


def test_opening_what_is_no_run_folder(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match=r"there is no run folder .*missing"):
        RunFolder.open(tmp_path / "missing")
    with pytest.raises(FileNotFoundError, match=r"is no run folder: it has no config\.json"):
        RunFolder.open(tmp_path)
    assert list(tmp_path.iterdir()) == []


DAMAGED = [b"", b"{", b"[1]", b"{}", b'"x"', b"7", b"null", b'{"config": 3}', b'{"config": [1]}', b'{"made_by": {}}']
DAMAGED += [b"\0\0", b"\xff\xfe", b'{"config": {}, "made_by": "x"}', b'{"config": {}, "made_by": [1]}', b"1" * 5000]
DAMAGED += [b'{"config": {"a": NaN}}', b'{"config": {}, "made_by": {"a": Infinity}}']
DAMAGED += [b'{"config": ' + b'{"a": ' * 1000 + b"1" + b"}" * 1001, b"[" * 100_000]


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_config_is_named(tmp_path: Path, text: bytes):
    (tmp_path / "config.json").write_bytes(text)
    with pytest.raises(ValueError, match=r"config\.json is damaged"):
        RunFolder.open(tmp_path)


def test_a_config_may_lack_who_made_it(tmp_path: Path):
    (tmp_path / "config.json").write_text('{"config": {"a": 1}}')
    assert read_made_by(tmp_path) == {}
    with RunFolder.open(tmp_path) as run:
        run.amend({"a": 2})
    assert json.loads((tmp_path / "config.json").read_text()) == {"format": 2, "config": {"a": 2}, "made_by": {}}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@pytest.mark.parametrize("name", ["config.json", "metrics.jsonl", ".lock"])
@pytest.mark.parametrize("kind", ["mkfifo", "mkdir"])
def test_what_is_no_file_is_not_opened(run: RunFolder, name: str, kind: str):
    run.begin()
    run.close()
    (run.path / name).unlink(missing_ok=True)
    getattr(os, kind)(run.path / name)
    with pytest.raises(OSError, match=rf"{re.escape(name)} is (a named pipe|a folder), not a regular file: remove it"):
        RunFolder.open(run.path)
    (run.path / name).rmdir() if kind == "mkdir" else (run.path / name).unlink()
    if name != "config.json":
        RunFolder.open(run.path).close()  # the refusal has let go of the folder


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no links here")
def test_what_a_lock_links_to_is_not_overwritten(run: RunFolder, tmp_path: Path):
    run.close()
    (tmp_path / "mine").write_text("mine")
    for target in ("mine", "nowhere"):
        (run.path / ".lock").unlink()
        (run.path / ".lock").symlink_to(tmp_path / target)
        with pytest.raises(OSError, match=r"\.lock is a symbolic link, not a regular file: remove it"):
            RunFolder.open(run.path)
    assert (tmp_path / "mine").read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no links here")
def test_nothing_that_is_written_goes_through_a_link(run: RunFolder, tmp_path: Path):
    """A folder that somebody else has made may hold a link under any of our names."""
    (run.path / "checkpoints").mkdir()
    for name in ("checkpoints/.begun", "eval.json"):
        (run.path / name).symlink_to(tmp_path / "nowhere")
    (tmp_path / "config").write_bytes((run.path / "config.json").read_bytes())
    (run.path / "config.json").unlink()
    (run.path / "config.json").symlink_to(tmp_path / "config")
    run.begin()
    write_eval(run.path, {})
    run.amend({"more": 1})
    assert not (tmp_path / "nowhere").exists()
    assert json.loads((tmp_path / "config").read_text())["config"] == CONFIG
    assert not any(path.is_symlink() for path in run.path.rglob("*"))


def test_a_folder_can_be_opened_again(run: RunFolder):
    run.begin()
    run.append({"steps": 1})
    run.close()
    run.close()
    with RunFolder.open(run.path) as again:
        assert again.config == CONFIG
        again.append({"steps": 2})
    assert read_metrics(run.path) == [{"steps": 1}, {"steps": 2}]


def test_rows_without_a_checkpoint_are_not_for_going_on(run: RunFolder):
    run.begin()
    run.append({"steps": 1})
    run.saved()  # which says that there is one, but it is gone
    run.close()
    (run.path / ".lock").unlink()
    before = sorted(path.name for path in run.path.iterdir())
    with pytest.raises(ValueError, match="has metrics but no checkpoint to continue from"):
        RunFolder.open(run.path)
    assert sorted(path.name for path in run.path.iterdir()) == before
    (run.path / "checkpoints" / "000000000001.safetensors").touch()  # without its record, nobody reads it
    with pytest.raises(ValueError, match="no checkpoint to continue from"):
        RunFolder.open(run.path)
    (run.path / "checkpoints" / "000000000001.json").touch()
    RunFolder.open(run.path).close()


@pytest.mark.parametrize("kept", ["eval.json", "agent.safetensors", "agent.json"])
def test_what_was_measured_without_a_checkpoint_is_not_for_going_on(run: RunFolder, kept: str):
    """Without rows as well: the run that begins anew would end by replacing it."""
    run.close()
    (run.path / kept).write_text("{}")
    with pytest.raises(ValueError, match=f"has {re.escape(kept)} but no checkpoint to continue from"):
        RunFolder.open(run.path)
    assert (run.path / kept).read_text() == "{}"
    folder.refuse_without_checkpoint(RunFolder.create(run.path.parent / "other", CONFIG).path)


def test_config_is_written_anew_only_where_it_changes(run: RunFolder):
    before = (run.path / "config.json").stat().st_ino
    run.amend(run.config)
    assert (run.path / "config.json").stat().st_ino == before
    run.amend(run.config | {"more": 1})
    assert (run.path / "config.json").stat().st_ino != before


def test_a_root_that_is_a_file(tmp_path: Path):
    (tmp_path / "runs").write_text("")
    with pytest.raises(OSError, match=r"the run folder .* cannot be made") as caught:
        RunFolder.create(tmp_path / "runs" / "a", {})
    assert caught.value.errno == errno.ENOTDIR


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the administrator may write anywhere")
def test_a_root_that_may_not_be_written(tmp_path: Path):
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError, match=r"cannot be made .*: choose a folder that you may write to"):
        RunFolder.create(tmp_path / "a", {})


# The lock

HOLD = """
import sys
from pathlib import Path
from hcam.runs.folder import RunFolder
run = RunFolder.open(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no locks here")
def test_one_process_at_a_time_and_a_killed_one_lets_go(run: RunFolder):
    with pytest.raises(BlockingIOError, match=f"process {os.getpid()} is training in .*run: wait"):
        RunFolder.open(run.path)
    run.close()
    command = [sys.executable, "-c", HOLD, str(run.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(BlockingIOError, match=f"process {other.pid} is training in"):
            RunFolder.open(run.path)
        with pytest.raises(BlockingIOError, match=f"process {other.pid} is training in"):
            RunFolder.create(run.path, {})
        other.kill()
    RunFolder.open(run.path).close()


@pytest.mark.skipif(sys.platform == "win32", reason="no locks here")
def test_leaving_lets_go_also_after_an_error(tmp_path: Path):
    with pytest.raises(KeyError), RunFolder.create(tmp_path / "run", {}):
        raise KeyError
    RunFolder.open(tmp_path / "run").close()


@pytest.mark.skipif(sys.platform == "win32", reason="no locks here")
def test_a_holder_that_is_not_known_is_not_named(run: RunFolder):
    for text in ("", "\x1b[31m", "7 or 8"):
        (run.path / ".lock").write_text(text)
        with pytest.raises(BlockingIOError, match=r"^another process is training in"):
            RunFolder.open(run.path)


def test_without_locks_it_works_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(folder, "fcntl", None)
    with RunFolder.create(tmp_path / "run", CONFIG), RunFolder.open(tmp_path / "run") as second:
        assert second.config == CONFIG


@pytest.mark.skipif(sys.platform == "win32", reason="no locks here")
def test_a_file_system_without_locks_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("hcam.runs.folder.fcntl.flock", refuse)
    RunFolder.create(tmp_path / "run", CONFIG).close()


# Metrics


def test_rows_come_back(run: RunFolder):
    rows: list[dict[str, Any]] = [{"steps": 10, "levels": {"a": 0.5}, "text": "é\n"}, {"steps": 20, "list": [1, None]}]
    assert read_metrics(run.path) == []
    for count, row in enumerate(rows, start=1):
        run.append(row)
        assert read_metrics(run.path) == rows[:count]  # at once, while the run goes on
    assert len(text_of(run).splitlines()) == 2


def test_numbers_of_arrays_are_numbers(run: RunFolder):
    run.append(
        {"a": np.float32(0.5), "b": jnp.int32(3), "c": np.arange(2), "d": (jnp.bool_(True),), "e": jnp.bfloat16(2)}
    )
    assert read_metrics(run.path) == [{"a": 0.5, "b": 3, "c": [0, 1], "d": [True], "e": 2.0}]


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -np.float32("inf"), jnp.float32("nan")])
def test_what_json_does_not_have_is_null(run: RunFolder, number: Any):
    def strict(name: str) -> None:
        raise AssertionError(name)

    run.append({"loss": number, "all": [1.0, number], "inside": {"x": number}})
    write_eval(run.path, {"score": number})
    nothing = json.loads(text_of(run), parse_constant=strict)
    assert nothing == {"loss": None, "all": [1.0, None], "inside": {"x": None}}
    assert json.loads((run.path / "eval.json").read_text(), parse_constant=strict) == {"score": None}


def test_rewinding_drops_what_came_after(run: RunFolder):
    for steps in (10, 20, 30, 40):
        run.append({"steps": steps})
    run.append({"note": "no steps"})
    assert run.rewind(20) == 2
    assert run.rewind(20) == 0
    assert read_metrics(run.path) == [{"steps": 10}, {"steps": 20}, {"note": "no steps"}]
    run.append({"steps": 30})
    assert read_metrics(run.path)[-1] == {"steps": 30}
    run.rewind(0)
    assert read_metrics(run.path) == [{"note": "no steps"}]


def test_rewinding_before_the_first_row(run: RunFolder):
    assert run.rewind(5) == 0
    assert not (run.path / "metrics.jsonl").exists()


@pytest.mark.parametrize("tail", ['{"steps": 3', '{"steps": 3, "x": "a', "\0\0\0", "7", '{"steps": 2}\n{"st'])
def test_a_torn_last_line_is_left_out_and_mended(run: RunFolder, tail: str):
    run.begin()
    run.append({"steps": 1})
    whole = [{"steps": 1}, {"steps": 2}] if "\n" in tail else [{"steps": 1}]
    with (run.path / "metrics.jsonl").open("a") as file:
        file.write(tail)
    assert read_metrics(run.path) == whole
    run.close()
    with RunFolder.open(run.path) as again:
        again.append({"steps": 4})
    assert read_metrics(run.path) == [*whole, {"steps": 4}]


def test_a_last_line_that_only_lacks_its_end_is_kept(run: RunFolder):
    (run.path / "metrics.jsonl").write_text('{"steps": 1}\n{"steps": 2}')
    run.rewind(2)
    assert text_of(run) == '{"steps": 1}\n{"steps": 2}\n'


def test_damage_elsewhere_is_named_and_a_resumed_run_goes_on(run: RunFolder):
    (run.path / "metrics.jsonl").write_text('{"steps": 1}\n{"ste\n{"steps": 3}\n')
    with pytest.raises(ValueError, match=r"metrics\.jsonl is damaged: line 2 is not a JSON object"):
        read_metrics(run.path)
    run.rewind(5)
    assert read_metrics(run.path) == [{"steps": 1}, {"steps": 3}]


def test_a_rewind_is_all_or_nothing(run: RunFolder, monkeypatch: pytest.MonkeyPatch):
    for steps in (1, 2):
        run.append({"steps": steps})

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"metrics\.jsonl cannot be written .*: free some space") as caught:
        run.rewind(1)
    assert caught.value.errno == errno.ENOSPC
    assert read_metrics(run.path) == [{"steps": 1}, {"steps": 2}]
    assert not list(run.path.glob(".*.tmp"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no limits on files here")
def test_a_full_disk_leaves_no_half_line(run: RunFolder):
    """A limit on the size of files is as good as a disk that is full after so many bytes."""
    import resource

    run.append({"steps": 1})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20, before[1]))
        with pytest.raises(OSError, match=r"metrics\.jsonl cannot be written") as caught:
            run.append({"steps": 2, "text": "x" * 50})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.errno == errno.EFBIG
    assert text_of(run) == '{"steps": 1}\n'


# Names


def test_fresh_names_count_on(tmp_path: Path):
    assert fresh_name(tmp_path / "runs", "ballet-hcam") == tmp_path / "runs" / "ballet-hcam-1"
    for name in ("ballet-hcam-1", "ballet-hcam-9", "ballet-hcam-10", "ballet-hcam-x", "ballet-trxl-30", "ballet-hcam"):
        (tmp_path / name).mkdir()
    assert fresh_name(tmp_path, "ballet-hcam").name == "ballet-hcam-11"
    assert fresh_name(tmp_path, "ballet.hcam").name == "ballet.hcam-1"


def test_a_run_may_be_told_to_go_on_for_longer(tmp_path: Path):
    with RunFolder.create(tmp_path / "run", {"steps": 10, "width": 3}) as run:
        made = json.loads((tmp_path / "run" / "config.json").read_text())["made_by"]
        run.amend({"steps": 20, "width": 3})
        assert run.config == {"steps": 20, "width": 3}
    content = {"format": 2, "config": run.config, "made_by": made}
    assert json.loads((tmp_path / "run" / "config.json").read_text()) == content
