"""How many floating-point operations a function asks for, counted in its jaxpr: the numerator of utilisation.

Products and convolutions alone are counted, as is usual, and of those only what something comes of; what XLA does twice
is not seen. Kernels of our own say themselves what they do: all k chunks are counted, also where fewer are there yet.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn
from jax.interpreters.partial_eval import dce_jaxpr

CALLED = (ClosedJaxpr, Jaxpr)  # the functions that an operation executes

# Dense bfloat16 operations a second by the makers' datasheets.
PEAK = {
    "NVIDIA A100": 312e12,
    "NVIDIA H100": 989e12,
    "NVIDIA H200": 989e12,
    "NVIDIA GH200": 989e12,
    "NVIDIA B200": 2250e12,
}


def peak_here() -> float | None:
    """What this machine could do at most, if it is one that we know."""
    kind = jax.devices()[0].device_kind
    return next((rate for name, rate in PEAK.items() if kind.startswith(name)), None)


def count(function: Callable[..., Any], *args: Any) -> int:
    jaxpr = jax.make_jaxpr(function)(*args).jaxpr
    return _of(dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))[0])


def _of(jaxpr: Jaxpr) -> int:
    return sum(_of_equation(equation) for equation in jaxpr.eqns)


def _of_equation(equation: JaxprEqn) -> int:
    name, params = equation.primitive.name, equation.params
    if name == "dot_general":
        left, right = map(_shape, equation.invars)
        (contracted, _), (batch, _) = params["dimension_numbers"]
        shared: int = math.prod(left[axis] for axis in (*contracted, *batch))
        return 2 * math.prod(left) * math.prod(right) // max(1, shared)
    if name == "conv_general_dilated":
        out, kernel = _shape(equation.outvars[0]), _shape(equation.invars[1])
        channels_out: int = kernel[params["dimension_numbers"].rhs_spec[0]]
        # Taps that fall between the pixels of a spread-out image meet zeros.
        spread: int = math.prod(params["lhs_dilation"])
        return 2 * math.prod(out) * math.prod(kernel) // max(1, channels_out * spread)
    if name == "pallas_call":
        estimate = params["cost_estimate"]  # a kernel without products, such as the ray caster, has none
        return estimate.flops if estimate else 0
    parts = [part for value in params.values() for part in (value if isinstance(value, (tuple, list)) else [value])]
    inner = [_of(part.jaxpr if isinstance(part, ClosedJaxpr) else part) for part in parts if isinstance(part, CALLED)]
    if name == "cond":
        return max(inner)
    return params["length"] * sum(inner) if name == "scan" else sum(inner)


def _shape(variable: Any) -> tuple[int, ...]:
    shape: tuple[int, ...] = variable.aval.shape
    return shape
