"""Files of a run folder: only regular files are opened, and a file that is written appears whole or not at all.

A run folder may come from somebody else. Reading follows symbolic links, since people link large checkpoints; writing
and exporting never do, or a link could name any file of the user's.
"""

import errno
import hashlib
import json
import os
import re
import secrets
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

JSON_LIMIT = 64 * 2**20  # bytes of a configuration, an evaluation or the record of a checkpoint
DEPTH_LIMIT = 64  # objects and lists inside one another: far below where Python's recursion ends
TOO_DEEP = f"JSON of more than {DEPTH_LIMIT} objects and lists inside one another cannot be read."

KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
# Windows lacks most of these flags. Without O_BINARY it would translate line ends.
NONBLOCK, NOFOLLOW, BINARY = (getattr(os, name, 0) for name in ("O_NONBLOCK", "O_NOFOLLOW", "O_BINARY"))


class RefusedError(OSError):
    """A file that is not opened; `reason` is the part of the sentence that says why."""

    def __init__(self, path: Path, reason: str, advice: str) -> None:
        super().__init__(f"{path} {reason}: {advice}.")
        self.reason = reason


def open_regular(path: Path, flags: int = os.O_RDONLY, *, follow: bool) -> int:
    """Returns a descriptor of a regular file; raises RefusedError for anything else.

    Opening a named pipe would wait for its other end, and opening a device may act on it, so the kind is checked
    before opening, and again afterwards in case the file was replaced in between.
    """
    with suppress(FileNotFoundError):
        _refuse_irregular(path, os.stat(path) if follow else os.lstat(path))
    try:
        descriptor = os.open(path, flags | BINARY | NONBLOCK | (0 if follow else NOFOLLOW), 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP and not follow:
            _refuse_irregular(path, os.lstat(path))
        raise
    try:
        _refuse_irregular(path, os.fstat(descriptor))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _refuse_irregular(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        kind = KINDS.get(stat.S_IFMT(found.st_mode), "something else")
        raise RefusedError(path, f"is {kind}, not a regular file", "remove it, or put a copy of the file in its place")


def exists(path: Path) -> bool:
    """Whether there is anything of this name, a link to nowhere included; raises OSError where nobody may look."""
    with explained(f"{path} cannot be read", denied="change its permissions"):
        try:
            os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True


def open_to_read(path: Path, limit: int, *, follow: bool = True) -> BinaryIO:
    """Returns a regular file of at most `limit` bytes, opened; otherwise raises OSError with a sentence."""
    with explained(f"{path} cannot be read", denied="change its permissions"):
        file = os.fdopen(open_regular(path, follow=follow), "rb")
    size = os.fstat(file.fileno()).st_size
    if size > limit:
        file.close()
        raise RefusedError(path, f"has {size:,} bytes, more than the {limit:,} that it may have", "remove it")
    return file


def read_file(path: Path, limit: int = JSON_LIMIT, *, follow: bool = True) -> bytes:
    """Returns all bytes of a regular file of at most `limit` bytes."""
    with explained(f"{path} cannot be read"), open_to_read(path, limit, follow=follow) as file:
        return file.read(os.fstat(file.fileno()).st_size)


def parse_json(text: bytes, *, strict: bool = False) -> Any:
    """Returns what JSON text says; raises ValueError where it is not JSON or nests too deeply to be walked through.

    Python also reads NaN and Infinity, which are not JSON and cannot be written back: `strict` refuses them.
    """
    try:
        found = json.loads(text, parse_constant=_refuse_constant if strict else None)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None
    if text.count(b"{") + text.count(b"[") > DEPTH_LIMIT:
        _refuse_deep(found)
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON.")


def _refuse_deep(tree: Any) -> None:
    layer = [tree]
    for _ in range(DEPTH_LIMIT):
        inner = [node.values() if isinstance(node, dict) else node for node in layer if isinstance(node, dict | list)]
        layer = [leaf for node in inner for leaf in node]
        if not layer:
            return
    raise ValueError(TOO_DEEP)


def as_json(content: dict[str, Any]) -> bytes:
    """Returns plain JSON as text; raises TypeError for anything else, NaN included."""
    try:
        return (json.dumps(content, indent=1, allow_nan=False) + "\n").encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"this is not plain JSON and cannot be saved: {error}.") from error


def write_file(path: Path, data: bytes | Iterable[bytes]) -> None:
    """Writes a file whole or not at all, also when the process is killed or the machine stops.

    A symbolic link of this name is replaced; what it points to stays as it is.
    """
    temporary = path.with_name(f".{_stem(path.name)}.{secrets.token_hex(8)}.tmp")
    try:
        with create(temporary) as file:
            for part in (data,) if isinstance(data, bytes) else data:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    if os.name != "nt":  # Windows cannot open a folder
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def create(path: Path) -> BinaryIO:
    """Opens a new file to write; raises FileExistsError where there is anything of this name, a link included."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NOFOLLOW | BINARY, 0o666), "wb")


def _stem(name: str) -> str:
    """Returns a name that leaves room for a suffix: file systems allow 255 bytes."""
    return name if len(os.fsencode(name)) <= 200 else hashlib.sha256(os.fsencode(name)).hexdigest()


def clean(folder: Path, name: str = "") -> None:
    """Removes what `write_file` left behind when its process was killed, of all files or of one."""
    for path in folder.glob(".*.tmp"):
        found = re.fullmatch(r"\.(.+)\.([0-9a-f]{16}|[0-9]+)\.tmp", path.name, flags=re.DOTALL)
        if found and (not name or found[1] == _stem(name)):
            with suppress(OSError):
                path.unlink()


@contextmanager
def explained(what: str, *, denied: str = "choose a folder that you may write to") -> Iterator[None]:
    """Turns an OSError into one of the same class and number that says what could not be done, and what would help."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.strerror is None:  # a sentence of our own already
            raise
        advice = dict.fromkeys((errno.ENOSPC, errno.EDQUOT), ": free some space")
        advice |= dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), f": {denied}")
        clear = type(error)(f"{what} ({error.strerror or error}){advice.get(error.errno, '')}.")
        clear.errno = error.errno  # given to the constructor it would stand in front of the sentence
        raise clear from error


def refuse_unwritable(path: Path) -> None:
    """Raises where a file could not be written later; makes the folder that it goes into."""
    with explained(f"{path} cannot be written"):
        if path.is_dir():
            raise IsADirectoryError(f"{path} is a folder: give the name of a file.")
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
