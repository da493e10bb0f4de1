"""The index of a folder of results."""

import json
import re

import pytest

from hcam.report import index
from tests.report.folders import made_by_return, make


def test_runs_evaluations_and_benchmarks_stand_in_their_groups(tmp_path):
    make(tmp_path / "task" / "hcam-0", evaluated=True)
    make(tmp_path / "task" / "lstm-0", "lstm")
    (tmp_path / "task" / "question.txt").write_text("Which is better?\n")
    (tmp_path / "agents" / "one").mkdir(parents=True)
    (tmp_path / "agents" / "one" / "eval.json").write_text(json.dumps({"greedy": {"easy": {"success": 0.75}}}))
    (tmp_path / "speed" / "cpu").mkdir(parents=True)
    bench = {"device": "abacus", "jax": "0.1", "commit": "0123456789abcdef"}
    (tmp_path / "speed" / "cpu" / "bench.json").write_text(json.dumps(bench))
    text = index.write(tmp_path).read_text()
    assert re.findall("^## (.*)$", text, flags=re.MULTILINE) == ["agents", "speed", "task"]
    assert "Which is better?" in text
    assert "| `hcam-0` | hcam | 1 M | 1.0 | 2_delay16 95.0 %<br>8_delay48 40.0 % | 1 | not known |" in text
    assert "| `lstm-0` | lstm | 1 M | 1.0 | not evaluated | 1 | not known |" in text
    assert "| `one` | easy 75.0 % |" in text
    assert "| `cpu` | abacus | 0.1 | `0123456789` |" in text
    assert index.write(tmp_path).read_text() == text  # the same every time


def test_what_is_damaged_is_named_and_the_rest_is_there(tmp_path):
    (make(tmp_path / "a" / "torn") / "eval.json").write_text("{")
    make(tmp_path / "a" / "whole")
    (tmp_path / "b" / "bench").mkdir(parents=True)
    (tmp_path / "b" / "bench" / "bench.json").write_text("[")
    text = index.write(tmp_path).read_text()
    assert text.count("cannot be read") == 2
    assert "`whole`" in text


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(ValueError, match="there is no run and no benchmark below"):
        index.write(tmp_path)


def test_the_committed_index_is_what_the_command_makes(tmp_path):
    import shutil
    from pathlib import Path

    root = Path(__file__).parents[2] / "results"
    copy = shutil.copytree(root, tmp_path / "results")
    assert index.write(copy).read_text() == (root / index.INDEX).read_text(), "run `hcam report results`."


def test_returns_are_listed_as_such(tmp_path):
    made_by_return(tmp_path / "runs" / "one")
    text = index.write(tmp_path).read_text()
    assert "return, sampled" in text
    assert "a 9.00, 28 % of the oracle" in text
    make(tmp_path / "runs" / "two", evaluated=True)
    assert "| score |" in index.write(tmp_path).read_text()
