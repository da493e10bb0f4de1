"""Trained agents: what is exported comes back, acts as it did, and what is damaged is not taken."""

import json
import os
import secrets
import shutil
import subprocess
import sys
import tomllib
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors import safe_open

import hcam
from hcam import agent
from hcam.agent import Agent, AgentConfig, encoder
from hcam.config import Config, RunConfig, to_json
from hcam.envs.environment import Environment
from hcam.recipes.ballet import quickstart
from hcam.runs import checkpoint, pretrained
from hcam.runs.folder import RunFolder, write_eval
from hcam.training import make_learner
from hcam.types import Inputs

ROOT = Path(__file__).parents[2]
LARGEST = 16_000_000  # bytes of a file that comes with the package


def small(dtype: Any = "float32") -> Config:
    """Ballet, as it has images and words to decode, and two seeds at once."""
    base = quickstart("hcam")
    memory = replace(base.agent.memory, width=16, layers=1, chunk=4, slots=2, top_k=1)
    return replace(base, agent=replace(base.agent, memory=memory, dtype=dtype), run=RunConfig(seeds=2))


def draw(config: Config) -> Any:
    """Parameters of all seeds. The seconds that JAX takes to compile their initialisation are not worth it here."""
    numbers = np.random.default_rng(0)
    like = jax.eval_shape(make_learner(config).agent.init_params, jax.random.key(0))
    return jax.tree.map(lambda leaf: numbers.normal(0, 0.3, (config.run.seeds, *leaf.shape)).astype(np.float32), like)


def make_run(path: Path, config: Config) -> Path:
    """A run folder with a last and a best checkpoint: parameters as they are drawn, and one more than that."""
    params_s = draw(config)
    with RunFolder.create(path, to_json(config) | {"chance": {"2_delay5_of4": 0.5}}) as folder:
        folder.append({"steps": 7})
        checkpoint.save(folder.checkpoints, {"params": params_s, "rest": jnp.zeros(1)}, 7, {"steps": 224})
        more = jax.tree.map(lambda leaf: leaf + np.float32(1), params_s)
        checkpoint.save_best(folder.checkpoints, {"params": more}, {"steps": 32, "success": 0.5})
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("trained") / "run", small())


@pytest.fixture
def exported(run: Path, tmp_path: Path) -> Path:
    return pretrained.export(run, tmp_path / "out")


def assert_equal(one: Any, other: Any) -> None:
    assert str(jax.tree.structure(one)) == str(jax.tree.structure(other))
    for leaf, wanted in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert leaf.dtype == wanted.dtype
        np.testing.assert_array_equal(leaf, wanted)


def rounded(params: Any) -> Any:
    return jax.tree.map(lambda leaf: np.asarray(leaf).astype(jnp.bfloat16).astype(np.float32), params)


@partial(jax.jit, static_argnums=(0, 1))
def logits(agent: Agent, env: Environment, params: Any) -> jax.Array:
    """Of twelve steps of anything."""
    parts = encoder.parts(env.observation_space)
    keys = jax.random.split(jax.random.key(1), (len(parts), 12))
    observation = {name: jax.vmap(parts[name].sample)(keys_t) for name, keys_t in zip(parts, keys, strict=True)}
    inputs_t = Inputs(
        jax.vmap(agent.preprocess)(observation), jnp.arange(12) == 0, jnp.zeros(12, jnp.int32), jnp.zeros(12)
    )
    return agent.unroll(params, agent.init_state(), inputs_t)[1].logits


# Reading a run


@pytest.mark.parametrize(("best", "more", "steps"), [(False, 0, 224), (True, 1, 32)])
def test_a_run_is_read_with_its_own_settings(run: Path, best: bool, more: float, steps: int):
    found = pretrained.load(run, best=best)
    assert found.config == small()
    assert found.env == small().task.make()
    assert found.metadata["steps"] == steps
    params_s = {name: part for name, part in draw(small()).items() if name != "decoders"}
    assert_equal(found.params_s, jax.tree.map(lambda leaf: leaf + np.float32(more), params_s))
    for seed in range(2):
        assert_equal(found.of_seed(seed), jax.tree.map(lambda leaf, s=seed: np.asarray(leaf)[s], found.params_s))
    assert_equal(found.params, found.of_seed(0))


