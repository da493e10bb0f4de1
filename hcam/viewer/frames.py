"""One moment of an episode as a picture: what the agent sees, or what its environment draws for people."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hcam.envs.environment import Environment
from hcam.envs.spaces import Box, Discrete, Space, Tokens

CELL = 12  # pixels of a number without an image


class Frame(NamedTuple):
    """One moment of an episode."""

    pixels: NDArray[np.uint8]  # [height, width, 3]
    text: str
    reward: float  # so far
    ending: str  # "", "done" or "time is up"


def frame_of(env: Environment, states: Sequence[Any], observation: Any, reward: float, ending: str) -> Frame:
    """What an episode shows after these states: the environment's own picture of them, or the observation."""
    space = env.observation_space
    parts = space if isinstance(space, dict) else {"observation": space}
    seen = observation if isinstance(space, dict) else {"observation": observation}
    texts = [part.text(seen[name]) for name, part in parts.items() if isinstance(part, Tokens)]
    picture = env.picture(states)
    return Frame(_pixels(parts, seen) if picture is None else picture, " ".join(texts), reward, ending)


def _pixels(parts: Mapping[str, Space], seen: Mapping[str, Any]) -> NDArray[np.uint8]:
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
