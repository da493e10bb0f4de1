"""What a run needs of a machine's memory, estimated before anything is compiled."""

import os
from functools import partial
from typing import Any

import jax

from hcam.agent import Agent
from hcam.learning.devices import ONE
from hcam.learning.learner import Learner
from hcam.learning.rollout import act
from hcam.types import TrainState

LARGEST = 10**24  # bytes that are said as they are: an estimate may be larger than any float
MARGIN = 0.95  # of a machine's memory: what is estimated is a lower bound


def refuse_too_large(learner: Learner, seeds: int) -> None:
    """Raises where the run's state and one unroll of it alone would not fit.

    The state by itself comes first: tracing a step makes position codes as long as a memory's window, which for one
    that does not fit may take minutes, and more memory than there is.
    """
    try:
        jax.eval_shape(lambda key: (learner.agent.init_params(key), learner.agent.init_state()), jax.random.key(0))
    except (OverflowError, TypeError) as error:  # an axis that is longer than JAX can count
        raise ValueError(f"this run is too large for any machine ({error}): lower {_LARGE}.") from error
    available = available_bytes()
    # Emulated devices share the memory of their machine.
    sharing = learner.devices.count // jax.process_count() if jax.devices()[0].platform == "cpu" else 1
    for estimate in (state_bytes, needed_bytes):
        needed = sharing * seeds * estimate(learner)
        if available and needed > MARGIN * available:
            raise ValueError(
                f"this run needs at least {min(needed, LARGEST) / 1e9:,.1f} GB of memory, but this machine has "
                f"{available / 1e9:,.1f}: lower {_LARGE}."
            )


def refuse_too_many(agent: Agent, episodes: int, option: str) -> None:
    """Raises where the memories of so many episodes at once would not fit; `option` is what made them large."""
    available = available_bytes()
    try:
        needed = episodes * _bytes(jax.eval_shape(agent.init_state))
    except (OverflowError, TypeError) as error:
        raise ValueError(f"these memories are too large for any machine ({error}): lower {option}.") from error
    if available and needed > MARGIN * available:
        raise ValueError(
            f"the memories of {episodes} episodes at once need at least {min(needed, LARGEST) / 1e9:,.1f} GB, but this "
            f"machine has {available / 1e9:,.1f}: lower {option} or --episodes."
        )


_LARGE = "--environments, --unroll or the sizes of the memory"


def needed_bytes(learner: Learner) -> int:
    """The state of a run and the transitions of one unroll, of one seed, on each of its devices."""
    one, state = _one_environment(learner)
    step = partial(act, one.agent, one.env, labelled=one.objective.labelled)
    _, transition = jax.eval_shape(step, state.params, one.env_params, state.key, _first(state.actors_b))
    return state_bytes(learner) + _environments(learner) * learner.config.unroll * _bytes(transition)


def state_bytes(learner: Learner) -> int:
    """Parameters, optimiser and actors with their memories, of one seed, on each of its devices."""
    _, state = _one_environment(learner)
    return _bytes((state.params, state.optimiser)) + _environments(learner) * _bytes(state.actors_b)


def _environments(learner: Learner) -> int:
    return learner.config.environments // learner.devices.count


def _one_environment(learner: Learner) -> tuple[Learner, TrainState]:
    one = learner._replace(config=type(learner.config)(environments=1, unroll=1), devices=ONE)
    return one, jax.eval_shape(one.init, jax.random.key(0))


def _first(tree_b: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf.update(shape=leaf.shape[1:]), tree_b)


def _bytes(tree: Any) -> int:
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def available_bytes() -> int | None:
    """Of the device, or of this machine where that is the device; None: not known."""
    device = jax.devices()[0]
    if device.platform == "cpu":
        try:
            return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        except (AttributeError, ValueError, OSError):  # not on Windows
            return None
    limit = (device.memory_stats() or {}).get("bytes_limit")
    return int(limit) if limit else None