@pytest.mark.parametrize("best", [False, True])
def test_a_run_without_a_checkpoint_says_so(tmp_path: Path, best: bool):
    RunFolder.create(tmp_path / "run", to_json(small())).close()
    sentence = r"has no checkpoint: it keeps what a run reported, not its agent\."
    with pytest.raises(ValueError, match=sentence):
        pretrained.load(tmp_path / "run", best=best)
    with pytest.raises(ValueError, match=sentence):
        pretrained.export(tmp_path / "run", tmp_path / "out", best=best)
    assert not (tmp_path / "out").exists()


def test_what_is_no_run_folder_says_so(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match=r"is no run folder: it has no config\.json"):
        pretrained.load(tmp_path)


# There and back


@pytest.mark.parametrize(("best", "seed"), [(False, 0), (False, 1), (True, 1)])
def test_what_is_exported_comes_back_rounded(run: Path, tmp_path: Path, best: bool, seed: int):
    (tmp_path / "out").mkdir()  # an empty folder is as good as none
    found = pretrained.load(pretrained.export(run, tmp_path / "out", best=best, seed=seed))
    before = pretrained.load(run, best=best)
    assert_equal(found.params, rounded(before.of_seed(seed)))
    assert found.metadata == before.metadata | {"seed": seed}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_it_acts_as_its_run_did(run: Path, exported: Path):
    before, found = pretrained.load(run), pretrained.load(exported)
    wanted = logits(before.agent, before.env, before.params)
    acted = logits(found.agent, found.env, found.params)
    assert np.ptp(wanted) > 1
    np.testing.assert_allclose(acted, wanted, atol=0.05)
    np.testing.assert_allclose(acted, logits(before.agent, before.env, rounded(before.params)), atol=1e-6)


def test_it_takes_two_bytes_a_parameter_and_has_no_decoders(run: Path, exported: Path):
    with safe_open(exported / "agent.safetensors", "numpy") as file:
        parts = {name.split("/")[0] for name in file.keys()}  # noqa: SIM118  (not a dict)
    assert parts == {"encoder", "memory", "heads"}
    count = sum(leaf.size for leaf in jax.tree.leaves(pretrained.load(run).params))
    header = 8 + 120 * len(jax.tree.leaves(pretrained.load(run).params))
    assert 2 * count < (exported / "agent.safetensors").stat().st_size < 2 * count + header


def test_what_made_it_comes_along(run: Path, tmp_path: Path):
    copy = Path(shutil.copytree(run, tmp_path / "run"))
    write_eval(copy, {"greedy": {}})
    out = pretrained.export(copy, tmp_path / "a" / "out")
    for name in ("config.json", "metrics.jsonl", "eval.json"):
        assert (out / name).read_bytes() == (copy / name).read_bytes()
    kept = {"agent.json", "agent.safetensors", "config.json", "eval.json", "metrics.jsonl"}
    assert {path.name for path in out.iterdir()} == kept


def test_the_machine_it_is_on_decides_how_it_computes(tmp_path: Path):
    run = make_run(tmp_path / "run", small("bfloat16"))
    out = pretrained.export(run, tmp_path / "out")
    assert pretrained.load(run).agent.config.dtype == "bfloat16"
    found = pretrained.load(out)
    assert found.agent.config.dtype == found.config.agent.dtype == AgentConfig().here().dtype
    assert {str(leaf.dtype) for leaf in jax.tree.leaves(found.params_s)} == {"float32"}


@pytest.mark.parametrize("source", ["exported", "pretrained:quickstart"])
def test_what_is_exported_already_is_copied_whole(source: str, exported: Path, tmp_path: Path):
    (exported / "eval-8.json").write_text("{}")
    (exported / ".DS_Store").touch()
    whole = exported if source == "exported" else pretrained.find(source)
    out = pretrained.export(exported if source == "exported" else Path(source), tmp_path / "copy")
    wanted = {path.name: path.read_bytes() for path in whole.iterdir() if not path.name.startswith(".")}
    assert {path.name: path.read_bytes() for path in out.iterdir()} == wanted
    assert {"config.json", "agent.json", "agent.safetensors"} <= set(wanted)
    assert_equal(pretrained.load(out).params, pretrained.load(whole).params)
    assert not list(tmp_path.glob(".*"))


# Refusals


