"""First-person tasks without their pictures: four programs of a ray caster take half a minute to compile.

What is tested with them is the task: episodes, rewards, ends and beginnings. Pictures have tests of their own, and the
contract with pictures is checked on passive visual match, and on every task in the long proofs.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from hcam.envs.environment import Environment


def undrawn(env: Environment, instruction: Callable[[Any], jax.Array]) -> Environment:
    """The same task, whose image shows nothing but the time and where the agent stands, as a shade of grey."""

    class Undrawn(type(env)):  # type: ignore[misc]
        def observe(self, state: Any, level: Any) -> dict[str, jax.Array]:
            body = state.body
            number = state.time + body.heading + jnp.round(8 * body.position.sum()).astype(jnp.int32)
            shape = self.observation_space["image"].shape
            image = jnp.broadcast_to((number % 256).astype(jnp.uint8), shape)
            return {"image": image, "instruction": instruction(state)}

    made: Environment = Undrawn(width=env.width, height=env.height)  # type: ignore[attr-defined]
    return made
