"""Episodes as pictures: every frame is there, shows what the agent sees, and marks what has to be remembered."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from hcam.envs import make, names, registry
from hcam.envs.environment import Environment
from hcam.envs.probes import Echo
from hcam.envs.spaces import Box, Discrete, Tokens
from hcam.viewer import show
from hcam.viewer.frames import CELL, matters
from tests.packages import install


@pytest.fixture(scope="module")
def episode():
    env = make("ballet")
    return show.film(env, env.params("1_delay1"), "expert", 0)


def written(tmp_path, name, task="ballet", levels=("1_delay1",), **options):
    lines = list(show.show(task, {}, levels, tmp_path / name, **options))
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


def test_gif_shows_the_agents_pixels_and_the_instruction(episode):
    poster = np.asarray(show.poster(show.Film(episode[1], "ballet", None), 0, 4))
    np.testing.assert_array_equal(poster[33 : 33 + 396 : 4, :396:4], episode[1][0].pixels)
    assert (poster[:33] == 244).any()  # ink above


def test_what_has_to_be_remembered_is_marked_on_the_time_line(episode):
    """The frames of the only dance, from the left edge on, and the question later; nothing where nothing is known."""
    state, frames, _ = episode
    found: Any = matters(make("ballet"), state)
    assert found == (0, 16, 16)
    width = 99 * 4
    plain, marked = (np.asarray(show.poster(show.Film(frames, "", known), 0, 4)) for known in (None, found))
    is_blue = (marked == show.MATTERS).all(-1)
    assert not (plain == show.MATTERS).all(-1).any()
    columns = np.flatnonzero(is_blue.any(0))
    step = width / 19
    assert columns.min() == 0
    assert abs(columns.max() - 16 * step) < 3  # the question
    line = np.flatnonzero(is_blue.sum(0) > 1)
    assert line.max() >= 15 * step - 1


def test_an_environment_need_not_say_what_matters():
    assert matters(Echo(), None) is None


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


def test_sheet_prefers_frames_that_change(episode):
    _, frames, _ = episode
    still = [frames[0]] * 300 + frames[1:]
    chosen = show.changes(still)
    assert len(chosen) <= show.SHEET_FRAMES + 1
    assert chosen[0] == 0
    assert chosen[-1] == len(still) - 1
    assert not set(range(1, 300)) & set(chosen)
    assert 300 + 15 in chosen  # the instruction


# Tasks without pictures -----------------------------------------------------------------------------------------------


def test_a_probe_is_shown_as_cells(tmp_path):
    """A row of cells from dark to light; blanks are black, and the title says which level it is."""
    env = make("first_symbol")
    _, frames, _ = show.film(env, env.params("blanks2"), "auto", 0)
    assert len(frames) == 4 + 1
    assert frames[0].pixels.shape == (CELL, 5 * CELL, 3)
    shown = [frame.pixels[0, ::CELL, 0].tolist() for frame in frames]
    assert sorted(shown[0]) == [0, 0, 0, 0, 255]
    assert shown[1] == shown[2] == [0] * 5
    assert shown[3] == [0, 0, 0, 0, 255]  # the cue
    assert frames[-1].reward == 1  # by the expert
    path, lines = written(tmp_path, "a.gif", "first_symbol", ["blanks2"])
    assert path.exists()
    assert "5 frames" in lines[0]


@dataclass(frozen=True)
class Mixed(Environment):
    """Numbers, a choice and words, and nobody who knows the answer."""

    @property
    def action_space(self):
        return Discrete(2)

    @property
    def observation_space(self):
        return {
            "place": Box((2, 2), -1.0, 1.0),
            "speed": Box((3,), -jnp.inf, jnp.inf),
            "door": Discrete(3),
            "text": Tokens(("", "go", "left"), 2),
        }

    def start(self, key, level):
        return jnp.int32(0)

    def advance(self, key, state, action, level):
        return state + 1, jnp.float32(0.25), jnp.bool_(False), state >= 2, {}

    def observe(self, state, level):
        place, speed = jnp.array([[-1.0, 1.0], [0.0, 0.0]]), jnp.array([10.0, 20.0, 15.0])
        return {"place": place, "speed": speed, "door": jnp.int32(1), "text": jnp.array([1, 2], jnp.int32)}


def test_other_observations_are_rows_of_cells_and_words_are_written():
    _, frames, _ = show.film(Mixed(), (), "auto", 0)
    assert [frame.ending for frame in frames] == ["", "", "", "time is up"]
    assert frames[-1].reward == 0.75
    assert frames[0].text == "go left"
    cells = frames[0].pixels[::CELL, ::CELL, 0]
    assert cells.tolist() == [[0, 255, 127, 127], [0, 255, 127, 0], [0, 255, 0, 0]]  # scaled; padded to the widest


def test_an_expert_that_is_asked_for_must_exist():
    with pytest.raises(ValueError, match="Mixed has no scripted expert"):
        show.film(Mixed(), (), "expert", 0)


# Tasks that draw themselves -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Count(Environment):
    """Counts to three; its picture has a row for every state so far."""

    action_space = Discrete(2)
    observation_space = Discrete(9)

    def start(self, key, level):
        return jnp.int32(0)

    def advance(self, key, state, action, level):
        return state + 1, jnp.float32(1), state >= 2, jnp.bool_(False), {}

    def observe(self, state, level):
        return state

    def picture(self, states):
        return np.stack([np.full((320, 3), int(state), np.uint8) for state in states])


def test_a_picture_takes_the_place_of_the_observation_and_sees_all_states_the_last_included():
    _, frames, _ = show.film(Count(), (), "random", 0)
    assert [frame.pixels[:, 0, 0].tolist() for frame in frames] == [[0], [0, 1], [0, 1, 2], [0, 1, 2, 3]]
    assert [frame.ending for frame in frames] == ["", "", "", "done"]
    assert frames[-1].reward == 3


def test_a_large_picture_is_not_enlarged(tmp_path, monkeypatch):
    monkeypatch.setattr("hcam.envs.make", lambda task: Count())
    for scale, width in ((4, 320), (8, 640)):
        path, _ = written(tmp_path, "a.gif", "count", (), scale=scale)
        with Image.open(path) as gif:
            assert gif.size[0] == width


# The list of tasks ----------------------------------------------------------------------------------------------------


def listed():
    console = Console(record=True, width=200)
    console.print(show.task_table())
    return console.export_text()


def test_every_task_is_listed_with_its_levels_and_options():
    text = listed()
    for name in names():
        assert name in text
        assert all(level in text for level in make(name).levels)
    assert "tile=9" in text
    assert "symbols=4" in text


@pytest.mark.parametrize(
    "code", ["import no_such_package\n", "def make(size): ...\n", "def make(): raise RuntimeError\n"]
)
def test_a_task_of_somebody_elses_that_cannot_be_made_does_not_hide_the_others(tmp_path, monkeypatch, code):
    install(monkeypatch, tmp_path, "stranger", code, {registry.GROUP: {"song": "stranger:make"}})
    text = listed()
    assert "song" in text
    assert "cannot be made" in text
    assert all(name in text for name in registry.published())


# Refusals -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"task": "waltz"}, "there is no task 'waltz': choose from ballet"),
        ({"levels": ["9_delay1"]}, "there is no Ballet level '9_delay1'"),
        ({"options": {"tiles": 3}}, "ballet has no option tiles: choose from tile"),
        ({"name": "a.jpg"}, r"a.jpg must end in .gif, .png, .mp4"),
        ({"fps": 0}, "fps must be 1 to 100, but is 0"),
        ({"scale": 99}, "scale must be 1 to 20, but is 99"),
        ({"seed": -1}, "seed must be from 0 to 2,147,483,647, but is -1"),
        ({"seed": 2**31}, "seed must be from 0 to 2,147,483,647, but is 2147483648"),
    ],
)
def test_bad_input_is_one_sentence(change, sentence, tmp_path):
    given: Any = {"task": "ballet", "options": {}, "levels": ["1_delay1"], "name": "a.gif"} | change
    with pytest.raises(ValueError, match=sentence):
        list(show.show(out=tmp_path / given.pop("name"), **given))
    assert not list(tmp_path.iterdir())


def test_an_episode_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(show, "MAX_FRAMES", 3)
    env = make("first_symbol")
    with pytest.raises(ValueError, match="the episode is longer than 3 frames: choose a shorter level"):
        show.film(env, env.params("blanks8"), "auto", 0)


def test_an_environment_may_draw_its_observations_itself(tmp_path):
    """What the agent of such a task sees is no picture: thousands of numbers."""
    path, lines = written(tmp_path, "a.png", "pai", ("length3_test_ac",))
    with Image.open(path) as sheet:
        assert max(sheet.size) < 8000
    assert any("query: ac" in line for line in lines)
    assert "reward 1" in lines[-1]
    env = make("pai", sequences=2, longest=3, features=8)
    _, frames, _ = show.film(env, env.params("length3"), "expert", 0)
    assert len(frames) == 2
    assert (frames[0].pixels == frames[1].pixels).all()
