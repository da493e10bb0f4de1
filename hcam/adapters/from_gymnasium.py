"""A Gymnasium environment as one of ours: `from_gymnasium(lambda: gymnasium.make("CartPole-v1"))`.

It goes into jit, vmap and scan like any other, but runs in Python: the program calls back to the host at every step,
once for all environments of a vmap. An environment on the host cannot go back, so each state may be stepped once.
One that computes with JAX itself needs a second CPU core: the thread that calls back waits, and XLA has one per core.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from hcam.envs.environment import Environment, EnvParams, Info, Observation
from hcam.envs.spaces import Box, Discrete, Space, Spaces, Tokens

try:
    import gymnasium
    from gymnasium import spaces
except ImportError as error:
    raise ImportError("hcam.adapters.from_gymnasium needs gymnasium, which `pip install gymnasium` brings.") from error


NARROW = {"float64": "float32", "int64": "int32", "uint64": "uint32"}  # JAX's numbers have 32 bits
TICKETS = 2**31  # then they begin again


def from_gymnasium(
    make_env: Callable[[], gymnasium.Env[Any, Any]], vocabulary: Sequence[str] = (), words: int = 1
) -> "HostEnvironment":
    """`make_env` is called once for each environment of a batch. A text has at most `words` words of `vocabulary`.

    `vmap(reset)` over B keys starts environments 0 to B - 1 anew, with seeds from the keys, and so ends whatever went
    on in them: two rollouts at a time need two of these.
    """
    first = make_env()
    if not isinstance(first.action_space, spaces.Discrete):
        raise ValueError(f"actions must be Discrete here, but {first} has {first.action_space}.")
    space = _from_spaces(first.observation_space, tuple(vocabulary), words)
    return HostEnvironment(Discrete(int(first.action_space.n)), space, _Here(make_env, first, space))


class State(NamedTuple):
    """Which environment of the host's, and which of its moments."""

    slot: jax.Array  # int32
    ticket: jax.Array  # int32


class HostEnvironment(Environment):
    """Environments of `host`, which steps all of a batch at once."""

    def __init__(self, action_space: Discrete, observation_space: Spaces, host: "Host") -> None:
        self._action_space, self._observation_space, self._host = action_space, observation_space, host

    @property
    def action_space(self) -> Discrete:
        return self._action_space

    @property
    def observation_space(self) -> Spaces:
        return self._observation_space

    def reset(self, key: jax.Array, params: EnvParams | None = None) -> tuple[Observation, State]:
        seed = jax.random.randint(key, (), 0, np.iinfo(np.int32).max)
        shapes = (self._observation_shapes(), _shape("int32"), _shape("int32"))
        observation, slot, ticket = jax.pure_callback(self._host.reset, shapes, seed, vmap_method="broadcast_all")
        return observation, State(slot, ticket)

    def step(
        self, key: jax.Array, state: State, action: jax.Array, params: EnvParams | None = None
    ) -> tuple[Observation, State, jax.Array, jax.Array, jax.Array, Info]:
        """The host's environments have randomness of their own: the key is not used."""
        observations = self._observation_shapes()
        shapes = (observations, observations, *map(_shape, ("float32", "bool", "bool", "int32")))
        observation, final, reward, terminated, truncated, ticket = jax.pure_callback(
            self._host.step, shapes, state.slot, state.ticket, action, vmap_method="broadcast_all"
        )
        info = {"terminated": terminated, "truncated": truncated, "final_observation": final}
        return observation, State(state.slot, ticket), reward, terminated, truncated, info

    @property
    def is_saved(self) -> bool:
        return False

    def close(self) -> None:
        self._host.close()

    @property
    def host_error(self) -> Exception | None:
        """The exception that an environment of the host has raised, if one has."""
        return self._host.error

    def _observation_shapes(self) -> Any:
        return jax.tree.map(lambda space: _shape(space.dtype, space.shape), self._observation_space)


class Host:
    """Environments outside of JAX. A ticket is the number of the call that an environment saw last."""

    def __init__(self) -> None:
        self._tickets: list[int] = []
        self._calls, self._lock = 0, Lock()
        self.error: Exception | None = None

    # What there is for each kind of host ------------------------------------------------------------------------------

    def begin(self, seeds: list[int], batch: tuple[int, ...]) -> Any:
        """Begins an episode in environments 0 to N - 1: their observations [N]."""
        raise NotImplementedError

    def advance(self, slots: list[int], actions: list[int], batch: tuple[int, ...]) -> tuple[Any, Any, Any, Any, Any]:
        """A step of these environments: observation, last of the episode, reward, terminated, truncated, all [N]."""
        raise NotImplementedError

    def close(self) -> None:
        """Ends all environments."""

    # What programs call -----------------------------------------------------------------------------------------------

    def reset(self, seed: jax.Array) -> tuple[Any, ...]:
        with self._lock, self._noting():
            seeds, batch = np.asarray(seed).ravel().tolist(), np.shape(seed)
            self._tickets += [-1] * (len(seeds) - len(self._tickets))
            slots = list(range(len(seeds)))
            ticket = self._stamp(slots)
            observation = _in_batch(self.begin(seeds, batch), batch)
            return observation, np.array(slots, np.int32).reshape(batch), np.full(batch, ticket)

    def step(self, slot: jax.Array, ticket: jax.Array, action: jax.Array) -> tuple[Any, ...]:
        with self._lock, self._noting():
            batch = np.shape(slot)
            slots, tickets, actions = (np.asarray(part).ravel().tolist() for part in (slot, ticket, action))
            if len(set(slots)) < len(slots) or tickets != [self._tickets[slot] for slot in slots]:
                raise RuntimeError(
                    "this state is not where its Gymnasium environment stands now, and that cannot go back: step each "
                    "state once, and make another from_gymnasium(...) for another rollout."
                )
            now = self._stamp(slots)
            return *_in_batch(self.advance(slots, actions, batch), batch), np.full(batch, now)

    @contextmanager
    def _noting(self) -> Iterator[None]:
        self.error = None
        try:
            yield
        except Exception as error:
            self.error = error
            raise

    def _stamp(self, slots: list[int]) -> np.int32:
        """Before anything happens, so that no state is good any more if an environment then fails."""
        self._calls = (self._calls + 1) % TICKETS
        for slot in slots:
            self._tickets[slot] = self._calls
        return np.int32(self._calls)


