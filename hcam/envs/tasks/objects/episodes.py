"""The episodes of object permanence: where the boxes stand, what is in them, in which order it is shown, and when.

Boxes (axis B) are numbered in the order in which their objects are shown. Time counts frames: frame 0 is an episode's
first observation, and already shows the first step of the first jump.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hcam.envs.body import RATE, Body
from hcam.envs.render.raycast import FIELD_OF_VIEW
from hcam.envs.render.things import THINGS
from hcam.envs.tasks.objects.levels import BEHIND, BOXES, EDGE, GAP, Level, LevelParams, Rules, reach
from hcam.envs.values import is_number, is_whole


class Episode(NamedTuple):
    """What is drawn once per episode."""

    place_b2: jax.Array  # float32, x and y of a box's middle
    thing_b: jax.Array  # int32, what is in it
    target: jax.Array  # int32, the box to choose
    rules: Rules


# Time -----------------------------------------------------------------------------------------------------------------


def shown_steps(rules: Rules) -> jax.Array:
    """How many frames an object's jumps take."""
    return rules.jumps * rules.jump_steps


def period(rules: Rules) -> jax.Array:
    """The frames from one object's first to the next one's."""
    return shown_steps(rules) + rules.delay


def closing(rules: Rules) -> jax.Array:
    """The frame in which the lids are closed, and from which on the agent may move."""
    return BOXES * period(rules)


