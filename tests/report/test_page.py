import json
import re
from pathlib import Path

import numpy as np
import pytest
from markdown_it import MarkdownIt
from PIL import Image

from hcam import recipes
from hcam.recipes.ballet import EXPERIMENTS, RECIPE
from hcam.report import panels
from hcam.report.page import PAGE, chapter, goals_of, write
from hcam.report.results import collect
from tests.report.folders import cut, judge, made
from tests.report.test_goals import LEVEL

ROOT = Path(__file__).parents[2]

PLANNED = sum(len(experiment.seeds) for experiment in EXPERIMENTS)


def text_of(root, out=None):
    """Ballet's chapter of the page, without pictures unless there is a place for them."""
    with pytest.MonkeyPatch.context() as patch:
        if out is None:
            patch.setattr(panels, "draw", lambda *args: None)
        return chapter(RECIPE, root, out or Path())[0]


def row(text, title, nth=0):
    """The cells of the row that begins so."""
    lines = [line for line in text.splitlines() if re.match(rf"\| (\*\*)?{re.escape(title)}(\*\*)?(<br>| \|)", line)]
    return [cell.strip() for cell in lines[nth].strip("|").split("|")]


def test_the_committed_page_and_its_pictures_are_what_the_command_makes(monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    tasks = recipes.every()
    page, *pictures = write(list(tasks.values()), {task: Path("results") / task for task in tasks}, tmp_path)
    wrong = "run `hcam report --all`: {} is not of today."
    assert (ROOT / "docs" / PAGE).read_text() == page.read_text(), wrong.format(f"docs/{PAGE}")
    assert "Made by `hcam report --all`" in page.read_text()
    for picture in pictures:
        committed = Image.open(ROOT / "docs" / picture.relative_to(tmp_path))
        made_now = Image.open(picture)
        if committed.info["Software"] == made_now.info["Software"]:  # another matplotlib draws a little differently
            shown = [np.asarray(image.convert("L").reduce(2), float) for image in (committed, made_now)]
            assert shown[0].shape == shown[1].shape, wrong.format(picture.name)
            assert np.abs(shown[0] - shown[1]).mean() < 0.1, wrong.format(picture.name)


def test_nothing_run_is_said_and_shown(tmp_path):
    text = text_of(tmp_path / "ballet")
    assert f"**Nothing has been run yet: none of {PLANNED} runs." in text
    for experiment in EXPERIMENTS:
        section = next(section for section in RECIPE.sections if experiment.name in section.experiments)
        shown = set(section.levels) & set(RECIPE.levels(experiment))
        assert row(text, experiment.title)[1:] == ["not run"] * len(shown)
        for line in RECIPE.commands(experiment, Path("ballet") / f"{experiment.name}-0", 0, {}):
            assert line in text
    assert row(text, "the paper") == [
        "the paper", "99.8 ± 0.3", "no number", "98.1 ± 3.3", "no number", "no number", "97.2 ± 2.5"
    ]  # fmt: skip
    assert "![" not in text


def test_the_papers_words_stand_once_and_beside_its_numbers(tmp_path):
    sections = text_of(tmp_path / "ballet").split("\n### ")
    titles = {name: section.title for section in RECIPE.sections for name in section.experiments}
    assert set(titles) == {experiment.name for experiment in EXPERIMENTS}
    for experiment in EXPERIMENTS:
        line = f"* **{experiment.title}**. {experiment.quote}\n"
        where = [section for section in sections if line in section]
        assert len(where) == bool(experiment.quote)
        assert all(section.startswith(titles[experiment.name]) for section in where)
        assert f"* **{experiment.title}**. \n" not in "".join(sections)


def test_several_seeds_and_a_single_one(tmp_path):
    for seed, share in enumerate((0.9, 0.94, 0.98)):
        made(tmp_path, "hcam", seed, share, seconds=2400.0 + 600 * seed)
    made(tmp_path, "trxl", 0, 0.5)
    text = text_of(tmp_path)
    cells = row(text, "HCAM")
    assert cells[0] == "**HCAM**<br>3 seeds, 400 M steps, 40 to 60 minutes each, 111,111 to 166,667 steps/s"
    assert cells[1:] == ["**94.0** [90.0 to 98.0]"] * 6
    assert [row(text, f"seed {seed}")[1] for seed in range(3)] == [
        "90.0 (87.1 to 92.3)", "94.0 (91.6 to 95.8)", "98.0 (96.4 to 98.9)"
    ]  # fmt: skip
    cells = row(text, "Gated TransformerXL")
    assert cells[0] == "**Gated TransformerXL**<br>single seed, 400 M steps, 40 minutes, 166,667 steps/s"
    assert cells[6] == "**50.0** (45.6 to 54.4)"
    assert row(text, "LSTM")[1:] == ["not run"] * 6
    assert row(text, "HCAM, as above")[1] == "**94.0** [90.0 to 98.0]"
    assert "500 evaluation episodes" in text
    assert f"4 of {PLANNED} runs done, {PLANNED - 4} not run." in text
    assert "Evaluated with 8 dances, delay 48: HCAM 94.0 %; Gated TransformerXL 50.0 %. Chance is 12.5 %." in text


def test_a_number_changes_with_its_folder(tmp_path):
    folder = made(tmp_path, "hcam-k1", 0, 0.9)
    before = text_of(tmp_path)
    assert row(before, "HCAM, top-k 1")[6] == "**90.0** (87.1 to 92.3)"
    scores = json.loads((folder / "eval.json").read_text())
    scores["greedy"]["8_delay48"] |= {"success": 0.25, "low": 0.2, "high": 0.3}
    (folder / "eval.json").write_text(json.dumps(scores))
    after = text_of(tmp_path)
    assert row(after, "HCAM, top-k 1")[6] == "**25.0** (20.0 to 30.0)"
    assert row(after, "HCAM, top-k 1")[5] == row(before, "HCAM, top-k 1")[5]


def test_levels_that_were_not_played_are_not_run(tmp_path):
    folder = made(tmp_path, "hcam-246")
    (folder / "eval-8.json").unlink()
    text = text_of(tmp_path)
    cells = row(text, "HCAM, trained on 2, 4 and 6 dances")
    assert (cells[4], cells[8]) == ("not run", "not run")  # 8 dances, of either delay
    assert "done: not evaluated on 8_delay16, 8_delay48" in text
    judge(folder / "eval-later.json", {"8_delay16": 0.9})
    cells = row(text_of(tmp_path), "HCAM, trained on 2, 4 and 6 dances")
    assert (cells[4], cells[8]) == ("**90.0** (87.1 to 92.3)", "not run")
    made(tmp_path, "hcam", 0)
    judge(made(tmp_path, "hcam", 1) / "eval.json", {"2_delay16": 0.8})
    text = text_of(tmp_path)
    assert row(text, "HCAM")[1:3] == ["**85.0** [80.0 to 90.0]", "**90.0** [90.0 to 90.0], 1 of 2 runs"]
    assert row(text, "seed 1")[1:3] == ["80.0 (76.3 to 83.3)", "not run"]


def test_half_written_folders_are_named(tmp_path):
    for name, gone in (("hcam", ["metrics.jsonl", "eval.json"]), ("trxl", ["eval.json"]), ("lstm", [])):
        folder = made(tmp_path, name)
        for file in gone:
            (folder / file).unlink()
    (tmp_path / "lstm-0" / "eval.json").write_text('{"greedy": {"2_')
    (tmp_path / "hcam-k1-0").mkdir()
    text = text_of(tmp_path)
    assert f"**0 of {PLANNED} runs done, 4 unfinished, {PLANNED - 4} not run.**" in text
    for title in ("HCAM", "Gated TransformerXL", "LSTM", "HCAM, top-k 1"):
        assert row(text, title)[1:] == ["unfinished"] * 6
    folders = [row(text, f"`{tmp_path.name}/{name}`")[1] for name in ("hcam-0", "trxl-0", "lstm-0", "hcam-k1-0")]
    assert folders[0].startswith("unfinished: it has no metrics.jsonl")
    assert folders[1:3] == [
        "unfinished: it was not evaluated",
        r"unfinished: eval.json is damaged: delete it and evaluate again, with \`hcam eval\`",
    ]
    assert folders[3].startswith("unfinished: it has no metrics.jsonl")


def test_where_each_number_comes_from(tmp_path):
    made(tmp_path, "hcam", 5, more={"learner.environments": 1024, "run.steps": 2000})
    (tmp_path / "mine").mkdir()
    text = text_of(tmp_path)
    assert row(text, f"`{tmp_path.name}/hcam-5`") == [
        f"`{tmp_path.name}/hcam-5`", "done", "2 k", "40", "1", "H200", "0.1.0", "`0123456789`",
        "`--environments 1024 --steps 2000`",
    ]  # fmt: skip
    assert "belong to no experiment: `mine`." in text


def test_the_command_is_that_of_the_run(tmp_path):
    made(tmp_path, "hcam-k1", more={"learner.environments": 1024})
    command = f"hcam train ballet --preset fast --top-k 1 --environments 1024 --seed 0 --run {tmp_path.name}/"
    assert command in text_of(tmp_path)


@pytest.mark.parametrize("names", [(), ("trxl",), ("hcam-246", "hcam-norec")])
def test_page_and_pictures_are_written(tmp_path, names):
    for name in names:
        made(tmp_path / "ballet", name, 0, cut(RECIPE.find(name), 0.3))
    out = tmp_path / "new" / "docs"
    written = write([RECIPE], {"ballet": tmp_path / "ballet"}, out)
    text = (out / PAGE).read_text()
    assert written[0] == out / PAGE
    assert [out / name for name in re.findall(r"!\[.*?\]\((.*?)\)", text)] == written[1:]
    assert all(path.stat().st_size > 10_000 for path in written[1:])
    expected = {"trxl": "memories", "hcam-246": "246", "hcam-norec": "variants"}
    assert [path.name for path in written[1:]] == [f"ballet-{expected[name]}.png" for name in names]
    assert str(tmp_path) not in text
    assert text.endswith(text_of(tmp_path / "ballet"))  # the same every time


def test_names_and_texts_from_folders_are_no_markup(tmp_path):
    folder = made(tmp_path, "hcam")
    hostile = "<script>x</script> | ![p](http://e) `a`"
    config = json.loads((folder / "config.json").read_text())
    config["made_by"] |= {"device": hostile, "hcam": "# heading", "commit": hostile}
    (folder / "config.json").write_text(json.dumps(config))
    (tmp_path / "<b>bold").mkdir()
    (tmp_path / "# `x`").mkdir()
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(text_of(tmp_path))
    assert not re.search(r"<(script|b)\b", html)
    assert html.count("<img") == 1  # the figure
    assert "heading</h1>" not in html
    assert len(row(text_of(tmp_path), f"`{tmp_path.name}/hcam-0`")) >= 9


def test_steps_per_goal_have_a_picture_where_a_run_counted_them(tmp_path):
    """Whatever the task: a goals.json in the folder of a run that is done is enough."""
    (tmp_path / "images").mkdir()
    folder = made(tmp_path, "hcam", seed=1)
    (folder / "goals.json").write_text(json.dumps({"levels": {"2_delay16": LEVEL}}))
    assert goals_of(list(collect(tmp_path, RECIPE).values())) == {RECIPE.find("hcam").title: {"2_delay16": LEVEL}}
    text, pictures = chapter(RECIPE, tmp_path, tmp_path)
    assert "![steps per goal](images/ballet-memories-goals.png)" in text
    assert tmp_path / "images" / "ballet-memories-goals.png" in pictures
    assert all(path.exists() for path in pictures)
