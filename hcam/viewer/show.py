"""Tasks for the eye: `hcam tasks` and `hcam show`, which draws an episode as an animation or a contact sheet."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from rich import box
from rich.table import Table

from hcam import envs
from hcam.envs.environment import Environment, Params
from hcam.envs.play import at_random, knowing
from hcam.envs.spaces import Tokens

BACKGROUND, INK, FAINT, GOOD, BAD = (24, 24, 27), (244, 244, 245), (113, 113, 122), (74, 222, 128), (248, 113, 113)
SHEET_FRAMES, SHEET_COLUMNS = 64, 8
MAX_FRAMES = 20_000


class Frame(NamedTuple):
    """One moment of an episode."""

    pixels: NDArray[np.uint8]  # [height, width, 3]
    text: str
    reward: float  # so far
    ending: str  # "", "done" or "time is up"


def task_table() -> Table:
    table = Table(box=box.SIMPLE, padding=(0, 2, 0, 0))
    for heading in ("task", "what it asks", "levels", "actions", "an observation"):
        table.add_column(heading)
    for name, task in envs.TASKS.items():
        env = task()
        what = (task.__doc__ or "").split("\n")[0].rstrip(".")
        spaces = env.observation_space
        parts = spaces if isinstance(spaces, dict) else {"": spaces}
        shapes = "\n".join(f"{part} {space.dtype}{list(space.shape)}".strip() for part, space in parts.items())
        table.add_row(name, what, "\n".join(env.levels), str(env.action_space.n), shapes)
    return table


def show(
    task: str, levels: Sequence[str], out: Path, policy: str = "expert", seed: int = 0, fps: int = 10, scale: int = 4
) -> Iterator[str]:
    """Plays an episode and writes it to a file; yields lines that say what happened."""
    env = envs.make(task)
    if "image" not in (env.observation_space if isinstance(env.observation_space, dict) else {}):
        raise ValueError(f"{task} has no pictures to show: choose from {', '.join(_with_pictures())}.")
    if out.suffix not in WRITERS:
        raise ValueError(f"{out} must end in {', '.join(WRITERS)}, which decides what is written.")
    for name, number, most in (("fps", fps, 100), ("scale", scale, 20)):
        if not 1 <= number <= most:
            raise ValueError(f"{name} must be 1 to {most}, but is {number}.")
    out.parent.mkdir(parents=True, exist_ok=True)
    state, frames, level = film(env, env.params(*levels), policy, seed)
    WRITERS[out.suffix](frames, out, f"{task} {(levels or env.levels)[level]}", fps, scale)
    yield f"{out}: {len(frames)} frames, {out.stat().st_size / 1e3:,.0f} kB"
    yield from _told(env, state, frames)


def _with_pictures() -> list[str]:
    spaces = {name: task().observation_space for name, task in envs.TASKS.items()}
    return [name for name, space in spaces.items() if isinstance(space, dict) and "image" in space]


def _told(env: Environment, state: Any, frames: list[Frame]) -> Iterator[str]:
    """The story of the episode, for tasks that can describe themselves."""
    description = env.describe(state)
    for number, dancer in enumerate(description.pop("dancers", [])):
        mark = "*" if number == description.get("target") else " "
        yield f" {mark} {', '.join(f'{key} {value}' for key, value in dancer.items())}"
    last = frames[-1]
    yield f"  instruction {last.text!r}, {last.ending}, reward {last.reward:g}"


def film(env: Environment, params: Params, policy: str, seed: int) -> tuple[Any, list[Frame], int]:
    """The first state of one episode, all its frames, the last one included, and the number of its level."""
    act = knowing(env.expert) if policy == "expert" else at_random(env)
    key = jax.random.key(seed)
    key_reset, key_play = jax.random.split(key)
    observation, start = jax.jit(env.reset)(key_reset, params)
    step = jax.jit(partial(_step, env, act))
    frames, state, reward = [_frame(env, observation, 0.0, "")], start, 0.0
    while not frames[-1].ending:
        if len(frames) > MAX_FRAMES:
            raise ValueError(f"the episode is longer than {MAX_FRAMES:,} frames: choose a shorter level.")
        observation, state, gain, ending, level = step(jax.random.fold_in(key_play, len(frames)), state, params)
        reward += float(gain)
        frames.append(_frame(env, observation, reward, ("", "time is up", "done")[int(ending)]))
    return start, frames, int(level)


def _step(env: Environment, act: Any, key: jax.Array, state: Any, params: Params) -> Any:
    """What an episode shows next, its last frame instead of the next episode's first."""
    key_act, key_step = jax.random.split(key)
    _, state, reward, terminated, truncated, info = env.step(key_step, state, act(key_act, state, None), params)
    ending = jnp.where(terminated, 2, truncated.astype(jnp.int32))
    return info["final_observation"], state, reward, ending, info["level"]


