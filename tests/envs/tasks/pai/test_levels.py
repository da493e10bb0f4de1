"""Names of levels, and how often each query is asked."""

import numpy as np
import pytest

from hcam.envs.tasks.pai.levels import (
    LETTERS,
    LONGEST,
    Level,
    held_out_levels,
    is_direct,
    names,
    parse,
    queries,
    weights,
)


def asked(length, query):
    """The share of each query, by name."""
    table = weights(length, query).reshape(LONGEST, LONGEST)
    return {LETTERS[i] + LETTERS[j]: float(table[i, j]) for i, j in zip(*np.nonzero(table), strict=True)}


def test_a_name_says_length_pool_and_query():
    assert parse("length3") == Level(3, "train", "all")
    assert parse("length4_valid") == Level(4, "valid", "all")
    assert parse("length5_test_indirect") == Level(5, "test", "indirect")
    assert parse("length3_test_ac") == Level(3, "test", "ac")
    assert parse("length3_direct") == Level(3, "train", "direct")


@pytest.mark.parametrize("length", [3, 4, 5])
def test_half_of_the_queries_are_direct(length):
    shares = asked(length, "all")
    assert set(shares) == set(queries(length))
    direct = [share for query, share in shares.items() if is_direct(query)]
    others = [share for query, share in shares.items() if not is_direct(query)]
    assert (len(direct), len(others)) == (length - 1, (length - 1) * (length - 2) // 2)
    assert sum(direct) == pytest.approx(0.5)
    assert sum(others) == pytest.approx(0.5)
    assert len(set(direct)) == len(set(others)) == 1


def test_queries_by_group_and_one_by_one():
    assert set(asked(4, "direct")) == {"ab", "bc", "cd"}
    assert set(asked(4, "indirect")) == {"ac", "bd", "ad"}
    assert asked(5, "ae") == {"ae": 1.0}
    assert sum(asked(5, "indirect").values()) == pytest.approx(1)


def test_every_listed_level_can_be_parsed():
    for name in names(LONGEST):
        parse(name)
    assert names(3) == ("length3", "length3_valid", "length3_test", *held_out_levels(3))
    assert held_out_levels(3) == ("length3_test_ab", "length3_test_bc", "length3_test_ac")
    assert held_out_levels(4)[-1] == "length4_test_ad"


NAMES = [
    "",
    "length",
    "length2",
    "length6",
    "length3_train",
    "length3_ca",
    "length3_aa",
    "length3_ad",
    "length3_ac_test",
]


@pytest.mark.parametrize("name", NAMES)
def test_unknown_levels_are_told_in_one_sentence(name):
    with pytest.raises(ValueError, match="there is no PairedInference level"):
        parse(name)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"length": 2}, "length must be a whole number from 3 to 5"),
        ({"pool": "exam"}, "pool must be one of train, valid, test"),
        ({"query": "cd"}, "query must be one of .* in chains of 3"),
    ],
)
def test_bad_levels_are_told_in_one_sentence(options, words):
    with pytest.raises(ValueError, match=words):
        Level(**options)
