"""The field of apples against the same apples as solids of the ray caster."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.envs.body import Body, camera
from hcam.envs.render import raycast
from hcam.envs.render.apples import GRID, RADIUS, RGB, WORDS, Apples, has, overlay
from hcam.envs.render.raycast import Room, Scene
from hcam.envs.render.solids import ELLIPSOID, FAR, Solids

MOST = 40  # apples


def balls(cells, side):
    """The apples as solids, filled up with absent ones."""
    found, count = cells + [(0, 0)] * (MOST - len(cells)), MOST
    center_p3 = np.array([(x + 0.5 - side / 2, y + 0.5 - side / 2, RADIUS) for x, y in found], np.float32)
    return Solids(
        center_p3=jnp.asarray(center_p3),
        frame_p33=jnp.broadcast_to(jnp.eye(3)[None] / RADIUS, (count, 3, 3)),
        quadric_p4=jnp.broadcast_to(jnp.array(ELLIPSOID)[None], (count, 4)),
        bounds_p4=jnp.broadcast_to(jnp.array([-FAR, FAR, -FAR, FAR])[None], (count, 4)),
        color_p3=jnp.broadcast_to(jnp.array(RGB)[None], (count, 3)),
        shadow_p3=jnp.zeros((count, 3)),
        present_p=jnp.arange(count) < len(cells),
    )


def bits(cells):
    bits_w = np.zeros(WORDS, np.uint32)
    for x, y in cells:
        bits_w[(y * GRID + x) // 32] |= np.uint32(1) << np.uint32((y * GRID + x) % 32)
    return jnp.asarray(bits_w)


def room(side):
    return Room(jnp.full(2, side / 2, jnp.float32), jnp.float32(2.2), jnp.int32(1))


def is_red(image_hwc):
    """No wall and no floor of this theme is red."""
    red, green, blue = (image_hwc[..., c].astype(int) for c in range(3))
    return (red > 60) & (red > 2 * green) & (red > 2 * blue)


@pytest.fixture(scope="module")
def both():
    """A room with apples as solids, and the same as an empty room with a field of apples: one program for all tests."""

    @jax.jit
    def run(scene, apples, eye):
        empty = scene._replace(solids=jax.tree.map(lambda x_p: x_p[:1], scene.solids))
        empty = empty._replace(solids=empty.solids._replace(present_p=jnp.zeros(1, bool)))
        return raycast.render(scene, eye), overlay(raycast.render(empty, eye), apples, eye)

    return run


@pytest.mark.parametrize(("side", "seed"), [(11, 0), (11, 1), (11, 2), (8, 3), (5, 4)])
def test_equals_the_ray_caster_with_as_many_solids(side, seed, both):
    rng = np.random.default_rng(seed)
    cells = [(x, y) for x in range(side) for y in range(side) if rng.random() < 0.3][:MOST]
    limit, scene = side / 2 - 0.3, Scene(room(side), balls(cells, side))
    differ = red = 0
    for heading in range(16):
        place = jnp.asarray(rng.uniform(-limit, limit, 2), jnp.float32)
        eye = camera(Body(place, jnp.int32(heading)), -0.15)
        solids, field = (np.asarray(x) for x in both(scene, Apples(bits(cells), jnp.int32(side)), eye))
        one, two = is_red(solids), is_red(field)
        far = (np.abs(solids.astype(int) - field).max(-1) > 6) & one & two  # the caster rounds distances
        differ, red = differ + (one != two).sum() + far.sum(), red + one.sum()
    assert red > 400
    assert differ <= red / 500  # rays that graze a ball


def test_without_apples_not_a_byte_changes():
    image = jax.random.bits(jax.random.key(0), (72, 96, 3), jnp.uint8)
    eye = camera(Body(jnp.array([0.3, -1.2]), jnp.int32(3)), -0.15)
    assert (overlay(image, Apples(bits([]), jnp.int32(11)), eye) == image).all()


def test_a_bit_is_one_cell():
    bits_w = bits([(3, 0), (10, 2), (0, 3), (10, 10)])
    found = np.flatnonzero(has(bits_w, jnp.arange(GRID * GRID)))
    assert found.tolist() == [3, 32, 33, 120]