def _frame(env: Environment, observation: dict[str, Any], reward: float, ending: str) -> Frame:
    spaces = env.observation_space
    assert isinstance(spaces, dict)
    texts = [space.text(observation[name]) for name, space in spaces.items() if isinstance(space, Tokens)]
    return Frame(np.asarray(observation["image"]), " ".join(texts), reward, ending)


def poster(frame: Frame, number: int, total: int, title: str, scale: int) -> Image.Image:
    """One frame of an animation: what the agent sees, above it the instruction, below it how far the episode is."""
    pixels = np.kron(frame.pixels, np.ones((scale, scale, 1), np.uint8))
    height, width = pixels.shape[:2]
    bar = max(16, width // 12)
    canvas = Image.new("RGB", (width + width % 2, height + 2 * bar), BACKGROUND)  # even sides, for .mp4
    canvas.paste(Image.fromarray(pixels), (0, bar))
    pen, font = ImageDraw.Draw(canvas), ImageFont.load_default(bar * 0.55)
    colour = INK if not frame.ending else GOOD if frame.reward > 0 else BAD
    words = frame.text if not frame.ending else f"{frame.text}: {frame.ending}, reward {frame.reward:g}"
    pen.text((bar / 3, bar / 2), words, colour, font, anchor="lm")
    pen.text((bar / 3, height + 1.5 * bar), title, FAINT, font, anchor="lm")
    pen.text((width - bar / 3, height + 1.5 * bar), f"{number}", FAINT, font, anchor="rm")
    pen.line([(0, height + bar), (width * number / max(total - 1, 1), height + bar)], colour, max(1, bar // 8))
    return canvas


def write_gif(frames: list[Frame], path: Path, title: str, fps: int, scale: int) -> None:
    pictures = [poster(frame, number, len(frames), title, scale) for number, frame in enumerate(frames)]
    palette = [picture.quantize(64, dither=Image.Dither.NONE) for picture in pictures]
    pause = round(1000 / fps)
    lasting = [pause] * (len(frames) - 1) + [1500]  # long enough to read how it ended, before it starts again
    palette[0].save(path, save_all=True, append_images=palette[1:], duration=lasting, loop=0)


def write_mp4(frames: list[Frame], path: Path, title: str, fps: int, scale: int) -> None:
    try:
        import av
    except ImportError as error:
        raise ValueError('.mp4 needs av, which `pip install "hcam[video]"` brings; .gif needs nothing.') from error
    with av.open(str(path), "w") as film:
        first = poster(frames[0], 0, len(frames), title, scale)
        stream = film.add_stream("libx264", rate=fps, options={"crf": "18"})
        stream.width, stream.height, stream.pix_fmt = *first.size, "yuv420p"
        for number, frame in enumerate(frames):
            picture = np.asarray(poster(frame, number, len(frames), title, scale))
            film.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        film.mux(stream.encode())


def write_sheet(frames: list[Frame], path: Path, title: str, fps: int, scale: int) -> None:
    """Moments of the episode in reading order, each with its number, and a caption wherever the instruction changes."""
    chosen = moments(frames)
    height, width = (side * max(1, scale // 2) for side in frames[0].pixels.shape[:2])
    label, gap = 18, 6
    rows = -(-len(chosen) // SHEET_COLUMNS)
    size = (SHEET_COLUMNS * (width + gap) + gap, rows * (height + label + gap) + gap + 2 * label)
    sheet = Image.new("RGB", size, BACKGROUND)
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(13)
    last = frames[-1]
    pen.text(
        (gap, gap), f"{title}: {last.text}, {last.ending}, reward {last.reward:g}", INK, ImageFont.load_default(18)
    )
    for place, number in enumerate(chosen):
        row, column = divmod(place, SHEET_COLUMNS)
        x, y = gap + column * (width + gap), gap + 2 * label + row * (height + label + gap)
        picture = Image.fromarray(frames[number].pixels).resize((width, height), Image.Resampling.NEAREST)
        sheet.paste(picture, (x, y))
        pen.text((x, y + height + 2), f"{number}", FAINT, font)
        if place == 0 or frames[number].text != frames[chosen[place - 1]].text or number == chosen[-1]:
            pen.text((x + width, y + height + 2), frames[number].text, INK, font, anchor="ra")
    sheet.save(path)


def moments(frames: list[Frame]) -> list[int]:
    """The frames in which something has changed, thinned evenly to SHEET_FRAMES, and every new instruction."""
    pairs = list(enumerate(zip(frames[1:], frames[:-1], strict=True), start=1))
    spoken = {number for number, (now, before) in pairs if now.text != before.text}
    moved = [0, *(number for number, (now, before) in pairs if (now.pixels != before.pixels).any()), len(frames) - 1]
    kept = np.linspace(0, len(moved) - 1, min(len(moved), SHEET_FRAMES)).round().astype(int)
    return sorted({*spoken, *(moved[place] for place in kept)})


WRITERS: dict[str, Callable[[list[Frame], Path, str, int, int], None]] = {
    ".gif": write_gif,
    ".png": write_sheet,
    ".mp4": write_mp4,
}
