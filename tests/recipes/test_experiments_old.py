from pathlib import Path

import pytest
from hcam.experiments import BALLET, Experiment, Reported, find, of_task, options
from hcam.presets import preset

from hcam.cli.train import parse
from hcam.config import differences
from hcam.envs import choreography

FOLDER = Path("results/ballet/x-0")

# What each experiment is about: all that differs from the preset.
CHANGES = {
    "hcam": set(),
    "trxl": set(),
    "lstm": set(),
    "hcam-246": {"task.levels"},
    "hcam-k1": {"agent.memory.top_k"},
    "hcam-norec": {"loss.reconstruction"},
    "hcam-chunk16": {"agent.memory.chunk", "agent.memory.slots"},
    "hcam-chunk64": {"agent.memory.chunk", "agent.memory.slots"},
    "hcam-gated": {"agent.memory.gated"},
    "trxl-topk": {"agent.memory.trxl_top_k"},
}


def test_names_tell_them_apart():
    assert [experiment.name for experiment in BALLET] == list(CHANGES)
    assert len({experiment.title for experiment in BALLET}) == len(BALLET)


@pytest.mark.parametrize("experiment", BALLET, ids=lambda experiment: experiment.name)
def test_the_command_line_takes_them(experiment: Experiment):
    args = parse(experiment.train(FOLDER, 7))
    assert (args.preset, args.run, args.config.run.seed) == ("fast", FOLDER, 7)
    memory = args.config.agent.memory
    base = preset("fast", memory=memory.memory)
    assert set(differences(base, args.config)) - {"run.seed", "agent.dtype"} == CHANGES[experiment.name]
    assert (args.config.task.levels or choreography.PAPER_LEVELS) + experiment.evaluate == experiment.levels
    if memory.memory == "hcam":  # the longest dances fit, and in every experiment as many steps
        levels = [choreography.parse(level) for level in experiment.levels]
        assert memory.slots * memory.chunk == 576 > max(choreography.choice_time(lv.dancers, lv.delay) for lv in levels)


@pytest.mark.parametrize("experiment", BALLET, ids=lambda experiment: experiment.name)
def test_each_says_what_the_paper_reports(experiment: Experiment):
    assert experiment.paper or experiment.said
    assert set(experiment.paper) <= set(experiment.levels)
    assert all(0 < reported.mean <= 100 for reported in experiment.paper.values())
    assert all(level not in choreography.PAPER_LEVELS or level[0] == "8" for level in experiment.evaluate)


def test_commands_are_whole():
    assert find("ballet", "hcam-k1").commands(FOLDER, 3, ["--steps", "9"]) == [
        "hcam train --preset fast --top-k 1 --steps 9 --seed 3 --run results/ballet/x-0"
    ]
    _, second = find("ballet", "hcam-246").commands(FOLDER, 0)
    assert second == (
        "hcam eval results/ballet/x-0 --level 8_delay16 8_delay48 --out results/ballet/x-0/eval-other-levels.json"
    )


def test_options_by_the_names_of_their_settings():
    assert options(("--top-k", "1", "--levels", "a", "b", "--flag")) == {
        "top_k": ("1",), "levels": ("a", "b"), "flag": ()
    }  # fmt: skip
    assert find("ballet", "hcam").options == {"memory": ("hcam",)}
    assert find("ballet", "trxl-topk").options == {"memory": ("trxl",), "trxl_top_k": ("16",)}


def test_numbers_as_the_paper_prints_them():
    assert str(Reported(99.8, 0.3)) == "99.8 ± 0.3"
    assert str(Reported(49.2, 13.0)) == "49.2 ± 13.0"
    assert str(Reported(90.0)) == "at least 90"


def test_what_there_is_not_is_refused():
    with pytest.raises(ValueError, match="no experiments for 'waltz': there are some for ballet"):
        of_task("waltz")
    with pytest.raises(ValueError, match="no experiment 'k1' for ballet: there are hcam, trxl"):
        find("ballet", "k1")
