"""Checkpoints: the same bits come back, and nothing that happens to a process or a disk loses the last whole one."""

import errno
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hcam import agent, envs
from hcam.agent import AgentConfig
from hcam.agent.encoder import EncoderConfig
from hcam.agent.heads import HeadsConfig
from hcam.learning import objectives
from hcam.learning.learner import Learner, LearnerConfig
from hcam.learning.objectives import ObjectiveConfig
from hcam.learning.optimiser import OptimiserConfig
from hcam.learning.optimiser import make as make_optimiser
from hcam.memory import HCAM
from hcam.runs import checkpoint, files

DTYPES = ("bool", "uint8", "int8", "int16", "int32", "uint32", "float16", "bfloat16", "float32", "complex64")


class Pair(NamedTuple):
    left: Any
    right: Any


def tree(number: float) -> dict[str, Any]:
    """Every array of it tells the number."""
    return {
        "params": {"w": jnp.full((3, 5), number, jnp.float32)},
        "rest": (jnp.int32(number), jnp.uint8(number % 256)),
    }


def like(value: Any) -> Any:
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), value)


def bits(leaf: Any) -> tuple[Any, ...]:
    data = jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
    return str(leaf.dtype), leaf.shape, np.asarray(data).tobytes()


def assert_same(found: Any, wanted: Any) -> None:
    assert str(jax.tree.structure(found)) == str(jax.tree.structure(wanted))
    names = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_flatten_with_path(wanted)[0]]
    for name, one, other in zip(names, jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert bits(one) == bits(other), name


def restored(folder: Path, *wanted: Any, **options: Any) -> tuple[Any, dict[str, Any]]:
    found = checkpoint.restore(folder, like(wanted[0] if wanted else tree(0)), **options)
    assert found is not None
    return found


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# Round trip


@st.composite
def arrays(draw: st.DrawFn) -> jax.Array:
    dtype = np.dtype(jnp.dtype(draw(st.sampled_from(DTYPES))))
    shape = draw(st.lists(st.integers(0, 3), max_size=3))
    size = int(np.prod(shape, dtype=int)) * dtype.itemsize
    content = draw(st.binary(min_size=size, max_size=size))  # bits of any kind: NaNs with a message, subnormals, -0
    if dtype == np.bool_:
        content = bytes(byte & 1 for byte in content)
    return jnp.array(np.frombuffer(content, dtype).reshape(shape))


keys = st.builds(
    lambda seed, impl, split: jax.random.split(jax.random.key(seed, impl=impl), 3) if split else jax.random.key(seed),
    st.integers(0, 2**31 - 1),
    st.sampled_from(("threefry2x32", "rbg", "unsafe_rbg")),
    st.booleans(),
)
trees = st.recursive(
    arrays() | keys | st.none(),
    lambda inner: (
        st.dictionaries(st.text("abé ._-", min_size=1, max_size=4), inner, max_size=3)
        | st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.builds(Pair, inner, inner)
    ),
    max_leaves=6,
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(trees)
def test_any_tree_comes_back_bit_for_bit(tmp_path: Path, tree: Any):
    checkpoint.save_best(tmp_path, tree, {})
    assert_same(restored(tmp_path, tree, name="best")[0], tree)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
def test_every_dtype_and_shape(tmp_path: Path, dtype: str, shape: tuple[int, ...]):
    saved = {"x": jnp.ones(shape, dtype)}
    checkpoint.save(tmp_path, saved, 1, {})
    assert_same(restored(tmp_path, saved)[0], saved)


def test_an_array_in_another_order_is_saved_by_value(tmp_path: Path):
    saved = np.arange(6, dtype=np.float32).reshape(2, 3).T
    checkpoint.save(tmp_path, saved, 1, {})
    assert_same(restored(tmp_path, saved)[0], jnp.asarray(saved))


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_keys_are_keys_again_and_draw_the_same(tmp_path: Path, impl: str):
    saved = {"one": jax.random.key(3, impl=impl), "many": jax.random.split(jax.random.key(4, impl=impl), 5)}
    checkpoint.save(tmp_path, saved, 1, {})
    found = restored(tmp_path, saved)[0]
    assert_same(found, saved)
    assert jax.random.key_impl(found["one"]) == impl
    assert jax.random.bits(found["one"]) == jax.random.bits(saved["one"])


def test_arrays_are_named_by_their_path(tmp_path: Path):
    from safetensors import safe_open

    saved = {"params": Pair({"w": jnp.ones(2)}, [jnp.zeros(1), jnp.zeros(2)])}
    path = checkpoint.save(tmp_path, saved, 7, {})
    assert path == tmp_path / "000000000007.safetensors"
    with safe_open(path, "numpy") as file:
        assert set(file.keys()) == {"params/left/w", "params/right/0", "params/right/1"}


def test_metadata_comes_back(tmp_path: Path):
    metadata = {
        "steps": 10**12,
        "config": {"rate": 0.1, "levels": ["a", "b"], "none": None},
        "counts": {"10": 1, "2": 2},
    }
    checkpoint.save(tmp_path, tree(1), 1, {**metadata, "counts": {10: 1, 2: 2, "10": 1}})
    assert restored(tmp_path)[1] == metadata
    record = json.loads((tmp_path / "000000000001.json").read_text())
    assert record["format"] == checkpoint.FORMAT
    assert record["bytes"] == (tmp_path / "000000000001.safetensors").stat().st_size


@pytest.mark.parametrize(
    ("saved", "metadata", "sentence"),
    [
        ({"a": {"b": np.ones(1, np.float32)}, "a/b": np.ones(1, np.float32)}, {}, "two arrays are called a/b"),
        ({"a": 1.0}, {}, "a must be an array, but is 1.0"),
        ({"a": np.ones(1)}, {}, "a has dtype float64, which cannot be saved without loss"),
        ({"a": jnp.ones(1, jnp.int4)}, {}, "a has dtype int4"),
        ({}, {"score": float("nan")}, "not plain JSON"),
        ({}, {"path": Path()}, "not plain JSON"),
    ],
)
def test_what_would_not_come_back_is_refused(tmp_path: Path, saved: Any, metadata: dict[str, Any], sentence: str):
    with pytest.raises((TypeError, ValueError), match=sentence):
        checkpoint.save(tmp_path, saved, 1, metadata)
    assert names_in(tmp_path) == []


# Which one, and how many


def test_none_where_there_is_none(tmp_path: Path):
    assert checkpoint.restore(tmp_path, like(tree(0))) is None
    assert checkpoint.restore(tmp_path / "missing", like(tree(0))) is None
    checkpoint.save(tmp_path, tree(1), 1, {})
    assert checkpoint.restore(tmp_path, like(tree(0)), name="best") is None


def test_the_newest_counts_and_older_ones_go(tmp_path: Path):
    for number in (1, 2, 30, 4000):
        checkpoint.save(tmp_path, tree(number), number, {}, keep=2)
    assert_same(restored(tmp_path)[0], tree(4000))
    assert names_in(tmp_path) == [f"{n:012d}.{end}" for n in (30, 4000) for end in ("json", "safetensors")]


def test_numbers_longer_than_names_are_still_in_order(tmp_path: Path):
    for number in (9, 10**12, 10**13):
        checkpoint.save(tmp_path, tree(1), number, {"number": number}, keep=2)
    assert restored(tmp_path)[1] == {"number": 10**13}
    assert len(names_in(tmp_path)) == 4


def test_nothing_is_deleted_before_the_new_one_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    checkpoint.save(tmp_path, tree(1), 1, {}, keep=1)
    seen: list[list[str]] = []
    write_file = files.write_file

    def watch(path: Path, data: bytes) -> None:
        write_file(path, data)
        seen.append(names_in(tmp_path))

    monkeypatch.setattr(checkpoint, "write_file", watch)
    checkpoint.save(tmp_path, tree(2), 2, {}, keep=1)
    assert all("000000000001.json" in names and "000000000001.safetensors" in names for names in seen)
    assert seen[-1][-2:] == ["000000000002.json", "000000000002.safetensors"]
    assert "000000000002.json" not in seen[0]


def test_best_stands_by_itself(tmp_path: Path):
    checkpoint.save_best(tmp_path, tree(1), {"score": 1})
    for number in (5, 6, 7):
        checkpoint.save(tmp_path, tree(number), number, {}, keep=1)
    found, metadata = restored(tmp_path, name="best")
    assert_same(found, tree(1))
    assert metadata == {"score": 1}
    assert_same(restored(tmp_path)[0], tree(7))
    checkpoint.save_best(tmp_path, tree(9), {"score": 2})
    assert_same(restored(tmp_path, name="best")[0], tree(9))


def test_best_can_be_read_while_it_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    checkpoint.save_best(tmp_path, tree(1), {"score": 1})
    read = checkpoint._read_bytes

    def replaced_after(path: Path, *limit: int) -> bytes:
        content = read(path, *limit)
        monkeypatch.undo()
        checkpoint.save_best(tmp_path, tree(2), {"score": 2})
        return content

    monkeypatch.setattr(checkpoint, "_read_bytes", replaced_after)
    found, metadata = restored(tmp_path, name="best")
    assert_same(found, tree(2))
    assert metadata == {"score": 2}


@pytest.mark.parametrize("keep", [0, -1, True])
def test_keeping_none_is_refused(tmp_path: Path, keep: int):
    with pytest.raises(ValueError, match="keep must be a whole number of at least 1"):
        checkpoint.save(tmp_path, tree(1), 1, {}, keep=keep)


def test_only_a_part_is_read(tmp_path: Path):
    saved = {**tree(3), "params2": jnp.zeros(2)}
    checkpoint.save(tmp_path, saved, 1, {"steps": 5})
    found, metadata = restored(tmp_path, saved["params"], prefix="params")
    assert_same(found, saved["params"])
    assert metadata == {"steps": 5}
    assert_same(restored(tmp_path, saved["rest"][0], prefix="rest/0")[0], saved["rest"][0])


# Another architecture

OTHER = [
    ({"params": {"w": jnp.zeros((3, 6))}, "rest": tree(0)["rest"]}, r"params/w is \[3, 5\] there but \[3, 6\] here"),
    ({"params": {}, "rest": tree(0)["rest"]}, r"params/w is \[3, 5\] there but nothing here"),
    ({**tree(0), "z": jnp.zeros(2)}, r"z is nothing there but \[2\] here"),
    (
        {"params": {"w": jnp.zeros((3, 5), jnp.bfloat16)}, "rest": tree(0)["rest"]},
        r"params/w is float32 \[3, 5\] there but bfloat16 \[3, 5\] here",
    ),
    (
        {"params": {"w": jax.random.key(0)}, "rest": tree(0)["rest"]},
        r"params/w is float32 \[3, 5\] there but key<fry> \[\] here",
    ),
]


@pytest.mark.parametrize(("other", "sentence"), OTHER)
def test_another_architecture_is_named(tmp_path: Path, other: Any, sentence: str):
    checkpoint.save(tmp_path, tree(1), 1, {})
    with pytest.raises(ValueError, match=f"another architecture or other sizes: {sentence}"):
        checkpoint.restore(tmp_path, like(other))


def test_another_generator_is_another_dtype(tmp_path: Path):
    checkpoint.save(tmp_path, jax.random.key(0, impl="rbg"), 1, {})
    with pytest.raises(ValueError, match=r"key<rbg> \[\] there but key<urbg> \[\] here"):
        checkpoint.restore(tmp_path, like(jax.random.key(0, impl="unsafe_rbg")))


# Damage


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def flip(path: Path, bit: int = 1500) -> None:
    data = bytearray(path.read_bytes())
    data[bit // 8 % len(data)] ^= 1 << bit % 8
    path.write_bytes(data)


DAMAGE = [
    (truncate, "safetensors", r"000000000002.safetensors has \d+ bytes instead of \d+"),
    (empty, "safetensors", r"000000000002.safetensors has 0 bytes instead of \d+"),
    (flip, "safetensors", "000000000002.safetensors does not hold the bytes that were saved"),
    (Path.unlink, "safetensors", r"000000000002.safetensors is missing \(its arrays are gone\)"),
    (truncate, "json", "000000000002.safetensors has a .json that is damaged"),
    (empty, "json", "000000000002.safetensors has a .json that is empty"),
    (flip, "json", "000000000002.safetensors has a .json that is damaged"),
    (Path.unlink, "json", r"000000000002.json is missing \(its save was interrupted\)"),
]


@pytest.mark.parametrize(("damage", "end", "sentence"), DAMAGE)
def test_a_damaged_one_is_skipped_and_named(tmp_path: Path, damage: Any, end: str, sentence: str):
    for number in (1, 2):
        checkpoint.save(tmp_path, tree(number), number, {"number": number})
    damage(tmp_path / f"000000000002.{end}")
    said: list[str] = []
    found, metadata = restored(tmp_path, on_skip=said.append)
    assert len(said) == 1
    assert re.search(f"^in .*{sentence}.*: 000000000001.safetensors is used instead\\.$", said[0])
    assert_same(found, tree(1))
    assert metadata == {"number": 1}


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(("json", "safetensors")), st.integers(0, 2**16))
def test_no_flipped_bit_goes_unnoticed(tmp_path: Path, end: str, bit: int):
    for number in (1, 2):
        checkpoint.save(tmp_path, tree(number), number, {"number": number})
    flip(tmp_path / f"000000000002.{end}", bit)
    seen: list[str] = []
    found, metadata = restored(tmp_path, on_skip=seen.append)
    # White space and the case of a \u escape mean nothing in JSON: then the content is the same and nothing is said.
    assert (metadata["number"], len(seen)) in {(1, 1), (2, 0)}
    assert_same(found, tree(metadata["number"]))
    assert metadata["number"] == 1 or end == "json"


def test_when_all_are_damaged_it_says_so(tmp_path: Path):
    for number in (1, 2):
        checkpoint.save(tmp_path, tree(number), number, {})
    truncate(tmp_path / "000000000001.safetensors")
    empty(tmp_path / "000000000002.json")
    with pytest.raises(ValueError, match=r"no checkpoint in .* is intact, 0+2.safetensors has .*; 0+1.safetensors has"):
        checkpoint.restore(tmp_path, like(tree(0)))


def test_a_first_save_that_was_interrupted_is_no_checkpoint(tmp_path: Path):
    (tmp_path / "000000000001.safetensors").write_bytes(b"half")
    said: list[str] = []
    assert checkpoint.restore(tmp_path, like(tree(0)), on_skip=said.append) is None
    assert re.search("its save was interrupted.*: there is no other checkpoint", said[0])
    checkpoint.save(tmp_path, tree(5), 5, {})
    assert names_in(tmp_path) == ["000000000005.json", "000000000005.safetensors"]


def test_a_damaged_best_is_an_error(tmp_path: Path):
    checkpoint.save(tmp_path, tree(1), 1, {})
    checkpoint.save_best(tmp_path, tree(2), {})
    flip(tmp_path / "best.safetensors")
    with pytest.raises(ValueError, match=r"best\.safetensors does not hold the bytes"):
        checkpoint.restore(tmp_path, like(tree(0)), name="best")


def test_a_newer_format_is_not_guessed_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(checkpoint, "FORMAT", checkpoint.FORMAT + 1)
    checkpoint.save(tmp_path, tree(1), 1, {})
    monkeypatch.undo()
    with pytest.raises(ValueError, match="format 3, newer than this hcam: update"):
        checkpoint.restore(tmp_path, like(tree(0)))


def reseal(path: Path, **changed: Any) -> None:
    """Changes the record of a checkpoint, or drops what is to be None, and makes its own checksum fit again."""
    record = {**json.loads(path.with_suffix(".json").read_text()), **changed}
    kept = {name: value for name, value in record.items() if value is not None}
    path.with_suffix(".json").write_bytes(files.as_json(checkpoint._sealed(kept)))


def refill(path: Path, data: bytes, **changed: Any) -> None:
    """Replaces the arrays of a checkpoint by any bytes, and makes the checksums fit."""
    path.write_bytes(data)
    reseal(path, bytes=len(data), sha256=checkpoint._sha256(data), **changed)


def safetensor(dtype: str, shape: list[int], count: int) -> bytes:
    header = json.dumps({"x": {"dtype": dtype, "shape": shape, "data_offsets": [0, count]}}).encode()
    return len(header).to_bytes(8, "little") + header + b"\0" * count


WRONG_RECORDS = [
    {name: value}
    for name in ("format", "sha256", "bytes", "keys", "metadata")
    for value in (None, [], "x", 1.5, True, {"a": 1} if name != "metadata" else [1])
] + [{"format": 0}, {"format": -1}, {"bytes": -1}, {"bytes": 10**400}, {"keys": {"rest/0": 3}}]


@pytest.mark.parametrize("changed", WRONG_RECORDS)
def test_a_record_that_lacks_a_field_is_damaged_though_its_checksum_fits(tmp_path: Path, changed: dict[str, Any]):
    for number in (1, 2):
        checkpoint.save(tmp_path, tree(number), number, {"number": number})
    reseal(tmp_path / "000000000002.safetensors", **changed)
    said: list[str] = []
    assert_same(restored(tmp_path, on_skip=said.append)[0], tree(1))
    assert "000000000001.safetensors is used instead." in said[0]
    assert "\n" not in said[0]


@pytest.mark.parametrize("metadata", [{}, {"steps": "7"}, {"steps": None}, {"steps": True}, {"steps": 10**400}])
def test_a_checkpoint_without_a_number_that_the_caller_needs_is_damaged(tmp_path: Path, metadata: dict[str, Any]):
    checkpoint.save(tmp_path, tree(1), 1, {"steps": 5})
    checkpoint.save(tmp_path, tree(2), 2, metadata)
    said: list[str] = []
    assert_same(restored(tmp_path, numbers=("steps",), on_skip=said.append)[0], tree(1))
    assert "has a .json whose metadata has no number steps" in said[0]
    assert_same(restored(tmp_path, on_skip=said.append)[0], tree(2))  # nobody needs it


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 7,
        b"\xff" * 64,
        (10**6).to_bytes(8, "little") + b"{}",
        (2).to_bytes(8, "little") + b"{]",
        safetensor("F32", [1], 8),
        safetensor("F32", [3], 4),
        safetensor("F8_E4M3", [4], 4),
        safetensor("XYZ", [4], 4),
        safetensor("F32", [2**62, 4], 4),
        safetensor("F32", [-1], 4),
    ],
)
def test_arrays_that_cannot_be_decoded_are_damaged_though_their_checksum_fits(tmp_path: Path, data: bytes):
    checkpoint.save(tmp_path, tree(1), 1, {})
    checkpoint.save(tmp_path, tree(2), 2, {})
    refill(tmp_path / "000000000002.safetensors", data)
    said: list[str] = []
    assert_same(restored(tmp_path, on_skip=said.append)[0], tree(1))
    assert re.search(
        r"0002\.safetensors (cannot be decoded \(.*\)|holds an array of a kind .*): 0+1\.safetens", said[0]
    )


