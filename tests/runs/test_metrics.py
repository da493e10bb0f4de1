"""metrics.jsonl: linear to read, whatever is in it. tests/runs/test_folder.py has what a run folder makes of it."""

import json
import os
import time
import tracemalloc
from pathlib import Path

import pytest

from hcam.runs import metrics
from hcam.runs.files import RefusedError

needs_links = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes or links here")


def fill(path: Path, count: int) -> None:
    row = {"losses": {"policy": -0.01}, "levels": {"a": {"episodes": 3, "success": 0.5}}}
    path.write_text("".join(json.dumps({"steps": n, **row}) + "\n" for n in range(count)))


def seconds(path: Path) -> float:
    begun = time.process_time()
    for _ in metrics.iterate(path):
        pass
    return time.process_time() - begun


def test_reading_is_linear_in_time_and_constant_in_memory(tmp_path: Path):
    path = tmp_path / "metrics.jsonl"
    fill(path, 2_000)
    short = min(seconds(path) for _ in range(3))
    fill(path, 20_000)
    assert min(seconds(path) for _ in range(3)) < 30 * short  # ten, and room for a busy machine
    tracemalloc.start()
    try:
        assert sum(1 for _ in metrics.iterate(path)) == 20_000
        assert tracemalloc.get_traced_memory()[1] < 500_000  # the file has 1.5 million bytes
    finally:
        tracemalloc.stop()


def test_rows_come_with_their_lines(tmp_path: Path):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"steps": 1}\r\n{"steps": NaN, "x": 1e999}\n{"st')
    found = list(metrics.iterate(path))
    assert [number for number, _ in found] == [1, 2]
    assert found[0][1] == {"steps": 1}


@pytest.mark.parametrize("line", [b"\xff\xfe", b"[1]", b"7", b"", b'{"a": ' * 999, b"x" * 100])
def test_a_line_that_is_no_row_is_named(tmp_path: Path, line: bytes, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(metrics, "LINE_LIMIT", 50)
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"steps": 1}\n' + line + b'\n{"steps": 3}\n')
    with pytest.raises(ValueError, match=r"metrics\.jsonl is damaged: line 2 is not a JSON object, delete it\."):
        list(metrics.iterate(path))
    assert metrics.rewind(path, 2) >= 2
    assert path.read_bytes() == b'{"steps": 1}\n'


@pytest.mark.parametrize("steps", [10**400, 1e308, -5])
def test_steps_beyond_all_floats_can_be_rewound(tmp_path: Path, steps: float):
    path = tmp_path / "metrics.jsonl"
    path.write_text(json.dumps({"steps": steps}) + "\n")
    assert metrics.rewind(path, float("inf")) == 0
    assert metrics.rewind(path, 7) == (steps > 7)


@needs_links
def test_nothing_is_written_through_a_link(tmp_path: Path):
    (tmp_path / "mine").write_text("mine\n")
    path = tmp_path / "metrics.jsonl"
    path.symlink_to("mine")
    for write in (lambda: metrics.append(path, {"steps": 1}), lambda: metrics.rewind(path, 0)):
        with pytest.raises(RefusedError, match=r"metrics\.jsonl is a symbolic link, not a regular file: remove it"):
            write()
    assert (tmp_path / "mine").read_text() == "mine\n"
    path.unlink()
    path.symlink_to("nowhere")
    with pytest.raises(RefusedError, match="a symbolic link"):
        metrics.append(path, {"steps": 1})
    assert not (tmp_path / "nowhere").exists()


@needs_links
def test_a_pipe_is_not_waited_for(tmp_path: Path):
    path = tmp_path / "metrics.jsonl"
    os.mkfifo(path)
    for use in (lambda: list(metrics.iterate(path)), lambda: metrics.append(path, {}), lambda: metrics.rewind(path, 0)):
        with pytest.raises(RefusedError, match="is a named pipe"):
            use()
