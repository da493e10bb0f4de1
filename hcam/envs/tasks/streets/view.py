"""What a street looks like from one of its ends: houses on both sides, and a tower where it ends.

Everything follows from where the two ends are: a street has the same houses in every episode, and from both ends, where
left and right change sides. Sky and pavement belong to the place where one stands, the tower to the one ahead. x points
to the right, y up and z ahead, in metres from the eye.
"""

import jax
import jax.numpy as jnp

from hcam.envs.tasks.streets.episodes import Map

EYE = 2.5  # metres above the street
HORIZON = 0.55  # of the image's height from the top
SHORTEST, LONGEST = 24.0, 72.0  # a street's length as it is drawn
HOUSE, FLOOR, WINDOW = 8.0, 3.0, 2.0  # metres
ROAD = 0.55  # of the space between the houses
SUN = 0.8  # the bearing of the brightest walls, radians

_MIX = (0x7FEB352D, 0x846CA68B)  # odd multipliers of a 32-bit mixing function


def mix(*numbers: jax.Array) -> jax.Array:
    """A hash of integers: uint32, of their common shape."""
    hashed: jax.Array = jnp.uint32(0x9E3779B9)
    for number in numbers:
        hashed = hashed ^ number.astype(jnp.uint32)
        for factor, shift in zip(_MIX, (16, 15), strict=True):
            hashed = (hashed ^ (hashed >> shift)) * jnp.uint32(factor)
        hashed = hashed ^ (hashed >> 16)
    return hashed


def fraction(hashed: jax.Array, part: int) -> jax.Array:
    """One of four independent numbers of a hash, from 0 to below 1: float32."""
    return ((hashed >> (8 * part)) & 0xFF).astype(jnp.float32) / 256


def hue(turn: jax.Array, saturation: float, value: jax.Array | float) -> jax.Array:
    """A colour, float32 [..., 3]; `turn` goes once round all hues from 0 to 1."""
    shift = jnp.array([0.0, 2 / 3, 1 / 3], jnp.float32).reshape(*[1] * turn.ndim, 3)
    wave = jnp.clip(jnp.abs((turn[..., None] + shift) % 1.0 * 6 - 3) - 1, 0, 1)
    return jnp.asarray(value)[..., None] * (1 - saturation + saturation * wave)


def render(at: Map, place: jax.Array, side: int) -> jax.Array:
    """The view of a state: uint8 [side, side, 3]."""
    a_2, b_2 = at.node_n2[at.tail_s[place]], at.node_n2[at.head_s[place]]
    away_2 = (b_2 - a_2).astype(jnp.float32) / 10
    length = jnp.clip(jnp.linalg.norm(away_2), SHORTEST, LONGEST)
    here, ahead = (mix(at.city, *node) for node in (a_2, b_2))
    turned = (a_2[0] > b_2[0]) | ((a_2[0] == b_2[0]) & (a_2[1] > b_2[1]))  # seen from the street's other end
    street = mix(jnp.where(turned, ahead, here), jnp.where(turned, here, ahead))
    pixel = (jnp.arange(side, dtype=jnp.float32) + 0.5) / side
    u_w, v_h = 2 * pixel - 1, 2 * (HORIZON - pixel)
    wide = 7 + 4 * fraction(street, 0)  # metres from the middle of the street to its houses
    far_w = wide / jnp.maximum(jnp.abs(u_w), 1e-3)  # where the ray of a column meets them

    sky_h3 = hue(fraction(here, 0), 0.35, 1.0)[None] * (0.75 + 0.25 * (1 - jnp.clip(v_h, 0, 1)))[:, None]
    image = jnp.broadcast_to(sky_h3[:, None], (side, side, 3))
    tower_hw, rgb_hw3 = _tower(ahead, u_w, v_h, length + 6)
    image = jnp.where(tower_hw[..., None], rgb_hw3, image)
    image = jnp.where((v_h < 0)[:, None, None], _ground(here, u_w, v_h, wide), image)
    walls_hw, rgb_hw3 = _houses(street, turned, jnp.arctan2(away_2[0], away_2[1]), u_w, v_h, far_w, length)
    haze_hw1 = jnp.broadcast_to(jnp.clip(far_w / LONGEST, 0, 1)[None, :, None] * 0.45, (side, side, 1))
    image = jnp.where(walls_hw[..., None], rgb_hw3 * (1 - haze_hw1) + sky_h3[:, None] * haze_hw1, image)
    return jnp.round(255 * jnp.clip(image, 0, 1)).astype(jnp.uint8)


