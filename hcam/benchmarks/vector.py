"""Gymnasium's own `AsyncVectorEnv`, one environment in each process, for `hcam bench host`: a process without JAX.

`python -m hcam.benchmarks.vector SOURCE WORKERS` reads seconds, a number a line, and answers with steps a second.
"""

import json
import sys
import time
import warnings
from typing import Any

from hcam.host import source
from hcam.host.source import Source


def make(given: Source, workers: int) -> Any:
    """With shared memory, unless a space is of a kind that Gymnasium cannot share."""
    from gymnasium.error import CustomSpaceError
    from gymnasium.vector import AsyncVectorEnv

    makers = [lambda: source.make(given)] * workers
    try:
        return AsyncVectorEnv(makers)
    except (CustomSpaceError, TypeError, ValueError):
        return AsyncVectorEnv(makers, shared_memory=False)


def rate(envs: Any, seconds: float) -> float:
    """Steps a second with random actions."""
    steps, start = 0, time.perf_counter()
    while steps == 0 or time.perf_counter() - start < seconds:
        envs.step(envs.action_space.sample())
        steps += envs.num_envs
    return steps / (time.perf_counter() - start)


def main(words: list[str]) -> None:
    warnings.simplefilter("ignore")
    envs = make(Source(*json.loads(words[0])), int(words[1]))
    envs.reset(seed=0)
    for line in sys.stdin:
        print(rate(envs, float(line)), flush=True)
    envs.close()


if __name__ == "__main__":
    main(sys.argv[1:])
