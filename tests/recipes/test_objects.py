"""`paper` against the published table, experiments against the paper's numbers, and the reasoning of the quickstart."""

import pytest

from hcam.envs.tasks.objects.levels import PAPER_LEVELS, parse
from hcam.recipes.objects import LONGEST, RECIPE, SECTIONS, TO_BEGIN_WITH

# Appendix "Detailed results": the rows of object permanence, mean and standard deviation as printed.
PRINTED = {
    "hcam": {"delay0": (96.7, 0.9), "delay30": (91.7, 8.3)},
    "trxl": {"delay0": (82.2, 28.7), "delay30": (46.1, 20.0)},
    "lstm": {"delay0": (33.2, 6.6), "delay30": (34.8, 5.5)},
    "hcam-long": {"delay30": (82.9, 16.4)},
    "trxl-long": {"delay30": (31.1, 0.6)},
}


@pytest.mark.parametrize("memory", ["hcam", "trxl", "lstm"])
def test_paper_is_the_published_table(memory):
    """Appendix A.2: the column of Objects."""
    config = RECIPE.preset("paper", memory)
    seen, objective = config.agent.encoder, config.objective
    assert (seen.vision, seen.channels, seen.kernel_sizes) == ("resnet", (16, 32, 32), (3, 3, 3))
    assert (seen.strides, seen.blocks) == ((2, 2, 2), (2, 2, 2))
    assert (seen.language, seen.word, config.agent.heads.hidden) == (256, 32, 512)
    assert (config.agent.memory.width, config.agent.memory.layers) == (512, 4)
    assert (config.learner.environments, config.learner.unroll) == (32, 128)
    assert (objective.policy, objective.reconstruction, objective.entropy) == (0.1, 1.0, 1e-4)
    assert objective.baseline == (0.3 if memory == "trxl" else 1.0)
    assert config.optimiser.learning_rate == 2e-4
    assert config.task.level_names(config.task.make()) == PAPER_LEVELS


def test_memories_of_the_paper():
    hcam, trxl = (RECIPE.preset("paper", memory).agent.memory for memory in ("hcam", "trxl"))
    assert (hcam.chunk, hcam.overlap, hcam.top_k) == (16, 0, 8)
    assert hcam.slots > LONGEST // 16
    assert trxl.window == 512 + 128


@pytest.mark.parametrize("name", PRINTED)
def test_experiments_have_the_printed_numbers(name):
    experiment = RECIPE.find(name)
    assert {level: (told.mean, told.deviation) for level, told in experiment.paper.items()} == PRINTED[name]
    levels = ("delay30",) if name.endswith("long") else (*PAPER_LEVELS, *TO_BEGIN_WITH)
    assert RECIPE.levels(experiment) == levels


def test_sections_show_every_experiment_once():
    shown = [name for section in SECTIONS for name in section.experiments]
    assert shown == list(PRINTED)


@pytest.mark.parametrize("preset", ["quickstart", "fast", "paper"])
def test_nothing_is_forgotten(preset):
    config = RECIPE.preset(preset)
    env = config.task.make()
    longest = max(env.max_steps_in_episode(level) or 0 for level in config.task.level_names(env))
    assert config.agent.memory.chunk * config.agent.memory.slots >= longest


def test_local_attention_does_not_solve_the_quickstart():
    """When the lids close, the last object has been gone for longer than all layers together look back."""
    config = RECIPE.preset("quickstart", "none")
    level = parse(config.task.levels[0])
    hidden = level.delay * 4 + 1
    assert config.agent.memory.layers * (config.agent.memory.window - 1) < hidden
