"""metrics.jsonl: one JSON object a line, added while a run trains, and read at any time, also by other processes."""

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from hcam.runs import migrate
from hcam.runs.files import exists, explained, open_regular, open_to_read, parse_json, write_file

FILE_LIMIT = 4 * 2**30  # bytes: years of training
LINE_LIMIT = 16 * 2**20  # bytes: rows have some thousand


def append(path: Path, row: Mapping[str, Any]) -> None:
    """Adds a line at once, whole or not at all; never through a symbolic link."""
    line = (json.dumps(plain(row), allow_nan=False) + "\n").encode()
    with explained(f"{path} cannot be written"):
        descriptor = open_regular(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, follow=False)
        with os.fdopen(descriptor, "ab", buffering=0) as file:
            end = file.seek(0, os.SEEK_END)
            try:
                written = 0
                while written < len(line):  # a disk that fills up takes the first part and refuses the next
                    written += file.write(line[written:])
            except OSError:
                with suppress(OSError):
                    file.truncate(end)
                raise


def rewind(path: Path, steps: float) -> int:
    """Drops the lines of rows after `steps`, and lines that are no rows; returns how many. All happens or nothing."""
    if not exists(path):
        return 0
    with explained(f"{path} cannot be written"):
        whole = True
        wanted = bytearray()
        with open_to_read(path, FILE_LIMIT, follow=False) as file:
            for line in _lines(file):
                wanted.append(_is_before(line, steps))
                whole = line.endswith(b"\n")
        if not whole or not all(wanted):
            with open_to_read(path, FILE_LIMIT, follow=False) as file:
                pairs = zip(_lines(file), wanted, strict=True)
                write_file(path, (line.removesuffix(b"\n") + b"\n" for line, kept in pairs if kept))
        return wanted.count(0)


def iterate(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields the rows with the numbers of their lines, without holding all of them in memory.

    Leaves out a last line that is not whole yet; raises ValueError for any other line that is not a JSON object.
    """
    if not exists(path):
        return
    torn = 0
    with open_to_read(path, FILE_LIMIT) as file:
        for number, line in enumerate(_lines(file), start=1):
            if torn:
                raise ValueError(f"{path} is damaged: line {torn} is not a JSON object, delete it.")
            row = _row(line)
            if row is None:
                torn = number
            else:
                yield number, migrate.row(row)


def plain(value: Any) -> Any:
    """Returns a value as plain JSON: numbers for arrays, lists for tuples, null for what is no finite number."""
    if isinstance(value, Mapping):
        return {str(name): plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if hasattr(value, "tolist"):  # an array or a number of numpy's or JAX's
        return plain(value.tolist())
    if isinstance(value, Path):
        return str(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Yields lines with their ends. One that is far too long for a row comes in pieces, which are no rows either."""
    return iter(lambda: file.readline(LINE_LIMIT), b"")


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        row = parse_json(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def _is_before(line: bytes, steps: float) -> bool:
    """Whether a line is a row that is not after `steps`; a row that does not say counts as before."""
    row = _row(line)
    at = None if row is None else row.get("steps")
    return row is not None and (at <= steps if isinstance(at, int | float) else True)
