"""The items of paired associative inference, as vectors: random ones, or features of pictures.

Items are numbered, and every pool is a range of numbers: no item is in two pools. A random item is drawn from a key and
its number alone, so that a million of them need no memory. Pictures are downscaled, projected by a fixed random matrix
and standardised by the mean and deviation of those to train on.
"""

import hashlib
import importlib
import importlib.util
import os
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hcam.envs.tasks.pai.levels import Pools

RANDOM, DIGITS = "random", "digits"
LIMIT = 6.0  # no number of an item is farther from 0: random ones never are, others are cut off
ORIGINAL = {"train": 1_000_000, "valid": 100_000, "test": 200_000}  # items of each pool in the original task
PIXELS = 32  # side of a downscaled picture
MOST_PICTURES = 100_000
ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff")
CACHE = "hcam-pixels.npz"  # in a folder of pictures: what they look like downscaled

Table = np.ndarray[Any, np.dtype[np.float32]]


class Stimuli(NamedTuple):
    """Where items come from."""

    pools: Pools
    table: Table | None  # [items, features]; None: random


@lru_cache(maxsize=8)
def load(source: str, features: int, seed: int) -> Stimuli:
    """`random`, `digits`, a folder of pictures, or an .npz file with an array `features`."""
    if source == RANDOM:
        return Stimuli(split(ORIGINAL, sum(ORIGINAL.values())), None)
    raw_nx = _digits() if source == DIGITS else _archive(Path(source)) if source.endswith(".npz") else _folder(source)
    order_n = np.random.default_rng(seed).permutation(len(raw_nx))  # files are often sorted by what they show
    pools = split(ORIGINAL, len(raw_nx))
    return Stimuli(pools, standardised(raw_nx[order_n], pools["train"][1], features, seed))


def split(shares: dict[str, int], total: int) -> dict[str, tuple[int, int]]:
    """Ranges of numbers that do not overlap, in these proportions: name -> first, count."""
    ends = np.cumsum([0, *shares.values()]) * total // sum(shares.values())
    return {name: (int(ends[n]), int(ends[n + 1] - ends[n])) for n, name in enumerate(shares)}


def vectors(stimuli: Stimuli, item_s: jax.Array, features: int, seed: int) -> jax.Array:
    """The items with these numbers, float32 [S, F], of unit variance."""
    if stimuli.table is not None:
        return jnp.asarray(stimuli.table)[item_s]
    key = jax.random.key(seed)

    def draw(item: jax.Array) -> jax.Array:
        return jax.random.normal(jax.random.fold_in(key, item), (features,), jnp.float32)

    drawn_sf: jax.Array = jax.vmap(draw)(item_s)
    return drawn_sf


def standardised(raw_nx: Any, train: int, features: int, seed: int) -> Table:
    """A fixed random projection to so many features; each has mean 0 and deviation 1 over the items to train on."""
    flat_nx = np.asarray(raw_nx, np.float32).reshape(len(raw_nx), -1)
    matrix_xf = np.random.default_rng(seed).standard_normal((flat_nx.shape[1], features), np.float32)
    projected_nf = (flat_nx - flat_nx[:train].mean(0)) @ matrix_xf
    deviation_f = projected_nf[:train].std(0)
    return np.asarray(np.clip(projected_nf / np.maximum(deviation_f, 1e-6), -LIMIT, LIMIT), np.float32)


# Where pictures come from ---------------------------------------------------------------------------------------------


def _digits() -> Any:
    """1,797 handwritten digits of 8 x 8 pixels, which come with scikit-learn."""
    return _optional("sklearn.datasets", "scikit-learn", "the digits").load_digits().data


def _optional(module: str, package: str, what: str) -> Any:
    """A module that a task does not need unless it is asked for: it is found when the program runs."""
    if importlib.util.find_spec(module.partition(".")[0]) is None:
        raise ValueError(f"stimuli from {what} need {package}, which `pip install {package}` brings.")
    return importlib.import_module(module)


def _archive(path: Path) -> Any:
    try:
        with np.load(path, allow_pickle=False) as file:
            found = file["features"]
    except (OSError, KeyError, ValueError) as error:
        raise ValueError(f"{path} must be an .npz file with an array called features, but: {error}.") from error
    if found.ndim < 2 or not np.issubdtype(found.dtype, np.number) or not np.isfinite(found).all():
        raise ValueError(f"features in {path} must be finite numbers, a row for each item, but are {found.shape}.")
    return found


def _folder(source: str) -> Any:
    folder = Path(source)
    if not folder.is_dir():
        raise ValueError(
            f"stimuli must be {RANDOM}, {DIGITS}, a folder of pictures or an .npz file, but there is no {source!r}."
        )
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in ENDINGS)
    if not 1 <= len(paths) <= MOST_PICTURES:
        raise ValueError(f"{folder} must have 1 to {MOST_PICTURES:,} pictures, but has {len(paths):,}.")
    about = [f"{path.relative_to(folder)} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in paths]
    stamp = hashlib.sha256("\n".join(about).encode()).hexdigest()
    cache = folder / CACHE
    pixels = _cached(cache, stamp)
    if pixels is None:
        pixels = np.stack([_picture(path) for path in paths])
        if os.access(folder, os.W_OK):
            np.savez_compressed(cache, pixels=pixels, stamp=np.array(stamp))
    return pixels


def _cached(cache: Path, stamp: str) -> Any:
    """The pixels that were stored for exactly these files; None: there are none."""
    try:
        with np.load(cache, allow_pickle=False) as file:
            return file["pixels"] if str(file["stamp"]) == stamp else None
    except (OSError, KeyError, ValueError, EOFError):
        return None


def _picture(path: Path) -> Any:
    image = _optional("PIL.Image", "pillow", "pictures")
    try:
        with image.open(path) as picture:
            return np.asarray(picture.convert("RGB").resize((PIXELS, PIXELS)), np.uint8)
    except OSError as error:
        raise ValueError(f"{path} cannot be read as a picture: take it out of the folder.") from error
