"""Checkpoints: named arrays in a .safetensors file and a .json beside it. Loading one never executes code.

The .json carries the size and the checksum of the arrays and makes a checkpoint count, so it is written last. Every
file appears under its name at once and whole, so a process may be killed, or a disk be full, at any moment.
"""

import errno
import hashlib
import json
import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import safetensors.numpy

from hcam.memory import checks
from hcam.memory.types import Array

FORMAT = 1
BEST = "best"

Record = dict[str, Any]

# What safetensors calls them. Its own reader for numpy does not know bfloat16, though its writer does.
DTYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    **{f"I{8 * size}": np.dtype(f"int{8 * size}") for size in (1, 2, 4, 8)},
    **{f"U{8 * size}": np.dtype(f"uint{8 * size}") for size in (1, 2, 4, 8)},
    **{f"F{8 * size}": np.dtype(f"float{8 * size}") for size in (2, 4, 8)},
    "C64": np.dtype(np.complex64),
    "BF16": np.dtype(jnp.bfloat16),
}


class Damaged(Exception):  # noqa: N818  (never leaves this file)
    """Why a checkpoint cannot be used."""


def save(folder: Path, tree: Any, number: int, about: dict[str, Any], *, keep: int = 3) -> Path:
    """Saves a pytree of arrays under a number, for example steps so far; then all but `keep` of the older ones go.

    `about` is plain JSON and comes back with the arrays.
    """
    checks.positive(keep=keep)
    if number < 0:
        raise ValueError(f"a checkpoint's number must not be negative, but is {number}.")
    path = save_as(folder, f"{number:012d}", tree, about)
    _prune(folder, number, keep)
    return path


def save_best(folder: Path, tree: Any, about: dict[str, Any]) -> Path:
    """Saves a pytree in the place of the best one so far; `restore(..., name="best")` reads it."""
    return save_as(folder, BEST, tree, about)


def restore(folder: Path, like: Any, *, name: str | None = None, prefix: str = "") -> tuple[Any, dict[str, Any]] | None:
    """The newest checkpoint that is whole (or the one called `name`) and what was said about it; None: there is none.

    `like` gives structure, shapes and dtypes, as arrays or as from `jax.eval_shape`. With a `prefix` such as "params"
    it is like that part of what was saved, and only that part is read.
    """
    names = [name] if name is not None else [f"{number:012d}" for number in _numbers(folder)]
    skipped: dict[str, str] = {}
    for candidate in names:
        path = folder / f"{candidate}.safetensors"
        if not path.exists() and not path.with_suffix(".json").exists():
            continue
        try:
            data, record = _read(path)
        except Damaged as reason:
            skipped[candidate] = f"{path.name} {reason}"
            continue
        for problem in skipped.values():
            warnings.warn(f"in {folder}, {problem}: {path.name} is used instead.", stacklevel=2)
        return _rebuild(path, _unpack(data, record["keys"], prefix), like, prefix), record["about"]
    finished = [problem for stem, problem in skipped.items() if (folder / f"{stem}.json").exists()]
    if finished:
        raise ValueError(
            f"no checkpoint in {folder} is whole, {'; '.join(finished)}: bring one back from a copy or begin a new run."
        )
    for problem in skipped.values():
        warnings.warn(f"in {folder}, {problem}: there is no other checkpoint.", stacklevel=2)
    return None


def save_as(folder: Path, name: str, tree: Any, about: dict[str, Any]) -> Path:
    """Saves a pytree under any name, in the place of the one that had it; `restore(..., name=...)` reads it."""
    arrays, keys = _pack(tree)
    path = folder / f"{name}.safetensors"
    beside = path.with_suffix(".json")
    data = safetensors.numpy.save(arrays)
    about = json.loads(as_json(about))  # its keys are text now, as when it is read
    record = _sealed({"format": FORMAT, "about": about, "keys": keys, "bytes": len(data), "sha256": _sha256(data)})
    with explained(f"the checkpoint {path} cannot be written"):
        folder.mkdir(parents=True, exist_ok=True)
        clean(folder)
        before: list[Record] = []
        with suppress(Damaged):
            before = _records(_bytes_of(beside))
        if before:  # between the two files both the old arrays and the new ones must count
            write_file(beside, as_json({**record, "before": before}))
        write_file(path, data)
        write_file(beside, as_json(record))
    return path


def _prune(folder: Path, number: int, keep: int) -> None:
    """Deletes older checkpoints and arrays whose .json was never written; what resists is left for the next time."""
    older = [found for found in _numbers(folder) if found < number]
    paths = {found: folder / f"{found:012d}.safetensors" for found in _numbers(folder)}
    unfinished = [found for found, path in paths.items() if not path.with_suffix(".json").exists()]
    with suppress(OSError):
        for found in {*older[keep - 1 :], *unfinished}:
            paths[found].with_suffix(".json").unlink(missing_ok=True)  # first: from here on it does not count
            paths[found].unlink(missing_ok=True)


def _numbers(folder: Path) -> list[int]:
    """Numbers of the checkpoints, whole or not, the newest first."""
    names = (path.stem for path in folder.glob("*") if path.suffix in {".json", ".safetensors"})
    return sorted({int(name) for name in names if re.fullmatch(r"[0-9]{12,}", name)}, reverse=True)


