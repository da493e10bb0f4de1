"""`hcam watch`: which files it writes, and what it refuses before it plays."""

import re
from pathlib import Path

import pytest
from PIL import Image

import hcam
from hcam import api
from hcam.runs import recording
from hcam.viewer import watch as viewer
from hcam.viewer.watch import Options, watch
from tests.viewer import episodes
from tests.viewer.test_data import written


@pytest.fixture
def unplayed(monkeypatch):
    """Playing would take minutes: what is refused, is refused before."""
    monkeypatch.setattr(recording, "record", lambda *_, **__: pytest.fail("this was played"))


def test_a_page_and_films_show_the_episodes_of_an_evaluation(small, tmp_path):
    options = Options(
        levels=("blanks8",),
        episodes=3,
        seed=4,
        layer=1,
        out=tmp_path / "a.html",
        gif=tmp_path / "a.gif",
        mp4=tmp_path / "a.mp4",
    )
    lines = list(watch(small, "runs/a-run", options))
    assert [path for path, _ in lines] == [
        tmp_path / "a.html",
        tmp_path / "a.gif",
        tmp_path / "a.mp4",
        None,
        None,
        None,
    ]
    found = written((tmp_path / "a.html").read_text())
    assert (found["task"], found["memory"], found["run"], found["steps"]) == ("first_symbol", "hcam", "a-run", 12)
    expected = recording.record(small.agent, small.env, small.params, small.env.params("blanks8"), episodes=3, seed=4)
    for one, real, (_, line) in zip(found["episodes"], expected, lines[3:], strict=True):
        assert one["action"] == real.steps_t.action.tolist()
        assert one["level"] == small.env.title("blanks8")
        assert one["layer"] == 0
        assert re.search("solved" if one["success"] else "not solved", line)
    with Image.open(tmp_path / "a.gif") as gif:
        assert gif.n_frames > 5  # type: ignore[attr-defined]
    av = pytest.importorskip("av")
    with av.open(str(tmp_path / "a.mp4")) as film:
        assert sum(1 for _ in film.decode(video=0)) > 20


def test_without_a_name_the_page_is_called_after_the_run_in_a_folder(small, tmp_path, monkeypatch):
    def path(**options):
        return viewer._checked(small, "runs/a run", Options(**options))

    monkeypatch.chdir(tmp_path)
    (tmp_path / "made").mkdir()
    assert path() == {"page": Path("watch.html")}
    assert path(out=tmp_path / "new", levels=["blanks2"]) == {"page": tmp_path / "new" / "a-run-blanks2.html"}
    assert path(out=Path("made")) == {"page": Path("made/a-run.html")}
    assert path(out=Path("x.HTML")) == {"page": Path("x.HTML")}
    assert path(gif=Path("x.gif")) == {"gif": Path("x.gif")}  # and no page that nobody asked for


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"levels": ["9_delay1"]}, "9_delay1"),
        ({"levels": ["blanks2", "waltz"]}, "waltz"),
        ({"episodes": 0}, "episodes must be 1 to 50, but is 0"),
        ({"fps": 99}, "fps must be 1 to 50, but is 99"),
        ({"seed": -1}, "seed must be from 0 to 2,147,483,646, but is -1"),
        ({"layer": 3}, r"there is no layer 3: this memory has layers 1 to 2\."),
        ({"layer": 0}, "there is no layer 0"),
        ({"out": Path("a.gif")}, "--out a.gif must end in .html or .htm: use --gif for this"),
        ({"out": Path("a.txt")}, r"--out a.txt must end in .html or .htm\."),
        ({"gif": Path("a.html")}, "--gif a.html must end in .gif: use --out for this"),
        ({"mp4": Path("a.avi")}, r"--mp4 a.avi must end in .mp4\."),
    ],
)
def test_bad_input_is_one_sentence_before_anything_is_played(change, sentence, small, unplayed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=sentence):
        list(watch(small, "run", Options(**change)))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["out", "gif"])
def test_an_unwritable_path_is_refused_before_anything_is_played(name, small, unplayed, tmp_path):
    (tmp_path / "file").touch()
    path = tmp_path / "file" / ("a.html" if name == "out" else "a.gif")
    with pytest.raises(OSError, match="cannot be written"):
        list(watch(small, "run", Options(**{name: path})))


def test_a_video_needs_av(small, unplayed, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "av", None)
    with pytest.raises(ValueError, match=r"hcam\[video\]"):
        list(watch(small, "run", Options(mp4=tmp_path / "a.mp4")))


def test_a_layer_of_a_memory_without_any_is_refused():
    with pytest.raises(ValueError, match="no layers that say what they recall: leave out --layer"):
        viewer._layer(episodes.played(None, 5), 1)


def test_python_has_the_same(small, tmp_path, monkeypatch):
    seen = []

    def watched(given, source, options):
        seen.append((given, source, options))
        yield options.out, "a line"
        yield None, "an episode"

    monkeypatch.setattr(api, "load", lambda source, **_: small)
    monkeypatch.setattr(viewer, "watch", watched)
    assert hcam.watch("a-run", levels="blanks2", out=f"{tmp_path}/a.html", episodes=2) == [tmp_path / "a.html"]
    assert seen == [(small, "a-run", Options(levels=("blanks2",), episodes=2, out=tmp_path / "a.html"))]
