"""Things to put into a scene: the named ones of the catalogue, boxes with lids, coloured squares, and apples.

A yaw turns clockwise as a camera's does: at yaw 0 a thing looks north, so a camera that looks north sees its back; it
looks at the camera if the two yaws differ by pi.
"""

from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from hcam.envs.render.catalogue import BROWN, CATALOGUE
from hcam.envs.render.parts import Part, ball, block, can
from hcam.envs.render.solids import Solids

THINGS: tuple[str, ...] = tuple(CATALOGUE)
PARTS = 6  # solids of every thing; those that it does not need are absent
BOX_PARTS = 6
APPLE_PARTS = 2
INSIDE = 0.45  # scale of the largest thing that fits a box of size 1, if it stands on INSIDE_FLOOR in its middle
INSIDE_FLOOR = 0.06

COLORS: dict[str, tuple[float, float, float]] = {
    "red": (0.88, 0.12, 0.12),
    "green": (0.16, 0.66, 0.20),
    "blue": (0.14, 0.30, 0.90),
    "yellow": (0.98, 0.86, 0.10),
    "orange": (0.98, 0.52, 0.06),
    "purple": (0.52, 0.16, 0.66),
    "pink": (1.00, 0.52, 0.76),
    "cyan": (0.14, 0.84, 0.90),
    "brown": (0.50, 0.30, 0.14),
    "white": (0.95, 0.95, 0.95),
    "grey": (0.50, 0.50, 0.54),
    "black": (0.12, 0.12, 0.14),
}

# A thing that always has the same colour looks the same whenever it is met. Tasks may paint it otherwise.
USUAL_COLORS = {
    "red": ("car", "house", "barrel", "gift", "dumbbell", "mushroom", "train", "rocket"),
    "green": ("tree", "bottle", "cactus", "pear"),
    "blue": ("mug", "fish", "cube", "umbrella"),
    "yellow": ("duck", "pyramid", "key", "lamp"),
    "orange": ("cat", "drum", "ladder"),
    "purple": ("hat", "bed"),
    "pink": ("cake", "icecream", "ball"),
    "cyan": ("plane", "boat", "snowman", "robot"),
    "brown": ("table", "chair", "hammer", "tower"),
}
_usual = {thing: color for color, things in USUAL_COLORS.items() for thing in things}
USUAL_COLOR_X = np.array([tuple(COLORS).index(_usual[thing]) for thing in THINGS], np.int32)

Floats = NDArray[np.float32]


def place(
    thing: jax.Array | int,
    position: jax.Array,
    yaw: jax.Array | float,
    scale: jax.Array | float,
    color: jax.Array | int,
    present: jax.Array | bool = True,
) -> Solids:
    """A thing of the catalogue, PARTS solids: its number in THINGS, its colour's in COLORS.

    At scale 1 a thing is about a metre high. `position` (float32 [3]) is where it stands.
    """
    parts_n: dict[str, Any] = jax.tree.map(lambda x_n: jnp.asarray(x_n)[thing], _tables())
    rgb = jnp.asarray(np.array(list(COLORS.values()), np.float32))[color]
    color_p3 = jnp.where(parts_n["own_p"][:, None], rgb[None], parts_n["color_p3"])
    return _stand(parts_n | {"color_p3": color_p3}, position, yaw, scale, present)


def panel(
    position: jax.Array,
    yaw: jax.Array | float,
    size: jax.Array | float,
    rgb: jax.Array,
    present: jax.Array | bool = True,
) -> Solids:
    """A thin square of one colour, 1 solid, whose side is `size`; `position` is its middle. It faces to `yaw`."""
    part = jax.tree.map(jnp.asarray, _row((block((0, 0, 0), (0.5, 0.02, 0.5)),)))
    return _stand(part | {"color_p3": rgb[None], "reach": jnp.float32(0)}, position, yaw, size, present)


def apple(position: jax.Array, present: jax.Array | bool = True, scale: jax.Array | float = 1.0) -> Solids:
    """A red apple of 0.3 m, APPLE_PARTS solids, that stands at `position`."""
    parts = (ball((0, 0, 0.14), (0.16, 0.16, 0.14), (0.90, 0.08, 0.10)), can((0, 0, 0.30), (0.02, 0.02, 0.06), BROWN))
    return _stand(jax.tree.map(jnp.asarray, _row(parts)), position, 0.0, scale, present)


