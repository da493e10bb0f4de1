"""Bad input is refused here, in one sentence, before anything is traced."""

import math
import types
import typing
from numbers import Integral, Real
from typing import Any

import jax
import jax.numpy as jnp

DTYPES = ("float32", "bfloat16", "float16")
MAX_LAYERS = 128  # each is traced and compiled on its own, which takes minutes for more
ONE = "memories take one environment, use jax.vmap for a batch"

# Options of a configuration -------------------------------------------------------------------------------------------


def positive(**sizes: Any) -> None:
    for name, size in sizes.items():
        if not _is_integer(size) or size < 1:
            raise ValueError(f"{name} must be a whole number of at least 1, but is {size!r}.")


def sizes(config: Any, *names: str) -> None:
    """Checks these fields of a frozen dataclass and stores them as `int`.

    A NumPy integer has a dtype of its own, which would widen 32-bit arithmetic wherever it takes part.
    """
    for name in names:
        positive(**{name: getattr(config, name)})
        object.__setattr__(config, name, int(getattr(config, name)))


def depth(**counts: Any) -> None:
    """Layers, or whatever else is traced one after the other: a number that would take for ever is refused."""
    for name, count in counts.items():
        positive(**{name: count})
        if count > MAX_LAYERS:
            raise ValueError(f"{name} must be at most {MAX_LAYERS}, but is {count!r}.")


def overlap_fits(config: Any) -> None:
    """As `sizes`, for `overlap`, which may be 0 and must be less than `chunk`."""
    if not _is_integer(config.overlap) or not 0 <= config.overlap < config.chunk:
        most = config.chunk - 1
        raise ValueError(f"overlap must be a whole number from 0 to chunk - 1 = {most}, but is {config.overlap!r}.")
    object.__setattr__(config, "overlap", int(config.overlap))


def switch(**switches: Any) -> None:
    for name, value in switches.items():
        if not isinstance(value, bool):
            raise ValueError(f"{name} must be True or False, but is {value!r}.")


def choice(allowed: tuple[str, ...], **chosen: str) -> None:
    for name, value in chosen.items():
        if value not in allowed:
            raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, but is {value!r}.")


def heads_divide(width: int, heads: int) -> None:
    if width % heads:
        raise ValueError(
            f"width {width} is not divisible by heads {heads}: each head takes an equal part of the width."
        )


def even_width(width: int, why: str) -> None:
    if width % 2:
        raise ValueError(f"width {width} is odd, but {why} are half sines and half cosines: choose an even width.")


def top_k_fits(k: int, slots: int, slots_name: str = "slots") -> None:
    if k > slots:
        raise ValueError(
            f"top-k is {k}, but there are only {slots} {slots_name} to choose from: lower k or add {slots_name}."
        )


def _is_integer(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


# Arguments of a call --------------------------------------------------------------------------------------------------


def flag(name: str, value: Any, shape: tuple[int, ...]) -> None:
    """`value` must be a boolean array of exactly this shape; a Python bool passes as a scalar."""
    found, dtype = _array(name, value)
    if dtype != jnp.bool_:
        raise TypeError(
            f"{name} must be boolean, but its dtype is {dtype}: compare explicitly, for example `{name} != 0`."
        )
    if found != shape:
        raise ValueError(f"{name} must have shape {shape}, but has {found}.")


def features(name: str, value: Any, shape: tuple[int | str, ...], too_many: str = "") -> None:
    """`value` must be a float array of this shape.

    A string in `shape` names an axis of any length; `too_many` is the hint for an array with too many axes.
    """
    found, dtype = _array(name, value)
    fits = len(found) == len(shape) and all(isinstance(w, str) or w == f for w, f in zip(shape, found, strict=True))
    if not fits:
        wanted = ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "")
        hint = f": {too_many}" if too_many and len(found) > len(shape) else ""
        raise ValueError(f"{name} must have shape ({wanted}), but has {found}{hint}.")
    if not jnp.issubdtype(dtype, jnp.floating):
        raise TypeError(f"{name} must be floating point, but its dtype is {dtype}.")


