"""The catalogue: every thing is made of a few parts, all of which can be drawn."""

import numpy as np

from hcam.envs.render.catalogue import CATALOGUE
from hcam.envs.render.things import PARTS


def test_a_thing_has_at_most_as_many_parts_as_all_get():
    assert len(CATALOGUE) >= 32
    assert {len(parts) for parts in CATALOGUE.values()} <= set(range(1, PARTS + 1))


def test_a_thing_shows_its_own_colour():
    for name, parts in CATALOGUE.items():
        assert any(part.color is None for part in parts), name


def test_parts_have_sizes_and_colours_that_exist():
    for name, parts in CATALOGUE.items():
        for part in parts:
            assert min(part.half) > 0, name
            assert part.color is None or ((np.array(part.color) >= 0).all() and (np.array(part.color) <= 1).all()), name


def test_no_two_things_are_made_alike():
    assert len(set(CATALOGUE.values())) == len(CATALOGUE)
