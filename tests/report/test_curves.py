import json

import matplotlib
import matplotlib.image
import pytest

from hcam import report
from hcam.report.curves import FAINT
from hcam.runs.text import printable
from tests.report.folders import LEVELS, made_by_return, make


def panels(figure):
    return figure.subfigs[0].axes


def labels(figure):
    return [text.get_text() for text in figure.subfigs[0].legends[0].get_texts()]


def test_curve_of_one_run(tmp_path, drawn):
    chance = {"2_delay16": 0.5, "4_delay16": 0.25}
    folder = make(tmp_path / "run", count=115, evaluated=True, config={"chance": chance})
    report.curve([folder], tmp_path / "out.png")
    assert matplotlib.image.imread(tmp_path / "out.png").shape[:2] == (900, 1500)
    (figure,) = drawn
    (axes,) = panels(figure)
    assert labels(figure) == ["2_delay16", "4_delay16", "8_delay48", "chance"]
    assert "one seed" in figure.subfigs[0].get_suptitle()
    assert axes.get_ylim() == (-2, 102)
    assert max(axes.get_xticks()) <= 11_500_000  # no steps are marked where the evaluation stands
    dashed = {line.get_ydata()[0] for line in axes.lines if line.get_color() == FAINT}
    assert dashed == {50, 25}
    assert len(axes.containers) == 3  # greedy on two levels, sampled on one
    caption = figure.get_supxlabel()
    assert "smoothed by a triangular window over 2 rows of the log, about 200 k steps" in caption
    assert "95 % interval" in caption
    assert [mini.get_title() for mini in figure.subfigs[1].axes] == ["return", "policy loss", "image loss"]


def test_curve_of_repeats_has_a_band(tmp_path, drawn):
    folders = [make(tmp_path / f"r{seed}", seed=seed, success=seed / 10) for seed in range(3)]
    report.curve(folders, tmp_path / "out.png", title="my title")
    (axes,) = panels(drawn[0])
    assert labels(drawn[0]) == list(LEVELS)
    whole, deviation = (band.get_paths()[0].vertices[:, 1] for band in axes.collections[:2])
    assert (whole.min(), whole.max()) == (0, 20)
    assert (deviation.min(), deviation.max()) == pytest.approx((0, 20))
    assert axes.lines[0].get_ydata() == pytest.approx(10)
    assert drawn[0].subfigs[0].get_suptitle() == "my title"
    assert "lowest to highest" in drawn[0].get_supxlabel()
    assert "as logged" in drawn[0].get_supxlabel()
    assert "Circles" not in drawn[0].get_supxlabel()


def test_curve_of_seeds_trained_at_once(tmp_path, drawn):
    seeds = [{"success": 0.4, "return": 0.4}, {"success": 0.6, "return": 0.6}]
    report.curve([make(tmp_path / "run", levels=("a",), seeds=seeds)], tmp_path / "out.png")
    band = panels(drawn[0])[0].collections[0].get_paths()[0].vertices[:, 1]
    assert (band.min(), band.max()) == pytest.approx((40, 60))
    assert "2 seeds" in drawn[0].subfigs[0].get_suptitle()


def test_curve_of_kinds_has_a_panel_for_each_level(tmp_path, drawn):
    folders = [make(tmp_path / f"h{seed}", seed=seed) for seed in range(2)] + [make(tmp_path / "l", "lstm", count=5)]
    report.curve(folders, tmp_path / "out.png")
    assert [axes.get_title() for axes in panels(drawn[0])] == list(LEVELS)
    assert labels(drawn[0]) == ["hcam, 2 seeds", "lstm, one seed"]


def test_curve_of_kinds_with_many_levels_shows_their_mean(tmp_path, drawn):
    many = tuple(f"a level with a long name, number {n}" for n in range(9))
    folders = [make(tmp_path / memory, memory, levels=many, evaluated=True) for memory in ("hcam", "lstm")]
    report.curve(folders, tmp_path / "out.png")
    assert [axes.get_title() for axes in panels(drawn[0])] == ["all levels"]
    assert "Circles" not in drawn[0].get_supxlabel()  # there are none


@pytest.mark.parametrize("changed", [{"count": 1}, {"levels": ()}, {"success": None}, {"losses": None}])
def test_curve_of_next_to_nothing(tmp_path, changed):
    report.curve([make(tmp_path / "run", **changed)], tmp_path / "out.png")
    assert (tmp_path / "out.png").stat().st_size > 1000


def test_levels_that_nobody_learned_have_no_panel(tmp_path, drawn):
    folders = [make(tmp_path / memory, memory, evaluated=True) for memory in ("hcam", "lstm")]
    report.curve(folders, tmp_path / "out.png")
    assert [axes.get_title() for axes in panels(drawn[0])] == list(LEVELS)  # not 8_delay48


def test_refusals_say_what_to_do(tmp_path):
    with pytest.raises(ValueError, match="at least one run folder"):
        report.curve([], tmp_path / "out.png")
    with pytest.raises(ValueError, match="at least 1, but is 0"):
        report.curve([make(tmp_path / "run")], tmp_path / "out.png", smooth=0)


