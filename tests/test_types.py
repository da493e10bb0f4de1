"""The values that travel: pytrees by their field names, and nothing where there is nothing."""

import jax
import jax.numpy as jnp
import pytest

from hcam import types
from hcam.types import ActorState, EpisodeEnd, Inputs, Minibatch, Output, TrainState, Transition

KINDS = (Inputs, Output, ActorState, EpisodeEnd, Transition, Minibatch, TrainState)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_each_is_a_pytree_whose_leaves_have_the_names_of_its_fields(kind):
    """Checkpoints save them by these names."""
    made = kind(*(jnp.int32(n) for n, _ in enumerate(kind._fields)))
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_flatten_with_path(made)[0]]
    assert paths == [f".{name}" for name in kind._fields]
    assert kind.__name__ in types.__all__


def test_a_transition_without_a_label_has_no_room_for_one():
    zero = jnp.zeros(())
    inputs, end = Inputs(zero, zero, zero, zero), EpisodeEnd(zero, zero, zero, zero, zero)
    plain = Transition(inputs, zero, zero, zero, zero, zero, None, end)
    assert len(jax.tree.leaves(plain._replace(label=zero))) == len(jax.tree.leaves(plain)) + 1


def test_everything_that_is_exported_is_there():
    assert sorted(types.__all__) == types.__all__
    assert all(hasattr(types, name) for name in types.__all__)