@pytest.mark.parametrize("keys", [{"key": "nonesuch"}, {"key": "rbg"}, {"w": "threefry2x32"}])
def test_keys_of_an_unknown_or_a_wrong_generator_are_damaged(tmp_path: Path, keys: dict[str, str]):
    saved = {"key": jax.random.key(1), "w": jnp.zeros(3)}
    for number in (1, 2):
        checkpoint.save(tmp_path, saved, number, {"number": number})
    reseal(tmp_path / "000000000002.safetensors", keys=keys)
    said: list[str] = []
    assert restored(tmp_path, saved, on_skip=said.append)[1] == {"number": 1}
    assert "cannot be decoded" in said[0]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@pytest.mark.parametrize("end", ["json", "safetensors"])
def test_a_pipe_or_a_folder_is_not_a_checkpoint(tmp_path: Path, end: str):
    for number in (1, 2, 3):
        checkpoint.save(tmp_path, tree(number), number, {})
    for number, make in ((2, os.mkfifo), (3, os.mkdir)):
        (tmp_path / f"{number:012d}.{end}").unlink()
        make(tmp_path / f"{number:012d}.{end}")
    said: list[str] = []
    assert_same(restored(tmp_path, on_skip=said.append)[0], tree(1))
    assert f"000000000003.{end} is a folder, not a regular file: 0" in said[0]
    assert f"000000000002.{end} is a named pipe, not a regular file: 0" in said[1]
    for number in (4, 5, 6):
        checkpoint.save(tmp_path, tree(number), number, {}, keep=1)
    assert_same(restored(tmp_path)[0], tree(6))
    whole = [path.stem for path in tmp_path.iterdir() if path.suffix == ".safetensors" and path.is_file()]
    assert whole in (["000000000006"], ["000000000003", "000000000006"])  # a folder in the way stops no other deletion


