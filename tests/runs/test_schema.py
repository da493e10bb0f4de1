from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from hcam.config import Config, to_json
from hcam.runs.files import as_json, parse_json
from hcam.runs.schema import refuse_mismatch


@dataclass(frozen=True)
class Inner:
    size: int = 1
    rate: float = 0.5
    kind: Literal["a", "b"] = "a"
    window: int | None = None
    on: bool = False
    names: tuple[str, ...] = ()
    pair: tuple[int, str] = (1, "x")
    other: Any = None


@dataclass(frozen=True)
class Outer:
    inner: Inner = field(default_factory=Inner)
    maybe: Inner | None = None


@pytest.mark.parametrize(
    "values",
    [
        {}, {"inner": {}}, {"maybe": None}, {"maybe": {}}, {"unknown": 1},
        {"inner": {"size": 3, "rate": 1, "kind": "b", "window": None, "on": True, "names": ["x"], "other": {"x": [1]}}},
        {"inner": {"window": 2, "names": [], "pair": [2, "y"]}},
    ],
)  # fmt: skip
def test_what_fits_passes(values: Any):
    refuse_mismatch(Outer, values, Path("config.json"))


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ([], "the configuration must be an object, but is a list."),
        ("x", "the configuration must be an object, but is 'x'."),
        ({"inner": "x"}, "inner must be an object, but is 'x'."),
        ({"inner": None}, "inner must be an object, but is None."),
        ({"maybe": 3}, "but is 3."),
        ({"inner": {"size": "3"}}, "inner.size must be a whole number, but is '3'."),
        ({"inner": {"size": 3.0}}, "inner.size must be a whole number, but is 3.0."),
        ({"inner": {"size": True}}, "inner.size must be a whole number, but is True."),
        ({"inner": {"size": 10**400}}, "inner.size must be a whole number, but is a number beyond all bounds."),
        ({"inner": {"size": 10**5000}}, "a number beyond all bounds."),
        ({"inner": {"rate": float("nan")}}, "inner.rate must be a number, but is nan."),
        ({"inner": {"rate": float("inf")}}, "inner.rate must be a number, but is inf."),
        ({"inner": {"rate": 10**400}}, "inner.rate must be a number, but is a number beyond all bounds."),
        ({"inner": {"kind": "c"}}, "inner.kind must be one of 'a', 'b', but is 'c'."),
        ({"inner": {"kind": ["a"]}}, "inner.kind must be one of 'a', 'b', but is a list."),
        ({"inner": {"window": "x" * 99}}, f"inner.window must be a whole number or null, but is '{'x' * 38}…."),
        ({"inner": {"on": 1}}, "inner.on must be true or false, but is 1."),
        ({"inner": {"names": "abc"}}, "inner.names must be a list, each text, but is 'abc'."),
        ({"inner": {"names": ["a", 1]}}, "inner.names must be a list, each text, but is a list."),
        ({"inner": {"pair": [1]}}, "inner.pair must be"),
        ({"inner": {"pair": [1, 2]}}, "inner.pair must be"),
    ],
)
def test_what_does_not_fit_is_named(values: Any, sentence: str):
    with pytest.raises(ValueError, match=r"^config\.json is damaged: .*\.$") as caught:
        refuse_mismatch(Outer, values, Path("config.json"))
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_configuration_of_a_run_fits():
    refuse_mismatch(Config, parse_json(as_json(to_json(Config()))), Path("config.json"))
