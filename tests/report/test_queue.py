"""The order in which runs are wanted, how long they take, and which is next: from run folders that were made up."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hcam import recipes
from hcam.recipes import Experiment, Recipe
from hcam.recipes.ballet import RECIPE
from hcam.report import queue
from hcam.report.queue import Job, Pace, collect_jobs, next_job
from hcam.report.results import Attempt
from tests.report.folders import MADE_BY, made

DEVICE = MADE_BY["device"]
LEFT = "unfinished at 200 M of 400 M steps, "

SMALL = Recipe(
    "later",
    9,
    RECIPE.presets,
    (
        Experiment("a", "A", seeds=(3, 4)),
        Experiment("b", "B", "trxl", places=(5, 300)),
        Experiment("c", "C"),
    ),
)


def jobs_of(root, *names):
    return [job for job in collect_jobs(root, [RECIPE], DEVICE) if job.experiment.name in names]


def named(jobs):
    return [(job.experiment.name, job.attempt.seed) for job in jobs]


def cut_off(folder, rows=30, checkpoint=True):
    """A run that was stopped half-way."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    (folder / "metrics.jsonl").write_text("\n".join(lines[:rows]) + "\n")
    (folder / "eval.json").unlink()
    if checkpoint:
        with_checkpoint(folder)
    return folder


def with_checkpoint(folder):
    (folder / "checkpoints").mkdir()
    (folder / "checkpoints" / "000000000009.json").touch()  # its record
    return folder


def job(name, state="not run", minutes=None, seed=0):
    return Job(
        SMALL, SMALL.find(name), Attempt(Path(name), seed, "done" if state == "done" else "not run"), state, minutes
    )


# Order


def test_the_order_is_that_of_places_then_of_recipes_experiments_and_seeds(tmp_path):
    jobs = collect_jobs(tmp_path, [SMALL, replace(SMALL, task="latest", places=(200, 100))], DEVICE)
    assert [(j.recipe.task, *n) for j, n in zip(jobs, named(jobs), strict=True)] == [
        ("later", "b", 0),
        ("latest", "b", 0),
        ("later", "a", 3),
        ("later", "c", 0),
        ("latest", "a", 4),
        ("later", "a", 4),
        ("latest", "a", 3),
        ("latest", "c", 0),
    ]


def test_the_paper_is_wanted_in_this_order(tmp_path):
    """Issue by issue: first what is cheap and decides most, one seed of every task before other seeds, sweeps last."""
    jobs = collect_jobs(tmp_path, list(recipes.every().values()), DEVICE)
    order = [f"{j.recipe.task} {j.experiment.name} {j.attempt.seed}" for j in jobs]
    first = [name for name in order if name.startswith("ballet")][:13]
    assert order[:13] == first
    assert [name.removeprefix("ballet ") for name in first] == [
        *("hcam 0", "hcam 1", "hcam 2", "trxl 0", "trxl 1", "trxl 2", "lstm 0", "hcam-k1 0", "hcam-norec 0"),
        *("hcam-chunk16 0", "hcam-chunk64 0", "hcam-gated 0", "trxl-topk 0"),
    ]
    tasks = list(dict.fromkeys(name.split()[0] for name in order[13:] if name.endswith(" 0")))
    assert tasks == ["objects", "words", "match", "streets", "pai", "planning", "ballet"]
    marks = ("planning none 0", "ballet hcam-delays 0", "ballet trxl-delays 0", "objects hcam 1", "ballet hcam-246 0")
    assert sorted(marks, key=order.index) == list(marks)
    last = [name.removeprefix("ballet ") for name in order[order.index("ballet hcam-246 0") :]]
    assert last[:4] == ["hcam-246 0", "trxl-246 0", "trxl-wide 0", "trxl-deep 0"]
    assert len(last) == 4 + 12


# State


def test_states(tmp_path):
    root = tmp_path / "ballet"
    made(root, "hcam")
    cut_off(made(root, "trxl"))
    cut_off(made(root, "lstm"), checkpoint=False)
    with_checkpoint(made(root, "hcam-gated")).joinpath("eval.json").unlink()
    (root / "hcam-k1-0").mkdir()
    (root / "hcam-norec-0").mkdir()
    (root / "hcam-norec-0" / "notes.txt").touch()
    with_checkpoint(made(root, "hcam", 5)).rename(root / "trxl-topk-0")
    found = {
        f"{j.experiment.name}-{j.attempt.seed}": (j.state, queue.told(j)) for j in collect_jobs(tmp_path, [RECIPE], "")
    }
    way = "cannot be continued: move it away"
    assert found["hcam-0"] == ("done", "done")
    assert found["hcam-1"] == ("not run", "not run")
    assert found["trxl-0"] == ("unfinished", f"{LEFT}can be continued")
    assert found["lstm-0"] == ("in the way", f"{LEFT}{way}")
    assert found["hcam-gated-0"] == ("unfinished", "unfinished at 400 M of 400 M steps, evaluation is left")
    assert found["hcam-k1-0"] == ("unfinished", "unfinished at 0 of 400 M steps, can be continued")
    assert found["hcam-norec-0"] == ("in the way", f"unfinished at 0 of 400 M steps, {way}")
    assert found["trxl-topk-0"][0] == "in the way"  # it is the run of another experiment


