"""Wrappers that workers put around environments: dm_env's under Gymnasium's interface, and smaller pictures."""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class FromDmEnv(gymnasium.Env[Any, Any]):
    """A dm_env environment. LAST with discount 0 is terminated, LAST with another discount truncated.

    `make` takes a seed, and is called again where a seed is given: dm_env's `reset` takes none.
    """

    def __init__(self, make: Callable[[int | None], Any]) -> None:
        self._make, self._env = make, make(None)
        self.observation_space = _space(self._env.observation_spec())
        self.action_space = _space(self._env.action_spec())

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self._env = self._make(seed)
        return self._env.reset().observation, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        step = self._env.step(action)
        terminated = bool(step.last()) and step.discount == 0
        return step.observation, float(step.reward or 0), terminated, bool(step.last()) and not terminated, {}

    def close(self) -> None:
        self._env.close()


def _space(spec: Any) -> spaces.Space[Any]:
    from dm_env import specs  # type: ignore[import-untyped]

    if isinstance(spec, dict):
        return spaces.Dict({name: _space(part) for name, part in spec.items()})
    match spec:
        case specs.DiscreteArray():
            return spaces.Discrete(spec.num_values)
        case specs.BoundedArray():
            low, high = (np.broadcast_to(bound, spec.shape) for bound in (spec.minimum, spec.maximum))
            return spaces.Box(low, high, tuple(spec.shape), spec.dtype)
        case specs.StringArray() if spec.shape == ():
            return spaces.Text(10**6)
        case specs.Array() if np.dtype(spec.dtype).kind in "iufb":
            kind = np.dtype(spec.dtype)
            return spaces.Box(*_range(kind), tuple(spec.shape), kind.type)
    raise ValueError(f"{spec} has no counterpart here: change what the environment's specs say.")


def _range(kind: Any) -> tuple[float, float]:
    if kind.kind == "f":
        return -np.inf, np.inf
    return (0, 1) if kind.kind == "b" else (int(np.iinfo(kind).min), int(np.iinfo(kind).max))


class Named(gymnasium.ObservationWrapper[Any, Any, Any]):
    """A tuple of observations as a dict of them: `part_0`, `part_1`, ..."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        parts: Any = env.observation_space
        self.observation_space = spaces.Dict(self.observation(parts.spaces))

    def observation(self, observation: Any) -> Any:
        return {f"part_{n}": part for n, part in enumerate(observation)}


class OneAction(gymnasium.ActionWrapper[Any, Any, Any]):
    """Several choices at a time as one choice among all of their combinations."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        choices: Any = env.action_space
        self.sizes, self.first = choices.nvec, choices.start
        self.action_space = spaces.Discrete(int(np.prod(self.sizes)))

    def action(self, action: Any) -> Any:
        return np.array(np.unravel_index(int(action), self.sizes)) + self.first


class Shrink(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Pictures at 1/factor of their height and width: the mean of each square of pixels."""

    def __init__(self, env: gymnasium.Env[Any, Any], factor: int) -> None:
        super().__init__(env)
        self.factor, space = factor, env.observation_space
        parts = space.spaces if isinstance(space, spaces.Dict) else {"": space}
        self.pictures = [name for name, part in parts.items() if _is_picture(part)]
        if not self.pictures or factor < 1:
            raise ValueError(f"shrink={factor} needs pictures and a factor of 1 or more, but observations are {space}.")
        smaller = {name: self._space(part) for name, part in parts.items() if name in self.pictures}
        self.observation_space = spaces.Dict({**parts, **smaller}) if isinstance(space, spaces.Dict) else smaller[""]

    def observation(self, observation: Any) -> Any:
        if self.pictures == [""]:
            return self._smaller(observation)
        return {**observation, **{name: self._smaller(observation[name]) for name in self.pictures}}

    def _space(self, box: Any) -> spaces.Box:
        height, width, channels = box.shape
        return spaces.Box(0, 255, (height // self.factor, width // self.factor, channels), np.uint8)

    def _smaller(self, picture: Any) -> Any:
        factor, (height, width, channels) = self.factor, picture.shape
        rows, columns = height // factor, width // factor
        cut = picture[: rows * factor, : columns * factor].reshape(rows, factor, columns, factor, channels)
        total = np.zeros((rows, columns, channels), np.uint32)
        for row in range(factor):  # a sum over two axes at once is five times slower
            for column in range(factor):
                total += cut[:, row, :, column]
        return (total // factor**2).astype(np.uint8)


def _is_picture(space: Any) -> bool:
    return isinstance(space, spaces.Box) and len(space.shape) == 3 and space.dtype == np.uint8
