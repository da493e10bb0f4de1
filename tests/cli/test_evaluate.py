"""`hcam eval` on its own: the table, and what is checked before anything is played (tests/cli/test_train.py plays)."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from hcam.cli import main
from hcam.cli.evaluate import refuse_to_replace, table_of
from hcam.runs import evaluate
from hcam.runs.measure import RETURN

SHARE = r" +[\d.]+% \([\d.]+ to [\d.]+\)"


def test_the_table_fits_a_terminal():
    part = {"episodes": 500, "success": 1.0, "low": 0.9925, "high": 1.0, "return": 1.0, "length": 1234.5}
    levels = {"2_delay16_of4": part, "8_delay48": part | {"success": 0.125, "low": 0.1, "high": 0.15}}
    console = Console(record=True, width=80)
    console.print(table_of({"greedy": levels, "sampled": levels}, "runs/ballet-hcam-1, 1,500,000,000 steps"))
    lines = console.export_text().splitlines()
    assert re.search(rf"2_delay16_of4 {SHARE} {SHARE} +1.000 +1234.5", lines[4])
    assert "12.5% (10.0 to 15.0)" in lines[5]


KINDS = {
    "settings": lambda path: path.write_text('{"format": 2, "config": {}}'),
    "rows": lambda path: path.write_text('{"steps": 1}\n{"steps": 2}\n'),
    "text": lambda path: path.write_text("years of work"),
    "a link": lambda path: path.symlink_to("elsewhere"),
    "a pipe": lambda path: os.mkfifo(path),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_holds_no_evaluation_is_not_replaced(tmp_path: Path, kind: str):
    """Such as a run's own config.json, or /dev/null."""
    path = tmp_path / "numbers.json"
    KINDS[kind](path)
    before = os.lstat(path)
    with pytest.raises(FileExistsError, match="is there already and holds no evaluation: choose another name"):
        refuse_to_replace(path)
    assert os.lstat(path) == before


@pytest.mark.parametrize("text", ["", '{"greedy": {}}', '{"run": "a", "levels": {}}'])
def test_an_evaluation_may_be_written_again(tmp_path: Path, text: str):
    path = tmp_path / "numbers.json"
    path.write_text(text)
    refuse_to_replace(path)


def test_numbers_are_written_though_nobody_reads_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """As in `hcam eval RUN --out FILE | head -1`."""
    part = {"episodes": 4, "success": 0.5, "low": 0.4, "high": 0.6, "return": 0.5, "length": 9.0}

    def play(agent: Any, env: Any, params_s: Any, levels: Any, episodes: int, **options: Any) -> Any:
        return {way: dict.fromkeys(levels, part) for way in ("greedy", "sampled")}

    def gone(*results: Any) -> None:
        raise SystemExit(1)  # as rich does when a pipe breaks

    monkeypatch.setattr(evaluate, "evaluate_all", play)
    monkeypatch.setattr("hcam.cli.evaluate.table_of", gone)
    with pytest.raises(SystemExit):
        main(["eval", "pretrained:quickstart", "--out", str(tmp_path / "numbers.json")])
    assert json.loads((tmp_path / "numbers.json").read_text())["greedy"]["2_delay5_of4"] == part


@pytest.mark.parametrize("seed", ["-1", "2147483647", "99999999999999999999"])
def test_a_seed_beyond_bounds_is_refused(seed: str, capsys: pytest.CaptureFixture[str]):
    assert main(["eval", "pretrained:quickstart", "--seed", seed]) == 2
    assert "seed must be from 0 to 2,147,483,646" in capsys.readouterr().err


def test_returns_go_with_the_part_of_the_oracles_that_they_are():
    part = {"episodes": 500, "success": 1.0, "low": 0.9, "high": 1.0, "length": 100.0, "oracle": 32.0}
    part |= {"return": 16.0, "return_low": 15.5, "return_high": 16.5}
    console = Console(record=True, width=80)
    other = part | {"return": 8.0, "return_low": 7.5, "return_high": 8.5}
    console.print(table_of({"greedy": {"torus4": part}, "sampled": {"torus4": other}}, "run", RETURN))
    text = console.export_text()
    assert re.search(r"torus4 +16.0 \(15.5 to 16.5\) +8.00 \(7.50 to 8.50\) +32.0 +50/25 % +100.0", text)