NAMES = ["[x]", "x$\\foo$", "$$", "a_b^c\\", "_hidden", "\x1b[31mred", "a\nb", "日本 😀", "\udcff", "x" * 200]


@pytest.mark.parametrize("name", NAMES)
def test_names_are_drawn_as_they_are(tmp_path, drawn, name):
    """Not as formulas, and also where matplotlib would hide a name that begins with an underscore."""
    cut = printable(name) if len(printable(name)) <= 28 else printable(name)[:27] + "…"
    one = make(tmp_path / name, name, levels=(name, "b"), losses={name: 1.0}, config={"task": {"task": name}})
    other = make(tmp_path / "other", "lstm", levels=(name, "b"), losses={name: 1.0})
    report.curve([one], tmp_path / "one.png")
    assert labels(drawn[0]) == [cut, "b"]
    assert drawn[0].subfigs[0].get_suptitle().startswith(cut[:20])
    assert drawn[0].subfigs[1].axes[1].get_title().startswith(cut[:20])
    report.curve([one, other], tmp_path / "both.png", title=name)
    assert [axes.get_title() for axes in panels(drawn[1])] == [cut, "b"]
    assert labels(drawn[1])[0].startswith(cut[:20])
    assert drawn[1].subfigs[0].get_suptitle()[:100] == printable(name)[:100]


def test_lines_whose_names_begin_alike_are_told_apart(tmp_path, drawn):
    report.curve([make(tmp_path / "run", levels=("x" * 40 + "a", "x" * 40 + "b"))], tmp_path / "out.png")
    assert len(labels(drawn[0])) == 2


def test_many_levels_of_one_run_are_drawn_as_their_mean(tmp_path, drawn):
    report.curve([make(tmp_path / "run", levels=[f"level {n}" for n in range(25)])], tmp_path / "out.png")
    assert labels(drawn[0]) == ["all levels"]


@pytest.mark.parametrize(
    "changed",
    [
        {"config": {"chance": [0.5]}},
        {"config": {"chance": {"2_delay16": "half", "4_delay16": 10**400}}},
        {"config": {"memory": ["x"], "task": 3}},
        {"losses": {"x": 10**400, "y": 3e38, "z": -1e300, "steps": 1.0, "return": "x"}},
        {"success": 1e300, "return": -1e308},
        {"seeds": [None, {}, {"success": "x"}]},
        {"seeds": [{"success": 0.5}, None]},
        {"levels": {"a": None, "b": {"success": 0.5, "episodes": -3}, "c": {"success": 0.5, "episodes": 1e300}}},
        {"levels": {"": {"success": 0.5}}, "evaluated": False},
    ],
)
def test_curve_of_odd_rows(tmp_path, changed):
    folders = [make(tmp_path / memory, memory, **changed) for memory in "ab"]
    report.curve(folders[:1], tmp_path / "out.png")
    report.curve(folders, tmp_path / "out.png")
    assert (tmp_path / "out.png").stat().st_size > 1000


def test_curve_of_a_run_without_steps(tmp_path):
    folder = make(tmp_path / "run", count=1)
    for steps in (0, 2**62, 0.5):
        (folder / "metrics.jsonl").write_text(json.dumps({"steps": steps, "success": 0.5}) + "\n")
        report.curve([folder], tmp_path / "out.png")


def test_the_picture_is_written_whole_and_through_no_link(tmp_path):
    folder = make(tmp_path / "run")
    (tmp_path / "mine").write_text("mine")
    (folder / "curve.png").symlink_to(tmp_path / "mine")
    report.curve([folder], folder / "curve.png")
    assert (tmp_path / "mine").read_text() == "mine"
    assert (folder / "curve.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(OSError, match=r"out\.png cannot be written \(No such file or directory\)\.$"):
        report.curve([folder], tmp_path / "nowhere" / "out.png")
    report.curve([folder], tmp_path / "out.svg")
    assert "<svg" in (tmp_path / "out.svg").read_text()


def test_drawing_leaves_the_settings_of_matplotlib_alone(tmp_path):
    before = dict(matplotlib.rcParams)
    report.curve([make(tmp_path / "run")], tmp_path / "out.png")
    assert dict(matplotlib.rcParams) == before


def test_returns_have_a_scale_of_their_own_with_the_oracle_and_chance(tmp_path, monkeypatch):
    import matplotlib.axes

    drawn: list[float] = []
    line = matplotlib.axes.Axes.axhline

    def axhline(self, y, **look):
        drawn.append(y)
        return line(self, y, **look)

    monkeypatch.setattr(matplotlib.axes.Axes, "axhline", axhline)
    report.curve([made_by_return(tmp_path / "run")], tmp_path / "curve.png")
    assert sorted(drawn) == [1.0, 32.0]
    assert (tmp_path / "curve.png").stat().st_size > 10_000
