"""`paper` against the published table, experiments against the paper's number, and the reasoning of the quickstart."""

from typing import Any

import pytest

from hcam.envs.tasks.match.levels import PAPER_LEVELS, parse
from hcam.recipes.match import LONGEST, RECIPE, SECTIONS


def test_paper_is_the_published_table():
    """Appendix A.2: the column of Image."""
    config = RECIPE.preset("paper")
    seen, memory, objective = config.agent.encoder, config.agent.memory, config.objective
    assert (seen.vision, seen.channels, seen.kernel_sizes) == ("resnet", (16, 32, 32), (3, 3, 3))
    assert (seen.strides, seen.blocks) == ((2, 2, 2), (2, 2, 2))
    assert (memory.width, memory.layers, memory.heads, config.agent.heads.hidden) == (512, 4, 8, 512)
    assert (memory.chunk, memory.overlap, memory.top_k) == (16, 0, 16)
    assert memory.slots > LONGEST // 16
    assert (config.learner.environments, config.learner.unroll) == (32, 128)
    assert (objective.policy, objective.baseline, objective.reconstruction) == (0.1, 1.0, 1.0)
    assert (objective.entropy, config.optimiser.learning_rate) == (1e-4, 2e-4)


def test_paper_plays_the_published_task():
    config = RECIPE.preset("paper")
    env: Any = config.task.make()
    assert config.task.level_names(env) == PAPER_LEVELS == ("delay30",)
    assert env.smaller(PAPER_LEVELS) == []
    assert (env.apple_reward, env.right_reward, env.wrong_reward) == (5, 10, 1)


def test_experiments_have_the_printed_number():
    told = RECIPE.find("hcam").paper["delay30"]
    assert (told.mean, told.deviation) == (97.0, 2.8)
    assert not RECIPE.find("none").paper
    assert [name for section in SECTIONS for name in section.experiments] == ["hcam", "none"]


@pytest.mark.parametrize("preset", ["quickstart", "fast", "paper"])
def test_nothing_is_forgotten(preset):
    config = RECIPE.preset(preset)
    env: Any = config.task.make()
    longest = max(env.max_steps_in_episode(level) for level in config.task.level_names(env))
    assert config.agent.memory.chunk * config.agent.memory.slots >= longest


@pytest.mark.parametrize("memory", ["hcam", "none"])
def test_local_attention_does_not_reach_the_colour_in_the_quickstart(memory):
    config = RECIPE.preset("quickstart", memory)
    reach = config.agent.memory.layers * (config.agent.memory.window - 1)
    assert reach < 4 * min(parse(level).delay for level in config.task.levels)
