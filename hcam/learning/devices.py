"""Many devices as one: each has a share of the environments of every minibatch, and a copy of everything else.

Environment b of B belongs to minibatch n = b // (B/N), and device d of D has the d-th part of each minibatch. So the
actors are kept as [S, N, B/N], with the last axis over the devices: in the order of one device, whatever their number.
Random keys are chosen by the number of an environment among all. A run is then the same on any number of devices, to
the rounding of a sum. `jax.shard_map` runs the same update on every device; what crosses between them stands here.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from hcam.types import Array, TrainState

AXIS = "device"
_SPEC: Any = PartitionSpec
EVERYWHERE = _SPEC()  # a copy on each device
SHARED = _SPEC(None, None, AXIS)  # [S, N, B/N]
STATE = TrainState(EVERYWHERE, EVERYWHERE, SHARED, EVERYWHERE, EVERYWHERE, EVERYWHERE)


@dataclass(frozen=True)
class Devices:
    """How many devices a run is spread over. One alone adds nothing to a program."""

    count: int = 1

    # Inside the program of one device ---------------------------------------------------------------------------------

    def mean(self, tree: Any) -> Any:
        """Over all devices, of what each has found for its share."""
        pmean: Any = jax.lax.pmean
        return pmean(tree, AXIS) if self.count > 1 else tree

    def sum(self, tree: Any) -> Any:
        psum: Any = jax.lax.psum
        return psum(tree, AXIS) if self.count > 1 else tree

    def split(self, key: Array, environments: int, minibatches: int) -> Array:
        """A key for each environment of this device: those that they would have on one device."""
        key_b = jax.random.split(key, environments)
        if self.count == 1:
            return key_b
        key_ndb = key_b.reshape(minibatches, self.count, -1)
        mine: Array = jax.lax.dynamic_index_in_dim(key_ndb, jax.lax.axis_index(AXIS), axis=1, keepdims=False)
        return mine.ravel()

    # Around it --------------------------------------------------------------------------------------------------------

    def spread(self, run: Callable[[Any], Any], minibatches: int, given: Any = STATE, found: Any = STATE) -> Any:
        """`run` on every device: it is given, and returns, states [S, B] with the environments of one device alone.

        `given` and `found` say which parts of its argument and its result are shared, and which are everywhere.
        """
        if self.count == 1:
            return run

        def here(part: Any) -> Any:
            return _actors(partial(_cut, minibatches), run(_actors(_join, part)))

        # Which values differ between devices is not tracked (`check_vma`): gradients stay a device's own until `mean`.
        return jax.shard_map(here, mesh=self.mesh(), in_specs=(given,), out_specs=found, check_vma=False)

    def mesh(self) -> Mesh:
        """As many devices of each process."""
        each = self.count // jax.process_count()
        chosen = [one for number in range(jax.process_count()) for one in _devices_of(number)[:each]]
        return Mesh(np.array(chosen), (AXIS,), axis_types=(AxisType.Auto,))

    def place(self, state_s: Any, minibatches: int, told: Callable[[Any], Any] = lambda leaf: leaf) -> Any:
        """A whole state [S, B] onto the devices, array by array; `told` may get each from another process."""
        if self.count == 1:
            return state_s
        mesh = self.mesh()

        def put(spec: Any, leaf: Any) -> Any:
            leaf = told(leaf)
            if jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key):
                return jax.random.wrap_key_data(spread(spec, jax.random.key_data(leaf)), impl=jax.random.key_impl(leaf))
            return spread(spec, leaf)

        def spread(spec: Any, leaf: Any) -> Any:
            whole = _cut(minibatches, np.asarray(leaf)) if spec is SHARED else np.asarray(leaf)
            return jax.make_array_from_callback(whole.shape, NamedSharding(mesh, spec), lambda index: whole[index])

        return TrainState(*(jax.tree.map(partial(put, s), part) for part, s in zip(state_s, STATE, strict=True)))

    def aside(self) -> AbstractContextManager[Any]:
        """Where to read a whole state that may be larger than one device: into the host's memory."""
        if self.count > 1:
            with suppress(RuntimeError):  # JAX was told to use other platforms alone
                host: AbstractContextManager[Any] = jax.default_device(jax.local_devices(backend="cpu")[0])
                return host
        return nullcontext()

    def whole(self, state_s: TrainState) -> TrainState:
        """The state [S, B] as one device would have it, on the first process's host; all processes must call this.

        The others get zeros without a size in place of environments and memories, which may fill a host.
        """
        if self.count == 1:
            return state_s
        found: TrainState = _actors(_join, jax.tree.map(_fetch, state_s))
        return found

    def whole_kinds(self, kinds: Any) -> Any:
        """Shapes and dtypes of what `whole` returns, of those of a state on the devices."""
        return kinds if self.count == 1 else jax.eval_shape(lambda state_s: _actors(_join, state_s), kinds)

    def local(self, tree: Any) -> Any:
        """What is everywhere, as arrays of this process alone: to be used where no other device takes part."""
        return tree if self.count == 1 else jax.device_get(tree)

    def shown(self) -> str:
        """`8 of 8 x `, before the name of a device; nothing where there is one."""
        there = jax.device_count()
        return "" if there == 1 else f"{self.count} x " if self.count == there else f"{self.count} of {there} x "

    def noted(self) -> dict[str, int]:
        """What a row of metrics says of them; nothing of one."""
        return {"devices": self.count} if self.count > 1 else {}


