"""The way to other interfaces and back; `adapt` takes whatever a function that makes environments has made."""

import logging
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
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


def make_gymnax(name: str, options: Mapping[str, Any]) -> Environment:
    """`gymnax:NAME`. Options that are fields of its parameters go there, the others to `gymnax.make`."""
    try:
        import gymnax  # type: ignore[import-untyped]
    except ImportError:
        raise ValueError(
            f'gymnax:{name} needs the package gymnax: install it with `pip install "hcam[gymnax]"`.'
        ) from None
    from hcam.adapters.gymnax import from_gymnax

    if name not in gymnax.registered_envs:
        raise ValueError(f"gymnax has no environment {name!r}: choose from {', '.join(gymnax.registered_envs)}.")
    fields = set(vars(gymnax.make(name)[1]))
    try:
        env, params = gymnax.make(name, **{key: value for key, value in options.items() if key not in fields})
    except TypeError as error:
        raise ValueError(f"gymnax:{name} does not take this --env-arg: {error}.") from None
    return from_gymnax(env, params.replace(**{key: value for key, value in options.items() if key in fields}))


def _comes_from(package: str, env: Any) -> bool:
    return any(kind.__module__.split(".")[0] == package for kind in type(env).__mro__)


class HostEnvironmentError(RuntimeError):
    """An environment on the host raised an exception, which is the cause of this one."""

    frames: Sequence[traceback.FrameSummary] = ()  # the environment's own, without JAX's and ours

    @classmethod
    def of(cls, cause: Exception) -> "HostEnvironmentError":
        every = traceback.extract_tb(cause.__traceback__)
        ours = [number for number, frame in enumerate(every) if Path(frame.filename).parent == Path(__file__).parent]
        frames = every[max(ours, default=-1) + 1 :]
        return cls.told(f"the environment raised {type(cause).__name__}: {f'{cause}'.rstrip('.')}", frames)

    @classmethod
    def told(cls, sentence: str, frames: Sequence[Any]) -> "HostEnvironmentError":
        """Of frames, or what they are made of, which another process has sent."""
        found = [frame if isinstance(frame, traceback.FrameSummary) else _frame(*frame) for frame in frames]
        where = f" ({Path(found[-1].filename).name}, line {found[-1].lineno})" if found else ""
        error = cls(f"{sentence.rstrip('.')}{where}.")
        error.frames = found
        return error


def _frame(file: str, line: int, name: str, text: str | None) -> traceback.FrameSummary:
    return traceback.FrameSummary(file, line, name, line=text, lookup_line=False)


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
        if isinstance(cause, HostEnvironmentError):  # from a worker process, which has sent what there is to say
            raise cause from None
        raise HostEnvironmentError.of(cause) from cause
    finally:
        logger.removeFilter(is_news)
