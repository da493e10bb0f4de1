"""`hcam eval` on its own: the table, and what is checked before anything is played (tests/cli/test_train.py plays)."""

import re

import pytest
from rich.console import Console

from hcam.cli import main
from hcam.cli.evaluate import table_of
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
