"""Checkpoints: named arrays in a .safetensors file and a record in a .json beside it. Loading never executes code.

The record holds the size and the checksum of the arrays. It is written last, and a checkpoint without one does not
count. Every file appears whole under its name, so a process may be killed, or a disk may fill up, at any moment.
"""

import hashlib
import os
import re
import sys
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import safetensors.numpy

from hcam.memory import checks
from hcam.memory.types import Array
from hcam.runs.files import RefusedError, as_json, clean, exists, explained, parse_json, read_file, write_file
from hcam.runs.text import printable

FORMAT = 2  # format 1 called the metadata `about`
BEST = "best"

Record = dict[str, Any]

# By their names in safetensors, whose own reader for numpy does not know bfloat16, though its writer does.
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


def warn(sentence: str) -> None:
    """Prints a sentence on stderr, on one line; nobody need read it."""
    with suppress(OSError, ValueError):  # a closed file is a ValueError
        print(printable(sentence), file=sys.stderr)


def save(folder: Path, tree: Any, number: int, metadata: dict[str, Any], *, keep: int = 3) -> Path:
    """Saves a pytree of arrays under a number, such as the count of updates, and deletes all but `keep` older ones.

    `metadata` must be plain JSON; `restore` returns it with the arrays.
    """
    checks.positive(keep=keep)
    if number < 0:
        raise ValueError(f"a checkpoint's number must not be negative, but is {number}.")
    path = save_as(folder, f"{number:012d}", tree, metadata)
    _prune(folder, number, keep)
    return path


def save_best(folder: Path, tree: Any, metadata: dict[str, Any]) -> Path:
    """Saves a pytree in place of the best one so far; `restore(..., name="best")` reads it."""
    return save_as(folder, BEST, tree, metadata)


def restore(
    folder: Path,
    like: Any,
    *,
    name: str | None = None,
    prefix: str = "",
    numbers: Collection[str] = (),
    on_skip: Callable[[str], None] = warn,
) -> tuple[Any, dict[str, Any]] | None:
    """Returns the arrays and the metadata of the newest intact checkpoint, or of the one called `name`.

    Returns None where there is no checkpoint. Calls `on_skip` with a sentence for each damaged one that it passes
    over, and raises ValueError where all are damaged. `like` gives structure, shapes and dtypes, as arrays or as from
    `jax.eval_shape`; with a `prefix` such as "params" it describes, and restores, only that part of what was saved.
    `numbers` names metadata that must be there and finite: a checkpoint that lacks one of them is damaged.
    """
    names = [name] if name is not None else [f"{number:012d}" for number in _numbers(folder)]
    skipped: dict[str, str] = {}
    for candidate in names:
        path = folder / f"{candidate}.safetensors"
        if not exists(path) and not exists(path.with_suffix(".json")):
            continue
        try:
            data, record = _read(path)
            _refuse_lacking(record["metadata"], numbers)
            leaves = _decode(data, record["keys"], prefix)
        except Damaged as reason:
            skipped[candidate] = f"{path.name} {reason}"
            continue
        for problem in skipped.values():
            on_skip(f"in {folder}, {problem}: {path.name} is used instead.")
        return _rebuild(path, leaves, like, prefix), record["metadata"]
    finished = [problem for stem, problem in skipped.items() if exists(folder / f"{stem}.json")]
    if finished:
        raise ValueError(
            f"no checkpoint in {folder} is intact, {'; '.join(finished)}: restore one from a copy or start a new run."
        )
    for problem in skipped.values():
        on_skip(f"in {folder}, {problem}: there is no other checkpoint.")
    return None