def test_a_copy_is_checked_as_well(exported: Path, tmp_path: Path):
    for words, sentence in (({"best": True}, "leave out best"), ({"seed": 1}, "there is no seed 1")):
        with pytest.raises(ValueError, match=sentence):
            pretrained.export(exported, tmp_path / "copy", **words)
    path = exported / "agent.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match="is intact"):
        pretrained.export(exported, tmp_path / "copy")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no links here")
@pytest.mark.parametrize("name", ["config.json", "metrics.jsonl", "eval.json"])
@pytest.mark.parametrize("kind", ["link", "dangling", "pipe", "folder"])
def test_only_regular_files_are_given_away(run: Path, tmp_path: Path, name: str, kind: str):
    copy = Path(shutil.copytree(run, tmp_path / "run"))
    (tmp_path / "secret").write_bytes((copy / name).read_bytes() if (copy / name).exists() else b"secret")
    (copy / name).unlink(missing_ok=True)
    if kind in ("link", "dangling"):
        (copy / name).symlink_to(tmp_path / ("secret" if kind == "link" else "nowhere"))
    else:
        (os.mkfifo if kind == "pipe" else os.mkdir)(copy / name)
    with pytest.raises(OSError, match=r"is no run folder|is a (symbolic link|named pipe|folder), not a regular file"):
        pretrained.export(copy, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "secret"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no links here")
@pytest.mark.parametrize("name", ["agent.safetensors", "agent.json", "notes"])
def test_only_regular_files_of_an_exported_agent_are_given_away(exported: Path, tmp_path: Path, name: str):
    (exported / "notes").touch()
    (exported / name).rename(tmp_path / "secret")
    (exported / name).symlink_to(tmp_path / "secret")
    with pytest.raises(OSError, match=f"{name} is a symbolic link, not a regular file: remove it"):
        pretrained.export(exported, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_guessed_folder_is_not_written_to(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(secrets, "token_hex", lambda count: "guessed")
    (tmp_path / ".hcam-export.guessed.tmp").mkdir()
    with pytest.raises(FileExistsError, match="cannot be written"):
        pretrained.export(run, tmp_path / "out")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"task": "ballet"}, r"config\.json is damaged: task must be an object, but is 'ballet'\.$"),
        ({"agent": ["x"]}, r"config\.json is damaged: agent must be an object, but is a list\.$"),
        ({"waltz": 1}, "has settings that this version of hcam lacks: waltz"),
        (
            {"task": {"task": "first_symbol", "options": {}, "levels": []}},
            r"was made with another architecture or other sizes: .*\.$",
        ),
        ({"task": {"task": "waltz", "options": {}}}, "no task 'waltz'"),
        ({"run": {"seeds": 3}}, "was made with another architecture or other sizes"),
        ({"agent": {"heads": {"hidden": 2**62}}}, "was made with another architecture or other sizes"),
    ],
)
def test_another_task_or_version_is_one_sentence(run: Path, tmp_path: Path, change: dict[str, Any], sentence: str):
    copy = Path(shutil.copytree(run, tmp_path / "run"))
    saved = json.loads((copy / "config.json").read_text())
    for name, value in change.items():
        merges = isinstance(value, dict) and isinstance(saved["config"].get(name), dict)
        saved["config"][name] = saved["config"][name] | value if merges else value
    (copy / "config.json").write_text(json.dumps(saved))
    with pytest.raises(ValueError, match=sentence):
        pretrained.load(copy)


@pytest.mark.parametrize("error", [TypeError, AttributeError, KeyError, OverflowError, MemoryError, RecursionError])
def test_settings_that_no_agent_can_be_made_of_are_one_sentence(
    run: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
):
    def fail(*args: Any) -> Any:
        raise error

    monkeypatch.setattr(agent, "make", fail)
    sentence = r"config\.json does not describe an agent that this version of hcam can make\.$"
    with pytest.raises(ValueError, match=sentence):
        pretrained.load(run)


