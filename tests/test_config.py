"""A configuration survives JSON, says where it differs from another, and refuses what makes no sense."""

import json
import re
from dataclasses import dataclass, replace
from typing import Any, Literal

import pytest

from hcam import recipes
from hcam.agent import AgentConfig, memories
from hcam.agent.encoder import EncoderConfig
from hcam.agent.heads import HeadsConfig
from hcam.config import Config, RunConfig, TaskConfig, differences, from_json, override, read, to_json
from hcam.envs.levels import Mixture
from hcam.learning.learner import LearnerConfig
from hcam.learning.objectives import ObjectiveConfig
from hcam.learning.optimiser import OptimiserConfig
from hcam.memory import HCAM, LSTM, MEMORIES, TrXL, checks
from hcam.runs.folder import RunFolder

BALLET = Config(task=TaskConfig(task="ballet"))
QUICKSTART = recipes.every()["ballet"].preset("quickstart")


@dataclass(frozen=True)
class Own(HCAM):
    """A memory of one's own, at the top of a module."""

    extra: int = 3

    def build(self, dtype: str) -> Any:
        raise NotImplementedError


def through_json(config: Config) -> Config:
    return from_json(json.loads(json.dumps(to_json(config), allow_nan=False)))


def values(config: Config = BALLET) -> Any:
    """What a file has, to be changed."""
    return json.loads(json.dumps(to_json(config)))


# To JSON and back -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize(("task", "name"), [(t, n) for t, recipe in recipes.every().items() for n in recipe.presets])
def test_every_preset_survives_json(task, name, memory):
    config = recipes.every()[task].preset(name, memory)
    back = through_json(config)
    assert back == config  # lists have become tuples again
    assert memories.find(memories.name_of(config.agent.memory)) is type(back.agent.memory)


@pytest.mark.parametrize("memory", MEMORIES)
def test_general_settings_survive_json(memory):
    task = TaskConfig(task="first_symbol", levels=("blanks3",), options={"symbols": 5})
    config = recipes.preset(recipes.GENERAL, task, task.make(), memory)
    assert through_json(config) == config


def test_odd_values_survive_json():
    config = Config(
        task=TaskConfig(
            task="ballet", levels=("2_delay16", "4_delay16"), weights=(1, 0.25), options={"tile": 3, "more": [1, None]}
        ),
        agent=AgentConfig(memory=TrXL(gated=False, top_k=16, window=99), dtype="bfloat16"),
        objective=ObjectiveConfig(objective="cross_entropy", lambda_=0.5),
        run=RunConfig(steps=10**12, log_every=0.25),
    )
    assert through_json(config) == config


def test_a_memory_of_one_s_own_survives_json():
    config = replace(BALLET, agent=AgentConfig(memory=Own(width=64, extra=5)))
    assert to_json(config)["agent"]["memory"]["memory"] == "tests.test_config:Own"
    assert through_json(config) == config


def test_the_memory_s_name_stands_with_its_settings():
    saved = to_json(replace(BALLET, agent=AgentConfig(memory=LSTM(width=64))))
    assert list(saved["agent"]["memory"])[:2] == ["memory", "width"]
    assert saved["agent"]["memory"]["memory"] == "lstm"
    assert saved["agent"]["memory"]["width"] == 64


def test_a_run_folder_tells_its_configuration(tmp_path):
    """Beside the settings it has facts for figures."""
    facts: dict[str, object] = {"chance": {"2_delay5_of4": 0.5}, "titles": {"2_delay5_of4": "2 dances"}}
    facts |= {"scored_by": "return", "oracle": {"2_delay5_of4": 1.0}}
    RunFolder.create(tmp_path / "run", to_json(QUICKSTART) | facts).close()
    assert read(tmp_path / "run") == QUICKSTART


def test_settings_that_this_version_does_not_know_are_refused():
    for change in (("agent", "memory"), ("agent", "encoder"), ("learner",), ()):
        saved = values()
        part = saved
        for name in change:
            part = part[name]
        part["colour"] = 1
        sentence = "config.json has settings that this version of hcam lacks: colour."
        with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
            from_json(saved)


