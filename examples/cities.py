"""The cities of One-Shot StreetLearn: pictures of their streets, and tables of what a neighbourhood is like there.

python examples/cities.py --out docs/images
python examples/cities.py --quick      # a few episodes, seconds
"""

import argparse
from pathlib import Path

import jax
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import LineCollection
from PIL import Image, ImageDraw

from hcam.envs.play import at_random, begin, knowing, play
from hcam.envs.tasks.streets import Streets
from hcam.envs.tasks.streets.cities import CITIES, TEST_CITIES, TITLES, load
from hcam.envs.tasks.streets.levels import JUNCTIONS, LEVELS, parse
from hcam.envs.tasks.streets.neighbourhoods import centres, sample
from hcam.envs.tasks.streets.view import render


def draw(path: Path) -> None:
    """All streets of all cities, each city on its own scale."""
    figure, axes = plt.subplots(2, 4, figsize=(14, 7.4), layout="constrained")
    for name, ax in zip(CITIES, axes.flat, strict=False):
        city = load(name)
        tail, place = np.nonzero(city.way_nd >= 0)
        ends = np.stack([city.node_n2[tail], city.node_n2[city.way_nd[tail, place]]], 1) / 1e4  # km
        once = tail < city.way_nd[tail, place]
        ax.add_collection(LineCollection(list(ends[once]), linewidths=0.25, colors="#1f2937"))
        ax.autoscale()
        ax.set_aspect("equal")
        ax.tick_params(labelsize=7)
        ax.set_title(f"{TITLES[name]}{' (held out)' if name in TEST_CITIES else ''}", fontsize=11)
    axes.flat[-1].axis("off")
    notice = "kilometres\n\n© OpenStreetMap contributors\nOpen Database License"
    axes.flat[-1].text(0.5, 0.5, notice, ha="center", va="center", fontsize=11)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def draw_views(path: Path) -> None:
    """A neighbourhood of Liège: its map, and what the agent sees in each state, a node after the other."""
    env = Streets(observation="pixels", neighbourhoods=16)
    state = env.reset(jax.random.key(6), env.params("liege"))[1]
    at = state.episode.map
    views = jax.jit(jax.vmap(lambda place: render(at, place, env.side)))(jax.numpy.arange(at.states))
    map_height, gap, columns = 320, 4, 9
    plain = Streets(neighbourhoods=16).picture([state])
    rows = -(-len(views) // columns)
    sheet = Image.new("RGB", (map_height + columns * (env.side + gap), max(map_height, rows * (env.side + 14))))
    sheet.paste(Image.fromarray(plain), (0, 0))
    pen = ImageDraw.Draw(sheet)
    for number, seen in enumerate(np.asarray(views)):
        x, y = map_height + number % columns * (env.side + gap), number // columns * (env.side + 14)
        sheet.paste(Image.fromarray(seen), (x, y + 12))
        pen.text((x, y), f"{at.tail_s[number]} -> {at.head_s[number]}")
    sheet.save(path)


def sizes(name: str, every: int) -> list[str]:
    """The size of a city, and of its neighbourhoods: least, mean and most."""
    city = load(name)
    around = centres(city)
    made = sample(city, around[::every], JUNCTIONS)
    counts = (made.nodes_r, made.states_r // 2, made.states_r)
    ranges = [f"{count.min()} / {count.mean():.1f} / {count.max()}" for count in counts]
    return [f"{len(city.node_n2):,}", f"{city.degree_n.sum() // 2:,}", f"{len(around):,}", *ranges]


def returns(env: Streets, level: str, episodes: int) -> list[str]:
    """Mean return of an episode and its standard error: of the expert, and of random actions."""
    params = env.params(level)

    def of(policy, key):
        key_reset, key_play = jax.random.split(key)
        steps = env.max_steps_in_episode(level)
        return play(env, policy, key_play, begin(env, key_reset, params), params, steps)[1].reward.sum()

    found = []
    for policy in (knowing(env.expert), at_random(env)):
        keys = jax.random.split(jax.random.key(0), episodes)
        earned = np.asarray(jax.jit(jax.vmap(lambda key, policy=policy: of(policy, key)))(keys))
        found.append(f"{earned.mean():.2f} ± {earned.std() / np.sqrt(episodes):.2f}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("."), help="the folder of the picture")
    parser.add_argument("--quick", action="store_true", help="few episodes and neighbourhoods")
    given = parser.parse_args()
    draw(given.out / "cities.png")
    draw_views(given.out / "streets-views.png")
    print("| city | nodes | streets | junctions | nodes, | streets, | states of a neighbourhood |")
    print("| --- " * 7 + "|")
    for name in CITIES:
        print(f"| {' | '.join([TITLES[name], *sizes(name, 100 if given.quick else 1)])} |")
    env = Streets(neighbourhoods=16 if given.quick else 4096)
    print("\n| level | expert | random |")
    print("| --- " * 3 + "|")
    for level in LEVELS[-1:] if given.quick else LEVELS:
        earned = " | ".join(returns(env, level, 4 if given.quick else 1024))
        print(f"| `{level}` ({parse(level).steps} steps) | {earned} |")


if __name__ == "__main__":
    main()
