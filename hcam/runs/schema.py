"""Plain JSON against the types of a dataclass: settings that come from a file may be anything."""

import dataclasses
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

LARGEST = 2**63  # no count, size or seed is as large


def refuse_mismatch(kind: type, values: Any, file: Path) -> None:
    """Raises ValueError naming the first value in a file that does not have the type of its field in a dataclass.

    Fields may be missing, since a file may be older than a setting. Unknown ones are for the caller to judge.
    """
    if found := _mismatch(kind, values, ""):
        raise ValueError(f"{file} is damaged: {found}.")


def _mismatch(kind: type, values: Any, where: str) -> str:
    if not isinstance(values, dict):
        return f"{where or 'the configuration'} must be an object, but is {_shown(values)}"
    hints = get_type_hints(kind)
    for name in [name for name in values if name in hints]:
        value, hint, path = values[name], hints[name], f"{where}.{name}".lstrip(".")
        if dataclasses.is_dataclass(hint):
            if found := _mismatch(hint, value, path):  # type: ignore[arg-type]
                return found
        elif not fits(hint, value):
            return f"{path} must be {_described(hint)}, but is {_shown(value)}"
    return ""


def fits(hint: Any, value: Any) -> bool:
    """Whether a value from JSON can stand for a field of this type: a list for a tuple, an object for a dataclass."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(fits(one, value) for one in inner)
    if origin is Literal:
        return any(type(value) is type(one) and value == one for one in inner)
    if origin is tuple:
        hints = inner[:1] * len(value) if isinstance(value, list) and inner[1:] == (...,) else inner
        return isinstance(value, list) and len(hints) == len(value) and all(map(fits, hints, value))
    if dataclasses.is_dataclass(hint):
        return isinstance(value, dict)
    if hint in (int, float):
        kinds = (int,) if hint is int else (int, float)
        return not isinstance(value, bool) and isinstance(value, kinds) and abs(value) < LARGEST  # NaN is not less
    return isinstance(value, hint) if hint in (str, bool, NoneType) else True


def _described(hint: Any) -> str:
    words: dict[Any, str] = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
    words[NoneType] = "null"
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(map(_described, get_args(hint)))
    if get_origin(hint) is Literal:
        return f"one of {', '.join(map(repr, get_args(hint)))}"
    if get_origin(hint) is tuple:
        return f"a list, each {_described(get_args(hint)[0])}"
    return words.get(hint, str(hint))


def _shown(value: Any) -> str:
    """Returns a value in short: it may be a whole book, or a number of more digits than Python prints."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    if isinstance(value, int) and abs(value) >= LARGEST:
        return "a number beyond all bounds"
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:39]}…"
