import matplotlib.image
import pytest

from hcam.envs import make
from hcam.recipes.ballet import RECIPE
from hcam.report.panels import draw, label
from hcam.report.results import collect
from tests.report.folders import cut, made

ENV = make("ballet")


def outcomes(root, *names):
    found = collect(root, RECIPE)
    return [found[name] for name in names]


def test_a_panel_per_level_and_a_line_per_experiment(tmp_path, drawn):
    for seed in range(2):
        made(tmp_path, "hcam", seed, 0.8 + 0.1 * seed)
    made(tmp_path, "lstm", 0, cut(RECIPE.find("lstm"), 0.8))
    found = outcomes(tmp_path, "hcam", "trxl", "lstm")  # trxl was not run
    draw(found, ENV, RECIPE.sections[0], tmp_path / "out.png")
    assert matplotlib.image.imread(tmp_path / "out.png").shape[1] == 1500
    (figure,) = drawn
    assert [axes.get_title() for axes in figure.axes] == [
        f"{n} dances, delay {d}" for d in (16, 48) for n in (2, 4, 8)
    ]  # fmt: skip
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["HCAM, 2 seeds", "LSTM, 1 seed", "greedy evaluation", "the paper's number", "chance"]
    corner = figure.axes[5]
    bold = [line for line in corner.lines if line.get_linewidth() == 2]
    bands = [band for band in corner.collections if band.get_alpha() == 0.15]
    assert (len(bold), len(bands)) == (2, 1)  # a band where there are several seeds
    assert bands[0].get_paths()[0].vertices[:, 1].max() == pytest.approx(90, abs=1)
    assert bold[0].get_ydata()[-1] == pytest.approx(85, abs=1)
    diamonds = [line.get_ydata()[0] for line in corner.lines if line.get_marker() == "D"]
    assert diamonds == [97.2, 29.7]
    assert len(corner.containers) == 3  # an evaluation per run
    assert max(corner.get_xticks()) <= 400_000_000  # no steps are marked where the evaluations stand


def test_levels_that_were_never_trained_on_say_so(tmp_path, drawn):
    made(tmp_path, "hcam-246")
    found = outcomes(tmp_path, "hcam-246")
    draw(found, ENV, RECIPE.sections[1], tmp_path / "out.png")
    titles = [axes.get_title() for axes in drawn[0].axes]
    assert titles[3] == "8 dances, delay 16\n(never trained on)"
    assert titles[:3] == ["2 dances, delay 16", "4 dances, delay 16", "6 dances, delay 16"]
    assert len(drawn[0].axes[7].containers) == 1


def test_names(tmp_path):
    made(tmp_path, "hcam")
    assert label(outcomes(tmp_path, "hcam")[0]) == "HCAM, 1 seed"
