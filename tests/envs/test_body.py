import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hcam.envs import body as bodies
from hcam.envs.body import ACTIONS, Body

HALF = jnp.array([3.0, 2.0], jnp.float32)
NOTHING = jnp.zeros((1, 2), jnp.float32), jnp.zeros(1, jnp.float32)
move = jax.jit(bodies.move)


def at(x: float, y: float, heading: int = 0) -> Body:
    return Body(jnp.array([x, y], jnp.float32), jnp.int32(heading))


def act(name: str) -> jax.Array:
    return jnp.int32(ACTIONS.index(name))


def obstacle(x: float, y: float, radius: float) -> tuple[jax.Array, jax.Array]:
    return jnp.array([[x, y]], jnp.float32), jnp.array([radius], jnp.float32)


@pytest.mark.parametrize(("heading", "vector"), [(0, (0, 1)), (4, (1, 0)), (8, (0, -1)), (12, (-1, 0)), (20, (1, 0))])
def test_points_of_the_compass_are_exact(heading: int, vector: tuple[int, int]) -> None:
    assert bodies.direction(jnp.int32(heading)).tolist() == list(vector)


def test_headings_grow_clockwise_by_equal_angles() -> None:
    x, y = np.asarray(bodies.direction(jnp.arange(16))).T
    np.testing.assert_allclose(np.unwrap(np.arctan2(x, y)), np.arange(16) * math.radians(22.5), atol=1e-6)


@pytest.mark.parametrize(
    ("action", "place"), [("forward", (0.5, 0)), ("backward", (-0.5, 0)), ("left", (0, 0.5)), ("right", (0, -0.5))]
)
def test_steps_are_relative_to_the_heading(action: str, place: tuple[float, float]) -> None:
    after = move(at(0, 0, heading=4), act(action), HALF, *NOTHING)
    assert after.position.tolist() == list(place)
    assert after.heading == 4


@pytest.mark.parametrize(("action", "heading"), [("turn_left", 15), ("turn_right", 1), ("stay", 0), ("lift", 0)])
def test_turning_moves_nothing(action: str, heading: int) -> None:
    after = move(at(0.1, 0.2), act(action), HALF, *NOTHING)
    assert after.heading == heading
    assert after.position.tolist() == at(0.1, 0.2).position.tolist()


def test_sixteen_turns_come_back_to_the_same_bits() -> None:
    body = at(0.1, 0.2, heading=3)
    for _ in range(16):
        body = move(body, act("turn_right"), HALF, *NOTHING)
    assert body.heading == 3
    assert body.position.tolist() == at(0.1, 0.2).position.tolist()


def test_a_wall_stops_the_body_and_lets_it_slide() -> None:
    north_east = move(at(0, 1.6, heading=2), act("forward"), HALF, *NOTHING)
    np.testing.assert_allclose(north_east.position, [0.5 * math.sqrt(0.5), 2 - bodies.RADIUS], atol=1e-6)


def test_a_corner_stops_the_body() -> None:
    body = at(2.6, 1.6, heading=2)
    for _ in range(3):
        body = move(body, act("forward"), HALF, *NOTHING)
    np.testing.assert_allclose(body.position, np.asarray(HALF) - bodies.RADIUS, atol=1e-6)


def test_an_obstacle_stops_the_body_at_contact() -> None:
    round_one = obstacle(0, 1, 0.4)
    body = move(at(0, 0), act("forward"), HALF, *round_one)
    assert body.position[1] == pytest.approx(1 - 0.4 - bodies.RADIUS - bodies.MARGIN, abs=1e-5)
    assert bodies.touched(body, *round_one).tolist() == [True]
    assert not bodies.touched(at(0, 0.2), *round_one).any()


