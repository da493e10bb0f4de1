"""Tasks by name: those in `hcam/envs/tasks/`, the probes, those of installed packages, and a function of one's own."""

import dataclasses
import inspect
import json
import pkgutil
from collections.abc import Callable, Mapping
from typing import Any

from hcam import plugins
from hcam.envs import tasks
from hcam.envs.environment import Environment

GIVEN = "python"  # before the colon: an environment that was given in Python, and has no name to make it by
GROUP = "hcam.tasks"  # the entry points of installed packages: name -> an environment's class, or a function

PREFIXES = ("gymnasium", "dm_env", "gymnax")  # before the colon: names of environments that those packages know

Maker = Callable[..., Any]
Options = Mapping[str, Any]  # fields of an environment's class, or arguments of the function that makes it: plain JSON


def published() -> tuple[str, ...]:
    """The tasks that come with the package: the names of the modules in `hcam/envs/tasks/`, none of them imported."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(tasks.__path__)))


def names() -> tuple[str, ...]:
    """All tasks that have a name of their own."""
    from hcam.envs.probes import PROBES

    return tuple(dict.fromkeys((*published(), *PROBES, *sorted(plugins.installed(GROUP)))))


def find(task: str) -> Maker:
    """What makes a task: a class or a function."""
    from hcam.envs.probes import PROBES

    if not isinstance(task, str):
        raise TypeError(f"a task is named by a text, such as {published()[0]!r}, but this is {task!r}.")
    if task in PROBES:
        return PROBES[task]
    point = plugins.installed(GROUP).get(task)
    path = f"{tasks.__name__}.{task}:TASK" if task in published() else point.value if point else task
    if path.startswith(f"{GIVEN}:"):
        raise ValueError(
            f"the environment {path.rpartition(':')[2]} was given in Python and cannot be made from its name: give it "
            "again, as in hcam.load(RUN, env=...), or define it as a dataclass at the top of a module."
        )
    if plugins.is_path(path):
        maker: Maker = plugins.load(path)
        if not callable(maker):
            raise ValueError(
                f"{path} must be a class or a function that makes an environment, but is a {type(maker).__name__}."
            )
        return maker
    raise ValueError(
        f"there is no task {task!r}: choose from {', '.join(names())}, or name a function of your own that makes an "
        "environment, as package.module:function."
    )


def make(task: str, **options: Any) -> Environment:
    """An environment by name; options are its fields, or the arguments of the function that makes it."""
    kind, _, name = task.partition(":") if isinstance(task, str) else ("", "", "")
    if kind in PREFIXES:
        return by_prefix(kind, name, options)
    maker = find(task)
    refuse_unknown(task, maker, options)
    if isinstance(maker, type) and issubclass(maker, Environment):
        return maker(**options)
    from hcam.adapters import adapt

    return adapt(task, maker, options)


def by_prefix(kind: str, name: str, options: Options) -> Environment:
    """An environment of another package by its name there."""
    if kind == "gymnax":
        from hcam.adapters import make_gymnax

        return make_gymnax(name, options)
    from hcam.host.environment import make as make_on_host

    return make_on_host(kind, name, options)


def refuse_unknown(task: str, maker: Maker, options: Options) -> None:
    try:
        arguments = inspect.signature(maker).parameters.values()
    except (TypeError, ValueError):  # written in C, or not callable at all
        return
    catch_all = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    named = {argument.name: argument for argument in arguments if argument.kind not in catch_all}
    takes_any = any(argument.kind is argument.VAR_KEYWORD for argument in arguments)
    if not takes_any and (unknown := [name for name in options if name not in named]):
        choices = f"choose from {', '.join(named)}" if named else "it has none, leave it out"
        raise ValueError(f"{task} has no option {', '.join(unknown)}: {choices}.")
    lacking = [name for name, argument in named.items() if argument.default is argument.empty and name not in options]
    if lacking:
        raise ValueError(f"{task} needs a value for {', '.join(lacking)}: give it as an option of the environment.")


def spec(env: Environment) -> tuple[str, dict[str, Any]] | None:
    """The name and the options that make an equal environment again; None: they cannot be written down."""
    from hcam.envs.probes import PROBES

    short = next((name for name in (*published(), *PROBES) if find(name) is type(env)), None)
    name = short or plugins.path_of(type(env))
    if name is None or not dataclasses.is_dataclass(env):
        return None
    fields = [field for field in dataclasses.fields(env) if field.init]
    options = {field.name: getattr(env, field.name) for field in fields if getattr(env, field.name) != field.default}
    try:
        plain = json.loads(json.dumps(options))
        return (name, plain) if make(name, **plain) == env else None
    except (TypeError, ValueError):
        return None