def test_settings_that_the_file_lacks_have_their_defaults():
    saved = values(QUICKSTART)
    del saved["task"]["weights"], saved["objective"]["lambda_"], saved["agent"]["memory"]["positions"]
    assert from_json(saved) == QUICKSTART
    assert from_json({"task": {"task": "ballet"}}) == BALLET


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"learner": {"unroll": 0}}, "unroll must be a whole number of at least 1, but is 0."),
        ({"run": {"steps": "many"}}, "steps must be a whole number, but is 'many'."),
        ({"run": {"steps": [5]}}, "steps must be a whole number, but is (5,)."),
        ({"run": {"log_every": None}}, "log_every must be a finite number, but is None."),
        (
            {"task": {"task": "ballet", "levels": "2_delay16"}},
            "levels must be a tuple, each of it a text, but is '2_del",
        ),
        ({"task": {"task": "ballet", "options": [1]}}, "options must be a dict, but is (1,)."),
        ({"agent": {"memory": {"memory": "waltz"}}}, "there is no memory 'waltz': choose from hcam"),
        ({"agent": {"memory": {"width": -1}}}, "width must be a whole number of at least 1, but is -1."),
        ({"agent": {"memory": "lstm"}}, "config.json is damaged: memory must be an object, but is "),
        ({"agent": [1, 2]}, "config.json is damaged: agent must be an object, but is "),
        ({"learner": 7}, "config.json is damaged: learner must be an object, but is "),
        (
            {"task": {}},
            "config.json is damaged: TaskConfig.__init__() missing 1 required keyword-only argument: 'task'.",
        ),
    ],
)
def test_values_are_checked_on_the_way_back_as_well(change, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}[^\n]*$"):
        from_json({"task": {"task": "ballet"}} | change)


@pytest.mark.parametrize("wrong", [None, 3, "config", [1]])
def test_what_is_no_object_is_refused(wrong):
    with pytest.raises(ValueError, match=r"^config\.json is damaged: config must be an object, but is [^\n]+\.$"):
        from_json(wrong)


# Changes and differences ----------------------------------------------------------------------------------------------


def test_settings_are_changed_by_their_path():
    changes = {"agent.memory.top_k": 1, "run.seed": 7, "task.levels": ("8_delay48",), "agent.dtype": "float32"}
    changed = override(BALLET, changes)
    assert changed.agent.memory == HCAM(top_k=1)
    assert (changed.run.seed, changed.task.levels, changed.agent.dtype) == (7, ("8_delay48",), "float32")
    assert differences(BALLET, changed) == ["task.levels", "agent.memory.top_k", "agent.dtype", "run.seed"]
    assert override(BALLET, {}) == BALLET
    assert BALLET.agent.memory == HCAM()  # as it was