def test_a_checkpoint_may_be_a_link(tmp_path: Path):
    path = checkpoint.save(tmp_path / "far", tree(1), 1, {})
    (tmp_path / "near").mkdir()
    for end in (".safetensors", ".json"):
        (tmp_path / "near" / path.with_suffix(end).name).symlink_to(path.with_suffix(end))
    assert_same(restored(tmp_path / "near")[0], tree(1))


def test_arrays_are_not_read_beyond_what_was_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = checkpoint.save(tmp_path, tree(1), 1, {})
    os.truncate(path, 2**40)  # a hole, which takes no space
    with pytest.raises(ValueError, match=r"0001\.safetensors has 1,099,511,627,776 bytes, more than the [\d,]+ that"):
        checkpoint.restore(tmp_path, like(tree(0)))
    reseal(path, bytes=2**40)  # and if its record says so too
    read = files.read_file

    def small_machine(path: Path, *limit: int) -> bytes:
        if path.stat().st_size > 2**30:
            raise MemoryError
        return read(path, *limit)

    monkeypatch.setattr(checkpoint, "read_file", small_machine)
    with pytest.raises(ValueError, match=r"0001\.safetensors does not fit into memory"):
        checkpoint.restore(tmp_path, like(tree(0)))


def test_a_record_of_format_1_is_read(tmp_path: Path):
    path = checkpoint.save(tmp_path, tree(1), 1, {"steps": 5})
    reseal(path, format=1, about={"steps": 5}, metadata=None)
    found, metadata = restored(tmp_path, numbers=("steps",))
    assert_same(found, tree(1))
    assert metadata == {"steps": 5}
    checkpoint.save(tmp_path, tree(2), 1, {"steps": 6})  # in its place
    assert restored(tmp_path)[1] == {"steps": 6}


