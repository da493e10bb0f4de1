"""`paper` against the published table, experiments against the printed numbers, and names of models."""

from typing import Any

import pytest

from hcam.agent import memories
from hcam.agent.readers import HCAMReader, Memo, UniversalTransformer
from hcam.envs.tasks.pai.levels import parse
from hcam.recipes.pai import RECIPE, SECTIONS
from hcam.training import make_learner


def test_paper_is_the_published_table():
    """Appendix A.2: the column of Associative; appendix B: four layers, supervision alone."""
    config = RECIPE.preset("paper")
    memory = config.agent.memory
    assert (memory.width, memory.layers, memory.heads, memory.top_k) == (512, 4, 8, 32)
    assert config.learner.environments * config.learner.unroll // config.learner.minibatches == 32
    assert (config.objective.objective, config.objective.reconstruction) == ("cross_entropy", 0.0)
    assert config.optimiser.learning_rate == 1e-4


def test_paper_plays_the_published_task():
    config = RECIPE.preset("paper")
    env: Any = config.task.make()
    assert config.task.level_names(env) == ("length3",)
    assert env.smaller(("length3",)) == []
    assert env.observation_space["memory"].shape == (32, 2, 1000)
    assert config.agent.memory.top_k == env.rows  # every pair is recalled


@pytest.mark.parametrize(("memory", "kind"), [("hcam", HCAMReader), ("ut", UniversalTransformer), ("memo", Memo)])
@pytest.mark.parametrize("preset", RECIPE.presets)
def test_models_have_names(preset, memory, kind):
    config = RECIPE.preset(preset, memory)
    assert type(config.agent.memory) is kind
    assert memories.find(memories.name_of(config.agent.memory)) is kind
    assert config.objective.objective == "cross_entropy"


@pytest.mark.parametrize("memory", ["ut", "lstm"])
def test_the_quickstart_can_be_trained_with_other_memories(memory):
    make_learner(RECIPE.preset("quickstart", memory))


def test_experiments_have_the_printed_numbers():
    told = RECIPE.find("hcam").paper["length3_test_ac"]
    assert (told.mean, told.deviation) == (97.5, 0.9)
    assert not RECIPE.find("memo").paper  # not of this paper
    assert "98.26 ± 0.67" in RECIPE.find("memo").quote
    assert "85.60" in RECIPE.find("ut").quote


@pytest.mark.parametrize("experiment", RECIPE.experiments, ids=lambda experiment: experiment.name)
def test_experiments_fit_their_levels(experiment):
    """Every pair can be recalled, and no item of an evaluation was trained on."""
    config = RECIPE.config(experiment)
    env: Any = config.task.make()
    for level in RECIPE.levels(experiment):
        env.params(level)
    assert {parse(level).pool for level in config.task.level_names(env)} == {"train"}
    assert {parse(level).pool for level in experiment.evaluate} == {"test"}
    assert getattr(config.agent.memory, "top_k", env.rows) == env.rows


def test_every_experiment_is_on_the_page():
    assert {name for section in SECTIONS for name in section.experiments} == {e.name for e in RECIPE.experiments}
    for section in SECTIONS:
        for name in section.experiments:
            assert set(section.levels) <= set(RECIPE.levels(RECIPE.find(name)))
