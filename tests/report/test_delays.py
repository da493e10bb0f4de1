"""Scores over delay, from files that were made up."""

import json

import pytest

from hcam.report import delays
from hcam.runs.measure import RETURN, SUCCESS

PART = {
    "episodes": 250,
    "success": 0.9,
    "low": 0.86,
    "high": 0.93,
    "return": 0.9,
    "return_low": 0.8,
    "return_high": 1.0,
}
LEVELS = {"a5": (5, "two"), "a500": (500, "two"), "b5": (5, "three")}


def numbers(file, run="runs/x", success=0.9, levels=LEVELS, **more):
    rows = {level: PART | {"success": success} for level in levels}
    about = {"run": run, "memory": "hcam", "steps": 9, "scored_by": "success", "trained": ["a5"]}
    about |= {"delays": {level: {"steps": steps, "of": of} for level, (steps, of) in levels.items()}}
    about |= {"chance": dict.fromkeys(levels, 0.5)}
    file.write_text(json.dumps(about | {"greedy": rows, "sampled": rows} | more))
    return file


def test_a_line_has_the_points_of_each_kind_of_level(tmp_path):
    (line,) = delays.read([numbers(tmp_path / "x.json", slots=64)])
    assert (line.label, line.measure) == ("runs/x: hcam, slots 64", SUCCESS)
    assert {of: [(p.steps, p.trained, p.chance) for p in points] for of, points in line.points.items()} == {
        "two": [(5, True, 0.5), (500, False, 0.5)],
        "three": [(5, False, 0.5)],
    }
    assert line.points["two"][0].row["success"] == 0.9


def test_labels_tell_files_apart(tmp_path):
    files = [numbers(tmp_path / f"{name}.json", "hcam-1") for name in ("x", "y")]
    files.append(numbers(tmp_path / "z.json", "hcam-1", window=9))
    assert [line.label for line in delays.read(files)] == ["hcam-1 (x)", "hcam-1 (y)", "hcam-1, window 9"]
    assert len(delays.read([files[0], files[0]])) == 1


def test_returns_are_drawn_as_returns(tmp_path):
    (line,) = delays.read([numbers(tmp_path / "x.json", scored_by="return")])
    assert line.measure == RETURN
    with pytest.raises(ValueError, match="scored by different things"):
        delays.draw(delays.read([tmp_path / "x.json", numbers(tmp_path / "y.json")]), tmp_path / "x.png")


def test_the_picture_has_a_panel_for_each_kind_and_a_line_for_each_file(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(delays, "save", lambda figure, out: seen.append(figure))
    files = [numbers(tmp_path / "x.json"), numbers(tmp_path / "y.json", "runs/y", 0.4)]
    delays.draw(delays.read(files), tmp_path / "x.png")
    (figure,) = seen
    panels = [axes for axes in figure.axes if axes.axison]
    assert [axes.get_title() for axes in panels] == ["two", "three"]
    drawn = [(list(line.get_xdata()), list(line.get_ydata())) for line in panels[0].lines]
    assert ([5, 500], [90.0, 90.0]) in drawn
    assert ([5, 500], [40.0, 40.0]) in drawn
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["runs/x: hcam", "runs/y: hcam", "chance"]


def test_ticks_keep_apart():
    assert delays._apart([0, 1, 5, 16, 18, 48, 60, 100, 1000]) == [0, 5, 16, 48, 100, 1000]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"delays": {}}, "holds no levels with a delay: play some"),
        ({"delays": {"a5": 3}}, "is damaged: write it again"),
        ({"delays": {"other": {"steps": 3, "of": ""}}}, "is damaged"),
        ({"delays": {"a5": {"steps": "x", "of": ""}}}, "is damaged"),
        ({"delays": 3}, "is damaged"),
        ({"trained": None}, "is damaged"),
        ({"greedy": {"a5": {"success": None}}}, "is damaged"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_one_sentence(content, sentence, tmp_path):
    file = numbers(tmp_path / "x.json", **content)
    with pytest.raises(ValueError, match=rf"^\S*x\.json {sentence}[^\n]*\.$"):
        delays.read([file])


def test_a_file_that_is_no_object_is_refused(tmp_path):
    for text in ("[]", "{", ""):
        (tmp_path / "x.json").write_text(text)
        with pytest.raises(ValueError, match=r"x\.json is damaged"):
            delays.read([tmp_path / "x.json"])