def jumping(rules: Rules, time: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The box whose object is on show in a frame, and how far out it is: 0 where none is."""
    within = time % period(rules)
    shown = (within < shown_steps(rules)) & (time < closing(rules))
    rise = jnp.where(shown, rules.rise_s[within % rules.jump_steps], 0.0)
    return jnp.minimum(time // period(rules), BOXES - 1), rise


# Drawing an episode ---------------------------------------------------------------------------------------------------


def first_body(half: jax.Array) -> Body:
    """Near the south wall, looking north, over the room's centre."""
    return Body(jnp.stack([jnp.zeros_like(half), BEHIND - half]), jnp.int32(0))


def draw(key: jax.Array, level: LevelParams) -> Episode:
    """Boxes side by side in the first view, none before another; objects without replacement; order and target."""
    sizes = (BOXES, BOXES, BOXES, 1, len(THINGS))
    bits = jax.random.bits(key, (sum(sizes),))
    far_b, side_b, order_b, target, thing_x = jnp.split(bits, np.cumsum(sizes)[:-1])
    place_b2 = _places(_uniform(far_b), _uniform(side_b), level)
    order_b = _ranks(order_b)
    return Episode(
        jnp.where(order_b[:, None, None] == jnp.arange(BOXES)[None, :, None], place_b2[None], 0.0).sum(1),
        _with_rank(_ranks(thing_x, level.pool_x)),
        (target[0] >> 8).astype(jnp.int32) % BOXES,
        level.rules,
    )


def _places(far_b: jax.Array, side_b: jax.Array, level: LevelParams) -> jax.Array:
    """Places from left to right: three distances, and bearings that share out what the boxes leave of the view."""
    away_b = level.near + far_b * (level.far - level.near)
    width_b = 2 * jnp.arcsin(reach(level.rules.side) / away_b)
    free = FIELD_OF_VIEW - 2 * EDGE - (BOXES - 1) * GAP - width_b.sum()
    low, high = side_b.min(), side_b.max()
    sorted_b = jnp.stack([low, side_b.sum() - low - high, high])
    left_b = jnp.cumsum(width_b) - width_b / 2 + GAP * jnp.arange(BOXES, dtype=jnp.float32)
    bearing_b = EDGE - FIELD_OF_VIEW / 2 + left_b + free * sorted_b
    offset_b2 = away_b[:, None] * jnp.stack([jnp.sin(bearing_b), jnp.cos(bearing_b)], axis=-1)
    return first_body(level.rules.half).position[None] + offset_b2


def _uniform(bits_n: jax.Array) -> jax.Array:
    """Numbers from 0 to 1, 1 excluded."""
    return (bits_n >> 8).astype(jnp.float32) * 2.0**-24


def _ranks(bits_n: jax.Array, allowed: jax.Array | None = None) -> jax.Array:
    """A random permutation: the rank of each number among all, what is not allowed last.

    Counting, not sorting: XLA sorts slowly, and an episode is drawn at every step in case the old one ends. The lowest
    bits are the index, so that no two are equal.
    """
    number_n = (bits_n >> 8 << 7) | jnp.arange(bits_n.size, dtype=jnp.uint32)
    if allowed is not None:
        number_n = jnp.where(allowed, number_n, number_n | jnp.uint32(1 << 31))
    return (number_n[None, :] < number_n[:, None]).sum(axis=1, dtype=jnp.int32)


def _with_rank(rank_x: jax.Array) -> jax.Array:
    """The indices that have the first ranks, int32 [B]."""
    index_bx = jnp.where(rank_x[None, :] == jnp.arange(BOXES)[:, None], jnp.arange(rank_x.size)[None, :], 0)
    return index_bx.sum(axis=1, dtype=jnp.int32)


# Episodes in words ----------------------------------------------------------------------------------------------------

_NEEDED, _OPTIONAL = ("boxes", "target", "delay"), ("jumps", "rise", "limit", "room", "box", "object")


def from_description(description: Mapping[str, Any]) -> Episode:
    """The episode that `{"boxes": [{"place": [x, y], "thing": "duck"}, ...], "target": i, "delay": seconds}` describes.

    Boxes stand in the order in which their objects are shown. `jumps`, `rise`, `limit`, `room`, `box` and `object` are
    those of `Level`, and the published ones where they are left out.
    """
    _fields("an episode", description, _NEEDED, _OPTIONAL)
    boxes, target = description["boxes"], description["target"]
    if not isinstance(boxes, Sequence) or len(boxes) != BOXES:
        raise ValueError(f"boxes must be a list of {BOXES}, in the order in which their objects are shown.")
    for box in boxes:
        _fields("a box", box, ("place", "thing"))
    things = [box["thing"] for box in boxes]
    if not all(thing in THINGS for thing in things) or len(set(things)) < BOXES:
        raise ValueError(f"the boxes need {BOXES} different things of {', '.join(THINGS)}, but have {things}.")
    if not is_whole(target, 0, BOXES - 1):
        raise ValueError(f"target must be the number of a box, 0 to {BOXES - 1}, but is {target!r}.")
    level = Level(**{name: description[name] for name in ("delay", *_OPTIONAL) if name in description})
    place_b2 = np.array([_place(box["place"]) for box in boxes], np.float32)
    _refuse_hidden(place_b2, level)
    thing_b = jnp.array([THINGS.index(thing) for thing in things], jnp.int32)
    return Episode(jnp.asarray(place_b2), thing_b, jnp.int32(target), level.rules())


def to_description(episode: Episode) -> dict[str, Any]:
    """What `from_description` takes, for an episode of NumPy arrays."""
    rules = episode.rules
    pairs = zip(episode.place_b2, episode.thing_b, strict=True)
    return {
        "boxes": [{"place": [float(x) for x in place_2], "thing": THINGS[thing]} for place_2, thing in pairs],
        "target": int(episode.target),
        "delay": int(rules.delay) / RATE,
        "jumps": int(rules.jumps),
        "rise": [float(rise) for rise in rules.rise_s[: rules.jump_steps]],
        "limit": int(rules.limit) / RATE,
        "room": 2 * float(rules.half),
        "box": float(rules.side),
        "object": float(rules.size),
    }


def _place(place: Any) -> tuple[float, float]:
    if not isinstance(place, Sequence) or len(place) != 2 or not all(is_number(x) and math.isfinite(x) for x in place):
        raise ValueError(f"a box's place must be its x and y in metres, but is {place!r}.")
    return float(place[0]), float(place[1])


def _refuse_hidden(place_b2: Any, level: Level) -> None:
    """All boxes must be in the first view and in the room, and none before another."""
    inside = (np.abs(place_b2) <= level.room / 2 - level.box / 2).all()
    offset_b2 = place_b2 - np.array([0, BEHIND - level.room / 2])
    away_b = np.linalg.norm(offset_b2, axis=-1)
    bearing_b = np.arctan2(*offset_b2.T)
    order_b = np.argsort(bearing_b)
    width_b = np.arcsin(np.minimum(1, reach(level.box) / np.maximum(away_b, 1e-6)))
    left_b, right_b = (bearing_b - width_b)[order_b], (bearing_b + width_b)[order_b]
    seen = (np.abs(bearing_b) + width_b <= FIELD_OF_VIEW / 2).all() and (left_b[1:] >= right_b[:-1]).all()
    if not (inside and seen):
        places = [[round(float(x), 2) for x in place_2] for place_2 in place_b2]
        raise ValueError(
            f"the agent at [0, {BEHIND - level.room / 2:g}] looks north over {math.degrees(FIELD_OF_VIEW):g} degrees "
            f"and must see all {BOXES} boxes side by side inside the room, but they stand at {places}."
        )


def _fields(what: str, given: Any, needed: tuple[str, ...], optional: tuple[str, ...] = ()) -> None:
    if not isinstance(given, Mapping) or not set(needed) <= set(given) <= {*needed, *optional}:
        found = ", ".join(map(str, given)) if isinstance(given, Mapping) else repr(given)
        also = f" and may have {', '.join(optional)}" if optional else ""
        raise ValueError(f"{what} is described by {', '.join(needed)}{also}, but was given {found}.")
