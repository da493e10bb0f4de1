"""metrics.jsonl as columns: every number in its place, and one sentence for a row that is not as it should be."""

import json
import math

import numpy as np
import pytest

from hcam.report import columns
from hcam.report.columns import read_log

LEVEL = {"episodes": 10, "success": 0.5}


def log_of(tmp_path, *rows):
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return read_log(tmp_path / "metrics.jsonl")


def test_numbers_come_with_their_steps(tmp_path):
    rows = [
        {"steps": 1, "success": 0.5, "losses": {"policy": 1}, "levels": {"a": LEVEL}},
        {
            "steps": 2,
            "success": None,
            "losses": None,
            "levels": {"b": LEVEL, "a": None},
            "seeds": [{"success": 0.1}, None],
        },
        {"steps": 3, "success": math.nan, "losses": {"policy": 10**400}, "levels": {}, "note": "x"},
        {"steps": 4.5, "success": "x", "losses": {"policy": 2.5}},
    ]
    log = log_of(tmp_path, *rows)
    assert log.steps.tolist() == [1, 2, 3, 4.5]
    assert log.levels == ["a", "b"]
    assert log.last == rows[-1]
    assert [part.tolist() for part in log.get("success")] == [[1], [0.5]]
    assert [part.tolist() for part in log.get("losses", "policy")] == [[1, 4.5], [1, 2.5]]
    assert [part.tolist() for part in log.get("seeds", 0, "success")] == [[2], [0.1]]
    assert [part.tolist() for part in log.get("seeds", 1, "success")] == [[], []]


def test_rows_count_by_their_episodes(tmp_path):
    parts = [
        LEVEL,
        {"success": 0.25},
        {"episodes": 0, "success": 0.9},
        {"episodes": -1, "success": 0.9},
        {"episodes": 5},
    ]
    parts += [{"episodes": None, "success": 0.9}, {"episodes": 4, "success": 0.75}]
    log = log_of(tmp_path, *({"steps": n, "levels": {"a": part}} for n, part in enumerate(parts)))
    found = log.weighted(("levels", "a", "success"), ("levels", "a", "episodes"))
    assert [part.tolist() for part in found] == [[0, 1, 6], [0.5, 0.25, 0.75], [10, 1, 4]]
    assert all(len(part) == 0 for part in log.weighted(("levels", "b", "success"), ("levels", "b", "episodes")))


@pytest.mark.parametrize("value", [1e300, -1e300, 10**400, math.inf, "x", [1], {}, None, 1e39])
def test_what_cannot_be_drawn_is_a_gap(tmp_path, value):
    log = log_of(tmp_path, {"steps": 1, "return": value}, {"steps": 2, "return": 3.4e38})
    assert log.get("return")[0].tolist() == [2]


WRONG = [
    ({}, "has no steps"),
    ({"steps": None}, "has no steps"),
    ({"steps": "7"}, "has steps that are no number from 0 to 2^63"),
    ({"steps": True}, "has steps that are no number"),
    ({"steps": -1}, "has steps that are no number"),
    ({"steps": 10**400}, "has steps that are no number"),
    ({"steps": math.nan}, "has steps that are no number"),
    ({"steps": [1]}, "has steps that are no number"),
    ({"steps": 1, "levels": [1]}, "has levels that are not an object"),
    ({"steps": 1, "levels": "x"}, "has levels that are not an object"),
    ({"steps": 1, "levels": 3}, "has levels that are not an object"),
    ({"steps": 1, "levels": {"a\nb": [1]}}, r"has a level 'a\nb' that is not an object"),
    ({"steps": 1, "levels": {"x" * 99: "y"}}, f"has a level '{'x' * 40}' that is not an object"),
    ({"steps": 1, "losses": [1]}, "has losses that are not an object"),
    ({"steps": 1, "losses": "x"}, "has losses that are not an object"),
    ({"steps": 1, "seeds": {"a": 1}}, "has seeds that are not a list of objects"),
    ({"steps": 1, "seeds": "x"}, "has seeds that are not a list of objects"),
    ({"steps": 1, "seeds": [1, 2]}, "has seeds that are not a list of objects"),
    ({"steps": 1, "seeds": [{}] * 1001}, "has more than 1000 seeds"),
]


@pytest.mark.parametrize(("row", "problem"), WRONG)
def test_a_row_that_is_wrong_is_named(tmp_path, row, problem):
    with pytest.raises(ValueError, match=r"metrics\.jsonl is damaged: line 2 .*, delete it\.$") as caught:
        log_of(tmp_path, {"steps": 1}, row, {"steps": 3})
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_too_many_levels_are_refused(tmp_path):
    """A new name in every row must not take memory of rows by names either."""
    assert len(log_of(tmp_path, *({"steps": n, "levels": {f"{n}": LEVEL}} for n in range(1000))).levels) == 1000
    with pytest.raises(ValueError, match="names more than 1000 levels"):
        log_of(tmp_path, *({"steps": n, "levels": {f"{n}": LEVEL}} for n in range(1001)))


def test_columns_hold_only_what_is_there(tmp_path):
    log = log_of(tmp_path, *({"steps": n, "losses": {f"{n}": 1.0}} for n in range(500)))
    assert sum(len(column.values) for column in log.columns.values()) == 500
    assert log.columns["losses", "7"].values.dtype == np.float64
    assert columns.MOST == 1000
