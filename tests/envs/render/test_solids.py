"""Where rays meet solids, against a march along the ray in float64 that knows nothing but "inside or not"."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.envs.render.solids import BOX, CYLINDER, ELLIPSOID, FACES, FAR, NO_SURFACE, cone, nearest, pack, rows, unpack
from tests.envs.render.scenes import solid

LOOSE, UNIT = (-FAR, FAR), (-1.0, 1.0)
SHAPES = {
    "ellipsoid": (ELLIPSOID, (*LOOSE, *LOOSE), lambda x, y, z: x * x + y * y + z * z <= 1),
    "dome": (ELLIPSOID, (*LOOSE, 0.0, FAR), lambda x, y, z: (x * x + y * y + z * z <= 1) & (z >= 0)),
    "cylinder": (CYLINDER, (*LOOSE, *UNIT), lambda x, y, z: (x * x + y * y <= 1) & (abs(z) <= 1)),
    "box": (BOX, (*UNIT, *UNIT), lambda x, y, z: (abs(x) <= 1) & (abs(y) <= 1) & (abs(z) <= 1)),
    "cone": (cone(0.0), (*LOOSE, *UNIT), lambda x, y, z: (np.hypot(x, y) <= (1 - z) / 2) & (abs(z) <= 1)),
    "frustum": (cone(0.6), (*LOOSE, *UNIT), lambda x, y, z: (np.hypot(x, y) <= 0.8 - 0.2 * z) & (abs(z) <= 1)),
    "wedge": (
        (0.0, *cone(0.0)[1:]),
        (*UNIT, *UNIT),
        lambda x, y, z: (abs(x) <= (1 - z) / 2) & (abs(y) <= 1) & (abs(z) <= 1),
    ),
}
STEP = 0.002


@jax.jit
def hits(solids, eye_n3, direction_n3):
    """Distance and face (-1 where there is no hit) of each ray: one camera per ray, which looks along it."""

    def one(eye_3, direction_3):
        zero = jnp.zeros_like(direction_3)
        row_n = rows(solids, tuple(eye_3), (tuple(direction_3), tuple(zero), tuple(zero)))[0]
        key = nearest(row_n, 0, jnp.zeros(()), jnp.zeros(()), pack(jnp.float32(1000)))
        distance, surface = unpack(key)
        return distance, jnp.where(surface == NO_SURFACE, -1, surface % FACES)

    return jax.vmap(one)(eye_n3, direction_n3)


def march(inside, center, half, rotation, eye, direction):
    """The first place inside along each ray, to STEP; infinity where there is none."""
    along = np.arange(0, 8, STEP)
    found = []
    for start, towards in zip(eye, direction, strict=True):
        local = ((start - center) + along[:, None] * towards) @ rotation / half
        within = inside(*local.T)
        found.append(along[within.argmax()] if within.any() else np.inf)
    return np.array(found)


def rotation(rng):
    q, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    return q * np.sign(np.linalg.det(q))


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("away", [1.2, 4.0])
def test_hits_are_where_a_march_along_the_ray_enters(name, turned, away):
    rng = np.random.default_rng(len(name))
    quadric, bounds, inside = SHAPES[name]
    turn = rotation(rng) if turned else np.eye(3)
    center, half = np.array([0.4, -0.3, 0.9]), np.array([0.3, 0.5, 0.6])
    eye = rng.normal(size=(200, 3))
    eye = center + away * eye / np.linalg.norm(eye, axis=1, keepdims=True)  # the solid's radius is below 0.84
    direction = center + rng.uniform(-0.6, 0.6, (200, 3)) - eye
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    expected = march(inside, center, half, turn, eye, direction)
    found, face = hits(solid(quadric, bounds, center, half, turn), jnp.float32(eye), jnp.float32(direction))
    found, hit = np.asarray(found, np.float64), np.asarray(face) >= 0
    # A ray that grazes an edge is inside for less than a step of the march, or lies within float32's rounding.
    assert (hit != np.isfinite(expected)).mean() < 0.02
    both = hit & np.isfinite(expected)
    assert both.sum() > 40
    # Ten bits of the distance's mantissa hold the surface's number: an eighth of a thousandth is lost.
    np.testing.assert_allclose(found[both], expected[both] - STEP / 2, atol=STEP / 2 + 2e-4 * away + 1e-4)


def test_the_faces_of_a_box_are_told_apart():
    box = solid(*SHAPES["box"][:2], (0, 0, 0), (1.0, 1.0, 1.0))
    eye = jnp.float32([[3, 0.1, 0.2], [0.1, -3, 0.2], [0.1, 0.2, 3]])
    distance, face = hits(box, eye, jnp.float32([[-1, 0, 0], [0, 1, 0], [0, 0, -1]]) + 1e-4)
    assert face.tolist() == [0, 1, 2]
    np.testing.assert_allclose(distance, 2.0, rtol=1e-3)


def test_a_ray_along_the_side_of_a_box_stays_inside_or_outside():
    box = solid(*SHAPES["box"][:2], (0, 0, 0), (0.5, 0.5, 0.5))
    eye = jnp.float32([[0, -3, 0], [0.3, -3, 0], [0.51, -3, 0], [0.7, -3, 0]])
    _, face = hits(box, eye, jnp.float32([[0, 1, 1e-5]] * 4))
    assert face.tolist() == [1, 1, -1, -1]


def test_the_other_nappe_of_a_cone_is_not_there():
    pointed = solid(*SHAPES["cone"][:2], (0, 0, 0), (1.0, 1.0, 1.0))
    eye = jnp.float32([[0.3, 0.2, 6.0], [0, -5, 2.0], [0, -5, -0.5]])
    direction = jnp.float32([[1e-3, 1e-3, -1], [1e-3, 1, 1e-3], [1e-3, 1, 1e-3]])
    distance, face = hits(pointed, eye, direction)
    assert face.tolist() == [0, -1, 0]
    np.testing.assert_allclose(distance[0], 5 + 2 * np.hypot(0.3, 0.2), rtol=5e-3)
    np.testing.assert_allclose(distance[2], 4.25, rtol=1e-2)


def test_what_is_behind_the_eye_is_not_seen():
    ball = solid(*SHAPES["ellipsoid"][:2], (0, 0, 0), (1.0, 1.0, 1.0))
    assert hits(ball, jnp.float32([[0, 3, 0]]), jnp.float32([[0, 1, 0]]))[1].tolist() == [-1]


def test_an_absent_solid_is_not_hit():
    for name in SHAPES:
        gone = solid(*SHAPES[name][:2], (0, 0, 0), (1.0, 1.0, 1.0), present=False)
        assert hits(gone, jnp.float32([[0.1, -3, 0.1]]), jnp.float32([[0, 1, 0]]))[1].tolist() == [-1]