def _array(name: str, value: Any) -> tuple[tuple[int, ...], Any]:
    """The shape and the dtype of an argument that must be an array."""
    if not (hasattr(value, "shape") and hasattr(value, "dtype")) and not isinstance(value, bool | int | float):
        raise TypeError(f"{name} must be an array, but is a {type(value).__name__}.")
    return tuple(jnp.shape(value)), jnp.result_type(value)


def same_structure(
    what: str, value: Any, expected: Any, config: Any, *, dtypes: bool, any_batch: bool = False, full: Any = None
) -> None:
    """`value` must have the names, shapes and (with `dtypes`) dtypes of `expected`, a pytree of `jax.ShapeDtypeStruct`.

    With `any_batch`, shapes may have more axes in front. If `value` has names that only `full` has, it is compared with
    that instead: a state may carry a cache.
    """
    found, wanted = _describe(value, dtypes), _describe(expected, dtypes)
    if full is not None:
        more = _describe(full, dtypes)
        wanted = more if any(path in more and path not in wanted for path in found) else wanted
    for path in wanted | found:
        have, want = found.get(path), wanted.get(path)
        if have is not None and want is not None and any_batch:
            have = (have[0][max(0, len(have[0]) - len(want[0])) :], have[1])
        if have != want:
            show = [f"{entry[0]} {entry[1] or ''}".strip() if entry else "nothing" for entry in (want, found.get(path))]
            this = f"these {what} were" if what.endswith("s") else f"this {what} was"
            raise ValueError(f"{this} not built for {config}: at {what}{path} it needs {show[0]}, but found {show[1]}.")


def _describe(tree: Any, dtypes: bool) -> dict[str, tuple[Any, Any]]:
    """Shape and dtype of every leaf by its path; for a leaf that is no array, its type stands in place of both."""

    def describe(leaf: Any) -> tuple[Any, Any]:
        if not hasattr(leaf, "shape") and not isinstance(leaf, bool | int | float):
            return (type(leaf).__name__, None)
        return (tuple(jnp.shape(leaf)), jnp.result_type(leaf) if dtypes else None)

    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {jax.tree_util.keystr(path): describe(leaf) for path, leaf in leaves}


def typed(config: Any) -> None:
    """Every field of a dataclass has the type that it is annotated with; numbers are finite."""
    for name, hint in typing.get_type_hints(type(config)).items():
        value = getattr(config, name)
        if not _has_type(hint, value):
            raise ValueError(f"{name} must be {_spelled(hint)}, but is {value!r}.")


def _has_type(hint: Any, value: Any) -> bool:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return any(value == choice and type(value) is type(choice) for choice in inner)
    if origin in (typing.Union, types.UnionType):
        return any(_has_type(part, value) for part in inner)
    if origin is tuple and inner[1:] == (...,):
        return isinstance(value, tuple) and all(_has_type(inner[0], part) for part in value)
    if hint is int:
        return isinstance(value, Integral) and not isinstance(value, bool)
    if hint is float:
        return isinstance(value, Real) and not isinstance(value, bool) and _is_finite(value)
    kind = origin or hint
    return kind is typing.Any or not isinstance(kind, type) or isinstance(value, kind)


def _is_finite(value: Real) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer that no float holds
        return False


def _spelled(hint: Any) -> str:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return f"one of {', '.join(map(repr, inner))}"
    if origin in (typing.Union, types.UnionType):
        return " or ".join(map(_spelled, inner))
    if origin is tuple:
        return f"a tuple, each of it {_spelled(inner[0])}"
    words = {int: "a whole number", float: "a finite number", bool: "True or False", str: "a text", type(None): "None"}
    return words.get(hint, f"a {getattr(origin or hint, '__name__', hint)}")
