"""The three rooms: a corridor with a colour square, a room full of apples, and a room with squares to choose from.

A cell is a metre. Every room lies around the origin, and the agent appears in its north, looking south.
"""

import jax
import jax.numpy as jnp
import numpy as np

from hcam.envs import body as bodies
from hcam.envs.body import HEADINGS, Body, camera
from hcam.envs.render import apples, raycast
from hcam.envs.render.apples import CELL, Apples
from hcam.envs.render.pixels import AMBIENT, DIFFUSE, LIGHT
from hcam.envs.render.raycast import Room, Scene, Solids
from hcam.envs.render.solids import BOX, CYLINDER, FAR
from hcam.envs.render.textures import THEMES
from hcam.envs.tasks.match.episodes import Episode, question
from hcam.envs.tasks.match.levels import OPTIONS, PALETTE, Rules

EXPLORE, DISTRACT, CHOOSE = range(3)  # the phases
CORRIDOR = 3  # cells long, and one wide
PITCH = -0.15  # radians: the camera looks slightly down
WALLS = 2.2  # metres up to the ceiling
SOUTH = HEADINGS // 2
# Walls and floors unlike any colour of the palette; the floor under the apples unlike an apple.
THEME = np.array([tuple(THEMES).index(name) for name in ("checks", "stone", "planks")], np.int32)

SQUARE, FRAME, MIDDLE = 0.7, 0.86, 1.0  # sides of a colour square and of the frame around it, and its height
PAD = 0.4  # radius
FRAME_RGB, PAD_RGB, ALCOVE_RGB = (0.06, 0.06, 0.08), (0.98, 0.94, 0.84), (0.52, 0.62, 0.55)
# How bright a wall that looks north is: divided by it, a square on it has exactly its colour of the palette.
NORTH_FACE = AMBIENT + DIFFUSE * LIGHT[1] / float(np.linalg.norm(LIGHT))
RGB_X3 = np.array(list(PALETTE.values()), np.float32) / (255 * NORTH_FACE)

NO_OBSTACLES = (np.zeros((0, 2), np.float32), np.zeros(0, np.float32))


def phase(rules: Rules, time: jax.Array) -> jax.Array:
    """Of a frame, int32."""
    return (time >= rules.explore).astype(jnp.int32) + (time >= question(rules)).astype(jnp.int32)


def half(rules: Rules, phase: jax.Array) -> jax.Array:
    """Half extents of a phase's room, float32 [2]. The last one includes the alcove, a row of its own."""
    width = jnp.stack([jnp.int32(1), rules.side, 2 * rules.options - 1])
    length = jnp.stack([jnp.int32(CORRIDOR), rules.side, rules.depth + 1])
    return jnp.stack([width[phase], length[phase]]).astype(jnp.float32) * (CELL / 2)


def spawn(rules: Rules, phase: jax.Array) -> Body:
    """Where the agent appears: in the middle of the northmost row, looking south."""
    x, y = half(rules, phase)
    column = jnp.floor(x / CELL) + 0.5
    return Body(jnp.stack([column * CELL - x, y - CELL / 2]), jnp.int32(SOUTH))


def move(body: Body, action: jax.Array, rules: Rules, phase: jax.Array) -> Body:
    """The body after an action. Beside the alcove is wall."""
    extent = half(rules, phase)
    moved = bodies.move(body, action, extent, *(jnp.asarray(none) for none in NO_OBSTACLES))
    north, narrow = extent[1] - CELL - bodies.RADIUS, CELL / 2 - bodies.RADIUS
    x, y = moved.position
    stopped = (phase == CHOOSE) & (y > north) & (jnp.abs(x) > narrow)
    within = body.position[1] > north  # a body in the alcove slides along its sides, any other along the north wall
    x = jnp.where(stopped & within, jnp.clip(x, -narrow, narrow), x)
    y = jnp.where(stopped & ~within, north, y)
    return moved._replace(position=jnp.stack([x, y]))


def cell(body: Body, side: jax.Array) -> jax.Array:
    """The cell of the apples' room in which a body stands, as x and y from the south-west: int32 [2]."""
    corner = side.astype(jnp.float32) * (CELL / 2)
    return jnp.clip(jnp.floor((body.position + corner) / CELL).astype(jnp.int32), 0, side - 1)


def middles(cell_n2: jax.Array, side: jax.Array) -> jax.Array:
    """The middles of cells, float32 [N, 2]."""
    return (cell_n2.astype(jnp.float32) + 0.5) * CELL - side.astype(jnp.float32) * (CELL / 2)


