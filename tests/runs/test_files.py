"""Files: what is not a regular file is never opened, and what is written is there whole or not at all."""

import errno
import json
import os
import secrets
import socket
import stat
from pathlib import Path
from typing import Any

import pytest

from hcam.runs import files
from hcam.runs.files import (
    RefusedError,
    as_json,
    clean,
    explained,
    open_regular,
    open_to_read,
    parse_json,
    read_file,
    refuse_unwritable,
    write_file,
)

needs_posix = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes or links here")


def make(kind: str, path: Path) -> None:
    if kind == "a named pipe":
        os.mkfifo(path)
    elif kind == "a folder":
        path.mkdir()
    elif kind == "a socket":
        before = os.getcwd()
        os.chdir(path.parent)  # the names of sockets are short
        try:
            with socket.socket(socket.AF_UNIX) as one:
                one.bind(path.name)
        finally:
            os.chdir(before)
    elif kind == "a device":
        path.symlink_to("/dev/zero")


KINDS = ["a named pipe", "a folder", "a socket", "a device"]


# Reading


def test_a_regular_file_is_read(tmp_path: Path):
    (tmp_path / "file").write_bytes(b"a\r\nb")
    assert read_file(tmp_path / "file") == b"a\r\nb"
    assert read_file(tmp_path / "file", 4) == b"a\r\nb"


@needs_posix
@pytest.mark.parametrize("kind", KINDS)
def test_anything_else_is_refused_and_not_waited_for(tmp_path: Path, kind: str):
    make(kind, tmp_path / "x")
    with pytest.raises(RefusedError, match=f"x is {kind}, not a regular file: remove it, or put a copy"):
        read_file(tmp_path / "x")


@needs_posix
def test_a_link_is_followed_only_where_it_may_be(tmp_path: Path):
    (tmp_path / "file").write_bytes(b"secret")
    (tmp_path / "link").symlink_to("file")
    assert read_file(tmp_path / "link") == b"secret"
    with pytest.raises(RefusedError, match="link is a symbolic link, not a regular file"):
        read_file(tmp_path / "link", follow=False)


@needs_posix
@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_RDWR | os.O_CREAT])
def test_a_link_that_comes_in_between_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: int):
    """The check before opening sees a regular file, and then there is another one."""
    (tmp_path / "file").write_bytes(b"secret")
    (tmp_path / "x").write_bytes(b"")
    look = os.lstat

    def replaced(path: Any) -> os.stat_result:
        monkeypatch.undo()
        found = look(path)
        (tmp_path / "x").unlink()
        (tmp_path / "x").symlink_to("file")
        return found

    monkeypatch.setattr(os, "lstat", replaced)
    with pytest.raises(RefusedError, match="x is a symbolic link"):
        open_regular(tmp_path / "x", flags, follow=False)
    assert (tmp_path / "file").read_bytes() == b"secret"


@needs_posix
def test_a_pipe_that_comes_in_between_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "x").write_bytes(b"")
    look = os.stat

    def replaced(path: Any) -> os.stat_result:
        monkeypatch.undo()
        found = look(path)
        (tmp_path / "x").unlink()
        os.mkfifo(tmp_path / "x")
        return found

    monkeypatch.setattr(os, "stat", replaced)
    with pytest.raises(RefusedError, match="x is a named pipe"):
        open_regular(tmp_path / "x", follow=True)


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path):
    with open(tmp_path / "large", "wb") as file:
        file.truncate(2**40)  # a hole, which takes no space
    with pytest.raises(
        RefusedError, match=r"large has 1,099,511,627,776 bytes, more than the 67,108,864 .*: remove it\."
    ):
        read_file(tmp_path / "large")


def test_whether_anything_is_there(tmp_path: Path):
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nowhere")
    assert [files.exists(tmp_path / name) for name in ("file", "link", "x", "file/x")] == [True, True, False, False]
    with pytest.raises(OSError, match=r"x cannot be read \(File name too long\)\.$"):
        files.exists(tmp_path / ("x" * 300))


def test_what_is_not_there_is_not_found(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match=r"x cannot be read \(No such file or directory\)\.$"):
        open_to_read(tmp_path / "x", 1)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the administrator may read anything")
def test_what_may_not_be_read(tmp_path: Path):
    (tmp_path / "x").touch(0)
    with pytest.raises(PermissionError, match=r"x cannot be read \(Permission denied\): change its permissions\.$"):
        read_file(tmp_path / "x")


# JSON


@pytest.mark.parametrize("text", [b"", b"{", b"\xff\xfe\x00", b'{"a": \xff}', b"1" * 5000])
def test_what_is_not_json_is_a_value_error(text: bytes):
    with pytest.raises(ValueError):  # noqa: PT011  (the sentence is the caller's)
        parse_json(text)


