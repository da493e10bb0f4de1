"""`hcam bench host` measures the three in turn, and says how they compare."""

import json
from typing import Any

import pytest
from rich.console import Console

from hcam.benchmarks import host
from hcam.cli import main

RATES = {host.BARE: [100.0, 200.0], host.VECTOR: [50.0, 50.0], host.TRAINING: [90.0, 150.0]}


def test_a_table_of_the_three():
    results: dict[str, Any] = {
        "rates": dict(RATES),
        "task": "gymnasium:X",
        "workers": 2,
        "environments": 8,
        "device": "a card",
    }
    assert host.ratio(results) == pytest.approx((0.9 + 0.75) / 2)
    console = Console(record=True, width=120)
    console.print(host.show(results))
    shown = console.export_text()
    assert "gymnasium:X with 2 workers, 8 environments" in shown
    assert "0.82" in shown
    del results["rates"][host.VECTOR]
    console.print(host.show(results))
    assert "not measured" in console.export_text()


def test_the_command_writes_what_it_measured(tmp_path, capsys):
    sizes = ["--environments", "4", "--unroll", "8", "--memory", "lstm", "--width", "8", "--layers", "1"]
    quick = ["--rounds", "1", "--seconds", "0.1", "--workers", "1", "--out", str(tmp_path)]
    assert main(["bench", "host", "gymnasium:tests.host.toys:clock", *sizes, *quick]) == 0
    found = json.loads((tmp_path / "bench.json").read_text())
    assert set(found["rates"]) == {host.BARE, host.VECTOR, host.TRAINING}
    assert all(rate > 0 for rates in found["rates"].values() for rate in rates)
    assert (found["workers"], found["environments"], found["restarts"]) == (1, 4, 0)
    assert "of the steps that its workers make alone" in capsys.readouterr().out


def test_what_has_no_workers_is_refused(tmp_path, capsys):
    assert main(["bench", "host", "first_symbol", "--out", str(tmp_path)]) == 2
    assert "first_symbol does not run in worker processes" in capsys.readouterr().err
