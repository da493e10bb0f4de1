"""Tasks for the eye: `hcam tasks` and `hcam show`, which draws an episode as an animation or a contact sheet."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from PIL import Image, ImageDraw, ImageFont
from rich import box
from rich.table import Table
from rich.text import Text

from hcam import envs
from hcam.envs.environment import Environment, EnvParams, Moments
from hcam.envs.levels import level_of
from hcam.envs.play import at_random, knowing
from hcam.viewer.films import fitted, write_gif, write_mp4
from hcam.viewer.frames import Frame, frame_of, matters, outcome

BACKGROUND, INK, FAINT, GOOD, BAD = (24, 24, 27), (244, 244, 245), (113, 113, 122), (74, 222, 128), (248, 113, 113)
MATTERS = (96, 165, 250)  # the steps that have to be remembered, on the time line
SHEET_FRAMES, SHEET_COLUMNS = 64, 8
MAX_FRAMES = 20_000


class Film(NamedTuple):
    """A whole episode."""

    frames: list[Frame]
    title: str
    matters: Moments | None


def task_table() -> Table:
    table = Table(box=box.SIMPLE, padding=(0, 1, 0, 0))
    for heading in ("task", "what it asks", "levels", "options", "actions", "an observation"):
        # The names of levels are what people type: they stay whole, and other columns become narrower.
        table.add_column(heading, no_wrap=heading == "levels", overflow="fold")
    for name in envs.names():
        try:
            cells = _about(envs.make(name))
        except Exception as error:  # of somebody else's package, whatever that raises
            cells = [f"cannot be made: {str(error) or type(error).__name__}", *[""] * 4]
        table.add_row(*(Text(cell) for cell in (name, *cells)))
    return table


def _about(env: Environment) -> list[str]:
    what = (type(env).__doc__ or "").split("\n")[0].rstrip(".")
    spaces = env.observation_space
    parts = spaces if isinstance(spaces, dict) else {"": spaces}
    shapes = "\n".join(f"{part} {space.dtype}{list(space.shape)}".strip() for part, space in parts.items())
    fields: Any = dataclasses.fields(env) if dataclasses.is_dataclass(env) else ()
    options = "\n".join(f"{field.name}={getattr(env, field.name)}" for field in fields if field.init)
    return [what, "\n".join(env.levels), options, str(env.action_space.n), shapes]


def show(
    task: str,
    options: Mapping[str, Any],
    levels: Sequence[str],
    out: Path,
    policy: str = "auto",
    seed: int = 0,
    fps: int = 10,
    scale: int = 4,
) -> Iterator[str]:
    """Plays an episode and writes it to a file; yields lines that say what happened."""
    env = envs.make(task, **options)
    if not 0 <= seed < 2**31:
        raise ValueError(f"seed must be from 0 to {2**31 - 1:,}, but is {seed}.")
    if out.suffix not in WRITERS:
        raise ValueError(f"{out} must end in {', '.join(WRITERS)}, which decides what is written.")
    for name, number, most in (("fps", fps, 100), ("scale", scale, 20)):
        if not 1 <= number <= most:
            raise ValueError(f"{name} must be 1 to {most}, but is {number}.")
    out.parent.mkdir(parents=True, exist_ok=True)
    state, frames, level = film(env, env.params(*levels), policy, seed)
    own = env.picture([jax.device_get(state)])  # as wide as 100 pixels would be, whatever its resolution
    scale = scale if own is None else max(1, round(100 * scale / own.shape[1]))
    title = " ".join((task, *(tuple(levels) or env.default_levels)[level : level + 1]))
    WRITERS[out.suffix](Film(frames, title, matters(env, state)), out, fps, scale)
    yield f"{out}: {len(frames)} frames, {out.stat().st_size / 1e3:,.0f} kB"
    yield from _story(env, state, frames)


def _story(env: Environment, state: Any, frames: list[Frame]) -> Iterator[str]:
    """The episode in words, for tasks that can describe theirs, and how it ended."""
    with suppress(ValueError):
        for key, value in env.describe(state).items():
            if isinstance(value, list) and any(isinstance(part, dict) for part in value):
                yield from (f"  {key} {number}: {_worded(part)}" for number, part in enumerate(value))
            else:
                yield f"  {key}: {_worded(value)}"
    yield f"  {outcome(frames[-1])}"


def _worded(value: Any) -> str:
    """A part of a description, for people: numbers short, lists in one line."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {_worded(part)}" for key, part in value.items())
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_worded, value))}]"
    return f"{value:.4g}" if isinstance(value, float) else f"{value}"


def film(env: Environment, params: EnvParams, policy: str, seed: int) -> tuple[Any, list[Frame], int]:
    """The first state of one episode, all its frames, the last one included, and the number of its level."""
    key_reset, key_play = jax.random.split(jax.random.key(seed))
    observation, start = jax.jit(env.reset)(key_reset, params)
    step = jax.jit(partial(_step, env, _policy(env, policy, start)))
    states, state, reward = [jax.device_get(start)], start, 0.0
    frames = [frame_of(env, observation, states, 0.0, "")]
    while not frames[-1].ending:
        if len(frames) > MAX_FRAMES:
            raise ValueError(f"the episode is longer than {MAX_FRAMES:,} frames: choose a shorter level.")
        observation, last, state, gain, ending, level = step(jax.random.fold_in(key_play, len(frames)), state, params)
        reward += float(gain)
        states.append(jax.device_get(last))
        frames.append(frame_of(env, observation, states, reward, ("", "time is up", "done")[int(ending)]))
    return start, frames, int(level)


