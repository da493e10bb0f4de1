"""Memories by name: those of `hcam.memory`, readers, those of installed packages, and a configuration of one's own."""

from contextlib import suppress
from typing import Any

from hcam import plugins
from hcam.agent.readers import READERS
from hcam.memory import MEMORIES

GROUP = "hcam.memories"  # the entry points of installed packages: name -> a configuration's class

OURS: dict[str, type[Any]] = {**MEMORIES, **READERS}

Kind = type[Any]  # a frozen dataclass with a `width` and a method `build` (a memory) or `network` (a whole agent)


def names() -> tuple[str, ...]:
    """All memories that have a name of their own."""
    return tuple(dict.fromkeys((*OURS, *sorted(plugins.installed(GROUP)))))


def find(name: str) -> Kind:
    """A configuration's class, from its name or from `package.module:Class`."""
    if name in OURS:
        return OURS[name]
    point = plugins.installed(GROUP).get(name)
    path = point.value if point else name
    if not plugins.is_path(path):
        raise ValueError(
            f"there is no memory {name!r}: choose from {', '.join(names())}, or name a configuration of your own, as "
            "package.module:Class."
        )
    kind = plugins.load(path)
    if not isinstance(kind, type) or not (hasattr(kind, "build") or hasattr(kind, "network")):
        raise ValueError(f"{name} is no configuration of a memory: it must be a dataclass with a method build.")
    return kind


def name_of(config: Any) -> str:
    """The name that `find` knows a configuration's class by."""
    ours = {kind: name for name, kind in OURS.items()}
    name = ours.get(type(config)) or _installed_name(type(config)) or plugins.path_of(type(config))
    if name is None:
        raise ValueError(
            f"{type(config).__name__} cannot be loaded by name, so a run with it could not be read again: define it at "
            "the top of a module."
        )
    return name


def _installed_name(kind: Kind) -> str | None:
    for name, point in plugins.installed(GROUP).items():
        with suppress(ValueError):  # of somebody else's package, which may be broken
            if plugins.load(point.value) is kind:
                return name
    return None
