"""An observation as a picture: the same item looks the same wherever it is."""

from typing import Any

import numpy as np

from hcam.envs.tasks.pai import PairedInference
from hcam.envs.tasks.pai.pictures import BACKGROUND, GAP, ITEM, draw, patch

ENV: Any = PairedInference(sequences=2, longest=4, features=64)
STATE = ENV.episode({"sequences": [[4, 8, 15], [16, 23, 42]], "query": "ab", "chain": 0, "lure": 1})


def test_pairs_stand_in_rows_and_the_query_below():
    seen = {name: np.asarray(value) for name, value in ENV.observe(STATE, None).items()}
    image = draw(seen)
    assert image.dtype == np.uint8
    first = image[GAP : GAP + ITEM, GAP : GAP + ITEM]
    np.testing.assert_array_equal(first, patch(seen["memory"][0, 0]))
    cue = image[-GAP - ITEM : -GAP, GAP : GAP + ITEM]
    np.testing.assert_array_equal(cue, first)  # the query's A is the first item of the first row
    option = image[-GAP - ITEM : -GAP, GAP + 2 * (ITEM + GAP) :][:, :ITEM]
    np.testing.assert_array_equal(option, patch(seen["memory"][0, 1]))
    assert (image[0] == BACKGROUND).all()


def test_an_item_with_few_numbers_repeats_them():
    assert patch(np.ones(2, np.float32)).shape == (ITEM, ITEM, 3)
    assert (patch(np.array([9, -9, 0], np.float32))[0, 0] == [255, 0, 127]).all()