def test_changed_settings_are_checked():
    with pytest.raises(ValueError, match="top-k is 65, but there are only 64 slots"):
        override(BALLET, {"agent.memory.top_k": 65})


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("agent.memory.colour", "there is no setting agent.memory.colour: HCAM has no colour."),
        ("loss.policy", "there is no setting loss.policy: Config has no loss."),
        ("run.seed.deep", "there is no setting run.seed.deep: int has no deep."),
        ("", "there is no setting : Config has no ."),
    ],
)
def test_a_setting_that_there_is_not(path, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        override(BALLET, {path: 1})


def test_differences_are_named_by_their_path():
    two = replace(
        BALLET,
        agent=replace(BALLET.agent, memory=HCAM(width=64, heads=4), dtype="float32"),
        run=RunConfig(seed=1),
        task=TaskConfig(task="ballet", options={"tile": 1}),
    )
    assert differences(BALLET, BALLET) == []
    assert differences(BALLET, two) == [
        "task.options",
        "agent.memory.width",
        "agent.memory.heads",
        "agent.dtype",
        "run.seed",
    ]


def test_another_memory_is_one_difference():
    assert differences(BALLET, replace(BALLET, agent=AgentConfig(memory=LSTM()))) == ["agent.memory"]


@pytest.mark.parametrize(("steps", "updates"), [(1, 1), (11, 1), (12, 1), (13, 2), (24, 2), (25, 3)])
def test_updates_are_rounded_up(steps, updates):
    config = replace(BALLET, learner=LearnerConfig(environments=3, unroll=4), run=RunConfig(steps=steps))
    assert config.steps_per_update == 12
    assert config.updates == updates


# Tasks ----------------------------------------------------------------------------------------------------------------


def test_a_task_makes_its_environment():
    task = TaskConfig(task="ballet", levels=("2_delay16", "1_delay0"), weights=(1, 3), options={"tile": 3})
    env: Any = task.make()
    assert env.observation_space["image"].shape == (33, 33, 3)
    params = task.params(env)
    assert params.level_l.dancers.tolist() == [2, 1]
    assert (params.weight_l[1] / params.weight_l[0]).tolist() == 3
    assert task.level_names(env) == ("2_delay16", "1_delay0")
    full: Any = TaskConfig(task="ballet").make()
    assert full.observation_space["image"].shape == (99, 99, 3)


@pytest.mark.parametrize(
    ("task", "names"),
    [
        ("ballet", ("2_delay16", "4_delay16", "8_delay16", "2_delay48", "4_delay48", "8_delay48")),
        ("first_symbol", ("blanks8",)),
        ("echo", ("echo",)),
        ("hcam.envs.probes:Echo", ("Echo",)),
    ],
)
def test_there_is_a_name_for_every_level_that_the_environment_numbers(task, names):
    config = TaskConfig(task=task)
    env = config.make()
    assert config.level_names(env) == names
    params = config.params(env)
    assert (params.weight_l.size if isinstance(params, Mixture) else 1) == len(names)


def test_one_level_alone():
    """By a name that the task trains on, or any other that the environment knows."""
    config = TaskConfig(task="ballet", levels=("2_delay16", "4_delay16"), weights=(0, 1))
    env = config.make()
    for level, dancers in (("2_delay16", 2), ("8_delay48", 8)):
        params = config.level_params(env, level)
        assert params.level_l.dancers.tolist() == [dancers]
        assert params.weight_l.tolist() == [1.0]
    with pytest.raises(ValueError, match="there is no Ballet level '9_delay16'"):
        config.level_params(env, "9_delay16")


def test_the_only_level_of_a_task_without_levels():
    config = TaskConfig(task="echo")
    env = config.make()
    assert config.level_params(env, "echo") == ()
    with pytest.raises(ValueError, match="Echo level 'hard': it has no levels"):
        config.level_params(env, "hard")


@pytest.mark.parametrize(
    ("task", "sentence"),
    [
        (
            TaskConfig(task="chess"),
            "there is no task 'chess': choose from ballet, match, objects, pai, planning, streets, words, constant",
        ),
        (TaskConfig(task="echo", options={"tile": 1}), "echo has no option tile: choose from symbols."),
        (TaskConfig(task="echo", weights=(1.0,)), "Echo has no levels to weigh: leave out weights."),
        (TaskConfig(task="ballet", levels=("9_delay16",)), "there is no Ballet level '9_delay16'"),
        (TaskConfig(task="ballet", weights=(1.0,)), "6 levels need as many weights, but there are 1"),
        (TaskConfig(task="echo", levels=("hard",)), "there is no Echo level 'hard': it has no levels."),
    ],
)
def test_tasks_that_do_not_exist_are_refused(task, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        task.params(task.make())


# Refusals -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"steps": 0}, "steps must be a whole number of at least 1, but is 0."),
        ({"steps": 1e6}, "steps must be a whole number, but is 1000000.0."),
        ({"seeds": 0}, "seeds must be a whole number of at least 1, but is 0."),
        ({"keep": 0}, "keep must be a whole number of at least 1, but is 0."),
        ({"keep": True}, "keep must be a whole number, but is True."),
        ({"eval_episodes": -1}, "eval_episodes must be a whole number of at least 1, but is -1."),
        ({"log_every": 0.0}, "log_every and save_every are seconds, but are 0.0 and 120.0."),
        ({"save_every": -1}, "log_every and save_every are seconds, but are 5.0 and -1."),
        ({"save_every": float("nan")}, "save_every must be a finite number, but is nan."),
        ({"log_every": float("inf")}, "log_every must be a finite number, but is inf."),
        ({"seed": -1}, "seed must be from 0 to 2,147,483,646, but is -1."),
        ({"seed": 2**31}, "seed must be from 0 to 2,147,483,646, but is 2147483648."),
        ({"seed": 2**31 - 4, "seeds": 4}, "seed must be from 0 to 2,147,483,643, but is 2147483644."),
    ],
)
def test_bad_runs_are_refused(wrong, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        RunConfig(**wrong)


def test_the_largest_seeds_fit():
    assert RunConfig(seed=2**31 - 2).seed == 2**31 - 2
    assert RunConfig(seed=2**31 - 5, seeds=4).seeds == 4


def test_minibatches_split_the_environments_evenly():
    sentence = "32 environments cannot be split evenly into 5 minibatches."
    with pytest.raises(ValueError, match=re.escape(sentence)):
        LearnerConfig(minibatches=5)
    assert LearnerConfig(environments=32, minibatches=4, epochs=3).gradient_steps == 12


@pytest.mark.parametrize(
    ("kind", "wrong", "sentence"),
    [
        (TaskConfig, {"task": 3}, "task must be a text, but is 3."),
        (TaskConfig, {"task": "x", "levels": ["a"]}, "levels must be a tuple, each of it a text, but is ['a']."),
        (TaskConfig, {"task": "x", "weights": (1, "b")}, "weights must be a tuple, each of it a finite number, but is"),
        (TaskConfig, {"task": "x", "weights": (float("inf"),)}, "weights must be a tuple, each of it a finite number"),
        (TaskConfig, {"task": "x", "options": None}, "options must be a dict, but is None."),
        (LearnerConfig, {"curriculum": 1}, "curriculum must be True or False, but is 1."),
        (LearnerConfig, {"unroll": 2.0}, "unroll must be a whole number, but is 2.0."),
        (OptimiserConfig, {"schedule": None}, "schedule must be one of 'constant', 'linear', 'cosine', but is None."),
        (OptimiserConfig, {"epsilon": "1e-8"}, "epsilon must be a finite number, but is '1e-8'."),
        (HeadsConfig, {"hidden": "wide"}, "hidden must be a whole number, but is 'wide'."),
        (EncoderConfig, {"vision": True}, "vision must be one of 'cnn', 'resnet', but is True."),
        (AgentConfig, {"heads": 64}, "heads must be a HeadsConfig, but is 64."),
        (Config, {"task": "ballet"}, "task must be a TaskConfig, but is 'ballet'."),
        (Config, {"task": BALLET.task, "run": {}}, "run must be a RunConfig, but is {}."),
    ],
)
def test_every_value_has_the_type_that_it_is_declared_with(kind, wrong, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}[^\n]*$"):
        kind(**wrong)


@dataclass(frozen=True)
class Kinds:
    size: int | None = None
    mode: Literal["a", 1] = "a"
    pair: tuple[int, ...] | str = ()
    anything: Any = None
    numbers: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        checks.typed(self)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"size": "x"}, "size must be a whole number or None, but is 'x'."),
        ({"mode": True}, "mode must be one of 'a', 1, but is True."),  # which equals 1
        ({"pair": 3}, "pair must be a tuple, each of it a whole number or a text, but is 3."),
        ({"numbers": []}, "numbers must be a dict or None, but is []."),
    ],
)
def test_types_are_spelled_in_plain_words(wrong, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        Kinds(**wrong)
    Kinds(size=3, mode=1, pair=(1, 2), anything=object(), numbers={})
