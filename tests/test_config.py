"""A configuration survives JSON, says where it differs from another, and refuses what makes no sense."""

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from hcam.agent import AgentConfig, MemoryConfig
from hcam.config import Config, RunConfig, TaskConfig, differences, from_json, read, to_json
from hcam.learning.learner import LearnerConfig
from hcam.presets import MEMORIES, PRESETS, preset
from hcam.runs.folder import RunFolder


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_survives_json(name, memory):
    for task in ("ballet", "first_symbol"):
        config = preset(name, task, memory)
        back = from_json(Config, json.loads(json.dumps(to_json(config))))
        assert back == config
        assert hash(back) == hash(config)  # lists have become tuples again
        assert isinstance(back.agent.memory, MemoryConfig)


def test_odd_values_survive_json():
    config = Config(
        task=TaskConfig(levels=("2_delay16", "4_delay16"), tile=3),
        agent=AgentConfig(memory=MemoryConfig(memory="trxl", gated=False, trxl_top_k=16, window=99)),
        run=RunConfig(steps=10**12, log_every=0.25),
    )
    assert from_json(Config, json.loads(json.dumps(to_json(config)))) == config


def test_a_run_folder_tells_its_configuration(tmp_path):
    config = preset("quickstart")
    RunFolder.create(tmp_path / "run", to_json(config) | {"chance": {"2_delay5_of4": 0.5}}).close()
    assert read(tmp_path / "run") == config


def test_settings_that_this_version_does_not_know_are_refused():
    values = json.loads(json.dumps(to_json(Config())))
    values["agent"]["memory"]["colour"] = 1
    sentence = "this run's config.json has settings that this version of hcam lacks: colour."
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        from_json(Config, values)


def test_settings_that_are_younger_than_the_file_have_their_defaults():
    values = json.loads(json.dumps(to_json(preset("quickstart"))))
    del values["task"]["weights"], values["loss"]["trace"]
    assert from_json(Config, values) == preset("quickstart")


def test_values_are_checked_on_the_way_back_as_well():
    values = json.loads(json.dumps(to_json(Config())))
    values["learner"]["unroll"] = 0
    with pytest.raises(ValueError, match="unroll must be a whole number of at least 1, but is 0"):
        from_json(Config, values)


def test_differences_are_named_by_their_path():
    one = Config()
    memory = replace(one.agent.memory, width=64, heads=4)
    two = replace(
        one, agent=replace(one.agent, memory=memory, dtype="float32"), run=RunConfig(seed=1), task=TaskConfig(tile=1)
    )
    assert differences(one, one) == []
    assert differences(one, two) == [
        "task.tile",
        "agent.memory.width",
        "agent.memory.heads",
        "agent.dtype",
        "run.seed",
    ]


@pytest.mark.parametrize(("steps", "updates"), [(1, 1), (11, 1), (12, 1), (13, 2), (24, 2), (25, 3)])
def test_updates_are_rounded_up(steps, updates):
    config = Config(learner=LearnerConfig(environments=3, unroll=4), run=RunConfig(steps=steps))
    assert config.steps_per_update == 12
    assert config.updates == updates


def test_a_task_makes_its_environment():
    task = TaskConfig(task="ballet", levels=("2_delay16", "1_delay0"), tile=3)
    env: Any = task.make()
    assert env.observation_space["image"].shape == (33, 33, 3)
    assert task.params(env).dancers_l.tolist() == [2, 1]
    assert task.names(env) == ("2_delay16", "1_delay0")
    full: Any = TaskConfig().make()
    assert full.observation_space["image"].shape == (99, 99, 3)


@pytest.mark.parametrize(
    ("task", "names"),
    [
        ("ballet", ("2_delay16", "4_delay16", "8_delay16", "2_delay48", "4_delay48", "8_delay48")),
        ("first_symbol", ("blanks8",)),
        ("echo", ("echo",)),
    ],
)
def test_there_is_a_name_for_every_level_that_the_environment_numbers(task, names):
    config = TaskConfig(task=task)
    env = config.make()
    assert config.names(env) == names
    params = config.params(env)
    assert len(params.weight_l if task == "ballet" else params.number_l) == len(names)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"steps": 0}, "steps must be a whole number of at least 1, but is 0."),
        ({"seeds": 0}, "seeds must be a whole number of at least 1, but is 0."),
        ({"keep": 0}, "keep must be a whole number of at least 1, but is 0."),
        ({"eval_episodes": -1}, "eval_episodes must be a whole number of at least 1, but is -1."),
        ({"log_every": 0.0}, "log_every and save_every are seconds, but are 0.0 and 120.0."),
        ({"save_every": float("nan")}, "log_every and save_every are seconds, but are 5.0 and nan."),
    ],
)
def test_bad_runs_are_refused(wrong, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        RunConfig(**wrong)


@pytest.mark.parametrize(
    ("task", "sentence"),
    [
        (TaskConfig(task="chess"), "there is no task 'chess': choose from ballet, constant"),
        (TaskConfig(task="echo", tile=1), "tile is Ballet's, but the task is echo: leave it out."),
        (TaskConfig(task="echo", weights=(1.0,)), "weights is Ballet's, but the task is echo: leave it out."),
        (TaskConfig(levels=("9_delay16",)), "there is no Ballet level '9_delay16'"),
        (TaskConfig(task="echo", levels=("hard",)), "there is no Echo level 'hard': it has no levels."),
    ],
)
def test_tasks_that_do_not_exist_are_refused(task, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        task.params(task.make())


def test_minibatches_share_the_environments_evenly():
    sentence = "32 environments cannot be shared out evenly among 5 minibatches."
    with pytest.raises(ValueError, match=re.escape(sentence)):
        LearnerConfig(minibatches=5)
    assert LearnerConfig(environments=32, minibatches=4, epochs=3).gradient_steps == 12
