"""The episodes of passive visual match: which colour is shown, which ones are offered where, and where the apples are.

Places (axis O) are numbered from left to right, as the agent sees them when it enters: from east to west, since it
looks south. Time counts frames: frame 0 is an episode's first observation.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hcam.envs.body import RATE
from hcam.envs.render.apples import WORDS
from hcam.envs.tasks.match.levels import CHANCES, COLORS, OPTIONS, Level, LevelParams, Rules, bits, cells, unbits
from hcam.envs.values import is_whole


class Episode(NamedTuple):
    """What is drawn once per episode."""

    color_o: jax.Array  # int32, numbers in the palette; only the first `options` are there
    target: jax.Array  # int32, the place whose colour is shown in the corridor
    apples_w: jax.Array  # uint32 [WORDS], the cells that have an apple at first
    rules: Rules


def question(rules: Rules) -> jax.Array:
    """The frame in which the choice begins."""
    return rules.explore + rules.delay


def draw(key: jax.Array, level: LevelParams) -> Episode:
    """Colours without replacement, the target among them, apples cell by cell.

    A uniform place for the target in a uniform order of colours: the same as a target that is drawn first, and an order
    that is shuffled afterwards.
    """
    sizes = (CHANCES * WORDS, len(COLORS), 1)
    plane_cw, color_x, target = jnp.split(jax.random.bits(key, (sum(sizes),)), np.cumsum(sizes)[:-1])
    rank_x = _ranks(color_x, level.color_x)
    found_ox = jnp.where(rank_x[None, :] == jnp.arange(OPTIONS)[:, None], jnp.arange(len(COLORS))[None, :], 0)
    return Episode(
        found_ox.sum(1, dtype=jnp.int32),
        (target[0] >> 8).astype(jnp.int32) % level.rules.options,
        _chances(plane_cw.reshape(CHANCES, WORDS), level.apples) & level.cells_w,
        level.rules,
    )


def _chances(plane_cw: jax.Array, apples: jax.Array) -> jax.Array:
    """Bits that are set with a probability of `apples` out of 2 ** CHANCES, 32 at once: uint32 [WORDS].

    Halves of the probability so far, plus a half wherever it has a bit: the least bit comes first.
    """
    bits_w = jnp.zeros(WORDS, jnp.uint32)
    for digit in range(CHANCES):
        bits_w = jnp.where(apples >> digit & 1, plane_cw[digit] | bits_w, plane_cw[digit] & bits_w)
    return jnp.where(apples >> CHANCES & 1, jnp.full(WORDS, 2**32 - 1, jnp.uint32), bits_w)


def _ranks(bits_n: jax.Array, allowed_n: jax.Array) -> jax.Array:
    """A random permutation: the rank of each number among all, what is not allowed last.

    Counting, not sorting: XLA sorts slowly, and an episode is drawn at every step in case the old one ends. The lowest
    bits are the index, so that no two are equal.
    """
    number_n = (bits_n >> 8 << 7) | jnp.arange(bits_n.size, dtype=jnp.uint32)
    number_n = jnp.where(allowed_n, number_n, number_n | jnp.uint32(1 << 31))
    return (number_n[None, :] < number_n[:, None]).sum(axis=1, dtype=jnp.int32)


# Episodes in words ----------------------------------------------------------------------------------------------------

_NEEDED, _OPTIONAL = ("colors", "target", "delay", "apples"), ("explore", "limit", "side", "depth")


def from_description(description: Mapping[str, Any]) -> Episode:
    """The episode that `{"colors": ["red", ...], "target": i, "delay": seconds, "apples": [[x, y], ...]}` describes.

    Colours stand from left to right. Apples are cells, counted from 0 in the south-west. `explore`, `limit`, `side` and
    `depth` are those of `Level`, and the published ones where they are left out.
    """
    if not isinstance(description, Mapping) or not set(_NEEDED) <= set(description) <= {*_NEEDED, *_OPTIONAL}:
        found = ", ".join(map(str, description)) if isinstance(description, Mapping) else repr(description)
        raise ValueError(
            f"an episode is described by {', '.join(_NEEDED)} and may have {', '.join(_OPTIONAL)}, but was given "
            f"{found}."
        )
    colors, target = description["colors"], description["target"]
    _check_colors(colors)
    if not is_whole(target, 0, len(colors) - 1):
        raise ValueError(f"target must be the place of a colour, 0 to {len(colors) - 1}, but is {target!r}.")
    own = {name: description[name] for name in ("delay", *_OPTIONAL) if name in description}
    level = Level(**own, options=len(colors))
    numbers = [COLORS.index(color) for color in colors] + [0] * (OPTIONS - len(colors))
    apples_w = bits(_cells(description["apples"], level.side))
    return Episode(jnp.array(numbers, jnp.int32), jnp.int32(target), jnp.asarray(apples_w), level.rules())


def to_description(episode: Episode) -> dict[str, Any]:
    """What `from_description` takes, for an episode of NumPy arrays."""
    rules = episode.rules
    return {
        "colors": [COLORS[color] for color in episode.color_o[: rules.options]],
        "target": int(episode.target),
        "delay": int(rules.delay) / RATE,
        "apples": [list(cell) for cell in unbits(episode.apples_w)],
        "explore": int(rules.explore) / RATE,
        "limit": int(rules.limit) / RATE,
        "side": int(rules.side),
        "depth": int(rules.depth),
    }


def _check_colors(colors: Any) -> None:
    fits = isinstance(colors, Sequence) and 2 <= len(colors) <= OPTIONS and all(isinstance(c, str) for c in colors)
    if not fits or not set(colors) <= set(COLORS) or len(set(colors)) < len(colors):
        raise ValueError(f"colors must be 2 to {OPTIONS} different of {', '.join(COLORS)}, but are {colors!r}.")


def _cells(apples: Any, side: int) -> list[tuple[int, int]]:
    allowed = set(cells(side))
    found = [tuple(cell) if isinstance(cell, Sequence) else cell for cell in apples] if _is_list(apples) else [apples]
    if wrong := [cell for cell in found if cell not in allowed]:
        raise ValueError(
            f"apples must be cells [x, y] of the {side} x {side} from 0, without [{side // 2}, {side - 1}], where the "
            f"agent appears, but {wrong[0]!r} is none."
        )
    return found


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)
