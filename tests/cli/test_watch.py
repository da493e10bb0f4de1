"""`hcam watch` on the command line: what it prints, and refusals in one sentence."""

import json
import shutil
import webbrowser

import pytest

from hcam.cli import main
from hcam.runs.pretrained import AGENTS
from hcam.viewer import watch as viewer


@pytest.fixture
def played(monkeypatch):
    """The options of a call that plays nothing."""
    seen = []

    def watch(trained, source, options):
        seen.append(options)
        yield options.out or options.gif, "a file"
        yield None, "an episode"

    monkeypatch.setattr(viewer, "watch", watch)
    return seen


def test_options_reach_the_viewer(played, tmp_path, capsys, monkeypatch):
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    words = ["--level", "2_delay16_of4", "--episodes", "2", "--seed", "3", "--sampled", "--layer", "2", "--open"]
    assert main(["watch", "pretrained:quickstart", *words, "--out", str(tmp_path / "a.html")]) == 0
    assert capsys.readouterr().out == "a file\nan episode\n"
    expected = viewer.Options(
        levels=("2_delay16_of4",), episodes=2, seed=3, greedy=False, layer=2, out=tmp_path / "a.html"
    )
    assert played == [expected]
    assert opened == [(tmp_path / "a.html").as_uri()]


def test_there_is_no_page_to_open_where_only_a_film_is_written(played, capsys):
    assert main(["watch", "pretrained:quickstart", "--gif", "a.gif", "--open"]) == 2
    assert "--open opens a page: give --out as well" in capsys.readouterr().err


def test_agents_that_cannot_be_watched(played, tmp_path, capsys):
    """No agent, a run that kept only what it reported, one of another version, and no folder at all."""
    bare = tmp_path / "bare"
    shutil.copytree(AGENTS / "quickstart", bare, ignore=shutil.ignore_patterns("agent.*"))
    other = tmp_path / "other"
    shutil.copytree(AGENTS / "quickstart", other)
    content = json.loads((other / "config.json").read_text())
    content["config"]["agent"]["memory"]["memory"] = "hcam9"
    (other / "config.json").write_text(json.dumps(content))
    for source, sentence in (
        ("pretrained:waltz", "there is no pretrained agent 'waltz'"),
        (f"{bare}", "has no checkpoint"),
        (f"{other}", "hcam9"),
        (f"{tmp_path / 'nowhere'}", "there is no run folder"),
    ):
        assert main(["watch", source]) == 2
        error = capsys.readouterr().err
        assert sentence in error
        assert error.count("\n") == 1
    assert not played


def test_refusals_of_the_viewer_are_one_sentence(tmp_path, capsys):
    for words, sentence in (
        (["--level", "9_delay1"], "a level is {N}_delay{d}, with N from 1 to 8"),
        (["--out", str(tmp_path / "a.png")], "must end in .html or .htm"),
        (["--layer", "9"], "there is no layer 9: this memory has layers 1 to 2"),
    ):
        assert main(["watch", "pretrained:quickstart", *words]) == 2
        error = capsys.readouterr().err
        assert sentence in error
        assert error.count("\n") == 1