def _tower(ahead: jax.Array, u_w: jax.Array, v_h: jax.Array, far: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The mark of the place ahead: where it is seen, and its colours; stripes of two hues."""
    half, high = 2 + 3 * fraction(ahead, 0), 14 + 22 * fraction(ahead, 1)
    x_w, y_h = jnp.abs(u_w * far), EYE + v_h * far
    narrow_h = half * jnp.where(y_h > 0.75 * high, 0.5, 1.0)
    seen_hw = (x_w[None, :] < narrow_h[:, None]) & ((y_h > 0) & (y_h < high))[:, None]
    stripe_h = (jnp.floor(y_h / 3.5) % 2 > 0)[:, None]
    rgb_h3 = jnp.where(stripe_h, hue(fraction(ahead, 2), 0.85, 0.95)[None], hue(fraction(ahead, 3), 0.85, 0.55)[None])
    return seen_hw, jnp.broadcast_to(rgb_h3[:, None], (*seen_hw.shape, 3))


def _ground(here: jax.Array, u_w: jax.Array, v_h: jax.Array, wide: jax.Array) -> jax.Array:
    """Road with a dashed line, and pavement in the colour of this place: float32 [H, W, 3]."""
    far_h = EYE / jnp.maximum(-v_h, 1e-3)
    x_hw = jnp.abs(u_w[None, :] * far_h[:, None])
    dash_hw = (x_hw < 0.2) & (far_h % 5 < 2.5)[:, None]
    road_3, line_3 = jnp.array([0.27, 0.27, 0.3], jnp.float32), jnp.array([0.95, 0.95, 0.9], jnp.float32)
    pave_3 = hue(fraction(here, 1), 0.4, 0.75)
    ground_hw3 = jnp.where((x_hw < ROAD * wide)[..., None], road_3[None, None], pave_3[None, None])
    return jnp.where(dash_hw[..., None], line_3[None, None], ground_hw3)


def _houses(
    street: jax.Array,
    turned: jax.Array,
    heading: jax.Array,
    u_w: jax.Array,
    v_h: jax.Array,
    far_w: jax.Array,
    length: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """The rows of houses: where they are seen, and their colours. A column of the image shows a single house."""
    right_w = u_w > 0
    along_w = jnp.where(turned, length - far_w, far_w)
    house_w = mix(street[None], right_w ^ turned, jnp.floor(along_w / HOUSE).astype(jnp.int32))
    high_w = 5 + 17 * fraction(house_w, 0)
    y_hw = EYE + v_h[:, None] * far_w[None, :]
    seen_hw = (y_hw >= 0) & (y_hw <= high_w[None, :]) & (far_w < length)[None, :]
    lit_w = 0.78 + 0.22 * jnp.cos(heading + jnp.where(right_w, -jnp.pi / 2, jnp.pi / 2) - SUN)
    wall_w3 = hue(fraction(house_w, 1), 0.55, (0.55 + 0.45 * fraction(house_w, 2)) * lit_w)
    across_w, up_hw = along_w / WINDOW % 1, y_hw / FLOOR % 1
    glass_hw = ((across_w > 0.3) & (across_w < 0.8))[None, :] & (up_hw > 0.3) & (up_hw < 0.75)
    pane_w3 = hue(fraction(house_w, 3), 0.5, jnp.full_like(u_w, 0.3))
    return seen_hw, jnp.where(glass_hw[..., None], pane_w3[None], wall_w3[None])