ONE = Devices()


def choose(asked: int | None, environments: int, minibatches: int, on_host: bool = False) -> Devices:
    """So many devices, or as many as there are and as can share a minibatch; what cannot be is refused."""
    there, processes, size = jax.device_count(), jax.process_count(), environments // minibatches
    if asked is not None and not 1 <= asked <= there:
        raise ValueError(f"devices must be from 1 to {there}, as many as there are, but is {asked}.")
    if on_host and max(asked or 1, processes) > 1:
        raise ValueError("environments on the host cannot be spread over several devices: train them on one.")
    if asked is not None and asked % processes:
        raise ValueError(f"{processes} processes have as many devices each, but {asked} is no multiple of {processes}.")
    fits = [1] if on_host else [n for n in range(processes, there + 1, processes) if size % n == 0]
    if not fits or (asked is not None and asked not in fits):
        instead = f"give --devices {' or '.join(map(str, fits))}, or change" if fits else "change"
        raise ValueError(
            f"a minibatch of {size} environments cannot be spread evenly over {asked or processes} devices: {instead} "
            "--environments or --minibatches."
        )
    return Devices(asked or max(fits))


def _devices_of(process: int) -> list[jax.Device]:
    return [one for one in jax.devices() if one.process_index == process]


def _actors(change: Callable[[Any], Any], part: Any) -> Any:
    """Changes all arrays of the actors of every state in a tree."""

    def changed(node: Any) -> Any:
        if not isinstance(node, TrainState):
            return node
        return node._replace(actors_b=jax.tree.map(change, node.actors_b))

    return jax.tree.map(changed, part, is_leaf=lambda node: isinstance(node, TrainState))


def _cut(minibatches: int, leaf: Any) -> Any:
    """[S, B] -> [S, N, B/N]."""
    return leaf.reshape(leaf.shape[0], minibatches, -1, *leaf.shape[2:])


def _join(leaf: Any) -> Any:
    """Undo `_cut`."""
    return leaf.reshape(leaf.shape[0], -1, *leaf.shape[3:])


def _fetch(leaf: Any) -> Any:
    """An array of all devices as one of this process."""
    if jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(_fetch(jax.random.key_data(leaf)), impl=jax.random.key_impl(leaf))
    if leaf.is_fully_addressable or leaf.is_fully_replicated:
        return np.asarray(leaf)
    # By minibatch: on the way, every device has a copy.
    parts = [_first_keeps(multihost_utils.process_allgather(leaf[:, n], tiled=True)) for n in range(leaf.shape[1])]
    return np.stack(parts, axis=1)


def _first_keeps(array: Any) -> Any:
    return np.asarray(array) if jax.process_index() == 0 else np.zeros((len(array), 0), array.dtype)
