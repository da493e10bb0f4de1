import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.envs.tasks.ballet import Ballet
from hcam.envs.tasks.ballet.choreography import (
    ABSENT,
    COLORS,
    DANCES,
    EASIEST_FIRST,
    HOMES,
    PATHS,
    PLACES,
    SHAPES,
    Level,
    choice_time,
    draw,
    from_description,
    parse,
    to_description,
)

DANCER = {"home": [2, 2], "dance": "zee", "shape": "ex", "color": "red"}
OTHER = {"home": [8, 8], "dance": "plus_cw", "shape": "h", "color": "blue"}
EPISODE = {"dancers": [DANCER, OTHER], "target": 1, "delay": 16}


many = jax.jit(jax.vmap(draw, in_axes=(0, None)))


def drawn(*levels, count=4000):
    """Always as many, so that one program serves every test."""
    (level,) = levels
    episodes = many(jax.random.split(jax.random.key(1), 4000), Ballet().level(level))
    return jax.tree.map(lambda leaf: np.asarray(leaf[:count]), episodes)


def test_dances_end_at_home_and_stay_next_to_it():
    assert PATHS.shape == (13, 17, 2)
    assert (PATHS[:, [0, -1]] == 0).all()
    assert abs(PATHS).max() == 1
    assert len({path.tobytes() for path in PATHS}) == 13


def test_homes_are_three_kings_moves_from_the_agent():
    assert len(HOMES) == 8
    assert {max(abs(row - 5), abs(col - 5)) for row, col in HOMES} == {3}


@pytest.mark.parametrize("dancers", [1, 2, 5, 8])
def test_nobody_shares_a_home_dance_shape_or_colour(dancers):
    episode = drawn(f"{dancers}_delay3", count=500)
    present = np.asarray(episode.order_p) != ABSENT
    assert (present.sum(1) == dancers).all()
    assert not present[:, PLACES.index((5, 5))].any()
    for looks in (episode.order_p, episode.dance_p, episode.shape_p, episode.color_p):
        for looks_p, present_p in zip(np.asarray(looks), present, strict=True):
            assert len(set(looks_p[present_p])) == dancers
    assert (np.sort(np.where(present, episode.order_p, ABSENT), axis=1)[:, :dancers] == np.arange(dancers)).all()


@pytest.mark.parametrize("what", ["home", "dance", "shape", "color", "target"])
def test_everything_is_drawn_evenly(what):
    """Chi-square of the first dancer's looks, and of the target; 4 standard deviations above its mean."""
    episode, count = drawn("3_delay3", count=4000), 4000
    first = np.argmax(np.asarray(episode.order_p) == 0, axis=1)
    rows = np.arange(count)
    values, kinds = {
        "home": (first, len(HOMES)),
        "dance": (np.asarray(episode.dance_p)[rows, first], len(DANCES)),
        "shape": (np.asarray(episode.shape_p)[rows, first], len(SHAPES)),
        "color": (np.asarray(episode.color_p)[rows, first], len(COLORS)),
        "target": (np.asarray(episode.target), 3),
    }[what]
    counts = np.unique(values, return_counts=True)[1]
    assert len(counts) == kinds
    chi_square = ((counts - count / kinds) ** 2 / (count / kinds)).sum()
    assert chi_square < (kinds - 1) + 4 * np.sqrt(2 * (kinds - 1))


def test_the_looks_are_independent_of_each_other():
    """A shared random number would tie, say, the dance to the home."""
    episode = drawn("8_delay3", count=4000)
    columns = [np.asarray(values)[:, place] for place in (0, 8) for values in episode[:4]]
    correlation = np.corrcoef(np.stack([*columns, np.asarray(episode.target)]).astype(float))
    off_diagonal = correlation - np.eye(len(correlation))
    order = off_diagonal[0, 4], off_diagonal[4, 0]  # two places' turns: without replacement, so -1/7 is right
    assert np.allclose(order, -1 / 7, atol=4 / np.sqrt(4000))
    off_diagonal[[0, 4, 1, 5, 2, 6, 3, 7], [4, 0, 5, 1, 6, 2, 7, 3]] = 0
    assert abs(off_diagonal).max() < 4.5 / np.sqrt(4000)


def test_only_the_dances_of_the_level_occur():
    dances = ("zee", "plus_cw")
    episode = drawn(Level(2, 4, dances=dances), count=300)
    present = np.asarray(episode.order_p) != ABSENT
    assert set(np.asarray(episode.dance_p)[present]) == {tuple(DANCES).index(dance) for dance in dances}


