"""Our tasks in Gymnasium: after `import hcam`, `gymnasium.make("hcam/Ballet-v0", level="8_delay48")`.

from_gymnasium.py is the other direction.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from hcam import envs
from hcam.adapters.batch import FORKED, Batch, first_row, is_forked, row_of
from hcam.envs.environment import Environment, Observation
from hcam.envs.spaces import Box, Discrete, Spaces, Tokens

try:
    import gymnasium
    from gymnasium import spaces
    from gymnasium.error import ResetNeeded
    from gymnasium.utils.seeding import np_random
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_space
except ImportError as error:
    raise ImportError("hcam.adapters.gymnasium needs gymnasium 1.1, which `pip install gymnasium` brings.") from error

IMAGE = "image"  # the part of an observation that can be shown
RENDERING: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 10}
AUTORESET: dict[str, Any] = {"autoreset_mode": AutoresetMode.SAME_STEP}
RENDERING_AND_AUTORESET = RENDERING | AUTORESET


class GymnasiumEnv(gymnasium.Env[Any, Any]):
    """A task by name, or an environment, as Gymnasium's. `level` is one name, or several of which episodes draw one.

    `reset(options={"episode": {...}})` starts exactly that episode, and `options={"level": ...}` changes the level.
    """

    metadata = RENDERING

    def __init__(
        self,
        env: Environment | str,
        level: str | Sequence[str] | None = None,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        self.environment = _environment(env, options)
        self._batch = None if is_forked() else Batch(self.environment, 1, level)  # `reset` says so
        self._over = True
        self._shown: Observation | None = None
        self.metadata = _rendering(self.environment)
        self.render_mode = _render_mode(render_mode, self.metadata)
        self.action_space = to_gymnasium(self.environment.action_space)
        self.observation_space = to_gymnasium(self.environment.observation_space)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._shown = first_row(self._playing.reset([self.np_random], options or {}))
        self._over = False
        return _readable(self.environment.observation_space, self._shown), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        action = _whole("action must be a whole number", self.environment.action_space, action, ())
        if self._over:
            raise ResetNeeded("there is no episode, or it is over: call reset() before step().")
        last, observation, reward, terminated, truncated, info = self._playing.step(action[None])
        self._over = bool(terminated[0] or truncated[0])
        self._shown = first_row(jax.device_get(last) if self._over else observation)
        info = {name: value.tolist()[0] if value.ndim == 1 else np.array(value[0]) for name, value in info.items()}
        observation = _readable(self.environment.observation_space, self._shown)
        return observation, float(reward[0]), bool(terminated[0]), bool(truncated[0]), info

    @property
    def _playing(self) -> "Batch":
        if self._batch is None:
            raise RuntimeError(FORKED)
        return self._batch

    def render(self) -> Any:
        if self.render_mode is None:
            return None
        if self._shown is None:
            raise ResetNeeded("there is nothing to render yet: call reset() before render().")
        return np.array(self._shown[IMAGE])


class GymnasiumVectorEnv(VectorEnv[Any, Any, Any]):
    """Many environments in one compiled program; a new episode begins in the step that ends the old one.

    The same seeds give the same first episodes as in Gymnasium's SyncVectorEnv. With a list as `options["episode"]`,
    each environment has its own.
    """

    metadata = RENDERING_AND_AUTORESET

    def __init__(
        self,
        env: Environment | str,
        num_envs: int = 1,
        level: str | Sequence[str] | None = None,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        self.environment, self.num_envs = _environment(env, options), num_envs
        self._batch = Batch(self.environment, num_envs, level)
        self._generators = [np_random()[0] for _ in range(num_envs)]
        self._shown: Observation | None = None
        self.metadata = _rendering(self.environment) | AUTORESET
        self.render_mode = _render_mode(render_mode, self.metadata)
        self.single_action_space = to_gymnasium(self.environment.action_space)
        self.single_observation_space = to_gymnasium(self.environment.observation_space)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        for i, own_seed in enumerate(_seeds(seed, self.num_envs)):
            if own_seed is not None:
                self._generators[i] = np_random(own_seed)[0]
        self._shown = self._batch.reset(self._generators, options or {})
        return _readable(self.environment.observation_space, self._shown), {}

    def step(self, actions: Any) -> tuple[Any, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        wanted = f"actions must be {self.num_envs} whole numbers"
        actions = _whole(wanted, self.environment.action_space, actions, (self.num_envs,))
        last, self._shown, reward, terminated, truncated, info = self._batch.step(actions)
        done = terminated | truncated
        infos = _of_some(info, ~done)  # where an episode ended, the new one has told nothing yet
        if done.any():
            infos |= _of_some({"final_info": info}, done) | {"final_obs": self._final(last, done), "_final_obs": done}
        observation = _readable(self.environment.observation_space, self._shown)
        return observation, reward.astype(float), np.array(terminated), np.array(truncated), infos

    def _final(self, last: Observation, done: NDArray[Any]) -> NDArray[Any]:
        """The last observations of the episodes that ended: only these leave the device."""
        ended = np.flatnonzero(done)
        observations = np.full(self.num_envs, None, object)
        for i, row in zip(ended, jax.device_get([row_of(last, i) for i in ended]), strict=True):
            observations[i] = _readable(self.environment.observation_space, row)
        return observations

    def render(self) -> tuple[Any, ...] | None:
        if self.render_mode is None:
            return None
        if self._shown is None:
            raise ResetNeeded("there is nothing to render yet: call reset() before render().")
        return tuple(np.array(self._shown[IMAGE]))


def to_gymnasium(space: Spaces) -> spaces.Space[Any]:
    """Our space as Gymnasium's; a sentence becomes a Text."""
    if isinstance(space, dict):
        return spaces.Dict({name: to_gymnasium(part) for name, part in space.items()})
    if isinstance(space, Discrete):
        return spaces.Discrete(space.n)
    if isinstance(space, Box):
        return spaces.Box(space.low, space.high, space.shape, np.dtype(space.dtype).type)
    words, gap = space.vocabulary[1:], " " if space.length > 1 else ""
    longest = space.length * max(map(len, words)) + space.length - 1
    return spaces.Text(longest, min_length=0, charset="".join(sorted({*"".join(words), *gap})))  # 0: all is padding


