"""One environment by name, under Gymnasium's interface: `gymnasium:ID`, or `dm_env:package.module:function`."""

import importlib
import importlib.util
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from hcam import plugins
from hcam.host.parts import Choices

GYMNASIUM, DM_ENV = "gymnasium", "dm_env"

# Packages that tell Gymnasium of their environments when they are imported, by how the names begin.
PACKAGES = {
    "MiniGrid-": ("minigrid", "minigrid"),
    "BabyAI-": ("minigrid", "minigrid"),
    "Vizdoom": ("vizdoom.gymnasium_wrapper", "vizdoom"),
    "popgym-": ("popgym", "popgym"),
    "ALE/": ("ale_py", "ale-py"),
}
EXTRAS = ("minigrid", "vizdoom", "popgym")  # extras of hcam; what else is missing is installed by its own name

# MiniGrid's "image" is no picture: each cell is an object, its colour and its state.
MINIGRID = {"image": (11, 6, 4)}


class Source(NamedTuple):
    """Which environment, in plain JSON."""

    kind: str  # GYMNASIUM or DM_ENV
    name: str
    options: Mapping[str, Any] = {}  # arguments of the function that makes it, and those below

    @property
    def task(self) -> str:
        return f"{self.kind}:{self.name}"


OWN = ("wrap", "shrink", "one_hot", "drop", "vocabulary", "longest")  # options that are ours


def make(source: Source, slot: int = 0) -> Any:
    """An environment with `reset(seed)`, `step`, `observation_space` and `action_space`."""
    options = {name: value for name, value in source.options.items() if name not in OWN}
    env = (_dm_env if source.kind == DM_ENV else _gymnasium)(source, options, slot)
    for path in _list(source.options.get("wrap")):
        env = _load(path)(env)
    return _plain(env, int(source.options.get("shrink") or 1))


def _plain(env: Any, shrink: int) -> Any:
    """With parts that have names, one choice among actions, and pictures of the size that was asked for."""
    from hcam.host.wrappers import Named, OneAction, Shrink

    if type(env.observation_space).__name__ == "Tuple":
        env = Named(env)
    if type(env.action_space).__name__ == "MultiDiscrete":
        env = OneAction(env)
    return env if shrink == 1 else Shrink(env, shrink)


def choices(source: Source, env: Any) -> Choices:
    """What the options say of observations; MiniGrid's cells are written as ones and zeros unless told otherwise."""
    options = source.options
    one_hot = options.get("one_hot")
    if one_hot is None:
        one_hot = MINIGRID if _is_symbolic(env) else {}
    drop = options.get("drop")
    if drop is None:
        drop = [name for name, space in _parts(env).items() if _never_changes(space)]
    return Choices(one_hot or {}, _list(drop), options.get("vocabulary"), options.get("longest"))


def _parts(env: Any) -> Mapping[str, Any]:
    found = getattr(env.observation_space, "spaces", {})
    return found if isinstance(found, Mapping) else {}


def _never_changes(space: Any) -> bool:
    """A MiniGrid mission without a placeholder is the same sentence in every episode; BabyAI's are another class."""
    return type(space).__name__ == "MissionSpace" and not space.ordered_placeholders


def _is_symbolic(env: Any) -> bool:
    size, image = getattr(env.unwrapped, "agent_view_size", None), _parts(env).get("image")
    from_minigrid = any(kind.__module__.startswith("minigrid.") for kind in type(env.unwrapped).__mro__)
    return from_minigrid and image is not None and image.shape == (size, size, 3)


def _list(value: Any) -> Sequence[str]:
    return [] if not value else [value] if isinstance(value, str) else list(value)


def _gymnasium(source: Source, options: Mapping[str, Any], slot: int) -> Any:
    import gymnasium

    _, colon, function = source.name.partition(":")
    if colon and function.isidentifier():
        return _load(source.name)(**options)
    import_package(source.name)
    try:
        return gymnasium.make(source.name, **{"disable_env_checker": True, **options})
    except (gymnasium.error.NameNotFound, gymnasium.error.NamespaceNotFound, gymnasium.error.VersionNotFound) as error:
        raise ValueError(f"Gymnasium knows no environment {source.name}: {_first_line(error)}") from None
    except gymnasium.error.DeprecatedEnv as error:
        raise ValueError(f"{source.name} is out of date: {_first_line(error)}") from None
    except gymnasium.error.DependencyNotInstalled as error:
        raise ValueError(f"{source.name} needs another package: {_first_line(error)}") from None
    except TypeError as error:
        if "keyword argument" in str(error):
            raise ValueError(f"{source.task} does not take this --env-arg: {_first_line(error)}") from None
        raise


def import_package(name: str) -> None:
    """Imports what registers this name, and says which package to install where that is missing."""
    for begins, (module, package) in PACKAGES.items():
        if name.startswith(begins):
            if importlib.util.find_spec(module.partition(".")[0]) is None:
                what = f'"hcam[{package}]"' if package in EXTRAS else package
                raise ValueError(f"{name} needs the package {package}: install it with `pip install {what}`.")
            importlib.import_module(module)


def _dm_env(source: Source, options: Mapping[str, Any], slot: int) -> Any:
    if importlib.util.find_spec("dm_env") is None:
        raise ValueError(f'{source.task} needs the package dm-env: install it with `pip install "hcam[dm]"`.')
    from hcam.host.wrappers import FromDmEnv

    maker = _load(source.name)
    return FromDmEnv(lambda seed: maker(**options, **({"seed": seed} if _takes_seed(maker, options) else {})))


def _takes_seed(maker: Callable[..., Any], options: Mapping[str, Any]) -> bool:
    return "seed" not in options and "seed" in inspect.signature(maker).parameters


def _load(path: str) -> Any:
    """`package.module:function`; modules in the working directory count."""
    if not plugins.is_path(path):
        raise ValueError(f"{path!r} must name a function as package.module:function.")
    try:
        return plugins.load(path)
    except ValueError as error:  # raised here, it is a refusal of ours and no exception of the environment
        raise ValueError(f"{error}") from None


def _first_line(error: Exception) -> str:
    return f"{str(error).splitlines()[0].rstrip('.')}."