def test_metadata_that_could_not_be_read_again_is_not_saved(tmp_path: Path):
    deep: Any = 1
    for _ in range(62):
        deep = [deep]
    with pytest.raises(ValueError, match="inside one another"):
        checkpoint.save(tmp_path, tree(1), 1, {"deep": deep})
    checkpoint.save(tmp_path, tree(1), 1, {"deep": deep[0][0][0]})
    assert restored(tmp_path)[1] == {"deep": deep[0][0][0]}


def test_who_does_not_listen_is_told_on_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = tmp_path / "a\x1b[31m\nb"
    for number in (1, 2):
        checkpoint.save(folder, tree(number), number, {})
    truncate(folder / "000000000002.safetensors")
    restored(folder)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert r"a\x1b[31m\nb" in said.err
    assert "\x1b" not in said.err


# Disks


class Full:
    """A file whose disk fills up halfway through the n-th write."""

    def __init__(self, file: Any, state: dict[str, int]) -> None:
        self.file, self.state = file, state

    def __enter__(self) -> "Full":
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def write(self, data: bytes) -> int:
        self.state["left"] -= 1
        if self.state["left"] < 0:
            self.file.write(data[: len(data) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return int(self.file.write(data))


@pytest.mark.parametrize("writes", [0, 1, 2])
@pytest.mark.parametrize("again", [False, True])
def test_a_full_disk_harms_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int, again: bool):
    """With `again` the save goes to a number that is there already, and takes one more write."""
    checkpoint.save(tmp_path, tree(1), 1, {"number": 1}, keep=1)
    state = {"left": writes}
    create = files.create
    monkeypatch.setattr(files, "create", lambda path: Full(create(path), state))
    number = 1 if again else 2
    if writes == 2 and not again:
        checkpoint.save(tmp_path, tree(2), number, {}, keep=1)
        return
    with pytest.raises(OSError, match=r"cannot be written.*No space left on device.*: free some space") as caught:
        checkpoint.save(tmp_path, tree(2), number, {"number": 2}, keep=1)
    monkeypatch.undo()
    assert caught.value.errno == errno.ENOSPC
    assert not str(caught.value).startswith("[Errno")
    assert not list(tmp_path.glob(".*"))
    found, metadata = restored(tmp_path)
    assert_same(found, tree(metadata["number"]))
    assert metadata["number"] == 1 or (again and writes == 2)
    checkpoint.save(tmp_path, tree(3), 3, {}, keep=1)
    assert names_in(tmp_path) == ["000000000003.json", "000000000003.safetensors"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the administrator may write anywhere")
def test_a_folder_that_may_not_be_written(tmp_path: Path):
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError, match="choose a folder that you may write to") as caught:
        checkpoint.save(tmp_path / "checkpoints", tree(1), 1, {})
    assert caught.value.errno == errno.EACCES


def test_a_folder_that_is_a_file(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"the checkpoint .* cannot be written"):
        checkpoint.save(tmp_path / "file", tree(1), 1, {})


# Kills

KILLED = """
import os, random, signal, sys, time
from pathlib import Path
import numpy as np
from hcam.runs import checkpoint

folder, call = Path(sys.argv[1]), 0

def tree(number):
    return {name: np.full((60, 500), number, np.float32) for name in "abc"}

def die_at(last):  # of the calls that change what is on the disk
    def counting(function):
        def counted(*arguments, **options):
            global call
            call += 1
            if call == last:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **options)
        return counted
    for name in ("fsync", "replace", "unlink"):
        setattr(os, name, counting(getattr(os, name)))

def child(kind, number, last):
    if kind == "number":
        die_at(last)
        checkpoint.save(folder, tree(number), number, {"number": number}, keep=1)
    elif kind == "best":
        die_at(last)
        checkpoint.save_best(folder, tree(number), {"number": number})
    elif kind == "loop":
        while True:
            number += 1
            checkpoint.save(folder, tree(number), number, {"number": number})
            checkpoint.save_best(folder, tree(number), {"number": number})

for line in sys.stdin:
    kind, number, last = line.split()
    process = os.fork()
    if not process:
        child(kind, int(number), int(last))
        os._exit(0)
    if kind == "loop":
        time.sleep(int(last) / 1000)
        os.kill(process, signal.SIGKILL)
    print(os.waitpid(process, 0)[1], flush=True)
"""


@pytest.fixture
def killer(tmp_path: Path) -> Iterator[Any]:
    """Saves in processes that are killed; they are forked from one that has imported everything."""
    if not hasattr(os, "fork"):
        pytest.skip("no fork here")
    command = [sys.executable, "-W", "ignore", "-c", KILLED, str(tmp_path)]
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root) as server:
        assert server.stdin is not None
        assert server.stdout is not None

        def run(kind: str, number: int, last: int) -> int:
            """Gives 0 when the process came to its end."""
            print(kind, number, last, file=server.stdin, flush=True)
            return int(server.stdout.readline())  # type: ignore[union-attr]

        yield run
        server.stdin.close()


