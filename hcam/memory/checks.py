"""Bad input, answered in one sentence before anything is traced."""

import math
import numbers
import types
import typing
from typing import Any

import jax
import jax.numpy as jnp

DTYPES = ("float32", "bfloat16", "float16")


def positive(**sizes: Any) -> None:
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ValueError(f"{name} must be a whole number of at least 1, but is {size!r}.")


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


def flag(name: str, value: Any, shape: tuple[int, ...]) -> None:
    """A boolean array of one exact shape; Python bools pass as scalars."""
    dtype, found = jnp.result_type(value), jnp.shape(value)
    if dtype != jnp.bool_:
        raise TypeError(
            f"{name} must be boolean, but its dtype is {dtype}: compare explicitly, for example `{name} != 0`."
        )
    if found != shape:
        raise ValueError(f"{name} must have shape {shape}, but has {found}.")


ONE = "memories take one environment, use jax.vmap for a batch"


def features(name: str, value: Any, shape: tuple[int | str, ...], too_many: str = "") -> None:
    """A float array; a string in `shape` names an axis of any length; `too_many` is said of an axis too many."""
    found = jnp.shape(value)
    fits = len(found) == len(shape) and all(isinstance(w, str) or w == f for w, f in zip(shape, found, strict=True))
    if not fits:
        wanted = ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "")
        hint = f": {too_many}" if too_many and len(found) > len(shape) else ""
        raise ValueError(f"{name} must have shape ({wanted}), but has {found}{hint}.")
    if not jnp.issubdtype(jnp.result_type(value), jnp.floating):
        raise TypeError(f"{name} must be floating point, but its dtype is {jnp.result_type(value)}.")


def same_structure(what: str, value: Any, expected: Any, config: Any, *, dtypes: bool) -> None:
    """`value` has the names, shapes and (where asked) dtypes of `expected`, a pytree of `jax.ShapeDtypeStruct`."""

    def describe(tree: Any) -> dict[str, tuple[Any, ...]]:
        leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
        return {
            jax.tree_util.keystr(path): (tuple(jnp.shape(leaf)), jnp.result_type(leaf) if dtypes else None)
            for path, leaf in leaves
        }

    found, wanted = describe(value), describe(expected)
    if found == wanted:
        return
    for path in wanted | found:
        if found.get(path) != wanted.get(path):
            show = [
                f"{entry[0]} {entry[1] or ''}".strip() if entry else "nothing"
                for entry in (wanted.get(path), found.get(path))
            ]
            raise ValueError(
                f"this {what} was not built for {config}: at {what}{path} that takes {show[0]}, but there is {show[1]}."
            )


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
        return isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if hint is float:
        return isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)
    kind = origin or hint
    return kind is typing.Any or not isinstance(kind, type) or isinstance(value, kind)


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
