"""Levels, drawn episodes, and episodes in words."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hcam.envs.render.things import THINGS
from hcam.envs.tasks.objects import Objects
from hcam.envs.tasks.objects.episodes import draw, jumping
from hcam.envs.tasks.objects.levels import PAPER_LEVELS, QUICK_LEVELS, QUICK_POOL, RESERVED, Level, parse

ENV = Objects()
GOOD = {
    "boxes": [
        {"place": [-1.5, -0.5], "thing": "duck"},
        {"place": [1.5, -0.25], "thing": "mug"},
        {"place": [0.0, 0.0], "thing": "car"},
    ],
    "target": 2,
    "delay": 10,
}


def drawn(level, count=2000):
    """Many episodes, as NumPy arrays with the axis N in front."""
    params = ENV.level(level)
    return jax.device_get(jax.jit(jax.vmap(lambda key: draw(key, params)))(jax.random.split(jax.random.key(1), count)))


@pytest.mark.parametrize("level", ["delay0", "quick_delay0"])
def test_boxes_stand_side_by_side_in_the_first_view(level):
    """Their corners, seen from the start, keep to the field of view, and to intervals that do not meet."""
    known, episode_n = parse(level), drawn(level)
    offset_nb2 = episode_n.place_b2 - np.array([0, 0.5 - known.room / 2])
    away_nb = np.linalg.norm(offset_nb2, axis=-1)
    assert known.near - 1e-4 <= away_nb.min() < known.near + 0.1
    assert known.far - 0.1 < away_nb.max() <= known.far + 1e-4
    corner_c2 = known.box / 2 * np.array([(-1, -1), (-1, 1), (1, -1), (1, 1)])
    corner_nbc2 = offset_nb2[:, :, None] + corner_c2  # of a box that is not turned; a turned one is as wide
    bearing_nbc = np.degrees(np.arctan2(corner_nbc2[..., 0], corner_nbc2[..., 1]))
    low_nb, high_nb = bearing_nbc.min(-1), bearing_nbc.max(-1)
    assert np.abs(bearing_nbc).max() < 40
    order_nb = np.argsort(low_nb, axis=-1)
    low_nb, high_nb = (np.take_along_axis(side_nb, order_nb, -1) for side_nb in (low_nb, high_nb))
    assert (low_nb[:, 1:] > high_nb[:, :-1]).all()


def test_everything_is_drawn_evenly():
    episode_n = drawn("delay0", 6000)
    assert np.bincount(episode_n.target, minlength=3) == pytest.approx(2000, abs=200)
    for box in range(3):  # the first to be shown is as often the left, the middle and the right one
        left_n = np.argsort(np.argsort(episode_n.place_b2[:, :, 0], axis=-1), axis=-1)[:, box]
        assert np.bincount(left_n, minlength=3) == pytest.approx(2000, abs=200)
    allowed = [number for number, thing in enumerate(THINGS) if thing not in RESERVED]
    count_x = np.bincount(episode_n.thing_b.ravel(), minlength=len(THINGS))
    assert count_x[allowed].min() > 0.7 * 18000 / len(allowed)
    assert count_x.sum() == count_x[allowed].sum()
    sorted_nb = np.sort(episode_n.thing_b, axis=-1)
    assert (sorted_nb[:, 1:] != sorted_nb[:, :-1]).all()


def test_quick_levels_have_few_things():
    assert {THINGS[number] for number in drawn("quick_delay1").thing_b.ravel()} == set(QUICK_POOL)


def shown(level):
    """For each frame until the lids close: which box's object is out, and how far; nothing otherwise."""
    rules = parse(level).rules()
    pairs = [jumping(rules, jnp.int32(time)) for time in range(parse(level).watching + 5)]
    return [(int(box), round(float(rise), 3)) for box, rise in pairs]


def test_three_jumps_of_four_frames_and_a_delay():
    """Counted by hand for one second of delay: twelve frames of jumps, four without."""
    jump, rest = [0.6, 1.0, 0.6, 0.0], [0.0] * 4
    rises = [rise for _, rise in shown("delay1")]
    assert rises == (jump * 3 + rest) * 3 + [0.0] * 5
    assert [box for box, rise in shown("delay1") if rise] == [0] * 9 + [1] * 9 + [2] * 9