def pads(rules: Rules) -> jax.Array:
    """The middles of the pads, float32 [O, 2], from left to right as one sees them looking south."""
    x_o = ((rules.options - 1) - 2 * jnp.arange(OPTIONS)).astype(jnp.float32) * CELL
    y = (CELL - (rules.depth + 1).astype(jnp.float32) * CELL) / 2
    return jnp.stack([x_o, jnp.full_like(x_o, y)], -1)


def on_pad(body: Body, rules: Rules) -> jax.Array:
    """The pads on which the body's middle is: bool [O], one at most."""
    away_o2 = pads(rules) - body.position[None]
    return ((away_o2 * away_o2).sum(-1) <= PAD * PAD) & (jnp.arange(OPTIONS) < rules.options)


# What the agent sees --------------------------------------------------------------------------------------------------


def render(episode: Episode, time: jax.Array, body: Body, apples_w: jax.Array, height: int, width: int) -> jax.Array:
    """What the body sees in a frame: uint8 [height, width, 3]. `apples_w` are those that are left."""
    rules, now = episode.rules, phase(episode.rules, time)
    eye = camera(body, PITCH)
    image = raycast.render(scene(episode, now), eye, height, width)
    left_w = jnp.where(now == DISTRACT, apples_w, jnp.zeros_like(apples_w))
    return apples.overlay(image, Apples(left_w, rules.side), eye)


def scene(episode: Episode, now: jax.Array) -> Scene:
    """The room of a phase. Solids: squares and their frames, pads, and the walls on both sides of the alcove.

    The corridor's square is the first one, which moves.
    """
    rules = episode.rules
    extent, first = half(rules, now), jnp.arange(OPTIONS) == 0
    exploring, choosing = now == EXPLORE, now == CHOOSE
    pad_o2 = pads(rules)
    x_o = jnp.where(exploring, 0.0, pad_o2[:, 0])
    color_o = jnp.where(exploring, episode.color_o[episode.target], episode.color_o)
    offered_o = (jnp.arange(OPTIONS) < rules.options) & choosing
    squares_o = (exploring & first) | offered_o
    wall = jnp.full_like(x_o, -extent[1])
    ends_2 = jnp.array([-1.0, 1.0], jnp.float32) * (extent[0] + CELL / 2) / 2
    alcove = (jnp.stack([extent[0] - CELL / 2, jnp.float32(CELL)]) / 2, extent[1] - CELL / 2)
    solids = raycast.join(
        _solids(_at(x_o, wall, MIDDLE), (SQUARE / 2, 0.03, SQUARE / 2), jnp.asarray(RGB_X3)[color_o], squares_o),
        _solids(_at(x_o, wall, MIDDLE), (FRAME / 2, 0.02, FRAME / 2), _all(FRAME_RGB), squares_o),
        _solids(_at(x_o, pad_o2[:, 1], 0.0), (PAD, PAD, 0.02), _all(PAD_RGB), offered_o, CYLINDER),
        _solids(
            _at(ends_2, jnp.full(2, alcove[1]), WALLS / 2),
            (alcove[0][0], CELL / 2, WALLS / 2),
            _all(ALCOVE_RGB, 2),
            jnp.full(2, choosing),
        ),
    )
    return Scene(Room(extent, jnp.float32(WALLS), jnp.asarray(THEME)[now]), solids)


def _at(x_p: jax.Array, y_p: jax.Array, z: float) -> jax.Array:
    return jnp.stack([x_p, y_p, jnp.full_like(x_p, z)], -1)


def _all(rgb: tuple[float, float, float], count: int = OPTIONS) -> jax.Array:
    return jnp.broadcast_to(jnp.array(rgb, jnp.float32)[None], (count, 3))


def _solids(
    center_p3: jax.Array,
    half: tuple[jax.Array | float, jax.Array | float, jax.Array | float],
    color_p3: jax.Array,
    present_p: jax.Array,
    quadric: tuple[float, float, float, float] = BOX,
) -> Solids:
    """Boxes or upright cylinders of one size, along the axes; none has a shadow."""
    count = len(present_p)
    frame_33 = jnp.diag(1.0 / jnp.stack([jnp.asarray(size, jnp.float32) for size in half]))
    flat = (-1.0, 1.0, -1.0, 1.0) if quadric == BOX else (-FAR, FAR, -1.0, 1.0)
    return Solids(
        center_p3=center_p3,
        frame_p33=jnp.broadcast_to(frame_33[None], (count, 3, 3)),
        quadric_p4=jnp.broadcast_to(jnp.array(quadric, jnp.float32)[None], (count, 4)),
        bounds_p4=jnp.broadcast_to(jnp.array(flat, jnp.float32)[None], (count, 4)),
        color_p3=color_p3,
        shadow_p3=jnp.zeros((count, 3), jnp.float32),
        present_p=present_p,
    )
