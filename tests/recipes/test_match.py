"""`paper` against the published table, the experiment against the paper's number, the reasoning of the quickstart."""

import pytest

from hcam.envs.tasks.match.levels import PAPER_LEVELS
from hcam.recipes.match import RECIPE, SECTIONS


def test_paper_is_the_published_table():
    """Appendix A.2: the column of the image task."""
    config = RECIPE.preset("paper")
    seen, memory, objective = config.agent.encoder, config.agent.memory, config.objective
    assert (seen.vision, seen.channels, seen.strides, seen.blocks) == ("resnet", (16, 32, 32), (2, 2, 2), (2, 2, 2))
    assert (memory.width, memory.layers, memory.chunk, memory.overlap, memory.top_k) == (512, 4, 16, 0, 16)
    assert (config.learner.environments, config.learner.unroll) == (32, 128)
    assert (objective.policy, objective.baseline, objective.reconstruction) == (0.1, 1.0, 1.0)
    assert config.task.level_names(config.task.make()) == PAPER_LEVELS
    assert not config.task.options, "rewards as published"


def test_the_experiment_has_the_printed_number():
    (level,) = PAPER_LEVELS
    told = RECIPE.find("hcam").paper[level]
    assert (told.mean, told.deviation) == (97.0, 2.8)


def test_sections_show_every_experiment_once():
    shown = [name for section in SECTIONS for name in section.experiments]
    assert shown == [experiment.name for experiment in RECIPE.experiments]


@pytest.mark.parametrize("preset", ["quickstart", "fast", "paper"])
def test_nothing_is_forgotten(preset):
    config = RECIPE.preset(preset)
    env = config.task.make()
    longest = max(env.max_steps_in_episode(level) or 0 for level in config.task.level_names(env))
    assert config.agent.memory.chunk * config.agent.memory.slots >= longest


def test_local_attention_does_not_solve_the_quickstart():
    """When the choice begins, the colour has been out of view for longer than all layers together look back."""
    config = RECIPE.preset("quickstart", "none")
    env = config.task.make()
    rules = env.level(config.task.levels[0]).rules
    assert config.agent.memory.layers * (config.agent.memory.window - 1) < int(rules.delay)