def save_as(folder: Path, name: str, tree: Any, metadata: dict[str, Any]) -> Path:
    """Saves a pytree under any name, in place of the one that had it; `restore(..., name=...)` reads it."""
    arrays, keys = _pack(tree)
    path = folder / f"{name}.safetensors"
    beside = path.with_suffix(".json")
    data = safetensors.numpy.save(arrays)
    record = {"format": FORMAT, "metadata": metadata, "keys": keys, "bytes": len(data), "sha256": _sha256(data)}
    record = parse_json(as_json({"before": [record]}))["before"][0]  # refuses now what could not be read again
    with explained(f"the checkpoint {path} cannot be written"):
        folder.mkdir(parents=True, exist_ok=True)
        clean(folder)
        before: list[Record] = []
        with suppress(Damaged):
            before = _sealed_records(_read_bytes(beside))
        if before:  # between the two files, the old arrays must count as well as the new ones
            write_file(beside, as_json({**_sealed(record), "before": before}))
        write_file(path, data)
        write_file(beside, as_json(_sealed(record)))
    return path


def _prune(folder: Path, number: int, keep: int) -> None:
    """Deletes older checkpoints, and arrays without a record; what cannot be deleted is left for the next time."""
    found = _numbers(folder)
    paths = {one: folder / f"{one:012d}.safetensors" for one in found}
    unfinished = [one for one, path in paths.items() if not path.with_suffix(".json").exists()]
    for one in {*[one for one in found if one < number][keep - 1 :], *unfinished}:
        with suppress(OSError):
            paths[one].with_suffix(".json").unlink(missing_ok=True)  # first: from here on it does not count
            paths[one].unlink(missing_ok=True)


def _numbers(folder: Path) -> list[int]:
    """Returns the numbers of the checkpoints, whole or not, the newest first."""
    names = (path.stem for path in folder.glob("*") if path.suffix in {".json", ".safetensors"})
    return sorted({int(name) for name in names if re.fullmatch(r"[0-9]{12,}", name)}, reverse=True)


def _read(path: Path) -> tuple[bytes, Record]:
    """Returns the bytes of the arrays and the record that fits them."""
    beside = path.with_suffix(".json")
    while True:
        text = _read_bytes(beside)
        try:
            records = [_checked(record) for record in _sealed_records(text)]
            data = _read_bytes(path, max(record["bytes"] for record in records))
            digest = _sha256(data)
            fitting = [record for record in records if record["sha256"] == digest]
            if fitting:
                return data, fitting[0]
            if len(data) != records[0]["bytes"]:
                raise Damaged(f"has {len(data)} bytes instead of {records[0]['bytes']}")
            raise Damaged("does not hold the bytes that were saved")
        except Damaged:
            if _read_bytes(beside) == text:  # otherwise the process that trains has just replaced it
                raise


def _read_bytes(path: Path, *limit: int) -> bytes:
    try:
        return read_file(path, *limit)
    except FileNotFoundError:
        what = "its save was interrupted" if path.suffix == ".json" else "its arrays are gone"
        raise Damaged(f"is incomplete, as {path.name} is missing ({what})") from None
    except RefusedError as error:
        raise Damaged(f"is not usable, as {path.name} {error.reason}") from error
    except MemoryError as error:
        raise Damaged(f"is not usable, as {path.name} does not fit into memory") from error
    except OSError as error:
        raise Damaged(f"is not usable, as {path.name} cannot be read ({os.strerror(error.errno or 0)})") from error


def _sealed_records(text: bytes) -> list[Record]:
    """Returns the record in a .json and, after an interrupted save, those that the arrays may still fit."""
    try:
        record = parse_json(text)
        records = [record, *record.pop("before", [])]
        sound = all(_sealed(record) == record for record in records)
    except (ValueError, TypeError, AttributeError):  # not JSON, or JSON of another kind
        sound = False
    if not sound:
        raise Damaged("has a .json that is " + ("damaged" if text else "empty"))
    return records


