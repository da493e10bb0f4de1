"""Run folders of format 1 are read as if they were of format 2: made up ones, and all that are in the repository."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from hcam.config import RunConfig, TaskConfig, differences, from_json, read, to_json
from hcam.learning.metrics import DIAGNOSTICS
from hcam.memory import HCAM, LSTM, MEMORIES, Local, TrXL
from hcam.recipes.ballet import RECIPE
from hcam.runs import migrate
from hcam.runs.folder import RunFolder, read_config, read_metrics

ROOT = Path(__file__).resolve().parents[2]

# What hcam wrote into config.json before format 2: one dataclass had the settings of all memories.
MEMORY: dict[str, Any] = {
    "memory": "hcam", "width": 64, "layers": 2, "heads": 4, "chunk": 16, "slots": 8, "top_k": 2, "overlap": 1,
    "window": None, "gated": None, "trxl_top_k": None, "mlp": 2,
}  # fmt: skip
OLD: dict[str, Any] = {
    "task": {"task": "ballet", "levels": ["2_delay5_of4"], "weights": [1.0], "tile": 1},
    "agent": {
        "encoder": {
            "vision": "cnn", "channels": [8], "filters": [1], "strides": [1], "blocks": [1], "language": 32, "word": 16,
            "last_action": True,
        },
        "memory": MEMORY,
        "heads": {"hidden": 64},
        "dtype": "float32",
    },
    "learner": {"environments": 64, "unroll": 32, "minibatches": 4, "epochs": 1, "curriculum": False},
    "loss": {
        "discount": 0.95, "policy": 1.0, "baseline": 0.5, "entropy": 0.01, "reconstruction": 0.5,
        "reconstruct_every": 4, "max_rho": 2.0, "max_c": 1.5, "trace": 0.75,
    },
    "optimiser": {
        "learning_rate": 0.001, "schedule": "linear", "warmup": 3, "clip": 1.0, "beta_1": 0.9, "beta_2": 0.999,
        "epsilon": 1e-08,
    },
    "run": {
        "steps": 5000000, "seed": 3, "seeds": 2, "log_every": 5.0, "save_every": 60.0, "keep": 3, "eval_episodes": 500,
    },
    "chance": {"2_delay5_of4": 0.5},
}  # fmt: skip


def with_memory(**changes: Any) -> dict[str, Any]:
    return OLD | {"agent": OLD["agent"] | {"memory": MEMORY | changes}}


def migrated(old: dict[str, Any]) -> Any:
    new = migrate.config(old)
    new.pop("chance", None)
    return from_json(new)


# Settings -------------------------------------------------------------------------------------------------------------


def test_every_setting_has_its_present_name():
    """All of them by value, none lost and none left at a default by mistake."""
    config = migrated(OLD)
    assert config.task == TaskConfig(task="ballet", levels=("2_delay5_of4",), weights=(1.0,), options={"tile": 1})
    encoder, objective = config.agent.encoder, config.objective
    assert (encoder.vision, encoder.channels, encoder.kernel_sizes, encoder.strides) == ("cnn", (8,), (1,), (1,))
    assert (encoder.language, encoder.word, encoder.last_action) == (32, 16, True)
    assert (config.agent.heads.hidden, config.agent.dtype) == (64, "float32")
    assert (config.learner.environments, config.learner.unroll, config.learner.minibatches) == (64, 32, 4)
    assert (objective.objective, objective.discount, objective.policy, objective.baseline) == ("vtrace", 0.95, 1.0, 0.5)
    assert (objective.entropy, objective.reconstruction, objective.reconstruct_every) == (0.01, 0.5, 4)
    assert (objective.max_rho, objective.max_c, objective.lambda_) == (2.0, 1.5, 0.75)
    assert (config.optimiser.schedule, config.optimiser.warmup) == ("linear", 3)
    assert config.run == RunConfig(steps=5_000_000, seed=3, seeds=2, save_every=60.0)


SIZES: dict[str, Any] = {"width": 64, "layers": 2, "heads": 4, "mlp": 2}
CHUNKS: dict[str, Any] = {"chunk": 16, "slots": 8, "top_k": 2, "overlap": 1}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, HCAM(**SIZES, **CHUNKS)),
        ({"window": 3, "gated": True}, HCAM(**SIZES, **CHUNKS, window=3, gated=True)),
        ({"memory": "trxl"}, TrXL(**SIZES, window=320, gated=True)),
        ({"memory": "trxl", "window": 64, "gated": False}, TrXL(**SIZES, window=64, gated=False)),
        ({"memory": "trxl", "trxl_top_k": 16}, TrXL(**SIZES, window=320, top_k=16)),
        ({"memory": "lstm"}, LSTM(width=64, layers=2)),
        ({"memory": "lstm", "gated": True, "window": 3}, LSTM(width=64, layers=2)),  # which it did not use
        ({"memory": "none"}, Local(**SIZES, window=16)),  # a chunk
        ({"memory": "none", "window": 3, "gated": True}, Local(**SIZES, window=3, gated=True)),
    ],
)
def test_every_memory_has_its_own_settings(changes, expected):
    """Those that it had, by what they meant: a window of None was 320 for TrXL and a chunk for all others."""
    assert migrated(with_memory(**changes)).agent.memory == expected


@pytest.mark.parametrize("memory", ["hcam", "trxl", "lstm", "none"])
def test_a_folder_of_format_1_is_read_and_left_as_it_is(tmp_path, memory):
    content = json.dumps({"config": with_memory(memory=memory), "made_by": {"hcam": "0.1.0"}})
    (tmp_path / "config.json").write_text(content)
    config = read(tmp_path)
    assert type(config.agent.memory) is MEMORIES[memory]
    assert read_config(tmp_path)["chance"] == {"2_delay5_of4": 0.5}
    assert (tmp_path / "config.json").read_text() == content


def test_a_folder_of_format_2_is_not_migrated(tmp_path):
    config = RECIPE.preset("quickstart", "none")
    RunFolder.create(tmp_path / "run", to_json(config)).close()
    assert json.loads((tmp_path / "run" / "config.json").read_text())["format"] == migrate.FORMAT == 2
    assert read(tmp_path / "run") == config


def test_tile_becomes_an_option_where_it_was_given():
    assert migrate.config({"task": {"task": "ballet", "tile": None}})["task"] == {"task": "ballet", "options": {}}
    assert migrate.config({"task": {"task": "ballet"}})["task"] == {"task": "ballet", "options": {}}
    assert migrate.config({"task": {"task": "ballet", "tile": 3}})["task"]["options"] == {"tile": 3}


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"task": None, "agent": 3, "loss": "x"},
        {"agent": {"encoder": [1], "memory": None}},
        {"agent": {}, "loss": {}},
        {"colour": 1},
    ],
)
def test_what_is_odd_is_left_for_the_reader_to_refuse(odd):
    """It is no business of a migration to say what is wrong, and it must not fail on it either."""
    found = migrate.config(odd)
    assert {name: found[name] for name in odd if name not in ("loss", "agent")} == {
        name: value for name, value in odd.items() if name not in ("loss", "agent")
    }
    if not isinstance(odd.get("agent"), dict):
        assert found.get("agent") == odd.get("agent")
    with pytest.raises(ValueError, match=r"^config\.json [^\n]+$"):
        from_json(found)


def test_an_unknown_setting_or_memory_is_refused_by_its_name():
    with pytest.raises(ValueError, match="settings that this version of hcam lacks: colour"):
        migrated(OLD | {"loss": OLD["loss"] | {"colour": 1}})
    with pytest.raises(ValueError, match="there is no memory 'gtrxl'"):
        migrated(with_memory(memory="gtrxl"))


# Rows -----------------------------------------------------------------------------------------------------------------

ROW: dict[str, Any] = {
    "update": 13,
    "steps": 1703936,
    "losses": {"baseline": 0.1, "entropy": -2.0, "image": 0.5, "policy": -0.25},
    "health": {"advantage": 1.0, "drift": 2.0, "drift_first": 3.0, "gradient": 4.0, "rho": 5.0, "rho_first": 6.0},
    "levels": {"2_delay16": {"episodes": 3, "success": 0.5, "return": 0.5, "length": 70.0}},
    "success": 0.5,
}


def test_a_row_has_its_present_names_and_a_positive_entropy():
    assert migrate.row(ROW) == {
        "update": 13,
        "steps": 1703936,
        "losses": {"baseline": 0.1, "image": 0.5, "policy": -0.25},
        "diagnostics": {
            "advantage": 1.0,
            "ratio_deviation": 2.0,
            "ratio_deviation_first": 3.0,
            "gradient_norm": 4.0,
            "ratio": 5.0,
            "ratio_first": 6.0,
            "entropy": 2.0,
        },
        "levels": ROW["levels"],
        "success": 0.5,
    }


def test_a_row_of_format_2_stays_as_it_is():
    """Also where both are in one file: a run that was resumed."""
    new = migrate.row(ROW)
    assert migrate.row(new) == new
    assert migrate.row({"steps": 3, "losses": {"entropy": -1.0}}) == {"steps": 3, "losses": {"entropy": -1.0}}


@pytest.mark.parametrize(
    ("odd", "entropy"),
    [
        (ROW | {"losses": None}, None),
        (ROW | {"losses": {"entropy": None}}, None),  # it was not a number
        (ROW | {"losses": {}}, None),
        ({"health": {}}, None),
        ({"health": {}, "losses": {"entropy": 0}}, 0),
    ],
)
def test_odd_rows_are_read_as_far_as_they_can_be(odd, entropy):
    found = migrate.row(odd)
    assert "health" not in found
    assert found["diagnostics"].get("entropy") == entropy
    assert "entropy" not in (found.get("losses") or {})


# What is there --------------------------------------------------------------------------------------------------------

FOLDERS = sorted(
    path.parent for root in ("results", "hcam/pretrained_agents") for path in (ROOT / root).rglob("config.json")
)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.relative_to(ROOT).as_posix())
def test_every_folder_of_the_repository_is_read(folder):
    """Settings become a configuration that is written down and read again; rows have present names alone."""
    content = json.loads((folder / "config.json").read_bytes())
    old = content["config"]
    given_up = "curriculum" in old  # before format 2 already: no version since has read these settings
    for row in read_metrics(folder):
        assert set(row["diagnostics"]) <= {*DIAGNOSTICS, *(["open"] if given_up else [])}
        assert not set(row["losses"]) & set(DIAGNOSTICS)
        entropy = row["diagnostics"]["entropy"]
        assert entropy is None or entropy >= 0
    if given_up:
        with pytest.raises(ValueError, match="settings that this version of hcam lacks: curriculum"):
            read(folder)
        return
    config = read(folder)
    assert from_json(to_json(config)) == config
    if content.get("format", 1) == 1:
        assert to_json(config)["agent"]["memory"]["memory"] == old["agent"]["memory"]["memory"]
        assert config.agent.memory.width == old["agent"]["memory"]["width"]
        assert config.objective.discount == old["loss"]["discount"]
        assert config.task.options == ({} if old["task"]["tile"] is None else {"tile": old["task"]["tile"]})
        assert config.run.steps == old["run"]["steps"]


@pytest.mark.parametrize(
    ("folder", "experiment"),
    [
        ("results/ballet/hcam-0", "hcam"),
        ("results/ballet/trxl-0", "trxl"),
        ("results/ballet/hcam-246-0", "hcam-246"),
        ("hcam/pretrained_agents/ballet", "hcam"),
    ],
)
def test_published_runs_are_those_of_the_recipe(folder, experiment):
    """What their settings mean has not changed: they differ from the recipe in how often they logged and saved."""
    differ(folder, RECIPE.config(RECIPE.find(experiment)))


def test_a_published_run_has_the_settings_of_a_preset():
    differ("results/ablations/lstm/six-levels", RECIPE.preset("fast", "lstm"))


def differ(folder, wanted):
    changed = set(differences(read(ROOT / folder), wanted))
    assert changed <= {"agent.dtype", "run.log_every", "run.save_every", "run.eval_episodes", "run.steps", "run.seed"}


@pytest.mark.parametrize("memory", ["hcam", "lstm", "none"])
def test_the_published_quickstarts_are_those_of_the_recipe(memory):
    """Wherever they lie: there is one of each."""
    wanted, may_differ = RECIPE.preset("quickstart", memory), {"agent.dtype", "run.log_every", "run.save_every"}
    found = []
    for folder in FOLDERS:
        with suppress(ValueError):  # older settings
            found += [folder] if set(differences(read(folder), wanted)) <= {*may_differ, "run.steps"} else []
    assert found
