"""`paper` against the published table, experiments against the paper's numbers, and the reasoning of the quickstart."""

import pytest

from hcam.envs.tasks.words.levels import EASY_LEVELS, HELD_OUT_LEVELS, TRAINING_LEVELS, parse
from hcam.memory import MEMORIES
from hcam.recipes.words import LONGEST, RECIPE, SECTIONS

# Appendix "Detailed results": the rows of rapid word learning, mean and standard deviation as printed.
ROWS = ("distractors10", "episodes4_distractors0", "episodes2_distractors5")
PRINTED = {
    "hcam": ((93.0, 4.0), (82.8, 6.4), (71.1, 8.0)),
    "trxl": ((76.7, 12.5), (49.3, 16.5), (48.7, 13.2)),
    "lstm": ((21.0, 18.3), (19.8, 17.4), (22.9, 20.1)),
}


@pytest.mark.parametrize("memory", ["hcam", "trxl", "lstm"])
def test_paper_is_the_published_table(memory):
    """Appendix A.2: the column of Words."""
    config = RECIPE.preset("paper", memory)
    seen, objective = config.agent.encoder, config.objective
    assert (seen.vision, seen.channels, seen.kernel_sizes) == ("resnet", (16, 32, 32), (3, 3, 3))
    assert (seen.strides, seen.blocks) == ((2, 2, 2), (2, 2, 2))
    assert (seen.language, seen.word, config.agent.heads.hidden) == (256, 32, 512)
    assert (config.agent.memory.width, config.agent.memory.layers) == (512, 4)
    assert (config.learner.environments, config.learner.unroll) == (32, 128)
    weights = (objective.reconstruction, objective.policy, objective.baseline)
    assert weights == ((1.0, 0.1, 1.0) if memory == "trxl" else (0.3, 0.3, 0.3))
    assert objective.entropy == 1e-4
    assert config.optimiser.learning_rate == 2e-4
    assert config.task.level_names(config.task.make()) == TRAINING_LEVELS


def test_memories_of_the_paper():
    hcam, trxl = (RECIPE.preset("paper", memory).agent.memory for memory in ("hcam", "trxl"))
    assert (hcam.chunk, hcam.overlap, hcam.top_k) == (16, 0, 16)
    assert LONGEST == 1800
    assert hcam.slots > LONGEST // 16
    assert trxl.window == 256 + 128


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("preset", ["quickstart", "fast", "paper"])
def test_every_preset_knows_every_memory(preset, memory):
    config = RECIPE.preset(preset, memory)
    assert type(config.agent.memory) is MEMORIES[memory]
    assert config.learner.unroll % config.objective.reconstruct_every == 0


@pytest.mark.parametrize("name", PRINTED)
def test_experiments_have_the_printed_numbers(name):
    experiment = RECIPE.find(name)
    printed = dict(zip(ROWS, PRINTED[name], strict=True))
    assert {level: (told.mean, told.deviation) for level, told in experiment.paper.items()} == printed
    assert RECIPE.levels(experiment) == (*TRAINING_LEVELS, *EASY_LEVELS, *HELD_OUT_LEVELS)


def test_sections_show_every_experiment_on_every_level():
    assert all(section.experiments == tuple(PRINTED) for section in SECTIONS)
    assert [level for section in SECTIONS for level in section.levels] == [*TRAINING_LEVELS, *HELD_OUT_LEVELS]


@pytest.mark.parametrize("preset", ["quickstart", "paper"])
def test_nothing_is_forgotten(preset):
    config = RECIPE.preset(preset)
    env = config.task.make()
    longest = max(env.max_steps_in_episode(level) or 0 for level in config.task.level_names(env))
    assert config.agent.memory.chunk * config.agent.memory.slots >= longest


def test_local_attention_does_not_solve_the_quickstart():
    """A pause and one step for each distractor lie between the last name and the first frame of the test."""
    config = RECIPE.preset("quickstart", "none")
    level = parse(config.task.levels[0])
    since = 1 + level.distractors  # the last frame of the pause, a frame for each distractor
    assert config.agent.memory.layers * (config.agent.memory.window - 1) < since
