"""What the agent sees: nothing of an object that is in its box, no box after looking backward."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.envs.body import Body
from hcam.envs.render.things import THINGS
from hcam.envs.tasks.objects import Objects, room
from hcam.envs.tasks.objects.episodes import closing, jumping
from hcam.envs.tasks.objects.levels import BOXES, POOL, Level

ENV = Objects(width=32, height=24)
observe = jax.jit(lambda state: ENV.observe(state, None)["image"])
LEVEL = "delay1"


def reset(seed, level=LEVEL):
    return ENV._start(jax.random.key(seed), ENV.params(level))


def at(state, time):
    return np.asarray(observe(state._replace(time=jnp.int32(time))))


@pytest.mark.parametrize("level", ["delay1", "quick_delay1"])
def test_what_is_in_a_box_is_invisible_to_the_bit(level):
    """The same boxes with other contents look the same in every frame in which no object is out."""
    state = reset(0, level)
    episode = state.episode
    other = state._replace(episode=episode._replace(thing_b=(episode.thing_b + 5) % len(POOL), target=jnp.int32(0)))
    hidden = 0
    for time in range(int(closing(episode.rules)) + 3):
        _, rise = jumping(episode.rules, jnp.int32(time))
        same = (at(state, time) == at(other, time)).all()
        assert same == (float(rise) == 0), time
        hidden += same
    assert hidden > 12


def test_closed_boxes_look_the_same_from_everywhere():
    state = reset(1)
    closed = state._replace(time=closing(state.episode.rules))
    other = closed._replace(episode=state.episode._replace(thing_b=(state.episode.thing_b + 7) % len(POOL)))
    for heading in range(16):
        body = Body(jnp.array([0.3, -2.5], jnp.float32), jnp.int32(heading))
        np.testing.assert_array_equal(observe(closed._replace(body=body)), observe(other._replace(body=body)))


def test_closing_the_lids_is_seen():
    state = reset(2)
    last = int(closing(state.episode.rules))
    assert (at(state, last - 1) == at(state, 12)).all()  # both without an object
    assert (at(state, last) != at(state, last - 1)).mean() > 0.01


def test_every_object_is_clearly_seen_at_the_top_of_its_jump():
    """At least 12 of 96 x 72 pixels change, however far away, and objects differ from each other."""
    env = Objects()
    seen = jax.jit(lambda state: env.observe(state, None)["image"])
    state = env._start(jax.random.key(3), env.params("delay1"))
    place_b2 = jnp.array([(0, 0.9), (-2, 0), (2, 0)], jnp.float32)  # the first as far as any can be
    far = state._replace(episode=state.episode._replace(place_b2=place_b2))
    empty = np.asarray(seen(far._replace(time=jnp.int32(12)))).astype(int)
    views = []
    for thing in map(THINGS.index, POOL):
        top = far._replace(time=jnp.int32(1), episode=far.episode._replace(thing_b=jnp.full(BOXES, thing, jnp.int32)))
        views += [np.asarray(seen(top)).astype(int)]
        assert (np.abs(views[-1] - empty).max(-1) > 30).sum() >= 12, thing
    for one in range(len(POOL)):
        for two in range(one):
            assert (np.abs(views[one] - views[two]).max(-1) > 30).sum() >= 4, (one, two)


@pytest.mark.parametrize("seed", range(4))
def test_a_box_is_in_the_picture_only_if_it_is_in_view(seed):
    """Taking the boxes out of the room changes no pixel where the rule says that none is in view."""
    state = reset(seed)
    state = state._replace(time=closing(state.episode.rules))
    far_away = state._replace(episode=state.episode._replace(place_b2=state.episode.place_b2 + jnp.float32(50)))
    views_hb = np.asarray(room.in_views(state.body, state.episode))
    for heading in range(16):
        body = state.body._replace(heading=jnp.int32(heading))
        changed = (observe(state._replace(body=body)) != observe(far_away._replace(body=body))).any()
        if not views_hb[heading].any():
            assert not changed, heading
        if heading == 0:
            assert changed
    assert views_hb[0].all()
    assert not views_hb[8].any()


def test_in_view_counts_corners():
    """A box whose middle is 42 degrees aside is still seen by a corner; at 60 degrees it is not."""
    episode = ENV.episode(
        {
            "boxes": [
                {"place": [-1.5, -0.5], "thing": "duck"},
                {"place": [1.5, -0.25], "thing": "mug"},
                {"place": [0, 0], "thing": "car"},
            ],
            "target": 0,
            "delay": 0,
        }
    ).episode
    for angle, seen in ((0, True), (42, True), (60, False), (180, False)):
        place = 3 * np.array([np.sin(np.radians(angle)), np.cos(np.radians(angle))])
        body = Body(jnp.asarray(episode.place_b2[0] - jnp.asarray(place, jnp.float32)), jnp.int32(0))
        assert bool(room.in_view(body, episode)[0]) is seen


def test_boxes_are_solid_as_wide_as_they_are():
    radius = float(room.radius(reset(0).episode)[0])
    assert Level().box / 2 < radius < Level().box * 0.71
