from typing import Any

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from hcam.envs import TASKS, make
from hcam.viewer import show


@pytest.fixture(scope="module")
def episode():
    env = make("ballet")
    return show.film(env, env.params("1_delay1"), "expert", 0)


def written(tmp_path, name, **options):
    lines = list(show.show("ballet", ["1_delay1"], tmp_path / name, **options))
    return tmp_path / name, lines


def test_film_shows_the_whole_episode(episode):
    _, frames, level = episode
    assert level == 0
    assert len(frames) == 16 + 3 + 1
    assert [frame.text for frame in frames[:16]] == ["watch"] * 16
    assert frames[16].text != "watch"
    assert [frame.ending for frame in frames] == [""] * 19 + ["done"]
    assert frames[-1].reward == 1
    assert (frames[-1].pixels[45:54, 45:54].reshape(-1, 3) != 255).any()  # the dancer, not the agent


def test_chance_may_run_out_of_time():
    env = make("ballet")
    _, frames, _ = show.film(env, env.params("1_delay16"), "random", 1)
    assert frames[-1].ending in ("done", "time is up")
    assert len(frames) <= 321


def test_gif_has_every_frame_and_lingers_on_the_last(tmp_path):
    path, lines = written(tmp_path, "a.gif", fps=20)
    with Image.open(path) as opened:
        gif: Any = opened
        assert gif.n_frames == 20
        assert gif.info["duration"] == 50
        assert gif.size == (396, 462)
        gif.seek(19)
        assert gif.info["duration"] == 1500
    assert "20 frames" in lines[0]
    assert any("dance" in line for line in lines)
    assert "reward 1" in lines[-1]


def test_gif_shows_the_agents_pixels_and_the_instruction(tmp_path, episode):
    poster = np.asarray(show.poster(episode[1][0], 0, 20, "ballet", 4))
    np.testing.assert_array_equal(poster[33 : 33 + 396 : 4, :396:4], episode[1][0].pixels)
    assert (poster[:33] == 244).any()  # ink above


def test_png_is_a_sheet(tmp_path):
    path, _ = written(tmp_path, "a.png", scale=2)
    with Image.open(path) as sheet:
        assert sheet.format == "PNG"
        assert sheet.width == 8 * (99 + 6) + 6


def test_mp4_decodes_to_as_many_frames(tmp_path):
    av = pytest.importorskip("av")
    path, _ = written(tmp_path, "a.mp4", fps=25)
    with av.open(str(path)) as film:
        assert sum(1 for _ in film.decode(video=0)) == 20
        assert film.streams.video[0].average_rate == 25


def test_mp4_without_av_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "av", None)
    with pytest.raises(ValueError, match=r"hcam\[video\]"):
        written(tmp_path, "a.mp4")


def test_sheet_prefers_frames_that_change(episode):
    _, frames, _ = episode
    still = [frames[0]] * 300 + frames[1:]
    chosen = show.moments(still)
    assert len(chosen) <= show.SHEET_FRAMES + 1
    assert chosen[0] == 0
    assert chosen[-1] == len(still) - 1
    assert not set(range(1, 300)) & set(chosen)
    assert 300 + 15 in chosen  # the instruction


def test_every_task_is_listed_with_its_levels():
    console = Console(record=True, width=200)
    console.print(show.task_table())
    text = console.export_text()
    for name, task in TASKS.items():
        assert name in text
        assert all(level in text for level in task().levels)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"task": "first_symbol"}, "first_symbol has no pictures to show: choose from ballet"),
        ({"task": "waltz"}, "there is no task 'waltz': choose from ballet"),
        ({"levels": ["9_delay1"]}, "there is no Ballet level '9_delay1'"),
        ({"name": "a.jpg"}, r"a.jpg must end in .gif, .png, .mp4"),
        ({"fps": 0}, "fps must be 1 to 100, but is 0"),
        ({"scale": 99}, "scale must be 1 to 20, but is 99"),
    ],
)
def test_bad_input_is_one_sentence(change, sentence, tmp_path):
    given = {"task": "ballet", "levels": ["1_delay1"], "name": "a.gif"} | change
    with pytest.raises(ValueError, match=sentence):
        list(show.show(out=tmp_path / given.pop("name"), **given))
    assert not list(tmp_path.iterdir())