def _environment(env: Environment | str, options: Mapping[str, Any]) -> Environment:
    if isinstance(env, str):
        return envs.make(env, **options)
    if options:
        raise ValueError(f"{', '.join(options)}: set this where {env!r} is made, or name a task instead.")
    return env


def _seeds(seed: int | Sequence[int | None] | None, size: int) -> Sequence[int | None]:
    if seed is None or isinstance(seed, int):
        return [None if seed is None else seed + i for i in range(size)]
    if len(seed) != size:
        raise ValueError(f"seed must be one number, or a list of {size}, but is a list of {len(seed)}.")
    return seed


def _whole(wanted: str, space: Discrete, action: Any, shape: tuple[int, ...]) -> NDArray[np.int32]:
    array = np.asarray(action)
    if array.shape != shape or array.dtype.kind not in "iu" or (array < 0).any() or (array >= space.n).any():
        raise ValueError(f"{wanted} from 0 to {space.n - 1}, but {'are' if shape else 'is'} {action!r}.")
    return array.astype(np.int32)


def _readable(space: Spaces, value: Any) -> Any:
    """An observation, or a batch, as NumPy and text. Arrays are copied, because what JAX hands out is read-only."""
    if isinstance(space, dict):
        return {name: _readable(part, value[name]) for name, part in space.items()}
    if isinstance(space, Tokens):
        return space.text(value) if value.ndim == 1 else tuple(space.text(row) for row in value)
    return np.asarray(value, np.int64)[()] if isinstance(space, Discrete) else np.array(value)


def _of_some(info: dict[str, Any], given_b: NDArray[Any]) -> dict[str, Any]:
    """What VectorEnv makes of infos that some of its environments gave: arrays, and for each a mask."""
    infos: dict[str, Any] = {}
    for name, value in info.items() if given_b.any() else ():
        infos |= {name: _of_some(value, given_b) if isinstance(value, dict) else _blanked(value, given_b)}
        infos |= {f"_{name}": given_b.copy()}
    return infos


def _blanked(value: NDArray[Any], given_b: NDArray[Any]) -> NDArray[Any]:
    """Zeros, or None, for the environments that gave nothing; a number is as wide as Python's."""
    wide = {"i": int, "u": int, "f": float}.get(value.dtype.kind) if value.ndim == 1 else None
    blank = np.full(value.shape, None if value.dtype == object else 0, wide or value.dtype)
    blank[given_b] = value[given_b]
    return blank


def _rendering(env: Environment) -> dict[str, Any]:
    space = env.observation_space
    return dict(RENDERING) if isinstance(space, dict) and IMAGE in space else {"render_modes": []}


def _render_mode(mode: str | None, metadata: dict[str, Any]) -> str | None:
    modes = (None, *metadata["render_modes"])
    if mode not in modes:
        raise ValueError(f"render_mode must be {' or '.join(map(repr, modes))}, but is {mode!r}.")
    return mode