def test_a_level_may_leave_only_the_easiest_dances():
    assert parse("2_delay5_of4").dances == ("up_and_down", "left_and_right", "diagonal_uldr", "diagonal_urdl")
    assert parse("2_delay5_of13") == Level(2, 5, dances=EASIEST_FIRST)
    assert set(EASIEST_FIRST) == set(DANCES)
    assert set(parse("2_delay5").dances) == set(DANCES)
    with pytest.raises(ValueError, match="2 dancers need as many different dances, but have 1"):
        parse("2_delay5_of1")


def test_description_round_trip():
    episode = jax.tree.map(np.asarray, from_description(EPISODE))
    assert to_description(episode) == EPISODE | {"max_steps": 320}
    few = drawn("5_delay7", count=20)
    for number in range(20):
        one = jax.tree.map(lambda leaf, n=number: leaf[n], few)
        again = jax.tree.map(np.asarray, from_description(to_description(one)))
        assert to_description(again) == to_description(one)


@pytest.mark.parametrize(
    ("level", "choice", "limit"),
    [
        ("2_delay16", 62, 320),
        ("8_delay16", 248, 320),
        ("2_delay48", 126, 1024),
        ("6_delay48", 378, 1024),
        ("8_delay48", 504, 1024),
        ("1_delay0", 15, 1024),
        ("8_delay200", 1720, 1792),  # beyond what was published: the limit leaves as much time as the tightest level
    ],
)
def test_time_line(level, choice, limit):
    parsed = parse(level)
    assert choice_time(parsed.dancers, parsed.delay) == choice
    assert parsed.max_steps == limit


@pytest.mark.parametrize("name", ["9_delay16", "0_delay16", "2_delay", "2_delay-1", "2_delay16_easy", "", "2_delay016"])
def test_unknown_levels_name_the_form(name):
    with pytest.raises(ValueError, match=r"no Ballet level .*N from 1 to 8 .*such as 2_delay16"):
        parse(name)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"dancers": 9, "delay": 1}, "1 to 8 dancers, but is asked for 9"),
        ({"dancers": 2, "delay": -1}, "delay between dances is 0 to"),
        ({"dancers": 2, "delay": 1.5}, "delay between dances is 0 to"),
        ({"dancers": 2, "delay": 1, "dances": ("zee", "polka")}, "no dance 'polka': choose from circle_cw"),
        ({"dancers": 2, "delay": 1, "dances": ("zee", "zee")}, "2 dancers need as many different dances"),
        ({"dancers": 2, "delay": 1, "limit": 34}, "earliest possible choice ends at frame 35"),
    ],
)
def test_bad_levels(fields, sentence):
    with pytest.raises(ValueError, match=sentence):
        Level(**fields)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"dancers": [DANCER | {"dance": "polka"}]}, "no dance 'polka': choose from circle_cw, .*chevron_up"),
        ({"dancers": [DANCER | {"shape": "blob"}]}, "no shape 'blob': choose from triangle"),
        ({"dancers": [DANCER | {"color": "beige"}]}, "no color 'beige': choose from red"),
        ({"dancers": [DANCER | {"home": [5, 5]}]}, r"home must be one of \[2, 2\], .*but is \[5, 5\]"),
        ({"dancers": [DANCER | {"home": None}]}, "home must be one of"),
        ({"dancers": [DANCER, OTHER | {"home": [2, 2]}]}, r"two dancers have the home \[2, 2\]"),
        ({"dancers": []}, "list of 1 to 8 dancers"),
        ({"dancers": [DANCER] * 9}, "list of 1 to 8 dancers"),
        ({"target": 2}, "target must be the number of a dancer, 0 to 1, but is 2"),
        ({"target": -1}, "target must be the number of a dancer"),
        ({"target": True}, "target must be the number of a dancer"),
        ({"delay": -3}, "delay between dances"),
        ({"max_steps": 3}, "earliest possible choice"),
        ({"colour": 3}, "described by dancers, target, delay and may have max_steps, but was given"),
        ({"dancers": [{"home": [2, 2]}]}, "a dancer is described by home, dance, shape, color"),
    ],
)
def test_bad_descriptions(change, sentence):
    with pytest.raises(ValueError, match=sentence):
        from_description(EPISODE | change)


def test_numpy_numbers_are_numbers():
    dancer = DANCER | {"home": np.array([2, 2])}
    episode = from_description({"dancers": [dancer], "target": np.int64(0), "delay": np.int32(4)})
    assert jnp.asarray(episode.delay).dtype == jnp.int32
