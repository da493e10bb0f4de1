"""Street views: the same place always looks the same, different places look different, over many neighbourhoods."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.envs.tasks.streets import view
from hcam.envs.tasks.streets.episodes import draw, from_description
from hcam.envs.tasks.streets.levels import parse
from hcam.envs.tasks.streets.view import fraction, mix, render

SIDE = 32


def neighbourhoods(names, each, count=64):
    """Maps, and the views of all their states: leaves [R, ...], uint8 [R, 60, SIDE, SIDE, 3]."""

    def one(key, level):
        at = draw(key, level, count).map
        return at, jax.vmap(lambda place: render(at, place, SIDE))(jnp.arange(60))

    found = []
    program = jax.jit(jax.vmap(one, (0, None)))
    for number, name in enumerate(names):
        found.append(jax.device_get(program(jax.random.split(jax.random.key(number), each), parse(name).params())))
    return jax.tree.map(lambda *arrays: np.concatenate(arrays), *found)


def test_the_same_state_looks_the_same_and_no_two_states_look_alike():
    """3,000 states of 120 neighbourhoods. Few junctions to draw from, so that streets occur in several of them."""
    at, view_rs = neighbourhoods(("train", "test"), 60, count=8)
    looks: dict[tuple[int, ...], bytes] = {}
    states = 0
    for row in range(len(view_rs)):
        for state in range(at.states[row]):
            ends = (at.node_n2[row, at.tail_s[row, state]], at.node_n2[row, at.head_s[row, state]])
            name = (int(at.city[row]), *ends[0].tolist(), *ends[1].tolist())
            assert looks.setdefault(name, view_rs[row, state].tobytes()) == view_rs[row, state].tobytes()
            states += 1
    assert states > 2500
    assert len(looks) < states
    assert len(set(looks.values())) == len(looks)


def test_states_of_a_neighbourhood_differ_in_much_of_the_image():
    """The closest two of a neighbourhood, by the share of pixels that differ clearly."""
    at, view_rs = neighbourhoods(("train",), 20)
    for row, seen_s in enumerate(view_rs):
        seen = seen_s[: at.states[row]].astype(int)
        differ = (np.abs(seen[:, None] - seen[None]).max(-1) > 16).mean((2, 3)) + np.eye(len(seen))
        assert differ.min() > 0.1


ONE_STREET: Any = {"nodes": [[0, 0], [0, 48]], "streets": [[0, 1]], "start": [0, 1], "goal": [1, 0]}


@partial(jax.jit, static_argnums=0)
def wall(turned, u_w, far_w):
    """The colours of a wall of one street, 48 m long, at the height of the eye."""
    numbers = jnp.uint32(5), jnp.bool_(turned), jnp.float32(0), u_w, jnp.zeros(1), far_w, jnp.float32(48)
    return view._houses(*numbers)[1][0, 0]


def test_a_street_has_the_same_houses_from_both_ends():
    """Seen from the other end, left and right change sides: the same hue, in another light."""
    for far in (3.0, 26.0, 40.0):
        for side in (0.3, -0.3):
            there = np.asarray(wall(False, jnp.array([side]), jnp.array([far])))
            back = np.asarray(wall(True, jnp.array([-side]), jnp.array([48 - far])))
            np.testing.assert_allclose(there / there.max(), back / back.max(), atol=1e-6)


@pytest.mark.parametrize("side", [8, 84])
def test_views_are_bytes_of_the_size_asked_for(side):
    at = from_description(ONE_STREET).map
    there, back = (jax.jit(partial(render, side=side))(at, jnp.int32(state)) for state in (0, 1))
    assert (there.shape, there.dtype) == ((side, side, 3), jnp.uint8)
    assert (there != back).any()


def test_hashes_spread():
    hashed = np.asarray(mix(jnp.zeros(4096, jnp.int32), jnp.arange(4096)))
    assert len(set(hashed.tolist())) == 4096
    for part in range(4):
        share = np.asarray(fraction(jnp.asarray(hashed), part))
        assert 0 <= share.min() < share.max() < 1
        assert abs(share.mean() - 0.498) < 0.02
