"""Levels by name, and the rows of the table that each plays."""

import jax
import numpy as np
import pytest

from hcam.envs.tasks.streets.cities import CITIES, TEST_CITIES, TRAIN_CITIES
from hcam.envs.tasks.streets.levels import (
    LEVELS,
    SIZES,
    SYMBOLS,
    Level,
    draw_row,
    guessing,
    parse,
    rows_of,
    table,
    title,
)
from hcam.envs.tasks.streets.neighbourhoods import of_city
from hcam.envs.tasks.streets.streets import MOST


def test_names():
    assert parse("train") == Level(TRAIN_CITIES, junctions=5, steps=200)
    assert parse("test").cities == TEST_CITIES
    assert parse("aleppo") == Level(("aleppo",))
    assert parse("quick_liege") == Level(("liege",), junctions=1)
    assert [parse(level).junctions for level in ("train", "small_train", "quick_train")] == [5, 2, 1]
    assert title("test") == "test cities"
    assert title("quick_salt_lake_city") == "Salt Lake City, one junction"
    assert [title(level) for level in ("liege", Level(("liege", "wuhan")))] == ["Liège", "Liège, Wuhan"]
    assert len(set(map(title, LEVELS))) == len(LEVELS)


@pytest.mark.parametrize("name", ["", "Train", "paris", "quick_", "quick_quick_train", "quick_small_train", "train "])
def test_other_names_are_refused_in_one_sentence(name):
    with pytest.raises(ValueError, match="there is no Streets level"):
        parse(name)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"cities": ()}, "cities must be different ones of"),
        ({"cities": ("paris",)}, "cities must be different ones of"),
        ({"cities": ("liege", "liege")}, "cities must be different ones of"),
        ({"junctions": 3}, "junctions must be one of 5, 2, 1"),
        ({"junctions": True}, "junctions must be one of 5, 2, 1"),
        ({"steps": 0}, "steps must be a whole number"),
        ({"steps": True}, "steps must be a whole number"),
    ],
)
def test_bad_parts_are_refused(parts, words):
    with pytest.raises(ValueError, match=words):
        Level(**parts)


@pytest.mark.parametrize("name", ["train", "test", "wuhan", "small_train", "quick_test", "quick_auckland"])
def test_a_level_draws_the_rows_of_its_own_cities(name):
    """Each city equally often, and each row is a neighbourhood of that city."""
    level, count = parse(name), 16
    params = level.params()
    draw = jax.jit(jax.vmap(lambda key: draw_row(key, params, count)))
    city_n, row_n = map(np.asarray, draw(jax.random.split(jax.random.key(0), 600)))
    assert {CITIES[city] for city in city_n} == set(level.cities)
    counts = np.bincount(city_n)[np.unique(city_n)]
    assert np.abs(counts / 600 - 1 / len(level.cities)).max() < 0.08
    size = rows_of(SIZES.index(level.junctions), count)
    assert len(set(row_n)) == size * len(level.cities)
    for city, row in zip(city_n[:50], row_n[:50], strict=True):
        own = of_city(CITIES[city], level.junctions, size)
        assert table(count).node_rn2[row, 0].tolist() in own.node_rn2[:, 0].tolist()


def test_guessing_is_known_where_it_was_measured():
    assert (guessing("aleppo"), guessing("quick_test"), guessing(Level(steps=100))) == (1.15, 4.9, None)


def test_the_table_is_the_neighbourhoods_without_their_padding():
    wide, narrow = of_city("liege", 5, 16), table(16)
    rows = slice(CITIES.index("liege") * 16, CITIES.index("liege") * 16 + 16)
    states = narrow.tail_rs.shape[1]
    assert states == narrow.states_r.max()
    assert (narrow.forward_rs[rows] == wide.forward_rs[:, :states]).all()
    assert (narrow.states_r[rows] == wide.states_r).all()
    assert len(narrow.nodes_r) == len(CITIES) * (16 + 2 + 2)


def test_the_largest_small_neighbourhood_has_as_many_states_as_there_are_symbols():
    for size, junctions in list(enumerate(SIZES))[1:]:
        largest = max(of_city(city, junctions, rows_of(size, MOST)).states_r.max() for city in CITIES)
        assert SYMBOLS[junctions] - 2 <= largest <= SYMBOLS[junctions]
