"""The rules of the environment contract that tracing tells, before a step is taken: structures, shapes and dtypes."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hcam.envs.environment import Environment, EnvParams
from hcam.envs.spaces import Box, Discrete, Tokens


class Programs(NamedTuple):
    """One environment's reset and step, compiled."""

    reset: Callable[..., Any]
    step: Callable[..., Any]


class ContractError(AssertionError):
    """A rule is broken. An AssertionError, for it is the environment that fails, not an argument that is wrong."""


def require(kept: Any, sentence: str) -> None:
    if not kept:
        raise ContractError(sentence)


def check_static(env: Environment) -> None:
    missing = [
        name for name in ("reset", "step", "params", "action_space", "observation_space") if not hasattr(env, name)
    ]
    if missing:
        raise TypeError(f"check takes an environment, but {env!r} has no {', '.join(missing)}.")
    try:
        hash(env)
    except TypeError as error:
        raise ContractError(
            f"{type(env).__name__} is not hashable ({error}), so jax.jit cannot take it as a static argument: "
            "make it a @dataclass(frozen=True) with hashable fields, and put arrays into params."
        ) from error
    for name, space in (("action_space", env.action_space), ("observation_space", env.observation_space)):
        known = all(isinstance(part, Discrete | Box | Tokens) for part in jax.tree.leaves(space))
        require(known, f"{name} must be a Discrete, Box or Tokens, or a dict of these by name, but is {space!r}.")


def check_params(name: str, params: EnvParams) -> None:
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        kept = isinstance(leaf, jax.Array | np.ndarray | np.generic | bool | int | float)
        found = f"{name}{jax.tree_util.keystr(path)} is {leaf!r}"
        require(kept, f"params must be a pytree of arrays, but {found}: what is not an array is a field of env.")


def check_types(env: Environment, params: EnvParams) -> None:
    """Structures, shapes and dtypes, which tracing alone tells."""
    key, action = jax.random.key(0), no_action(env)
    observation, state = _typed("reset", 2, env.reset, key, params)
    stepped = _typed("step", 6, env.step, key, state, action, params)
    fit, cast = "make them agree", "all steps need one type, or scan refuses them and jit compiles twice: cast it"
    wanted = jax.eval_shape(
        lambda: jax.tree.map(lambda space: jnp.zeros(space.shape, space.dtype), env.observation_space)
    )
    _agree("the observation of reset", observation, "observation_space", wanted, fit)
    _agree("the observation of step", stepped[0], "observation_space", wanted, fit)
    _agree("the observation of step", stepped[0], "the one of reset", observation, cast, weak=True)
    _agree("the state of step", stepped[1], "the one of reset", state, cast, weak=True)
    types = ("float32", "bool", "bool")
    for name, found, dtype in zip(("reward", "terminated", "truncated"), stepped[2:5], types, strict=True):
        _agree(
            name,
            found,
            "the contract",
            jax.eval_shape(lambda dtype=dtype: jnp.zeros((), dtype)),
            f"return a scalar of {dtype}",
        )
    info = stepped[5]
    for name, same in (("terminated", stepped[3]), ("truncated", stepped[4]), ("final_observation", wanted)):
        require(isinstance(info, dict) and name in info, f"info has no {name!r}: step must put it there.")
        _agree(f"info[{name!r}]", info[name], "what step returns", same, fit)
    later = _typed("step", 6, env.step, key, stepped[1], action, params)[5]
    _agree("the info of a second step", later, "the one of a first", info, "give info the same entries at every step")


def _typed(name: str, results: int, f: Callable[..., Any], *args: Any) -> Any:
    try:
        found = jax.eval_shape(lambda *args: f(*args), *args)  # a new function: nothing that was traced before counts
    except Exception as error:
        why = f"{type(error).__name__}: {next(iter(str(error).splitlines()), 'no message')}"
        raise ContractError(f"{name} cannot be traced ({why}): write it in jax.numpy, for arrays alone.") from error
    kept = isinstance(found, tuple) and len(found) == results
    require(kept, f"{name} must return a tuple of {results}: docs/environments.md lists them.")
    return found


def _agree(name: str, found: Any, other: str, wanted: Any, change: str, weak: bool = False) -> None:
    different = _difference(found, wanted, weak)
    require(not different, f"{name} is not like {other}: {different}; {change}.")


def _difference(found: Any, wanted: Any, weak: bool) -> str:
    """The first leaf in which two trees of types differ, in words; empty if there is none."""
    by_path = [
        {jax.tree_util.keystr(path): _spelled(leaf, weak) for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}
        for tree in (found, wanted)
    ]
    for path in by_path[1] | by_path[0]:
        one, two = (leaves.get(path) for leaves in by_path)
        if one is None or two is None:
            return f"{path or 'it'} is missing" if one is None else f"{path or 'it'} should not be there"
        if one != two:
            return f"{path or 'it'} is {one}, not {two}"
    one, two = str(jax.tree.structure(found)), str(jax.tree.structure(wanted))
    return "" if one == two else f"its structure is {one}, not {two}"


def _spelled(leaf: Any, weak: bool) -> str:
    leaf = leaf if hasattr(leaf, "weak_type") else jax.typeof(leaf)
    return f"{leaf.dtype}{list(leaf.shape)}" + (" (weakly typed)" if weak and leaf.weak_type else "")


def check_one_trace(env: Environment, params: EnvParams) -> Programs:
    """One program each for reset and step: for all levels, and for states from either."""
    traces = {"reset": 0, "step": 0}

    def counted(name: str, f: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            traces[name] += 1
            return f(*args)

        return jax.jit(call)

    reset, step = counted("reset", env.reset), counted("step", env.step)
    levels = tuple(getattr(env, "levels", ()))[:2]
    params_of = {level: env.params(level) for level in levels} or {"": params}
    for level, level_params in params_of.items():
        check_params(f"params({level!r})", level_params)
        state = reset(jax.random.key(1), level_params)[1]
        state = step(jax.random.key(2), state, no_action(env), level_params)[1]
        step(jax.random.key(3), state, no_action(env), level_params)
    different = _difference(params_of[levels[1]], params_of[levels[0]], weak=True) if len(levels) == 2 else ""
    require(
        set(traces.values()) == {1},
        f"reset was traced {traces['reset']} times and step {traces['step']} times, but one program must do for all "
        "states and levels, so these may differ in values alone"
        + (f": in params({levels[1]!r}), {different} as in params({levels[0]!r})." if different else "."),
    )
    return Programs(reset, step)


def no_action(env: Environment) -> jax.Array:
    return jnp.zeros(env.action_space.shape, env.action_space.dtype)