@pytest.mark.parametrize("depth", [65, 500, 990, 100_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_what_nests_too_deeply_is_a_value_error(depth: int, opening: str, closing: str):
    with pytest.raises(ValueError, match="more than 64 objects and lists inside one another"):
        parse_json((opening * depth + "1" + closing * depth).encode())


@pytest.mark.parametrize("text", [b'{"a": NaN}', b"[Infinity]", b"-Infinity"])
def test_what_json_does_not_have_is_read_unless_it_must_be_json(text: bytes):
    parse_json(text)
    with pytest.raises(ValueError, match="is not JSON"):
        parse_json(text, strict=True)


def test_what_is_wide_is_not_deep():
    wide = [{"a": [1]}] * 1000
    assert parse_json(json.dumps(wide).encode()) == wide
    assert parse_json(b"[" * 63 + b"1" + b"]" * 63)


def test_only_plain_json_is_written():
    assert json.loads(as_json({"a": [1, None]})) == {"a": [1, None]}
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    for wrong in (float("nan"), Path(), {1, 2}, deep):
        with pytest.raises(TypeError, match="not plain JSON and cannot be saved"):
            as_json({"a": wrong})


# Writing


@needs_posix
def test_writing_replaces_a_link_and_not_what_it_points_to(tmp_path: Path):
    (tmp_path / "file").write_bytes(b"mine")
    (tmp_path / "link").symlink_to("file")
    write_file(tmp_path / "link", b"new")
    assert (tmp_path / "file").read_bytes() == b"mine"
    assert (tmp_path / "link").read_bytes() == b"new"
    assert not (tmp_path / "link").is_symlink()


@needs_posix
def test_the_temporary_file_cannot_be_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Even if somebody guesses its name."""
    monkeypatch.setattr(secrets, "token_hex", lambda count: "guessed")
    (tmp_path / "file").write_bytes(b"mine")
    (tmp_path / ".x.guessed.tmp").symlink_to("file")
    with pytest.raises(FileExistsError):
        write_file(tmp_path / "x", b"new")
    assert (tmp_path / "file").read_bytes() == b"mine"
    assert not (tmp_path / "x").exists()


def test_the_temporary_file_has_another_name_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    made: list[str] = []
    create = files.create

    def noted(path: Path) -> Any:
        made.append(path.name)
        return create(path)

    monkeypatch.setattr(files, "create", noted)
    for _ in range(2):
        write_file(tmp_path / "x", b"")
    assert len(set(made)) == 2
    assert str(os.getpid()) not in made[0].split(".")


def test_what_is_written_may_be_read_by_others_as_usual(tmp_path: Path):
    write_file(tmp_path / "x", [b"a", b"b"])
    (tmp_path / "usual").touch()
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("x", "usual")}
    assert len(modes) == 1
    assert (tmp_path / "x").read_bytes() == b"ab"


@pytest.mark.parametrize("name", ["x" * 255, "é" * 127, "日" * 85])
def test_the_longest_names_can_be_written(tmp_path: Path, name: str):
    write_file(tmp_path / name, b"1")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_write_that_fails_leaves_nothing(tmp_path: Path):
    def parts():
        yield b"half"
        raise KeyboardInterrupt

    (tmp_path / "x").write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt):
        write_file(tmp_path / "x", parts())
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    assert (tmp_path / "x").read_bytes() == b"old"


def test_what_killed_processes_left_is_removed_and_nothing_else(tmp_path: Path):
    left = [".x.0123456789abcdef.tmp", ".x.1234.tmp"]  # the latter is how earlier versions called it
    others = [".mine.tmp", ".x.tmp", "x.0123456789abcdef.tmp", ".x.old.tmp"]
    for name in [*left, *others, ".y.0123456789abcdef.tmp"]:
        (tmp_path / name).touch()
    clean(tmp_path, "x")
    assert {path.name for path in tmp_path.iterdir()} == {*others, ".y.0123456789abcdef.tmp"}
    clean(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(others)


# Sentences


def test_an_error_of_the_system_becomes_a_sentence():
    sentence = r"^it cannot be done \(No space left on device\): free some space\.$"
    with pytest.raises(OSError, match=sentence) as caught, explained("it cannot be done"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert caught.value.errno == errno.ENOSPC
    with pytest.raises(PermissionError, match=r": ask\.$"), explained("it cannot be done", denied="ask"):
        raise PermissionError(errno.EACCES, "Permission denied")
    sentence = r"^inside \(No space left on device\): free some space\.$"  # said once
    with pytest.raises(OSError, match=sentence), explained("outside"), explained("inside"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(OSError, match=r"^A sentence\.$"), explained("it cannot be done"):
        raise OSError("A sentence.")


def test_a_file_can_be_written_where_its_folder_can_be_made(tmp_path: Path):
    refuse_unwritable(tmp_path / "new" / "folder" / "numbers.json")
    assert list((tmp_path / "new" / "folder").iterdir()) == []
    with pytest.raises(IsADirectoryError, match="is a folder: give the name of a file"):
        refuse_unwritable(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="cannot be written"):
        refuse_unwritable(tmp_path / "file" / "below")
