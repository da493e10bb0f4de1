"""Every thing that can stand in a first-person room, in one picture: python examples/things.py --out things.png

A scene is data: the same compiled program draws all of them, and any room that you put together yourself.
"""

import argparse
import math

import jax
import jax.numpy as jnp
import numpy as np
from PIL import Image, ImageDraw

from hcam.envs.render.raycast import Camera, Room, Scene, render
from hcam.envs.render.textures import THEMES
from hcam.envs.render.things import COLORS, THINGS, place

COLUMNS, LABEL, GAP = 9, 14, 4


def portrait(number: jax.Array, height: int, width: int) -> jax.Array:
    """One thing, two metres away in a room of its own: uint8 [height, width, 3]."""
    room = Room(jnp.full(2, 5.0), jnp.float32(3.0), number % len(THEMES))
    thing = place(number, jnp.zeros(3), math.pi - 0.5, 1.0, number * 5 % len(COLORS))
    camera = Camera(position=jnp.array([0.0, -1.9, 1.0]), yaw=jnp.float32(0), pitch=jnp.float32(-0.25))
    return render(Scene(room, thing), camera, height, width)


def sheet(images: np.ndarray, scale: int) -> Image.Image:
    """All of them in rows, each below its name."""
    height, width = images.shape[1] * scale, images.shape[2] * scale
    rows = -(-len(images) // COLUMNS)
    canvas = Image.new("RGB", (COLUMNS * (width + GAP), rows * (height + LABEL)))
    pen = ImageDraw.Draw(canvas)
    for number, (name, image) in enumerate(zip(THINGS, images, strict=True)):
        x, y = number % COLUMNS * (width + GAP), number // COLUMNS * (height + LABEL)
        pen.text((x + 2, y + 1), name)
        picture = Image.fromarray(image).resize((width, height), Image.Resampling.NEAREST)
        canvas.paste(picture, (x, y + LABEL))
    return canvas


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="things.png")
    parser.add_argument("--quick", action="store_true", help="small pictures")
    options = parser.parse_args()
    height, width = (12, 16) if options.quick else (72, 96)
    draw = jax.jit(jax.vmap(lambda number: portrait(number, height, width)))
    sheet(np.asarray(draw(jnp.arange(len(THINGS)))), scale=2).save(options.out)
    print(f"{options.out}: {len(THINGS)} things")


if __name__ == "__main__":
    main()
