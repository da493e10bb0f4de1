"""Runs side by side: groups, intervals, the paper's numbers, and what has no number."""

import json

import pytest

from hcam.report import compare
from hcam.report.compare import contents, write
from hcam.report.document import Picture, Table
from hcam.report.runs import read
from tests.report.folders import LEVELS, made, made_by_return, make
from tests.report.test_document import read as parsed
from tests.report.test_markdown import HOSTILE


def tables(*folders):
    title, blocks = contents([read(folder) for folder in folders], folders[0] / "x.svg")
    scores, costs = [block for block in blocks if isinstance(block, Table)]
    return title, blocks, {row[0]: row[1:] for row in scores.rows}, scores, costs


def test_seeds_are_grouped_beside_the_papers_numbers(tmp_path):
    seeds = [made(tmp_path, "hcam", seed, ends) for seed, ends in enumerate((0.9, 0.94, 0.98))]
    title, blocks, rows, scores, costs = tables(
        *seeds, made(tmp_path, "lstm", 0, 0.5), made(tmp_path, "hcam-k1", 0, 0.7)
    )
    assert title == "ballet: 5 runs compared"
    assert scores.head[:3] == ["", ("2_delay16",), ("4_delay16",)]
    labels = [row[0] for row in scores.rows]
    assert labels[:5] == ["hcam-0 + hcam-1 + hcam-2, 3 seeds", "hcam-0", "hcam-1", "hcam-2", "the paper"]
    assert rows[labels[0]][0] == ("94.0 ± 4.0", "[90.0 to 98.0]")
    assert rows["hcam-1"][5] == ("94.0", "(91.6 to 95.8)")
    paper = [row for row in scores.rows if row[0] == "the paper"]
    assert [row[1] for row in paper] == ["99.8 ± 0.3", "97.4 ± 1.8"]  # of HCAM and of the LSTM; none of top-k 1
    assert scores.rows[labels.index("lstm-0, one seed")][1] == ("50.0", "(45.6 to 54.4)")
    assert scores.strong == {0, 5, 7}
    assert isinstance(blocks[0], str)
    assert "of 500 greedy evaluation episodes" in blocks[0]
    assert costs.rows[0] == ["hcam-0", "hcam", "1", "400 M", "40.0", "166,667", "H200", "0.1.0", "0123456789"]
    assert sum(isinstance(block, Picture) for block in blocks) == 1


def test_a_smaller_task_says_so(tmp_path):
    small = made(tmp_path, "hcam", more={"task.options": {"tile": 1}})
    _, blocks, *_ = tables(small)
    assert "hcam: the task is smaller than the published one in 1 pixel a tile instead of 9." in blocks


def test_runs_that_were_not_evaluated_are_compared_by_training(tmp_path):
    folders = make(tmp_path / "a", evaluated=True), make(tmp_path / "b", "lstm", success=0.25)
    _, blocks, rows, scores, _ = tables(*folders)
    assert scores.head == ["", *((level,) for level in LEVELS)]
    assert rows["lstm, one seed"] == [("25.0",)] * 2
    assert "since not all of these runs were evaluated" in blocks[0]


def test_returns_are_shown_beside_the_oracle(tmp_path):
    _, blocks, rows, *_ = tables(made_by_return(tmp_path / "a"), made_by_return(tmp_path / "b", seed=1, ends=10.0))
    assert rows["hcam, 2 seeds"] == [("10.0 ± 1.41", "[9.00 to 11.0]")]
    assert (rows["chance"], rows["oracle"]) == (["1"], ["32"])
    assert blocks[0].startswith("Return of 500 sampled evaluation episodes")


def test_a_level_without_a_number_has_a_dash(tmp_path):
    one, other = make(tmp_path / "a", evaluated=True), make(tmp_path / "b", seed=1, evaluated=True)
    scores = json.loads((other / "eval.json").read_text())
    del scores["greedy"]["8_delay48"]
    (other / "eval.json").write_text(json.dumps(scores))
    *_, rows, _, _ = tables(one, other)
    assert rows["hcam, 2 seeds"][1] == ("40.0", "[40.0 to 40.0]", "1 of 2 runs")
    assert rows["b"][1] == "-"


def test_all_files_are_written_and_made_again(tmp_path):
    folder, out = make(tmp_path / "run", evaluated=True), tmp_path / "new" / "out"
    written = write([folder], out)
    assert [path.name for path in written] == ["curves.png", "curves.svg", "report.md", "report.html"]
    assert all(path.stat().st_size > 300 for path in written)
    assert "![learning curves](curves.svg)" in (out / "report.md").read_text()
    before = (out / "curves.svg").read_bytes()
    write([folder], out)
    assert (out / "curves.svg").read_bytes() == before  # the same from the same numbers


def test_nothing_is_written_beside_somebody_elses_report(tmp_path):
    (tmp_path / "report.html").write_text("mine")
    with pytest.raises(ValueError, match="was not made by `hcam report`"):
        write([make(tmp_path / "run")], tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "run"]


def test_hostile_folders_are_shown_as_text(tmp_path, monkeypatch):
    def draw(folders, *outs):
        for out in outs:
            out.write_text("<svg/>")

    monkeypatch.setattr(compare, "curve", draw)
    pages = []
    some = HOSTILE[::5]
    for kind, names in (("calm", ["calm"] * len(some)), ("wild", some)):
        folders = []
        for number, name in enumerate(names):
            shown = f"{name} {number}"  # a level is a key, and each is its own
            config = {"memory": name, "titles": {shown: name}, "task": {"task": name}, "agent": {}}
            made_by = dict.fromkeys(("device", "hcam", "commit"), name)
            folder = make(tmp_path / kind / str(number), seed=number, levels=(shown,), config=config)
            saved = json.loads((folder / "config.json").read_text()) | {"made_by": made_by}
            (folder / "config.json").write_text(json.dumps(saved))
            folders.append(folder)
        write(folders, tmp_path / kind / "out")
        pages.append(parsed((tmp_path / kind / "out" / "report.html").read_text()))
    calm, wild = ([tag for tag, _ in one.tags] for one in pages)
    assert wild == calm
    assert "alert(1)" in "".join(pages[1].texts)