def test_one_jump_of_four_frames_in_quick_levels():
    assert [rise for _, rise in shown("quick_delay0.5")] == [1.0, 1.0, 1.0, 0.0, 0.0, 0.0] * 3 + [0.0] * 5


@pytest.mark.parametrize(
    ("name", "steps"), [("delay0", 36), ("delay30", 396), ("delay7", 120), ("delay2.25", 63), ("quick_delay2", 36)]
)
def test_names(name, steps):
    assert parse(name).watching == steps


@pytest.mark.parametrize("name", ["delay", "delay-1", "delay1.3", "quick", "quick_delay", "delay01", "2_delay16", ""])
def test_other_names_are_refused(name):
    with pytest.raises(ValueError, match=r"^there is no Objects level .* such as delay0, .*\.$"):
        ENV.level(name)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"delay": 0.3}, "delay must be 0 to 1,000,000 seconds in quarters"),
        ({"limit": 0}, "limit must be 1 to"),
        ({"jumps": 0}, "jumps must be a whole number"),
        ({"jumps": 1.5}, "jumps must be a whole number"),
        ({"rise": (1.0,)}, "rise must be 2 to 8 heights"),
        ({"rise": (1.0, 0.5)}, "rise must be 2 to 8 heights"),
        ({"rise": (1.0, 0.0, 0.0)}, "rise must be 2 to 8 heights"),
        ({"room": 0}, "must be metres above 0"),
        ({"near": 5.0}, "near at most far"),
        ({"near": 2.0}, "raise near"),
        ({"far": 7.5}, "lower far"),
        ({"things": ("duck", "mug")}, "at least 3 different"),
        ({"things": ("duck", "mug", "unicorn")}, "at least 3 different"),
    ],
)
def test_bad_levels_are_refused(change, sentence):
    with pytest.raises(ValueError, match=sentence):
        Level(**change).params()


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**31), st.sampled_from([*PAPER_LEVELS, *QUICK_LEVELS, "delay3.75"]))
def test_an_episode_in_words_and_back(seed, level):
    state = ENV._start(jax.random.key(seed), ENV.params(level))
    again = ENV.episode(ENV.describe(state))
    assert jax.tree.all(jax.tree.map(lambda one, two: bool((one == two).all()), state, again))
    assert ENV.describe(again) == ENV.describe(state)


def test_what_a_description_leaves_out_is_as_published():
    full = {"jumps": 3, "limit": 20, "room": 8, "delay": 10, "target": 2}
    assert full.items() <= ENV.describe(ENV.episode(GOOD)).items()


def boxes(**change):
    """The good boxes, with a change of the first."""
    return {"boxes": [GOOD["boxes"][0] | change, *GOOD["boxes"][1:]]}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"color": "red"}, "an episode is described by boxes, target, delay"),
        ({"target": 3}, "target must be the number of a box, 0 to 2"),
        ({"target": True}, "target must be"),
        ({"delay": -1}, "delay must be"),
        ({"boxes": GOOD["boxes"][:2]}, "boxes must be a list of 3"),
        (boxes(color="red"), "a box is described by place, thing"),
        (boxes(thing="unicorn"), "3 different things"),
        (boxes(thing="mug"), "3 different things"),
        (boxes(place=[1]), "x and y in metres"),
        (boxes(place=[float("nan"), 0]), "x and y in metres"),
        (boxes(place="ab"), "x and y in metres"),
        (boxes(place=[0.2, 1.5]), "must see all 3 boxes side by side"),  # behind the third box
        (boxes(place=[-3.5, -2]), "must see all 3 boxes side by side"),  # beside the view
        (boxes(place=[-2.0, 3.9]), "must see all 3 boxes side by side"),  # in the wall
        ({"rise": 1.0}, "rise must be"),
    ],
)
def test_bad_descriptions_are_refused(change, sentence):
    with pytest.raises(ValueError, match=sentence):
        ENV.episode(GOOD | change)
