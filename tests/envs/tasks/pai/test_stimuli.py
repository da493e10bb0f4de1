"""Items: pools that share none, random vectors by number, and features of pictures."""

import importlib.util
import sys
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from hcam.envs.tasks.pai import stimuli
from hcam.envs.tasks.pai.stimuli import CACHE, LIMIT, ORIGINAL, RANDOM, load, split, standardised, vectors


@pytest.fixture(autouse=True)
def fresh():
    load.cache_clear()
    yield
    load.cache_clear()


@pytest.mark.parametrize("total", [1_300_000, 1797, 13, 100])
def test_pools_share_no_item_and_leave_out_none(total):
    pools = split(ORIGINAL, total)
    numbers = [number for first, count in pools.values() for number in range(first, first + count)]
    assert list(pools) == ["train", "valid", "test"]
    assert numbers == list(range(total))


def test_random_pools_have_the_original_sizes():
    found = load(RANDOM, 8, 0)
    assert {name: count for name, (_, count) in found.pools.items()} == ORIGINAL
    assert found.table is None


def test_random_items_are_what_their_number_says():
    found = load(RANDOM, 64, 0)
    number_s = jnp.array([0, 5, 999_999, 1_000_000, 1_299_999])  # of all pools
    one, two = (vectors(found, number_s, 64, seed) for seed in (0, 0))
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(one[3], vectors(found, number_s[3:4], 64, 0)[0])
    assert not np.isclose(one, vectors(found, number_s, 64, 1)).any(1).all()  # another seed, other items
    angles = np.corrcoef(one)
    assert np.abs(angles - np.eye(5)).max() < 0.5  # different numbers, unlike items


def test_random_items_are_gaussian_and_within_bounds():
    found = np.asarray(vectors(load(RANDOM, 1000, 0), jnp.arange(200), 1000, 0))
    assert abs(found.mean()) < 0.01
    assert abs(found.std() - 1) < 0.01
    assert np.abs(found).max() <= LIMIT


def test_pictures_are_standardised_by_those_to_train_on():
    raw = np.random.default_rng(0).integers(0, 255, (60, 4, 4, 3))
    raw[40:] += 100  # what is not trained on may look different
    found = standardised(raw, 40, 16, 0)
    assert found.shape == (60, 16)
    np.testing.assert_allclose(found[:40].mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(found[:40].std(0), 1, rtol=1e-3)
    assert np.abs(found).max() <= LIMIT


def pictures(folder, count, offset=0):
    rng = np.random.default_rng(offset)
    for number in range(count):
        Image.fromarray(rng.integers(0, 255, (20, 30, 3), np.uint8)).save(folder / f"{number:03}.png")


def test_a_folder_of_pictures_is_read_once(tmp_path, monkeypatch):
    pictures(tmp_path, 13)
    (tmp_path / "notes.txt").write_text("no picture")
    found: Any = load(str(tmp_path), 16, 0)
    assert found.table.shape == (13, 16)
    assert len(np.unique(found.table, axis=0)) == 13
    assert {name: count for name, (_, count) in found.pools.items()} == {"train": 10, "valid": 1, "test": 2}
    assert (tmp_path / CACHE).is_file()
    load.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(stimuli, "_picture", lambda path: pytest.fail("read again"))
        np.testing.assert_array_equal(load(str(tmp_path), 16, 0).table, found.table)
    load.cache_clear()
    pictures(tmp_path, 14, offset=1)
    found = load(str(tmp_path), 16, 0)
    assert found.table.shape == (14, 16)  # files have changed: the cache is not used


def test_vectors_of_pictures_are_rows_of_the_table(tmp_path):
    np.savez(tmp_path / "own.npz", features=np.random.default_rng(0).normal(size=(30, 5)))
    found: Any = load(str(tmp_path / "own.npz"), 8, 3)
    np.testing.assert_array_equal(vectors(found, jnp.array([4, 0]), 8, 3), found.table[[4, 0]])


def test_the_digits_of_scikit_learn(monkeypatch):
    """Which need not be installed here."""
    module = SimpleNamespace(load_digits=lambda: SimpleNamespace(data=np.random.default_rng(0).normal(size=(100, 64))))
    monkeypatch.setattr(stimuli, "_optional", lambda *_: module)
    found: Any = load("digits", 16, 0)
    assert found.table.shape == (100, 16)


def test_what_cannot_be_read_is_told_in_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    (tmp_path / "bad").mkdir()
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad" / "a.png").write_text("no picture")
    np.savez(tmp_path / "other.npz", pixels=np.zeros(3))
    np.savez(tmp_path / "nan.npz", features=np.full((3, 3), np.nan))
    for source, words in (
        ("digits", "need scikit-learn, which `pip install scikit-learn` brings"),
        (str(tmp_path / "nowhere"), "stimuli must be random, digits, a folder of pictures or an .npz file"),
        (str(tmp_path / "empty"), "must have 1 to 100,000 pictures, but has 0"),
        (str(tmp_path / "other.npz"), "must be an .npz file with an array called features"),
        (str(tmp_path / "nowhere.npz"), "must be an .npz file with an array called features"),
        (str(tmp_path / "nan.npz"), "must be finite numbers"),
    ):
        with pytest.raises(ValueError, match=words):
            load(source, 8, 0)
    monkeypatch.undo()
    with pytest.raises(ValueError, match="cannot be read as a picture"):
        load(str(tmp_path / "bad"), 8, 0)
