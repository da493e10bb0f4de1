"""Films of what is recalled: every part of the episode is there, and the moment of the question lasts."""

import numpy as np
import pytest

from hcam.viewer import strip
from tests.viewer import episodes


@pytest.fixture(scope="module")
def played():
    return episodes.played(episodes.chunks(200), 200)


def test_a_film_slows_down_at_the_question_and_plays_the_chunk_again(played):
    shots = strip.shots(played, 1, 10)
    steps = [shot.step for shot in shots]
    assert steps == sorted(steps)
    assert steps[0] == 0
    assert steps[-1] == 200
    assert len([step for step in steps if step < 196]) <= strip.FASTEST
    again = [shot for shot in shots if shot.step == 196]
    assert [shot.again for shot in again] == list(range(32))
    assert all(shot.milliseconds == 500 for shot in shots if 196 < shot.step < 200)
    assert shots[0].milliseconds == 100


def test_the_chunk_that_is_played_again_is_the_most_relevant_one(played):
    """Each of its frames in turn, beside the frame of now: by their colours."""
    number = played.recall.number_tlk[196, 1, 0]
    shots = [shot for shot in strip.shots(played, 1, 10) if shot.step == 196][:3]
    for again, picture in enumerate(strip.pictures(played, 1, "title", shots)):
        pixels = np.asarray(picture)
        x, y = strip.MARGIN + strip.SCREEN // 2, strip.TOP + strip.SCREEN // 2
        assert tuple(pixels[y, x]) == episodes.colour(196)
        x, y = strip.MARGIN + strip.SCREEN + 24 + strip.PICTURE // 2, strip.TOP + strip.PICTURE // 2
        assert tuple(pixels[y, x]) == episodes.colour(number * 32 + again)


def test_rows_of_layers_are_as_dark_as_their_chunks_are_relevant(played):
    (picture,) = strip.pictures(played, 1, "title", [strip.Shot(196, None, 100)])
    pixels = np.asarray(picture)
    top = strip._base() + strip.FILM + strip.EVENTS
    for layer in range(4):
        for chunk, weight in enumerate(played.recall.relevance_tln[196, layer]):
            x = round(strip._x(played, chunk * 32 + 10))
            assert tuple(pixels[top + layer * strip.ROW + 2, x]) == strip.blend(weight**0.5)


@pytest.mark.parametrize("recall", ["chunks", "window", "none"])
def test_every_memory_has_a_film_with_even_sides(recall):
    made = {"chunks": episodes.chunks(12, length=4, top=2), "window": episodes.window(12), "none": None}[recall]
    played = episodes.played(made, 12, events=[])
    pictures = list(strip.pictures(played, 0, "a title", strip.shots(played, 0, 10)))
    assert {picture.size for picture in pictures} == {(strip.WIDTH, strip.height(played))}
    assert all(side % 2 == 0 for side in pictures[0].size)
    assert (np.asarray(pictures[0]) != np.asarray(pictures[-1])).any()