def _policy(env: Environment, policy: str, state: Any) -> Any:
    """An expert where there is one, unless chance is asked for."""
    if policy == "random":
        return at_random(env)
    try:
        jax.eval_shape(env.expert, state)
    except ValueError:
        if policy == "expert":
            raise
        return at_random(env)
    return knowing(env.expert)


def _step(env: Environment, act: Any, key: jax.Array, state: Any, params: EnvParams) -> Any:
    """What an episode shows next, its last frame and state instead of the next episode's first; and the next state."""
    key_act, key_step = jax.random.split(key)
    action = act(key_act, state, None)
    clone: Any = jax.random.clone  # the same key as in `env.step`, on purpose
    draws, key_advance = type(env).picture is not Environment.picture, jax.random.split(clone(key_step))[0]
    last = env.advance(key_advance, state, action, level_of(params, state))[0] if draws else state
    _, state, reward, terminated, truncated, info = env.step(key_step, state, action, params)
    ending = jnp.where(terminated, 2, truncated.astype(jnp.int32))
    return info["final_observation"], last, state, reward, ending, info.get("level", jnp.int32(0))


def poster(film: Film, number: int, scale: int) -> Image.Image:
    """One frame of an animation: what the agent sees, above it the instruction, below it the time line.

    On the time line, the steps that have to be remembered are marked, and the step at which they are asked for.
    """
    frame, total = film.frames[number], len(film.frames)
    pixels = np.kron(frame.pixels, np.ones((scale, scale, 1), np.uint8))
    height, width = pixels.shape[:2]
    bar = max(16, width // 12)
    canvas = Image.new("RGB", (width + width % 2, height + 2 * bar), BACKGROUND)  # even sides, for .mp4
    canvas.paste(Image.fromarray(pixels), (0, bar))
    pen, font = ImageDraw.Draw(canvas), ImageFont.load_default(bar * 0.55)
    colour = INK if not frame.ending else GOOD if frame.reward > 0 else BAD
    words = outcome(frame) if frame.ending else frame.text
    pen.text((bar / 3, bar / 2), fitted(words, width - bar / 1.5, font), colour, font, anchor="lm")
    pen.text((bar / 3, height + 1.5 * bar), film.title, FAINT, font, anchor="lm")
    pen.text((width - bar / 3, height + 1.5 * bar), f"{number}", FAINT, font, anchor="rm")
    thick, step = max(1, bar // 8), width / max(total - 1, 1)
    if film.matters:
        begin, end, question = film.matters
        pen.line([(begin * step, height + bar + thick), ((end - 1) * step, height + bar + thick)], MATTERS, thick)
        pen.line([(question * step, height + bar - thick), (question * step, height + bar + 2 * thick)], MATTERS, 1)
    pen.line([(0, height + bar), (number * step, height + bar)], colour, thick)
    return canvas


def write_animation(film: Film, path: Path, fps: int, scale: int) -> None:
    pictures = [poster(film, number, scale) for number in range(len(film.frames))]
    # The last one long enough to read how it ended, before it starts again.
    write_gif(pictures, path, [round(1000 / fps)] * (len(pictures) - 1) + [1500])


def write_video(film: Film, path: Path, fps: int, scale: int) -> None:
    write_mp4((poster(film, number, scale) for number in range(len(film.frames))), path, fps)


def write_sheet(film: Film, path: Path, fps: int, scale: int) -> None:
    """Frames of the episode in reading order, each with its number, and a caption wherever the instruction changes."""
    frames, chosen = film.frames, changes(film.frames)
    height, width = (side * max(1, scale // 2) for side in frames[0].pixels.shape[:2])
    label, gap, columns = 18, 6, min(SHEET_COLUMNS, len(chosen))
    size = columns * (width + gap) + gap, -(-len(chosen) // columns) * (height + label + gap) + gap + 2 * label
    sheet = Image.new("RGB", size, BACKGROUND)
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(13)
    pen.text((gap, gap), f"{film.title}: {outcome(frames[-1])}", INK, ImageFont.load_default(18))
    for place, number in enumerate(chosen):
        row, column = divmod(place, columns)
        x, y = gap + column * (width + gap), gap + 2 * label + row * (height + label + gap)
        picture = Image.fromarray(frames[number].pixels).resize((width, height), Image.Resampling.NEAREST)
        sheet.paste(picture, (x, y))
        pen.text((x, y + height + 2), f"{number}", FAINT, font)
        if place == 0 or frames[number].text != frames[chosen[place - 1]].text or number == chosen[-1]:
            room = width - font.getlength(f"{number}  ")
            pen.text((x + width, y + height + 2), fitted(frames[number].text, room, font), INK, font, anchor="ra")
    sheet.save(path)


def changes(frames: list[Frame]) -> list[int]:
    """The frames in which something has changed, thinned evenly to SHEET_FRAMES, and every new instruction."""
    pairs = list(enumerate(zip(frames[1:], frames[:-1], strict=True), start=1))
    spoken = {number for number, (now, before) in pairs if now.text != before.text}
    moved = [0, *(number for number, (now, before) in pairs if (now.pixels != before.pixels).any()), len(frames) - 1]
    kept = np.linspace(0, len(moved) - 1, min(len(moved), SHEET_FRAMES)).round().astype(int)
    return sorted({*spoken, *(moved[place] for place in kept)})


WRITERS: dict[str, Callable[[Film, Path, int, int], None]] = {
    ".gif": write_animation,
    ".png": write_sheet,
    ".mp4": write_video,
}
