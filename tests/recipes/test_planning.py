"""The reasoning of the presets, and one whole run: trained, evaluated, reported and counted goal by goal."""

import json
import re
from typing import Any

import pytest

from hcam.cli import main
from hcam.envs.tasks.planning.levels import PAPER_LEVELS, parse
from hcam.recipes.planning import RECIPE

MEMORIES = ("hcam", "trxl", "epn", "none")


@pytest.mark.parametrize("memory", MEMORIES)
def test_fast_plays_the_published_task_and_sees_transitions(memory):
    config = RECIPE.preset("fast", memory)
    env: Any = config.task.make()
    assert config.task.level_names(env) == PAPER_LEVELS == ("torus4",)
    assert env.smaller(PAPER_LEVELS) == []
    assert config.agent.encoder.last_action
    assert config.objective.objective == "vtrace"


@pytest.mark.parametrize("preset", ["quickstart", "fast"])
def test_nothing_of_an_episode_is_forgotten(preset):
    config, window = RECIPE.preset(preset), RECIPE.preset(preset, "trxl").agent.memory.window
    steps = parse(config.task.levels[0]).steps
    memory = config.agent.memory
    assert (memory.chunk - memory.overlap) * memory.slots >= steps
    assert window >= steps
    assert memory.overlap == 1  # so that every transition is whole in a chunk


def test_every_memory_has_an_experiment():
    assert [one.memory for one in RECIPE.experiments] == list(MEMORIES)
    assert [name for section in RECIPE.sections for name in section.experiments] == list(MEMORIES)
    assert not any(one.paper for one in RECIPE.experiments)


def test_a_run_is_scored_by_its_return_from_end_to_end(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = "--environments 8 --minibatches 1 --unroll 25 --steps 1000 --eval-episodes 8 --layers 1 --width 16"
    small += " --heads 2 --env-arg symbols=9 --levels torus2_steps20 torus3_steps20 --curriculum --log-every 0.001"
    assert main(["train", "planning", "--memory", "trxl", "--run", "run", *small.split()]) == 0
    config = json.loads((tmp_path / "run" / "config.json").read_text())["config"]
    assert config["scored_by"] == "return"
    assert config["oracle"]["torus2_steps20"] == pytest.approx(20 / (7 / 3), rel=0.05)
    assert 0 < config["chance"]["torus3_steps20"] < 1
    best = json.loads((tmp_path / "run" / "checkpoints" / "best.json").read_text())["metadata"]
    assert best["return"] == best["best"] >= 0
    printed = capsys.readouterr()
    assert "% of the oracle" in printed.out
    assert re.search(r"return \d", printed.err)
    assert main(["eval", "run", "--episodes", "8", "--goals", "run", "--level", "torus2_steps20"]) == 0
    assert "steps" in capsys.readouterr().out
    found = json.loads((tmp_path / "run" / "goals.json").read_text())["levels"]["torus2_steps20"]
    assert set(found) == {"greedy", "sampled", "oracle", "random"}
    assert found["oracle"]["goals"][0]["steps"] < 3.5
    assert main(["report", "run", "run"]) == 0
    assert "Return, sampled evaluation" in capsys.readouterr().out
    assert (tmp_path / "goals.png").exists()


def test_a_task_without_goals_says_so(capsys, tmp_path):
    assert main(["eval", "pretrained:quickstart", "--goals", f"{tmp_path}"]) == 2
    assert "is scored by success and has no goals" in capsys.readouterr().err