def box(
    position: jax.Array,
    yaw: jax.Array | float,
    size: jax.Array | float,
    opening: jax.Array | float,
    rgb: tuple[float, float, float] = (0.72, 0.52, 0.30),
    present: jax.Array | bool = True,
) -> Solids:
    """A hollow box with a hinged lid, `size` wide and 0.6 times as high, BOX_PARTS solids: closed at 0, open at 1.

    Closed, nothing inside can be seen; a thing fits if its scale is at most INSIDE * size. The hinge is
    at the back, so that a box that faces a camera shows its inside.
    """
    red, green, blue = (channel * 0.7 for channel in rgb)
    parts = (*_walls(rgb), block((0, 0.5, 0.03), (0.54, 0.54, 0.04), (red, green, blue)))
    row: dict[str, Any] = jax.tree.map(jnp.asarray, _row(parts))
    angle = jnp.asarray(opening, jnp.float32) * 1.9
    hinge, sin, cos = np.array([0.0, -0.5, 0.56], np.float32), jnp.sin(angle), jnp.cos(angle)
    one, zero = jnp.ones_like(sin), jnp.zeros_like(sin)
    turn_33 = jnp.stack([one, zero, zero, zero, cos, -sin, zero, sin, cos]).reshape(3, 3)
    center_3 = _product(turn_33, row["center_p3"][-1]) + hinge
    frame_33 = jnp.stack([_product(turn_33, row["frame_p33"][-1, axis]) for axis in range(3)])
    center_p3 = jnp.concatenate([row["center_p3"][:-1], center_3[None]])
    frame_p33 = jnp.concatenate([row["frame_p33"][:-1], frame_33[None]])
    turned = row | {"center_p3": center_p3, "frame_p33": frame_p33, "reach": jnp.float32(0.7)}
    return _stand(turned, position, yaw, size, present)


def _walls(rgb: tuple[float, float, float]) -> tuple[Part, ...]:
    """The floor and the sides of a box, a little inside one another at the edges so that no light falls through."""
    return (
        block((0, 0, INSIDE_FLOOR / 2), (0.5, 0.5, INSIDE_FLOOR / 2), rgb),
        block((-0.475, 0, 0.28), (0.025, 0.5, 0.28), rgb),
        block((0.475, 0, 0.28), (0.025, 0.5, 0.28), rgb),
        block((0, -0.475, 0.28), (0.49, 0.025, 0.28), rgb),
        block((0, 0.475, 0.28), (0.49, 0.025, 0.28), rgb),
    )


def _stand(
    part: dict[str, Any],
    position: jax.Array,
    yaw: jax.Array | float,
    scale: jax.Array | float,
    present: jax.Array | bool,
) -> Solids:
    """Parts, turned and scaled about the origin and put at `position`."""
    yaw, scale = jnp.asarray(yaw, jnp.float32), jnp.asarray(scale, jnp.float32)
    sin, cos, zero = jnp.sin(yaw), jnp.cos(yaw), jnp.zeros_like(yaw)
    turn_33 = jnp.stack([cos, sin, zero, -sin, cos, zero, zero, zero, jnp.ones_like(yaw)]).reshape(3, 3)
    center_p3, frame_p33 = part["center_p3"], part["frame_p33"]
    parts = len(center_p3)
    radius = part["reach"] * scale
    return Solids(
        center_p3=position[None] + scale * _product(turn_33, center_p3),
        frame_p33=_product(turn_33, frame_p33) / scale,
        quadric_p4=part["quadric_p4"],
        bounds_p4=part["bounds_p4"],
        color_p3=part["color_p3"],
        shadow_p3=jnp.concatenate(
            [jnp.stack([position[0], position[1], radius])[None], jnp.zeros((parts - 1, 3), jnp.float32)]
        ),
        present_p=part["used_p"] & jnp.asarray(present),
    )


def _product(turn_33: jax.Array, x_n3: jax.Array) -> jax.Array:
    """The matrix times every vector of the last axis, without a GPU's rounding of products."""
    columns = [x_n3[..., n, None] * turn_33[:, n].reshape((1,) * (x_n3.ndim - 1) + (3,)) for n in range(3)]
    return columns[0] + columns[1] + columns[2]


@lru_cache
def _tables() -> dict[str, Floats]:
    """All things: every entry of `_row` with the axis of THINGS in front."""
    rows = [_row(parts, PARTS) for parts in CATALOGUE.values()]
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def _row(parts: tuple[Part, ...], size: int | None = None) -> dict[str, Any]:
    """The parts as arrays, filled up to `size` with absent ones."""
    filled = parts + (parts[0],) * ((size or len(parts)) - len(parts))
    reach = max(np.hypot(*part.center[:2]) + min(max(part.half[:2]), 0.3) for part in parts)
    return {
        "center_p3": np.array([part.center for part in filled], np.float32),
        "frame_p33": np.stack([_rotation(part.turn).T / np.array(part.half)[:, None] for part in filled]).astype("f4"),
        "quadric_p4": np.array([part.quadric for part in filled], np.float32),
        "bounds_p4": np.array([part.bounds for part in filled], np.float32),
        "color_p3": np.array([part.color or (0, 0, 0) for part in filled], np.float32),
        "own_p": np.array([part.color is None for part in filled]),
        "used_p": np.arange(len(filled)) < len(parts),
        "reach": np.float32(1.1 * reach),
    }


def _rotation(degrees: tuple[float, float, float]) -> NDArray[np.float64]:
    """About x, then y, then z."""
    result = np.eye(3)
    for axis, angle in enumerate(np.radians(degrees)):
        one, two = (axis + 1) % 3, (axis + 2) % 3
        turn = np.eye(3)
        turn[one, one] = turn[two, two] = np.cos(angle)
        turn[one, two], turn[two, one] = -np.sin(angle), np.sin(angle)
        result = turn @ result
    return result
