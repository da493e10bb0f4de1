import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from hcam.recipes.ballet import EXPERIMENTS, RECIPE
from hcam.report.results import attempt, collect, mean, other_settings, strangers, unlike
from hcam.report.runs import read
from tests.report.folders import judge, made


def state(root, name="hcam", seed=0):
    experiment = RECIPE.find(name)
    return attempt(RECIPE, experiment, experiment.folder(root, seed), seed)


def test_planned_seeds_and_those_that_are_there(tmp_path):
    made(tmp_path, "hcam", 1)
    made(tmp_path, "hcam", 7)
    made(tmp_path, "hcam-k1")
    (tmp_path / "mine").mkdir()
    (tmp_path / "hcam-01").mkdir()
    outcomes = list(collect(tmp_path, RECIPE).values())
    assert [outcome.experiment for outcome in outcomes] == list(EXPERIMENTS)
    assert [(a.seed, a.state) for a in outcomes[0].attempts] == [
        (0, "not run"), (1, "done"), (2, "not run"), (7, "done")
    ]  # fmt: skip
    assert [run.name for run in outcomes[0].runs] == ["hcam-1", "hcam-7"]
    assert strangers(tmp_path, outcomes) == ["hcam-01", "mine"]


def test_without_a_folder_nothing_was_run(tmp_path):
    outcomes = list(collect(tmp_path / "nowhere", RECIPE).values())
    assert {a.state for outcome in outcomes for a in outcome.attempts} == {"not run"}
    assert {outcome.absent for outcome in outcomes} == {"not run"}
    assert strangers(tmp_path / "nowhere", outcomes) == []


def test_a_run_that_is_not_whole_is_unfinished_and_says_why(tmp_path):
    folder = made(tmp_path, "hcam")
    whole = {file.name: file.read_text() for file in folder.iterdir()}

    def without(*names, **texts):
        for name, text in whole.items():
            (folder / name).write_text(text)
        for name in names:
            (folder / name).unlink()
        for name, text in texts.items():
            (folder / name.replace("_", ".")).write_text(text)
        return str(state(tmp_path))

    assert without() == "done"
    assert without("metrics.jsonl", "eval.json").startswith("unfinished: it has no metrics.jsonl")
    assert without("eval.json") == "unfinished: it was not evaluated"
    assert without("config.json") == "unfinished: it has no config.json"
    assert without(eval_json='{"gre').startswith("unfinished: eval.json is damaged")
    assert without(eval_json='{"greedy": {}}') == "unfinished: it was not evaluated"
    assert without(config_json="{").startswith("unfinished: config.json is damaged")
    assert without(metrics_jsonl="x\n{}\n").startswith("unfinished: metrics.jsonl is damaged")
    lines = whole["metrics.jsonl"].splitlines()
    assert without(metrics_jsonl="\n".join(lines[:30])) == "unfinished: it is at 200 M of 400 M steps"
    assert str(tmp_path) not in without("metrics.jsonl")
    shutil.rmtree(folder)
    assert str(state(tmp_path)) == "not run"


def test_levels_that_are_missing_are_named(tmp_path):
    folder = made(tmp_path, "hcam-246", ends={"2_delay16": 0.9, "8_delay16": 0.8})
    (folder / "eval-8.json").unlink()
    found = state(tmp_path, "hcam-246")
    assert found.state == "done"
    assert found.missing[-2:] == ("8_delay16", "8_delay48")
    assert "not evaluated on 4_delay16, " in str(found)
    judge(folder / "eval-other-levels.json", {"8_delay16": 0.8, "8_delay48": 0.7}, steps=400_000_000)
    assert state(tmp_path, "hcam-246").missing == ("4_delay16", "6_delay16", "2_delay48", "4_delay48", "6_delay48")


def test_a_folder_of_another_experiment_does_not_count(tmp_path):
    made(tmp_path, "hcam")
    (tmp_path / "hcam-0").rename(tmp_path / "hcam-k1-0")
    assert str(state(tmp_path, "hcam-k1")) == "unfinished: it has other settings: top_k is 8"
    (tmp_path / "hcam-k1-0").rename(tmp_path / "lstm-0")
    assert "memory is hcam" in str(state(tmp_path, "lstm"))


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.name)
def test_its_own_runs_count(tmp_path, experiment):
    made(tmp_path, experiment.name)
    assert str(state(tmp_path, experiment.name)) == "done"
    assert state(tmp_path, experiment.name).more == {}


def test_settings_besides_the_experiments_own_are_named(tmp_path):
    more: dict[str, Any] = {"learner.environments": 1024, "run.steps": 1000, "agent.encoder.last_action": True}
    more |= {"task.levels": ("2_delay16", "4_delay16"), "task.options": {"tile": 9}}
    folder = made(tmp_path, "hcam-k1", more=more | {"run.log_every": 9.0, "agent.dtype": "bfloat16"})
    experiment, config = RECIPE.find("hcam-k1"), json.loads((folder / "config.json").read_text())["config"]
    expected = more | {"task.levels": ["2_delay16", "4_delay16"]}
    assert other_settings(RECIPE, experiment, config) == expected
    assert unlike(RECIPE, experiment, config) == ""
    assert state(tmp_path, "hcam-k1").more == expected
    assert other_settings(RECIPE, experiment, {}) == {}


def test_runs_of_an_earlier_format_count(tmp_path):
    """Those in results/ballet were made before settings had their present names."""
    real = Path(__file__).parents[2] / "results" / "ballet"
    found = {name: attempt(RECIPE, RECIPE.find(name), real / f"{name}-0", 0) for name in ("hcam", "trxl", "hcam-246")}
    assert {name: str(one) for name, one in found.items()} == dict.fromkeys(found, "done")
    assert found["trxl"].more == {}  # among them, no top-k


def test_mean_over_seeds(tmp_path):
    runs = [read(made(tmp_path, "hcam", seed, ends)) for seed, ends in enumerate((0.5, 0.75, 1.0))]
    assert mean(runs, "8_delay48") == 0.75
    assert mean(runs, "6_delay48") is None
