"""The way to other interfaces and back; `adapt` takes whatever a function that makes environments has made."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from hcam.envs.environment import Environment


def adapt(task: str, make_env: Callable[..., Any], options: Mapping[str, Any]) -> Environment:
    """An environment of ours from what `make_env(**options)` gives: ours, gymnax's or Gymnasium's.

    Gymnasium's run on the host: `make_env` is called once for each environment of a batch.
    """
    made = make_env(**options)
    if isinstance(made, Environment):
        return made
    env, params = made if isinstance(made, tuple) and len(made) == 2 else (made, None)  # gymnax.make gives both
    if _comes_from("gymnax", env):
        from hcam.adapters.gymnax import from_gymnax

        return from_gymnax(env, params)
    if _comes_from("gymnasium", made):
        from hcam.adapters.from_gymnasium import from_gymnasium

        made.close()
        return from_gymnasium(partial(make_env, **options))
    raise ValueError(
        f"{task} must make an environment of hcam, gymnax or Gymnasium, but made {type(made).__name__}: derive from "
        "hcam.envs.Environment, or return what one of the others makes."
    )


def _comes_from(package: str, env: Any) -> bool:
    return any(kind.__module__.split(".")[0] == package for kind in type(env).__mro__)
