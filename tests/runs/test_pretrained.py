"""Trained agents: what is exported comes back, acts as it did, and what is damaged is not taken."""

import json
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
from hcam.agent import Agent, AgentConfig, Inputs, encoder
from hcam.config import Config, RunConfig, to_json
from hcam.envs.environment import Environment
from hcam.presets import preset
from hcam.runs import checkpoint, pretrained
from hcam.runs.folder import CONFIG, RunFolder, write_eval
from hcam.train import make_learner

ROOT = Path(__file__).parents[2]
LARGEST = 16_000_000  # bytes of a file that comes with the package


def small(dtype: Any = "float32") -> Config:
    """Ballet, as it has images and words to decode, and two seeds at once."""
    base = preset("quickstart")
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
    assert found.about["steps"] == steps
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
    assert found.about == before.about | {"seed": seed}
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


# Refusals


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
    with pytest.raises(ValueError, match=r"is an exported agent already: copy the folder\.$"):
        pretrained.export(exported, tmp_path / "again")
    with pytest.raises(ValueError, match=r"has no other checkpoint: leave out best\.$"):
        pretrained.load(exported, best=True)


def test_a_folder_that_cannot_be_written_leaves_nothing(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    write_file = checkpoint.write_file
    monkeypatch.setattr(checkpoint, "write_file", lambda *args: (full if args[0].name == CONFIG else write_file)(*args))
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


def test_half_an_agent_is_refused(exported: Path):
    (exported / "agent.json").unlink()
    with (
        pytest.warns(UserWarning, match=r"there is no agent\.json"),
        pytest.raises(ValueError, match="holds no whole agent: bring it back from a copy"),
    ):
        pretrained.load(exported)


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
    assert found.about["steps"] > 0
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
