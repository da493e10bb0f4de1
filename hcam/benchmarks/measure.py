"""How long a compiled function takes and how much scratch memory it asks for."""

import os
import platform
import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any, NamedTuple

import jax


class Cost(NamedTuple):
    seconds: float  # median of the rounds
    spread: float  # (slowest - fastest) / median: how far to trust it
    scratch: int  # bytes of temporaries the compiler reserved, arguments and results not counted


class Failed(NamedTuple):
    reason: str


def compile_all(functions: Mapping[str, Callable[..., Any]], *args: Any) -> dict[str, Any]:
    """Compiled functions by name, or why one could not be."""
    compiled: dict[str, Any] = {}
    for name, function in functions.items():
        try:
            compiled[name] = jax.jit(function).lower(*args).compile()
        except Exception as error:  # a variant that does not fit this device is a result, not a crash
            compiled[name] = Failed(reason(error))
    return compiled


def compare(compiled: Mapping[str, Any], *args: Any, rounds: int, seconds: float = 0.05) -> dict[str, Cost | Failed]:
    """Times all in turn, round after round, so that a slow moment of the machine meets every variant alike."""
    repeats: dict[str, int] = {}
    results: dict[str, Cost | Failed] = {}
    for name, run in compiled.items():
        if isinstance(run, Failed):
            results[name] = run
            continue
        try:
            _time(run, args, 1)  # the first call also loads the program
            repeats[name] = max(1, min(100, int(seconds / _time(run, args, 1))))
        except Exception as error:
            results[name] = Failed(reason(error))
    samples: dict[str, list[float]] = {name: [] for name in repeats}
    for _ in range(rounds):
        for name, repeat in repeats.items():
            samples[name].append(_time(compiled[name], args, repeat))
    for name, times in samples.items():
        scratch = int(compiled[name].memory_analysis().temp_size_in_bytes)
        results[name] = Cost(median(times), (max(times) - min(times)) / median(times), scratch)
    return {name: results[name] for name in compiled}


def device_name() -> str:
    """What the numbers were measured on."""
    if jax.default_backend() != "cpu":
        return str(jax.devices()[0].device_kind)
    return f"{os.cpu_count()} cores of {platform.processor() or platform.machine()}"


def _time(run: Callable[..., Any], args: tuple[Any, ...], repeat: int) -> float:
    start = time.perf_counter()
    for _ in range(repeat):
        result = run(*args)
    jax.block_until_ready(result)  # type: ignore[no-untyped-call]
    return (time.perf_counter() - start) / repeat


def reason(error: Exception) -> str:
    text = str(error)
    return "out of memory" if "RESOURCE_EXHAUSTED" in text or "Out of memory" in text else text.splitlines()[0][:120]
