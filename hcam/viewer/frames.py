"""What an episode looks like: a frame for each moment, drawn by the task or from what is observed."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from hcam.envs.environment import Environment, Moments
from hcam.envs.spaces import Box, Discrete, Space, Tokens

CELL = 12  # pixels of a number without an image


class Frame(NamedTuple):
    """One moment of an episode."""

    pixels: NDArray[np.uint8]  # [height, width, 3]
    text: str
    reward: float  # so far
    ending: str  # "", "done" or "time is up"


def frame_of(env: Environment, observation: Any, states: Sequence[Any], reward: float, ending: str) -> Frame:
    space = env.observation_space
    parts = space if isinstance(space, dict) else {"observation": space}
    seen = observation if isinstance(space, dict) else {"observation": observation}
    text = " ".join(part.text(seen[name]) for name, part in parts.items() if isinstance(part, Tokens))
    return Frame(pixels_of(parts, seen) if (own := env.picture(states)) is None else own, text, reward, ending)


def pixels_of(parts: Mapping[str, Space], seen: Mapping[str, Any]) -> NDArray[np.uint8]:
    """The image of an observation; numbers without an image as rows of cells, from dark (lowest) to light."""
    for name, part in parts.items():
        if isinstance(part, Box) and len(part.shape) == 3 and part.shape[-1] == 3:
            scale = 255 / part.high if part.high > 0 else 1
            return (np.asarray(seen[name]) * scale).clip(0, 255).astype(np.uint8)
    rows = [_cells(part, np.asarray(seen[name])) for name, part in parts.items() if not isinstance(part, Tokens)]
    width = max((len(row) for row in rows), default=1)
    grey = np.stack([np.pad(row, (0, width - len(row))) for row in rows] or [np.zeros(1)])
    return np.kron((255 * grey).astype(np.uint8)[..., None], np.ones((CELL, CELL, 3), np.uint8))


def _cells(part: Box | Discrete, value: NDArray[Any]) -> NDArray[np.float64]:
    if isinstance(part, Discrete):
        return np.asarray(np.arange(part.n) == int(value), np.float64)
    numbers = value.astype(np.float64).ravel()
    bounded = np.isfinite([part.low, part.high]).all() and part.high - part.low < 1e6
    low, high = (part.low, part.high) if bounded else (numbers.min(), numbers.max())
    return (numbers - low) / max(high - low, 1e-9)


def matters(env: Environment, state: Any) -> Moments | None:
    """Which steps of the episode matter, as numbers; None: the environment does not say."""
    try:
        found: Moments = jax.tree.map(int, env.moments(state))
    except ValueError:
        return None
    return found


def outcome(last: Frame) -> str:
    """How an episode ended, after its last instruction if it has any."""
    ending = f"{last.ending}, reward {last.reward:g}"
    return f"{last.text}: {ending}" if last.text else ending
