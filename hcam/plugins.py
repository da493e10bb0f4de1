"""Objects by name: `package.module:attribute`, and what installed packages offer under an entry-point group."""

import importlib
import os
import sys
from importlib.metadata import EntryPoint, entry_points
from typing import Any


def is_path(name: str) -> bool:
    """Whether a name is `package.module:attribute`."""
    module, colon, attribute = name.partition(":")
    return bool(colon) and all(part.isidentifier() for text in (module, attribute) for part in text.split("."))


def load(path: str) -> Any:
    """The object at `package.module:attribute`; modules in the working directory count, as they do for `python -m`."""
    module_name, _, attribute = path.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        found: Any = importlib.import_module(module_name)
    except ImportError as error:
        raise ValueError(f"{path} cannot be loaded, since {module_name} cannot be imported ({error}).") from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise ValueError(f"{path} cannot be loaded, since {module_name} has no {attribute}.")
        found = getattr(found, part)
    return found


def installed(group: str) -> dict[str, EntryPoint]:
    """What installed packages offer, by name; nothing of it is imported yet."""
    return {point.name: point for point in entry_points(group=group)}


def path_of(thing: Any) -> str | None:
    """The way back from `load`; None: it has no name that another process could load it by."""
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
    if not module or not name or module == "__main__" or not is_path(f"{module}:{name}"):
        return None
    try:
        return f"{module}:{name}" if load(f"{module}:{name}") is thing else None
    except ValueError:
        return None