def _checked(record: Record) -> Record:
    """Returns a record of any known format as one of today's, with every field there and of its type."""
    number = record.get("format")
    if type(number) is int and FORMAT < number < 1000:  # a larger one is nobody's
        raise ValueError(f"the checkpoint has format {number}, newer than this hcam: update hcam.")
    metadata = record.get("about" if number == 1 else "metadata")
    kinds = {"format": int, "bytes": int, "sha256": str, "keys": dict}
    wrong = [name for name, kind in kinds.items() if type(record.get(name)) is not kind]
    wrong += [] if isinstance(metadata, dict) else ["metadata"]
    wrong += [] if wrong or all(isinstance(kind, str) for kind in record["keys"].values()) else ["keys"]
    wrong += [name for name, least in (("format", 1), ("bytes", 0)) if not wrong and not least <= record[name] < 2**63]
    if wrong:
        raise Damaged(f"has a .json without a valid entry for {', '.join(wrong)}")
    return {**record, "metadata": metadata}


def _refuse_lacking(metadata: dict[str, Any], numbers: Collection[str]) -> None:
    for name in numbers:
        value = metadata.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 2**63:
            raise Damaged(f"has a .json whose metadata has no number {name}")


def _sealed(record: Record) -> Record:
    """Returns the record with a checksum of itself, as a flipped bit may leave a number a number."""
    content = {name: value for name, value in record.items() if name != "seal"}
    return {**content, "seal": _sha256(as_json(content))}


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _named(tree: Any, prefix: str = "") -> dict[str, Any]:
    """Returns the leaves by path: `params/encoder/join/w`."""
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    inside = [jax.tree_util.keystr(path, simple=True, separator="/") for path, _ in leaves]
    names = ["/".join(filter(None, (prefix, name))) for name in inside]
    for name in names:
        if names.count(name) > 1 or name == "__metadata__":  # safetensors takes the latter for itself
            raise ValueError(f"two arrays are called {name}, or the name is reserved: rename one.")
    return dict(zip(names, (leaf for _, leaf in leaves), strict=True))


def _pack(tree: Any) -> tuple[dict[str, np.ndarray[Any, Any]], dict[str, str]]:
    """Returns the arrays by name, and the name of the generator for those that are data of random keys."""
    arrays, keys = {}, {}
    for name, leaf in _named(tree).items():
        if not hasattr(leaf, "dtype"):
            raise TypeError(f"{name} must be an array, but is {leaf!r}: numbers and text go into `metadata`.")
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            keys[name] = str(jax.random.key_impl(leaf))
            leaf = jax.random.key_data(leaf)
        array = np.asarray(leaf, order="C")  # safetensors writes other orders as if they were this one
        if array.dtype not in DTYPES.values() or jax.dtypes.canonicalize_dtype(array.dtype) != array.dtype:
            raise TypeError(f"{name} has dtype {array.dtype}, which cannot be saved without loss: convert it.")
        arrays[name] = array
    return arrays, keys


def _decode(data: bytes, keys: dict[str, str], prefix: str) -> dict[str, Array]:
    """Returns the arrays by name. A checksum that fits does not make bytes readable: another program may have it."""
    leaves: dict[str, Array] = {}
    try:
        for name, entry in safetensors.deserialize(data):  # type: ignore[no-untyped-call]
            if prefix and name != prefix and not name.startswith(f"{prefix}/"):
                continue
            leaf = jnp.array(np.frombuffer(entry["data"], DTYPES[entry["dtype"]]).reshape(entry["shape"]))
            leaves[name] = jax.random.wrap_key_data(leaf, impl=keys[name]) if name in keys else leaf
    except KeyError as error:
        raise Damaged(f"holds an array of a kind that is not known here ({error.args[0]})") from error
    except (safetensors.SafetensorError, ValueError, TypeError, OverflowError) as error:
        raise Damaged(f"cannot be decoded ({printable(error).rstrip('.')})") from error
    return leaves


def _rebuild(path: Path, leaves: dict[str, Array], like: Any, prefix: str) -> Any:
    """Returns the leaves in the structure of `like`; raises ValueError where names, shapes or dtypes differ."""
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
