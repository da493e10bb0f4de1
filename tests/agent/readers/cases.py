"""A small observation for readers, and ways to change it that must not matter."""

from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp

from hcam import agent
from hcam.agent import AgentConfig
from hcam.agent.readers import HCAMReader, Memo, UniversalTransformer
from hcam.envs.spaces import Box, Discrete

CHUNKS, FILLED, FEATURES = 6, 4, 8
SPACE: dict[str, Any] = {
    "memory": Box((CHUNKS, 2, FEATURES), -6, 6),
    "query": Box((3, FEATURES), -6, 6),
    "filled": Discrete(CHUNKS + 1),
}
SIZES: dict[str, Any] = {"width": 16, "heads": 2, "mlp": 2}
READERS: dict[str, Any] = {
    "hcam": HCAMReader(**SIZES, layers=2, top_k=3),
    "hcam_all": HCAMReader(**SIZES, layers=2, gradients=True, order="softmax_then_top_k", positions=False),
    "ut": UniversalTransformer(**SIZES, hops=3),
    "ut_fixed": UniversalTransformer(**SIZES, hops=3, halting="fixed"),
    "memo": Memo(**SIZES, hops=3),
    "memo_fixed": Memo(**SIZES, hops=3, halting="fixed"),
}


class Task:
    """The spaces of a task, which is all that an agent asks for."""

    observation_space = SPACE
    action_space = Discrete(2)


@lru_cache
def built(name, dtype="float32"):
    """An agent and parameters that are far from their small beginning, so that all of them matter."""
    made = agent.make(AgentConfig(memory=READERS[name], dtype=dtype), Task())  # type: ignore[arg-type]
    params = made.init_params(jax.random.key(0))
    leaves, structure = jax.tree.flatten(params)
    keys = jax.random.split(jax.random.key(1), len(leaves))
    moved = [leaf + 0.3 * jax.random.normal(key, leaf.shape) for leaf, key in zip(leaves, keys, strict=True)]
    return made, jax.tree.unflatten(structure, moved)


def observation(seed=0):
    key_memory, key_query = jax.random.split(jax.random.key(seed))
    memory = jax.random.normal(key_memory, (CHUNKS, 2, FEATURES))
    known = jnp.arange(CHUNKS) < FILLED
    return {
        "memory": jnp.where(known[:, None, None], memory, 0.0),
        "query": jax.random.normal(key_query, (3, FEATURES)),
        "filled": jnp.int32(FILLED),
    }


@lru_cache
def compiled(made):
    """Shared by all tests: the programs are compiled once."""
    return jax.jit(made.network.answer)


def answer(made, params, seen):
    return compiled(made)(params["network"], seen)