def _read(path: Path) -> tuple[bytes, Record]:
    """The arrays' bytes and the record that fits them."""
    beside = path.with_suffix(".json")
    while True:
        text = _bytes_of(beside)
        try:
            records = _records(text)
            data = _bytes_of(path)
            digest = _sha256(data)
            fitting = [record for record in records if record["sha256"] == digest]
            if fitting:
                return data, fitting[0]
            if len(data) != records[0]["bytes"]:
                raise Damaged(f"has {len(data)} bytes instead of {records[0]['bytes']}")
            raise Damaged("does not hold the bytes that were saved")
        except Damaged:
            if _bytes_of(beside) == text:  # otherwise it has just been replaced by the process that trains
                raise


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        what = "its save was interrupted" if path.suffix == ".json" else "its arrays are gone"
        raise Damaged(f"is only half there, as there is no {path.name} ({what})") from None
    except OSError as error:
        raise Damaged(f"is not usable, as {path.name} cannot be read ({error.strerror})") from error


def _records(text: bytes) -> list[Record]:
    """What a .json says: its record and, after a save that was interrupted, those that the arrays may still fit."""
    try:
        record = json.loads(text)
        records = [record, *record.pop("before", [])]
        sound = all(_sealed(record) == record for record in records)
    except (ValueError, TypeError, AttributeError):  # not JSON, or JSON of another kind
        sound = False
    if not sound:
        raise Damaged("has a .json that is " + ("damaged" if text else "empty"))
    for record in records:
        if record["format"] > FORMAT:
            raise ValueError(f"the checkpoint has format {record['format']}, newer than this hcam: update hcam.")
    return records


def _sealed(record: Record) -> Record:
    """With its own checksum, as a flipped bit may leave a number a number."""
    content = {name: value for name, value in record.items() if name != "seal"}
    return {**content, "seal": _sha256(as_json(content))}


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def as_json(content: dict[str, Any]) -> bytes:
    try:
        return (json.dumps(content, indent=1, allow_nan=False) + "\n").encode()
    except (TypeError, ValueError) as error:
        raise TypeError(f"this is not plain JSON and cannot be saved: {error}.") from error


def _named(tree: Any, prefix: str = "") -> dict[str, Any]:
    """Leaves by path: `params/encoder/join/w`."""
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    inside = [jax.tree_util.keystr(path, simple=True, separator="/") for path, _ in leaves]
    names = ["/".join(filter(None, (prefix, name))) for name in inside]
    for name in names:
        if names.count(name) > 1 or name == "__metadata__":  # safetensors takes the latter for itself
            raise ValueError(f"no array, or no second one, can be called {name}: rename it.")
    return dict(zip(names, (leaf for _, leaf in leaves), strict=True))


def _pack(tree: Any) -> tuple[dict[str, np.ndarray[Any, Any]], dict[str, str]]:
    """Arrays by name; and for those that are data of random keys, which generator's."""
    arrays, keys = {}, {}
    for name, leaf in _named(tree).items():
        if not hasattr(leaf, "dtype"):
            raise TypeError(f"{name} must be an array, but is {leaf!r}: numbers and text go into `about`.")
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            keys[name] = str(jax.random.key_impl(leaf))
            leaf = jax.random.key_data(leaf)
        array = np.asarray(leaf, order="C")  # safetensors writes other orders as if they were this one
        if array.dtype not in DTYPES.values() or jax.dtypes.canonicalize_dtype(array.dtype) != array.dtype:
            raise TypeError(f"{name} has dtype {array.dtype}, which would not come back the same: convert it.")
        arrays[name] = array
    return arrays, keys


def _unpack(data: bytes, keys: dict[str, str], prefix: str) -> dict[str, Array]:
    leaves: dict[str, Array] = {}
    for name, entry in safetensors.deserialize(data):  # type: ignore[no-untyped-call]
        if prefix and name != prefix and not name.startswith(f"{prefix}/"):
            continue
        leaf = jnp.array(np.frombuffer(entry["data"], DTYPES[entry["dtype"]]).reshape(entry["shape"]))
        leaves[name] = jax.random.wrap_key_data(leaf, impl=keys[name]) if name in keys else leaf
    return leaves


def _rebuild(path: Path, leaves: dict[str, Array], like: Any, prefix: str) -> Any:
    """The leaves in the structure of `like`, if they are the same."""
    wanted = _named(like, prefix)
    for name in [*wanted, *leaves]:
        there, here = leaves.get(name), wanted.get(name)
        if there is None or here is None or there.shape != here.shape or there.dtype != here.dtype:
            retyped = there is not None and here is not None and there.dtype != here.dtype
            raise ValueError(
                f"the checkpoint {path} was made with another architecture or other sizes: "
                f"{name} is {_shown(there, retyped)} there but {_shown(here, retyped)} here."
            )
    return jax.tree.unflatten(jax.tree.structure(like), [leaves[name] for name in wanted])


def _shown(leaf: Any, retyped: bool) -> str:
    if leaf is None:
        return "nothing"
    return f"{leaf.dtype} {list(leaf.shape)}" if retyped else f"{list(leaf.shape)}"


def write_file(path: Path, data: bytes) -> None:
    """All of it or nothing, also when the process is killed or the machine stops."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
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


def clean(folder: Path, name: str = "") -> None:
    """Removes what `write_file` left behind when its process was killed, of all files or of one."""
    for path in folder.glob(f".{name}*.tmp"):
        with suppress(OSError):
            path.unlink()


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Turns an OSError into one of the same kind and number that says what could not be done, and what would help."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # a sentence of our own already
            raise
        advice = {errno.ENOSPC: ": free some space", errno.EDQUOT: ": free some space"}
        advice |= dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), ": choose a folder that you may write to")
        clear = type(error)(f"{what} ({error.strerror or error}){advice.get(error.errno, '')}.")
        clear.errno = error.errno  # given to the constructor it would stand in front of the sentence
        raise clear from error
