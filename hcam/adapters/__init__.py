"""The way to other interfaces and back; `adapt` takes whatever a function that makes environments has made."""

import logging
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
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


class HostEnvironmentError(RuntimeError):
    """An environment on the host raised an exception, which is the cause of this one."""

    def __init__(self, cause: Exception) -> None:
        every = traceback.extract_tb(cause.__traceback__)
        ours = [number for number, frame in enumerate(every) if Path(frame.filename).parent == Path(__file__).parent]
        self.frames = every[max(ours, default=-1) + 1 :]  # the environment's own, without JAX's and ours
        where = f" ({Path(self.frames[-1].filename).name}, line {self.frames[-1].lineno})" if self.frames else ""
        super().__init__(f"the environment raised {type(cause).__name__}: {f'{cause}'.rstrip('.')}{where}.")


@contextmanager
def raising_host_errors(env: Any) -> Iterator[None]:
    """Turns what JAX makes of an exception in a callback, two screens of its own frames, into one sentence.

    JAX also logs the exception, with its frames, before anybody could catch it: that is left out.
    """

    def is_news(record: logging.LogRecord) -> bool:
        return getattr(env, "host_error", None) is None

    logger = logging.getLogger("jax._src.callback")
    logger.addFilter(is_news)
    try:
        yield
    except Exception:
        cause = getattr(env, "host_error", None)
        if cause is None:
            raise
        raise HostEnvironmentError(cause) from cause
    finally:
        logger.removeFilter(is_news)