def test_other_levels_that_were_not_played_are_left_to_do(tmp_path):
    folder = made(tmp_path / "ballet", "hcam-246")
    (folder / "eval-8.json").unlink()
    (one,) = jobs_of(tmp_path, "hcam-246")
    assert one.state == "done"  # its agent is gone
    with_checkpoint(folder)
    (one,) = jobs_of(tmp_path, "hcam-246")
    assert (one.state, one.minutes) == ("unfinished", queue.EVALUATION / 60)


def test_a_run_without_rows_yet_is_continued_as_what_it_is(tmp_path):
    folder = made(tmp_path / "ballet", "hcam-k1")
    for name in ("metrics.jsonl", "eval.json"):
        (folder / name).unlink()
    assert [j.state for j in jobs_of(tmp_path, "hcam-k1")] == ["unfinished"]
    config = json.loads((folder / "config.json").read_text())
    config["config"]["agent"]["memory"]["top_k"] = 3
    (folder / "config.json").write_text(json.dumps(config))
    assert [j.state for j in jobs_of(tmp_path, "hcam-k1")] == ["in the way"]


# Minutes


def test_minutes_are_those_of_what_is_most_alike():
    wanted = Job(RECIPE, RECIPE.find("trxl-topk"), Attempt(Path("x"), 0, "not run"), "not run")
    paces = [Pace("ballet", "hcam", "hcam", 0, 1.0), Pace("other", "trxl", "trxl-topk", 0, 9.0)]
    assert queue.rate_of(wanted, []) is None
    assert queue.rate_of(wanted, paces[1:]) is None
    assert queue.rate_of(wanted, paces) == 1.0
    paces += [Pace("ballet", "trxl", "trxl", seed, rate) for seed, rate in enumerate((2.0, 3.0, 7.0))]
    assert queue.rate_of(wanted, paces) == 3.0  # the median
    paces += [Pace("ballet", "trxl", "trxl-topk", 1, 4.0)]
    assert queue.rate_of(wanted, paces) == 4.0
    paces += [Pace("ballet", "trxl", "trxl-topk", 0, 5.0)]
    assert queue.rate_of(wanted, paces) == 5.0


def test_minutes_from_run_folders(tmp_path):
    """400 M steps in 40 minutes; half of them in 20. And what evaluation takes, unless it is over."""
    made(tmp_path / "ballet", "hcam")
    cut_off(made(tmp_path / "ballet", "trxl", seconds=1200.0))
    after = queue.EVALUATION / 60
    minutes = {f"{j.experiment.name}-{j.attempt.seed}": j.minutes for j in collect_jobs(tmp_path, [RECIPE], DEVICE)}
    assert minutes["hcam-0"] == 40
    assert minutes["hcam-1"] == minutes["hcam-k1-0"] == pytest.approx(40 + after)
    assert minutes["trxl-0"] == pytest.approx(10 + after)
    assert minutes["trxl-1"] == pytest.approx(20 + after)
    assert minutes["hcam-rate1.5e-05-entropy0.05-0"] == pytest.approx(10 + after)  # 100 M steps
    assert minutes["lstm-0"] == pytest.approx(80 / 3 + after)  # between the two others of its task
    elsewhere = {f"{j.experiment.name}-{j.attempt.seed}": j.minutes for j in collect_jobs(tmp_path, [RECIPE], "cpu")}
    assert elsewhere["hcam-0"] == 40
    assert {value for name, value in elsewhere.items() if name != "hcam-0"} == {None}


# What is next


def test_the_most_wanted_that_fits_or_may_fit_is_next():
    jobs = [job("a", "done", 3.0), job("a", minutes=30.0), job("b", "in the way"), job("b", minutes=20.0), job("c")]
    assert next_job(jobs, 25.0) is jobs[3]
    assert next_job(jobs, 20.0) is jobs[3]
    assert next_job(jobs, 19.0) is jobs[4]  # nobody knows: it may fit
    assert next_job(jobs) is jobs[1]
    assert next_job(jobs[:4], 19.0) is None
    assert next_job([]) is None


def test_what_was_begun_comes_first_however_long_it_takes():
    jobs = [job("a", minutes=5.0), job("b", "unfinished", 50.0), job("c", "unfinished", 1.0)]
    assert next_job(jobs, 10.0) is jobs[1]


def test_nothing_is_next_for_a_reason():
    jobs = [job("a", minutes=30.0), job("b", minutes=20.0), job("c", "done")]
    assert queue.nothing(jobs, 2.5) == (
        "no run that is left fits into 2.5 minutes: the shortest, later b, seed 0, takes 20, and the one wanted most, "
        "later a, seed 0, 30; begin one by its name with --minutes, and the next call continues it."
    )
    assert queue.nothing(jobs[2:], 9) == "nothing is left to run: 1 of 1 runs are done."
    stuck = [job("a", "done"), job("b", "in the way")]
    also = ", and 1 cannot be continued: move b away."
    assert queue.nothing(stuck, None) == f"nothing is left to run: 1 of 2 runs are done{also}"


# What is shown


def test_the_listing_shows_every_run_and_sums_up():
    jobs = [job("a", "done", 12.3), job("b", minutes=61.2), job("c", seed=4)]
    assert queue.listing(jobs, "H200") == [
        "next  task   experiment  seed  minutes  state",
        "      later  a              0       12  done",
        "   1  later  b              0       61  not run",
        "   2  later  c              4        ?  not run",
        "",
        "1 of 3 runs are done, 2 are left to run. 1 of these take about 1.0 hours on H200. "
        "Nothing is known of how long 1 of them take on H200.",
    ]
    assert queue.summary(jobs[:1], "H200") == "1 of 1 runs are done, 0 are left to run."
