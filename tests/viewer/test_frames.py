"""Frames in words; tests/viewer/test_show.py looks at their pixels."""

import numpy as np

from hcam.viewer.frames import Frame, outcome


def test_an_episode_without_words_ends_without_a_colon():
    pixels = np.zeros((1, 1, 3), np.uint8)
    assert outcome(Frame(pixels, "", 10.0, "done")) == "done, reward 10"
    assert outcome(Frame(pixels, "zee", 0.0, "time is up")) == "zee: time is up, reward 0"
