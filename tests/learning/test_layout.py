"""Layout changes no result: each function against the plain form that it stands for."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from hcam.learning import layout, optimiser
from hcam.learning.optimiser import OptimiserConfig
from hcam.types import ActorState, Inputs, TrainState


def equal(one, two):
    """`jax.tree.map` refuses two that differ in structure."""
    jax.tree.map(np.testing.assert_array_equal, one, two)


# Transitions ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["int8", "uint8", "bool", "int32", "float32", "bfloat16"])
def test_bytes_are_packed_into_words_and_back(dtype):
    for shape in ((2, 3, 8), (2, 6), ()):
        x = jnp.asarray(np.random.default_rng(0).integers(0, 2, shape) * 100).astype(dtype)
        moved = layout.pack_words(x)
        packed = dtype in ("int8", "uint8") and shape == (2, 3, 8)
        assert moved.shape == ((2, 3, 2) if packed else shape)
        assert moved.dtype == (jnp.int32 if packed else x.dtype)
        back = layout.unpack_words(moved, x.dtype)
        assert back.dtype == x.dtype
        np.testing.assert_array_equal(back, x)


def test_every_byte_survives_packing():
    for dtype in (jnp.uint8, jnp.int8):
        x = jnp.arange(256).astype(jnp.uint8).astype(dtype).reshape(4, 64)
        np.testing.assert_array_equal(layout.unpack_words(layout.pack_words(x), x.dtype), x)


def test_minibatches_are_consecutive_environments():
    tree_b = {"a": jnp.arange(6), "b": jnp.arange(12).reshape(6, 2)}
    found = layout.split_minibatches(tree_b, 3)
    assert found["a"].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert found["b"][1].tolist() == [[4, 5], [6, 7]]


class Step(NamedTuple):
    """One of each kind that a transition has."""

    image_b: Any  # bytes that fill words
    odd_b: Any  # bytes that do not
    flag_b: Any
    number_b: Any
    nothing: None


def step(carry_b, t):
    bits_b = (carry_b * 7 + t) % 256
    image_b = (bits_b[:, None] + jnp.arange(8)[None]).astype(jnp.uint8)
    made = Step(image_b, image_b[:, :3].astype(jnp.int8), bits_b > 100, bits_b.astype(jnp.float32) / 3, None)
    return carry_b + bits_b % 5 + 1, made


@pytest.mark.parametrize("minibatches", [1, 2, 6])
def test_scan_minibatches_is_a_plain_scan(minibatches):
    """[N, T, B/N] has the environments of [T, B], with the same values, dtypes and carry."""
    begin_b, steps = jnp.arange(6, dtype=jnp.int32), 5
    carry_b, tree_ntb = jax.jit(partial(layout.scan_minibatches, step, steps=steps, minibatches=minibatches))(begin_b)
    expected_b, tree_tb = jax.lax.scan(step, begin_b, jnp.arange(steps, dtype=jnp.int32))
    equal(carry_b, expected_b)
    for found, expected in zip(jax.tree.leaves(tree_ntb), jax.tree.leaves(tree_tb), strict=True):
        assert found.shape == (minibatches, steps, 6 // minibatches, *expected.shape[2:])
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(np.concatenate(found, axis=1), expected)
    assert tree_ntb.nothing is None


# Memories -------------------------------------------------------------------------------------------------------------


def test_the_snapshot_is_the_memory_before_acting_whatever_acting_writes():
    """Also where the state is given away, and acting writes into the memory that it came with."""
    none: Any = None
    inputs = Inputs(jnp.ones(3), jnp.ones(3, bool), jnp.zeros(3, jnp.int32), jnp.zeros(3))
    memory_b = {"rows": jnp.arange(12.0).reshape(3, 4), "clock": jnp.arange(3), "full": jnp.arange(3) > 1}
    actors_b = ActorState(jnp.arange(3), inputs, memory_b, jnp.zeros(3), jnp.zeros(3, jnp.int32))
    state = TrainState({"w": jnp.ones(2)}, none, actors_b, none, jax.random.key(0), jnp.int32(0))
    before = jax.device_get(state._replace(key=none))

    @partial(jax.jit, donate_argnums=0)
    def act(state):
        memory_b, state = layout.snapshot_memory(state)
        written_b = state.actors_b.memory | {"rows": state.actors_b.memory["rows"].at[:, 1].set(-1.0)}
        return memory_b, state._replace(actors_b=state.actors_b._replace(memory=written_b))

    snapshot_b, after = act(state)
    equal(snapshot_b, before.actors_b.memory)
    assert after.actors_b.memory["rows"][:, 1].tolist() == [-1.0] * 3
    kept = after._replace(key=none, actors_b=after.actors_b._replace(memory=none))
    equal(kept, before._replace(actors_b=before.actors_b._replace(memory=none)))


# Parameters -----------------------------------------------------------------------------------------------------------


def small_params():
    return {
        "encoder": {"w": jnp.arange(6.0).reshape(2, 3), "b": jnp.ones(3)},
        "memory": ({"key": jnp.full((2, 2), 5.0)}, {"key": jnp.full((2, 2), 7.0)}),
    }


CHAINS = {
    "clipped": optimiser.make(OptimiserConfig(learning_rate=0.1, clip=1.0), 10),
    "not clipped": optimiser.make(OptimiserConfig(learning_rate=0.1, clip=0.0, schedule="linear"), 10),
    "stateless": optax.sgd(0.1),
}


@pytest.mark.parametrize("chain", CHAINS)
def test_parameters_and_optimiser_become_vectors_and_get_their_names_back(chain):
    params, made = small_params(), CHAINS[chain]
    named = jax.tree.map(lambda leaf: leaf + 1, made.init(params))  # so that nothing is zero
    params_p, flat, unflatten = layout.flatten(params, named)
    assert params_p.shape == (6 + 3 + 4 + 4,)
    equal(unflatten(params_p), params)
    assert {leaf.shape for leaf in jax.tree.leaves(flat)} <= {params_p.shape, ()}
    equal(jax.tree.map(jnp.zeros_like, flat), jax.tree.map(jnp.zeros_like, made.init(params_p)))
    equal(layout.unflatten_state(params, flat, named), named)


@pytest.mark.parametrize("chain", CHAINS)
def test_optimising_a_vector_is_optimising_the_parameters(chain):
    """Three steps, the gradient clipped as a whole, with a state that is saved under names between them."""
    made = CHAINS[chain]
    params = vector = small_params()
    state = named = made.init(params)
    with jax.numpy_dtype_promotion("standard"):
        for n in range(3):
            gradient = jax.tree.map(lambda leaf, n=n: jnp.cos(leaf + n), params)
            change, state = made.update(gradient, state, params)
            params = optax.apply_updates(params, change)

            gradient = jax.tree.map(lambda leaf, n=n: jnp.cos(leaf + n), vector)
            vector_p, flat, unflatten = layout.flatten(vector, named)
            change_p, flat = made.update(jax.flatten_util.ravel_pytree(gradient)[0], flat, vector_p)
            vector, named = unflatten(vector_p + change_p), layout.unflatten_state(vector, flat, named)
    for one, two in zip(jax.tree.leaves((params, state)), jax.tree.leaves((vector, named)), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-7)


def test_an_optimisers_arrays_have_the_names_of_their_parameters():
    """So that a checkpoint says which array is which, and two of one shape cannot be swapped unnoticed."""
    params, made = small_params(), CHAINS["clipped"]
    names = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_flatten_with_path(params)[0]]
    back = layout.unflatten_state(params, layout.flatten(params, made.init(params))[1], made.init(params))
    for moment in ("mu", "nu"):
        tree = optax.tree.get(back, moment)
        found = jax.tree_util.tree_flatten_with_path(tree)[0]
        assert [jax.tree_util.keystr(path) for path, _ in found] == names
        assert [leaf.shape for _, leaf in found] == [leaf.shape for leaf in jax.tree.leaves(params)]


# Seeds ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seeds", [1, 3])
def test_many_seeds_are_each_seed_by_itself(seeds):
    def run(state):
        return state._replace(updates=state.updates + 1, params=state.params * 2), {"loss": state.params.sum()}

    none: Any = None

    def state_of(seed):
        return TrainState(jnp.arange(4.0) + seed, none, none, none, jnp.float32(seed), jnp.int32(seed))

    state_s = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(state_of(seed) for seed in range(seeds)))
    found = layout.vmap_seeds(run, seeds)(state_s)
    each = [run(state_of(seed)) for seed in range(seeds)]
    equal(found, jax.tree.map(lambda *leaves: jnp.stack(leaves), *each))


def test_a_single_seed_is_not_batched():
    """Under `vmap`, XLA would lay out all frames anew for a gradient."""
    seen: list[int] = []

    def run(state):
        seen.append(state.ndim)
        return state @ state, state

    text = str(jax.make_jaxpr(layout.vmap_seeds(run, 1))(jnp.ones((1, 2, 2))))
    assert seen == [2]
    assert "dimension_numbers=(([1], [0]), ([], []))" in text