def _in_batch(tree: Any, batch: tuple[int, ...]) -> Any:
    """[N] -> the axes of a batch."""
    return jax.tree.map(lambda leaf: leaf.reshape((*batch, *leaf.shape[1:])), tree)


class _Here(Host):
    """Environments of this process, one after another."""

    def __init__(self, make_env: Callable[[], Any], first: Any, space: Spaces) -> None:
        super().__init__()
        self._make_env, self._space, self._envs = make_env, space, [first]

    def begin(self, seeds: list[int], batch: tuple[int, ...]) -> Any:
        while len(self._envs) < len(seeds):
            self._envs.append(self._make_env())
        return self._stack([env.reset(seed=seed)[0] for env, seed in zip(self._envs, seeds, strict=False)])

    def advance(self, slots: list[int], actions: list[int], batch: tuple[int, ...]) -> tuple[Any, Any, Any, Any, Any]:
        steps = [self._step(self._envs[slot], action) for slot, action in zip(slots, actions, strict=True)]
        observations, finals, rewards, terminated, truncated = zip(*steps, strict=True)
        numbers = ((rewards, np.float32), (terminated, np.bool_), (truncated, np.bool_))
        arrays = [np.array(values, dtype) for values, dtype in numbers]
        return self._stack(observations), self._stack(finals), arrays[0], arrays[1], arrays[2]

    def close(self) -> None:
        for env in self._envs:
            env.close()

    def _step(self, env: Any, action: int) -> tuple[Any, Any, float, bool, bool]:
        final, reward, terminated, truncated, _ = env.step(np.int64(action + env.action_space.start))
        observation = env.reset()[0] if terminated or truncated else final
        return observation, final, reward, terminated, truncated and not terminated  # Gymnasium may say both

    def _stack(self, observations: Sequence[Any]) -> Any:
        def stack(space: Space, host_space: Any, values: list[Any]) -> NDArray[Any]:
            return np.stack([_array(space, host_space, value) for value in values])

        host_space = self._envs[0].observation_space
        if isinstance(self._space, dict):
            names = self._space.items()
            return {name: stack(part, host_space[name], [row[name] for row in observations]) for name, part in names}
        return stack(self._space, host_space, list(observations))


def _array(space: Space, host_space: Any, value: Any) -> NDArray[Any]:
    if isinstance(space, Tokens):
        return space.ids(value)
    if isinstance(space, Discrete):
        value = value - host_space.start
    given = np.asarray(value)
    if given.shape != space.shape:
        raise ValueError(f"an observation has shape {given.shape}, but observation_space says {space.shape}")
    array = given.astype(space.dtype)
    if array.dtype.kind in "iu" and (array != given).any():
        raise ValueError(f"{given.dtype} observations become {space.dtype} here, but {given} does not fit.")
    return array


def _from_spaces(space: Any, vocabulary: tuple[str, ...], words: int) -> Spaces:
    if isinstance(space, spaces.Dict):
        return {name: _from_space(part, vocabulary, words) for name, part in space.items()}
    return _from_space(space, vocabulary, words)


def _from_space(space: Any, vocabulary: tuple[str, ...], words: int) -> Space:
    match space:
        case spaces.Discrete():
            return Discrete(int(space.n))
        case spaces.MultiBinary():
            return Box(space.shape, 0, 1, "int8")
        case spaces.MultiDiscrete():
            return _box(space, space.start.min(), (space.start + space.nvec - 1).max())
        case spaces.Box():
            return _box(space, space.low.min(), space.high.max())
        case spaces.Text() if vocabulary:
            return Tokens(vocabulary if vocabulary[0] == "" else ("", *vocabulary), words)
        case spaces.Text():
            raise ValueError(f"{space} becomes word numbers here: name the words with from_gymnasium(vocabulary=...).")
    raise ValueError(
        "an observation must be Box, Discrete, MultiBinary, MultiDiscrete or Text, or a Dict of these, "
        f"but there is {space}."
    )


def _box(space: Any, low: Any, high: Any) -> Box:
    dtype = NARROW.get(space.dtype.name, space.dtype.name)
    if np.dtype(dtype).kind in "iu":
        low, high = max(int(low), np.iinfo(dtype).min), min(int(high), np.iinfo(dtype).max)
    return Box(space.shape, float(low), float(high), dtype)


def _shape(dtype: str, shape: tuple[int, ...] = ()) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.dtype(dtype))  # type: ignore[no-untyped-call]