def consistent(folder: Path, name: str | None = None) -> int:
    """The number that every array of the checkpoint tells."""
    array = jax.ShapeDtypeStruct((60, 500), jnp.float32)
    found, metadata = restored(folder, dict.fromkeys("abc", array), name=name)
    for leaf in found.values():
        np.testing.assert_array_equal(leaf, metadata["number"])
    return int(metadata["number"])


@pytest.mark.parametrize("kind", ["number", "same number", "best"])
def test_killed_at_each_step_of_a_save(tmp_path: Path, killer: Any, kind: str):
    name = "best" if kind == "best" else None
    kind, again = kind.split()[-1], kind == "same number"
    assert killer(kind, 1, -1) == 0
    before = consistent(tmp_path, name)
    for last in range(1, 30):
        number = before if again else before + 1
        over = killer(kind, number, last) == 0
        now = consistent(tmp_path, name)
        assert now in {before, number}
        if over:
            break
        before = now
    assert over
    assert last > 5  # arrays and .json: written, renamed, and the folder told
    assert now == number
    assert names_in(tmp_path) == [f"{name or f'{now:012d}'}.{end}" for end in ("json", "safetensors")]


def test_killed_at_random_moments(tmp_path: Path, killer: Any):
    draw = random.Random(0)
    assert killer("number", 1, -1) == 0
    assert killer("best", 1, -1) == 0
    number = best = 1
    for _ in range(12):
        assert killer("loop", number, draw.randint(5, 150)) != 0
        now, best_now = consistent(tmp_path), consistent(tmp_path, "best")
        assert now >= number
        assert best <= best_now <= now  # behind by as many as were killed in a row between the one and the other
        number, best = now, best_now
    assert number > 12
    assert killer("number", number + 1, -1) == 0
    assert names_in(tmp_path)[2:] == ["best.json", "best.safetensors"]