def test_an_older_checkpoint_is_used_and_that_is_said(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], recwarn: pytest.WarningsRecorder
):
    copy = Path(shutil.copytree(run, tmp_path / "run"))
    path = checkpoint.save(copy / "checkpoints", {"params": draw(small())}, 8, {"best": 0.5})
    assert pretrained.load(copy).metadata["steps"] == 224
    said = capsys.readouterr().err
    assert said == f"in {path.parent}, {path.name} has a .json whose metadata has no number steps: " + (
        "000000000007.safetensors is used instead.\n"
    )
    assert not recwarn.list
    heard: list[str] = []
    env = small().task.make()
    found = pretrained.load(copy, env=env, on_skip=heard.append)
    assert (found.env, found.folder) == (env, copy)
    assert found.env is env
    assert [sentence + "\n" for sentence in heard] == [said]
    assert capsys.readouterr().err == ""


def test_nothing_is_overwritten(run: Path, exported: Path, tmp_path: Path):
    (tmp_path / "file").touch()
    for out in (exported, run, tmp_path / "file"):
        with pytest.raises(ValueError, match=r"exists already: export to a new folder\.$"):
            pretrained.export(run, out)


@pytest.mark.parametrize("seed", [-1, 2])
def test_a_seed_that_is_not_there_is_refused(run: Path, tmp_path: Path, seed: int):
    with pytest.raises(ValueError, match=f"^there is no seed {seed}: of seeds trained at once it has 2"):
        pretrained.export(run, tmp_path / "out", seed=seed)
    assert not (tmp_path / "out").exists()


def test_an_exported_agent_is_no_run(exported: Path, tmp_path: Path):
    with pytest.raises(ValueError, match=r"has no other checkpoint: leave out best\.$"):
        pretrained.load(exported, best=True)


def test_a_folder_that_cannot_be_written_leaves_nothing(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pretrained, "write_file", full)
    with pytest.raises(OSError, match=r"cannot be written \(No space left on device\): free some space\.$"):
        pretrained.export(run, tmp_path / "out")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda data: data[:-1], r"agent\.safetensors has \d+ bytes instead of \d+"),
        (lambda data: b"", r"agent\.safetensors has 0 bytes instead of \d+"),
        (lambda data: data[:-1] + bytes([data[-1] ^ 1]), r"agent\.safetensors does not hold the bytes that were saved"),
    ],
)
def test_a_damaged_file_is_refused(exported: Path, damage: Any, sentence: str):
    path = exported / "agent.safetensors"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=sentence):
        pretrained.load(exported)


def test_half_an_agent_is_refused(exported: Path, capsys: pytest.CaptureFixture[str]):
    (exported / "agent.json").unlink()
    with pytest.raises(ValueError, match="does not hold a complete agent: restore it from a copy"):
        pretrained.load(exported)
    said = capsys.readouterr().err
    assert "agent.json is missing" in said
    assert said.count("\n") == 1


def test_other_sizes_are_refused(exported: Path):
    path = exported / "config.json"
    saved = json.loads(path.read_text())
    saved["config"]["agent"]["heads"]["hidden"] = 32
    path.write_text(json.dumps(saved))
    sentence = r"was made with another architecture or other sizes: heads/.* is \[.*64.*\] there but \[.*32.*\] here\.$"
    with pytest.raises(ValueError, match=sentence):
        pretrained.load(exported)


# Those that come with the package


@pytest.mark.parametrize("name", ["pretrained:waltz", "waltz", "pretrained:", "pretrained:../quickstart"])
def test_an_unknown_name_is_told_those_that_exist(name: str):
    with pytest.raises(ValueError, match=r"^there is no pretrained agent '.*': there is .*pretrained:quickstart"):
        pretrained.find(name)


@pytest.mark.parametrize("name", pretrained.names())
def test_every_agent_of_the_package_loads(name: str):
    folder = pretrained.find(f"pretrained:{name}")
    assert folder == pretrained.find(name)
    found = hcam.load(f"pretrained:{name}")
    assert found.metadata["steps"] > 0
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(found.params))
    assert all(path.stat().st_size <= LARGEST for path in folder.iterdir())


def test_the_wheel_takes_them_along():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = settings["tool"]["setuptools"]["package-data"]["hcam"]
    taken = {path for pattern in patterns for path in (ROOT / "hcam").glob(pattern)}
    files = {path for path in pretrained.AGENTS.rglob("*") if path.is_file()}
    assert {path.name for path in files} >= {"agent.json", "agent.safetensors", "config.json"}
    assert files <= taken


def test_importing_hcam_loads_no_jax():
    code = "import sys, hcam; assert hcam.load; assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
