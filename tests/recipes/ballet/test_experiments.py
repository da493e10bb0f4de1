"""Experiments against the paper's words and numbers, and how they are shown."""

from typing import Any

import pytest

from hcam import agent
from hcam.config import differences
from hcam.envs.tasks.ballet.choreography import PAPER_LEVELS, choice_time, parse
from hcam.memory import HCAM, TrXL
from hcam.recipes import Experiment
from hcam.recipes.ballet import RECIPE, SECTIONS
from hcam.recipes.ballet.experiments import ANY_DELAY, FOUR_DELAYS

# What each experiment is about: all that differs from the preset.
CHANGES: dict[str, set[str]] = {
    "hcam": set(),
    "trxl": set(),
    "lstm": {"learner.unroll", "learner.minibatches", "objective.entropy"},
    "hcam-246": {"task.levels"},
    "trxl-246": {"task.levels"},
    "hcam-k1": {"agent.memory.top_k"},
    "hcam-norec": {"objective.reconstruction"},
    "hcam-chunk16": {"agent.memory.chunk", "agent.memory.slots"},
    "hcam-chunk64": {"agent.memory.chunk", "agent.memory.slots"},
    "hcam-gated": {"agent.memory.gated"},
    "trxl-topk": {"agent.memory.top_k"},
    "hcam-delays": {"task.levels", "run.steps"},
    "trxl-delays": {"task.levels", "run.steps"},
    "trxl-wide": {"agent.memory.width"},
    "trxl-deep": {"agent.memory.layers"},
    **{
        f"{memory}-rate{rate}-entropy{entropy}": {"optimiser.learning_rate", "objective.entropy", "run.steps"}
        for rate in ("0.00075", "7.5e-05", "1.5e-05")
        for entropy in ("0.05", "0.002")
        for memory in ("hcam", "trxl")
    },
}


def test_names_tell_experiments_apart():
    assert [experiment.name for experiment in RECIPE.experiments] == list(CHANGES)
    assert len({experiment.title for experiment in RECIPE.experiments}) == len(RECIPE.experiments)


@pytest.mark.parametrize("experiment", RECIPE.experiments, ids=lambda experiment: experiment.name)
def test_every_experiment_is_a_valid_configuration(experiment: Experiment):
    """It differs from its preset in what it is about, and its environment and agent can be built."""
    config = RECIPE.config(experiment, seed=7)
    assert config.run.seed == 7
    base = RECIPE.preset("fast", experiment.memory)
    assert set(differences(base, config)) - {"run.seed"} == CHANGES[experiment.name]
    assert set(experiment.overrides) == CHANGES[experiment.name]
    env, memory = config.task.make(), config.agent.memory
    agent.make(config.agent, env)
    levels = RECIPE.levels(experiment)
    assert config.task.level_names(env) + experiment.evaluate == levels
    if isinstance(memory, HCAM):  # the longest dances fit, and in every experiment as many steps
        known = [parse(level) for level in levels if experiment.slots is None or level not in experiment.evaluate]
        assert memory.slots * memory.chunk == 576 > max(choice_time(level.dancers, level.delay) for level in known)


@pytest.mark.parametrize("experiment", RECIPE.experiments, ids=lambda experiment: experiment.name)
def test_each_says_what_the_paper_reports(experiment: Experiment):
    said_of_all = [section.experiments for section in SECTIONS if "The paper: " in section.text]
    assert experiment.paper or experiment.quote or any(experiment.name in names for names in said_of_all)
    assert set(experiment.paper) <= set(RECIPE.levels(experiment))
    assert all(0 < reported.mean <= 100 for reported in experiment.paper.values())
    assert all(level not in PAPER_LEVELS or level[0] == "8" for level in experiment.evaluate)
    assert not set(experiment.evaluate) & set(RECIPE.config(experiment).task.levels)


def test_larger_transformers_have_twice_the_width_or_the_depth():
    plain, wide, deep = (RECIPE.config(RECIPE.find(name)).agent.memory for name in ("trxl", "trxl-wide", "trxl-deep"))
    assert (wide.width, wide.layers) == (2 * plain.width, plain.layers)
    assert (deep.width, deep.layers) == (plain.width, 2 * plain.layers)


def test_other_delays_cut_dances_where_training_did_not():
    """The paper's delays begin each dance within a step or two of a chunk's boundary; the two between them do not."""
    chunk, dance = 32, choice_time(2, 0) // 2
    begins = {delay: (dance + delay) % chunk for delay in (16, 27, 37, 48)}
    assert all(min(begins[delay], chunk - begins[delay]) <= 1 for delay in (16, 48))
    assert all(min(begins[delay], chunk - begins[delay]) > 4 for delay in (27, 37))
    assert not {parse(level).delay for level in ANY_DELAY} & set(begins)


def test_the_sweep_has_the_published_factors():
    """Learning rates 5e-4, 5e-5 and 1e-5 around 2e-4, entropy weights times 5 and over 5, for HCAM and TrXL alike."""
    sweep = [RECIPE.config(one) for one in RECIPE.experiments if "-rate" in one.name]
    factors: dict[str, set[Any]] = {"hcam": set(), "trxl": set()}
    for config in sweep:
        memory = {HCAM: "hcam", TrXL: "trxl"}[type(config.agent.memory)]
        plain = RECIPE.preset("fast", memory)
        rate = config.optimiser.learning_rate / plain.optimiser.learning_rate
        factors[memory].add((round(rate, 3), round(config.objective.entropy / plain.objective.entropy, 3)))
        assert config.run.steps == plain.run.steps / 4
    assert factors["hcam"] == factors["trxl"] == {(rate, by) for rate in (2.5, 0.25, 0.05) for by in (5.0, 0.2)}


# Appendix "Detailed results", "Numerical results from main experiments/figures", rows of Ballet.
NUMBERS = {
    "hcam": {"2_delay16": (99.8, 0.3), "8_delay16": (98.1, 3.3), "8_delay48": (97.2, 2.5)},
    "trxl": {"2_delay16": (96.9, 1.4), "8_delay16": (65.7, 13.7), "8_delay48": (49.2, 13.0)},
    "lstm": {"2_delay16": (97.4, 1.8), "8_delay16": (25.2, 2.7), "8_delay48": (29.7, 9.4)},
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_the_published_ones(name):
    found = RECIPE.find(name).paper
    assert {level: (reported.mean, reported.deviation) for level, reported in found.items()} == NUMBERS[name]


def test_sections_show_every_experiment_once():
    shown = [name for section in SECTIONS for name in section.experiments]
    assert sorted(shown) == sorted(CHANGES)
    for section in SECTIONS:
        levels = {level for name in section.experiments for level in RECIPE.levels(RECIPE.find(name))}
        assert set(section.levels) <= levels
        assert levels - set(section.levels) <= {level for level in FOUR_DELAYS if level[0] != "8"}
        assert section.hardest in section.levels
        assert set(section.beside) <= set(CHANGES) - set(section.experiments)
    assert len({section.figure for section in SECTIONS}) == len(SECTIONS)


def test_levels_to_try_are_known_and_new():
    env = RECIPE.preset("quickstart").task.make()
    for level in RECIPE.try_levels:
        assert env.chance(level)
        assert level not in RECIPE.preset("quickstart").task.levels