# A whole run


def small_learner() -> Learner:
    env = envs.make("first_symbol")
    memory = HCAM(width=16, layers=1, heads=2, chunk=4, slots=4, top_k=2)
    config = AgentConfig(encoder=EncoderConfig(), memory=memory, heads=HeadsConfig(hidden=16))
    level = env.params()
    optimiser = make_optimiser(OptimiserConfig(schedule="linear", warmup=2), 10)
    return Learner(
        agent.make(config, env),
        env,
        level,
        1,
        optimiser,
        objectives.make(ObjectiveConfig()),
        LearnerConfig(environments=4, unroll=8),
    )


@pytest.mark.slow  # tests/cli/test_train.py has the same with a process that is killed
def test_a_run_goes_on_with_the_same_bits(tmp_path: Path):
    learner = small_learner()
    update = jax.jit(learner.update)
    state = jax.jit(learner.init)(jax.random.key(0))
    fresh = jax.eval_shape(learner.init, jax.random.key(0))
    states = [state]
    for _ in range(4):
        state, _ = update(state)
        states.append(state)
    checkpoint.save(tmp_path, states[2], 2, {"updates": 2})
    assert not any(leaf.weak_type for leaf in jax.tree.leaves(fresh))  # a file does not know weak types
    resumed, metadata = restored(tmp_path, fresh)
    assert metadata == {"updates": 2}
    assert_same(resumed, states[2])
    for _ in range(2):
        resumed, _ = update(resumed)
    assert_same(resumed, states[4])
    assert bits(jax.tree.leaves(states[4].params)[0]) != bits(jax.tree.leaves(states[2].params)[0])
    weights, _ = restored(tmp_path, states[0].params, prefix="params")
    assert_same(weights, states[2].params)
