"""The picture and the tables of relative attention, from numbers that are known."""

from typing import Any

import matplotlib.image
import numpy as np

from hcam.report.attention import caption, draw, earlier_rows, markdown, rows, section, told
from hcam.runs.attention import summary, write
from hcam.runs.relative import Layout, Sample

OFFSETS = Layout(32, 32).offsets


def samples(asked, solved=True, earlier=np.nan, count=20):
    """Episodes with two layers in which everything else has a relative attention of 1."""
    random = np.random.default_rng(0)
    profile_ln = np.where(np.abs(OFFSETS) < 16, asked, 1.0) * np.ones((2, 1))
    for _ in range(count):
        noise = random.normal(0, 0.1, 2)
        one = np.ones(2)
        yield Sample(solved, asked + noise, one, asked + noise, one, one * earlier, profile_ln, 16, True)


def level(**more: Any) -> dict[str, Any]:
    known = {"title": "t", "episodes": 32, "solved": 20, "counted": 25, "question_steps": 3.5, "moment_steps": 16.0}
    return {
        **known,
        "compared_with": "others of its kind",
        "solved_episodes": summary(list(samples(4.0, **more)), OFFSETS),
    }


def test_a_point_with_its_interval_for_each_layer_and_a_line_for_each_around_the_moment(tmp_path, drawn):
    one = level() | {"failed_episodes": summary(list(samples(2.0, solved=False, count=10)), OFFSETS)}
    draw({"a": one, "$x_1$": level(earlier=1.5)}, {"a": "first $level$"}, tmp_path / "a.png", tmp_path / "a.svg")
    (figure,) = drawn
    assert matplotlib.image.imread(tmp_path / "a.png").shape[1] == 1500
    assert (tmp_path / "a.svg").read_text().startswith("<?xml")
    left, right, below, _ = figure.axes
    assert (left.get_title(loc="left"), below.get_title(loc="left")) == ("first $level$", "$x_1$")
    assert len(left.containers) == len(below.containers) == 3  # asked for, others, failed; or earlier in its place
    points = [container.lines[0].get_ydata() for container in left.containers]
    assert np.allclose(points[0], 4, atol=0.1)
    assert np.allclose(points[1], 1)
    assert np.allclose(points[2], 2, atol=0.2)
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["asked for", "others", "asked for, failed episodes", "the same, while another was"]
    lines = [line for line in right.lines if line.get_linestyle() == "-"]
    assert [line.get_label() for line in lines] == ["layer 1", "layer 2"]
    assert lines[0].get_ydata().max() == 4
    assert "means over 20 solved episodes with 95 % intervals" in figure.get_supxlabel().replace("\n", " ")


def test_tables_say_what_the_file_says():
    one = level(earlier=2.0)
    first, second = rows(one["solved_episodes"])
    assert first[0] == "1"
    line = one["solved_episodes"]["layers"][0]
    assert first[1] == f"{line['asked']['mean']:.2f} ({line['asked']['low']:.2f} to {line['asked']['high']:.2f})"
    assert first[2] == "1.00 (1.00 to 1.00)"
    assert first[4] == f"{line['first']['ratio']['mean']:.2f}"
    assert [cells[2] for cells in earlier_rows(one["solved_episodes"])] == ["2.00 (2.00 to 2.00)"] * 2
    assert markdown(one).splitlines()[2] == f"| {' | '.join(first)} |"
    assert second[0] == "2"
    assert told(one).startswith("32 episodes, 20 solved; counted are 20 solved ones, whose memory")
    assert told(one).endswith("over 3.5 steps")


def test_failed_episodes_are_shown_where_hardly_any_was_solved(tmp_path, drawn):
    one = level()
    one["failed_episodes"] = one.pop("solved_episodes")
    draw({"a": one}, {}, tmp_path / "a.png")
    assert "20 solved or, where hardly any is, failed episodes" in caption({"a": one})
    assert "| 1 |" in markdown(one)


def test_a_layer_without_numbers_has_dashes():
    layer = {"layer": 1, "episodes": 0, "first": {"episodes": 0}}
    assert list(rows({"layers": [layer]})) == [["1", "-", "-", "-", "-"]]


def test_a_ratio_beyond_measure_is_told_as_such():
    part = {"mean": 3.0, "low": 2.5, "high": 3.5}
    layer = {"layer": 1, "asked": part, "other": part | {"mean": 0.0}, "ratio": None, "first": {"ratio": part}}
    assert next(rows({"layers": [layer]}))[3:] == ["over 1,000", "3.00"]


def test_a_page_shows_the_agents_that_were_analysed(tmp_path):
    folders = {"pretrained:x": tmp_path / "a", "none": tmp_path / "b", "<b>": tmp_path / "c"}
    assert section("ballet", folders, tmp_path) == ("", [])
    for name in "ac":
        write(tmp_path / name, {"levels": {"2_delay16": level() | {"title": "two | dances"}}})
    (tmp_path / "images").mkdir()
    text, pictures = section("ballet", folders, tmp_path)
    assert [path.name for path in pictures] == ["ballet-attention.png", "ballet-attention-1.png"]
    assert all(f"![relative attention](images/{path.name})" in text for path in pictures)
    assert "**pretrained:x**, two &#124; dances: 32 episodes" in text
    assert "<b>" not in text
    assert text.startswith("### Ballet: what the memory attends to")
    assert matplotlib.image.imread(pictures[0]).shape[1] == 1500
