"""`paper` against the published table, experiments against the paper's numbers, and the reasoning of the quickstart."""

from typing import Any

import pytest

from hcam.envs.tasks.streets.cities import TEST_CITIES, TRAIN_CITIES
from hcam.envs.tasks.streets.levels import SYMBOLS, parse
from hcam.recipes.streets import EXPERIMENTS, RECIPE, SECTIONS, slots


@pytest.mark.parametrize(("memory", "weights"), [("hcam", (1.0, 0.3, 0.3)), ("trxl", (1.0, 1.0, 1.0))])
def test_paper_is_the_published_table(memory, weights):
    """Appendix A.2: the columns of Streets."""
    config = RECIPE.preset("paper", memory)
    objective, optimiser = config.objective, config.optimiser
    assert (config.agent.memory.width, config.agent.memory.layers, config.agent.heads.hidden) == (512, 4, 512)
    assert (objective.policy, objective.baseline, objective.reconstruction) == weights
    assert (objective.entropy, optimiser.learning_rate) == (1e-4, 4e-4)
    assert (config.learner.environments, config.learner.unroll) == (32, 64)
    assert config.agent.encoder.vision == "resnet"


def test_paper_has_the_published_memories():
    memory = RECIPE.preset("paper").agent.memory
    assert (memory.chunk, memory.overlap, memory.top_k) == (4, 1, 32)
    assert RECIPE.preset("paper", "trxl").agent.memory.window == 200


def test_paper_plays_the_published_rules_with_images():
    config = RECIPE.preset("paper")
    env: Any = config.task.make()
    assert (env.observation, env.side) == ("pixels", 84)
    assert config.task.level_names(env) == ("train",)
    assert env.smaller(["train"]) == []


def test_fast_is_narrower_and_one_hot():
    config = RECIPE.preset("fast")
    assert config.agent.memory.width == config.agent.heads.hidden == 256
    env: Any = config.task.make()
    assert env.observation == "one_hot"


@pytest.mark.parametrize("preset", ["quickstart", "fast", "paper"])
def test_nothing_is_forgotten_and_the_last_action_is_seen(preset):
    """What an action led to can only be remembered by one who knows the action."""
    config = RECIPE.preset(preset)
    env: Any = config.task.make()
    longest = max(env.max_steps_in_episode(level) for level in config.task.level_names(env))
    assert config.agent.memory.slots == slots(longest)
    assert config.agent.memory.stride * config.agent.memory.slots >= longest
    assert RECIPE.preset(preset, "trxl").agent.memory.window == longest
    transitions = longest if preset != "quickstart" else 3 * SYMBOLS[1]  # of as many states, all there are
    assert RECIPE.preset(preset, "epn").agent.memory.items >= transitions
    assert config.agent.encoder.last_action


def test_the_quickstart_learns_from_the_expert():
    assert RECIPE.preset("quickstart").objective.objective == "cross_entropy"


def test_experiments_have_the_printed_numbers_and_are_evaluated_in_other_cities():
    found = {experiment.name: experiment for experiment in EXPERIMENTS}
    told = {name: found[name].paper["test"] for name in ("hcam", "trxl")}
    assert {name: (number.mean, number.deviation) for name, number in told.items()} == {
        "hcam": (26.8, 0.44),
        "trxl": (19.9, 0.65),
    }
    assert list(found) == ["hcam", "trxl", "epn", "none"]
    for experiment in EXPERIMENTS:
        assert experiment.evaluate == ("test",)
        assert RECIPE.levels(experiment) == ("train", "small_train", "quick_train", "test")
    assert SECTIONS[0].experiments == tuple(found)
    assert parse("train").cities == TRAIN_CITIES
    assert parse("test").cities == TEST_CITIES


@pytest.mark.parametrize("memory", ["hcam", "none"])
def test_local_attention_reaches_a_fraction_of_an_episode(memory):
    config = RECIPE.preset("quickstart", memory)
    window = config.agent.memory.window or config.agent.memory.chunk
    assert config.agent.memory.layers * (window - 1) < parse("quick_train").steps / 4
