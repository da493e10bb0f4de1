"""Values of other packages' spaces as arrays."""

import json
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from hcam.host.parts import UNKNOWN, Choices, Part, Writer, describe, split

FLAGS: Any = spaces.Box(0, 1, (2,), bool)  # type: ignore[arg-type]  # Gymnasium takes it


def written(part, value):
    row = np.full(tuple(part.shape), 7, part.dtype)
    Writer(part).write(row[...] if part.shape else row, value)
    return row.tolist()


@pytest.mark.parametrize(
    ("space", "value", "expected"),
    [
        (spaces.Discrete(3, start=-1), 1, 2),
        (spaces.Box(-2.0, 4.0, (2,), np.float64), [0.5, 2.0], [0.5, 2.0]),
        (spaces.Box(0, 1, (2,), np.int64), [0, 1], [0, 1]),
        (spaces.MultiBinary(2), np.array([0, 1], np.int8), [0, 1]),
        (spaces.MultiDiscrete([2, 5], start=[1, 2]), [1, 6], [1, 6]),
        (FLAGS, np.array([True, False]), [1, 0]),
    ],
)
def test_each_kind_of_space(space, value, expected):
    (part,) = describe(spaces.Dict({"it": space}), Choices(), {})
    assert written(part, value) == expected
    assert Part(*json.loads(json.dumps(part))).kind == part.kind
    assert part.high >= np.max(expected)


def test_words_have_numbers_and_unknown_ones_share_one():
    texts = {"mission": ["Go to the red ball.", "open the door"]}
    (part,) = describe(spaces.Dict({"mission": spaces.Text(30)}), Choices(), texts)
    assert part.vocabulary[:2] == ("", UNKNOWN)
    assert part.shape == (5,)
    numbers = {word: number for number, word in enumerate(part.vocabulary)}
    assert written(part, "open the BLUE ball") == [numbers["open"], numbers["the"], 1, numbers["ball"], 0]
    assert written(part, "the the the the the the") == [numbers["the"]] * 5, "what is too long is cut"
    (again,) = describe(spaces.Dict({"mission": spaces.Text(30)}), Choices(vocabulary=part.vocabulary, longest=5), {})
    assert again == part
    assert split('"Go", (left)!') == ["go", "left"]


def test_small_whole_numbers_become_ones_and_zeros():
    space = spaces.Dict({"grid": spaces.Box(0, 255, (1, 2, 2), np.uint8)})
    (part,) = describe(space, Choices(one_hot={"grid": (3, 2)}), {})
    assert tuple(part.shape) == (1, 2, 5)
    assert written(part, np.array([[[2, 0], [1, 1]]])) == [[[0, 0, 1, 1, 0], [0, 1, 0, 0, 1]]]
    with pytest.raises(ValueError, match=r"grid holds .3, 0., which one_hot has no room for"):
        written(part, np.array([[[3, 0], [0, 0]]]))


@pytest.mark.parametrize(
    ("space", "choices", "sentence"),
    [
        (
            spaces.Dict({"a": spaces.Discrete(2)}),
            Choices(drop=["b"]),
            "there is no part b in the observation",
        ),
        (spaces.Dict({"a": spaces.Discrete(2)}), Choices(drop=["a"]), "nothing of the observation is left"),
        (spaces.Dict({"a": spaces.Tuple([])}), Choices(), "a is Tuple.*leave the part out with --env-arg"),
        (
            spaces.Dict({"a": spaces.Box(0, 9, (2,), np.int64)}),
            Choices(one_hot={"a": (3,)}),
            "one_hot has 1 numbers",
        ),
    ],
)
def test_what_has_no_counterpart(space, choices, sentence):
    with pytest.raises(ValueError, match=sentence):
        describe(space, choices, {})


@pytest.mark.parametrize(
    ("space", "value", "sentence"),
    [
        (spaces.Box(0, 2**40, (1,), np.int64), [2**35], "become int32 here, but .* does not fit"),
        (spaces.Box(0, 1, (2,)), [0.0], r"has shape \(1,\), but observation_space says \(2,\)"),
    ],
)
def test_values_that_do_not_fit(space, value, sentence):
    (part,) = describe(space, Choices(), {})
    with pytest.raises(ValueError, match=sentence):
        written(part, np.array(value))