def test_a_touching_body_can_leave() -> None:
    round_one = obstacle(0, 1, 0.4)
    touching = move(at(0, 0), act("forward"), HALF, *round_one)
    for away in ("backward", "left", "right"):
        after = move(touching, act(away), HALF, *round_one)
        assert jnp.linalg.norm(after.position - touching.position) == pytest.approx(bodies.STRIDE, abs=1e-5)


def test_sliding_along_a_wall_ends_at_an_obstacle() -> None:
    body = move(at(0, 1.7, heading=2), act("forward"), HALF, *obstacle(1, 1.7, 0.5))
    assert body.position[0] == pytest.approx(1 - 0.5 - bodies.RADIUS - bodies.MARGIN, abs=1e-5)


def test_an_obstacle_of_radius_zero_is_not_there() -> None:
    absent = obstacle(0, 0.4, 0)
    assert move(at(0, 0), act("forward"), HALF, *absent).position.tolist() == [0, 0.5]
    assert not bodies.touched(at(0, 0.4), *absent).any()


def test_no_obstacles_at_all() -> None:
    none = jnp.zeros((0, 2), jnp.float32), jnp.zeros(0, jnp.float32)
    assert move(at(0, 0), act("forward"), HALF, *none).position.tolist() == [0, 0.5]


places = st.tuples(st.floats(-2.4, 2.4), st.floats(-1.4, 1.4))


@settings(deadline=None, max_examples=100)
@given(
    st.lists(places, min_size=3, max_size=3),
    st.lists(st.just(0.0) | st.floats(0.1, 0.6), min_size=3, max_size=3),
    st.lists(st.integers(0, len(ACTIONS) - 1), max_size=60),
    st.integers(0, 15),
)
def test_never_inside_an_obstacle_or_a_wall(
    centres: list[tuple[float, float]], radii: list[float], actions: list[int], heading: int
) -> None:
    obstacles_n2, radius_n = jnp.array(centres, jnp.float32), jnp.array(radii, jnp.float32)
    body = at(0, 0, heading)
    solid_n = np.array([0 < r < math.hypot(*centre) - 0.31 for centre, r in zip(centres, radii, strict=True)])
    radius_n = jnp.where(jnp.asarray(solid_n), radius_n, 0.0)  # none around the place where the body begins
    for action in actions:
        body = move(body, jnp.int32(action), HALF, obstacles_n2, radius_n)
        assert (jnp.abs(body.position) <= HALF - bodies.RADIUS).all()
        away_n = np.linalg.norm(np.asarray(obstacles_n2) - np.asarray(body.position), axis=-1)
        assert (away_n >= np.asarray(radius_n) + bodies.RADIUS)[solid_n].all()


@pytest.mark.parametrize(
    ("point", "seen"), [((1, 0), True), ((2.5, 0), False), ((1, 0.9), True), ((1, 1.1), False), ((-1, 0), False)]
)
def test_in_front(point: tuple[float, float], seen: bool) -> None:
    found = bodies.in_front(at(0, 0, heading=4), jnp.array(point, jnp.float32), reach=2, angle=math.pi / 4)
    assert bool(found) is seen


@pytest.mark.parametrize(("wanted", "action"), [(3, "stay"), (4, "turn_right"), (11, "turn_right"), (12, "turn_left")])
def test_turning_takes_the_shorter_way(wanted: int, action: str) -> None:
    assert ACTIONS[int(bodies.turn_to(at(0, 0, heading=3), jnp.int32(wanted)))] == action


@settings(deadline=None, max_examples=50)
@given(places, places, st.integers(0, 15))
def test_walking_arrives(begin: tuple[float, float], end: tuple[float, float], heading: int) -> None:
    body, goal = at(*begin, heading), jnp.array(end, jnp.float32)
    for _ in range(40):
        if jnp.linalg.norm(goal - body.position) <= bodies.STRIDE:
            return
        body = move(body, bodies.walk_to(body, goal), HALF, *NOTHING)
    pytest.fail(f"a walk from {begin} to {end} does not arrive")
