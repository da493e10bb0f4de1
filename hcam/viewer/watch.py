"""`hcam watch`: plays episodes of a trained agent and writes what it recalled, as a page or a film.

What can be refused is refused before anything is played, which may take minutes.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hcam.adapters import raising_host_errors
from hcam.agent import memories
from hcam.runs import recording
from hcam.runs.files import explained, refuse_unwritable, write_file
from hcam.runs.pretrained import PREFIX, Trained
from hcam.runs.text import printable
from hcam.viewer import data, films, page, playback, strip
from hcam.viewer.frames import outcome
from hcam.viewer.playback import Playback

PAGE = Path("watch.html")  # where nothing else is asked for
PAGES, GIF, MP4 = (".html", ".htm"), (".gif",), (".mp4",)
MOST = 50  # episodes of a page, which holds them all


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to play, and what to write."""

    levels: Sequence[str] = ()  # of which every episode draws one; none: those of the agent's training
    episodes: int = 1
    seed: int = 0
    greedy: bool = True
    layer: int | None = None  # shown first, from 1 on; None: the one that recalls most of what matters
    out: Path | None = None  # a page; a folder: a page in it
    gif: Path | None = None
    mp4: Path | None = None
    fps: int = 12  # of a film


def watch(trained: Trained, source: str, options: Options) -> Iterator[tuple[Path | None, str]]:
    """Yields each file that was written, with a line about it, and then a line for each episode (with None)."""
    targets = _checked(trained, source, options)
    task, env = trained.config.task, trained.env
    levels = tuple(options.levels) or task.level_names(env)
    params = task.level_params(env, levels[0]) if len(levels) == 1 else env.params(*levels)
    with raising_host_errors(env):
        episodes = recording.record(
            trained.agent,
            env,
            trained.params,
            params,
            episodes=options.episodes,
            seed=options.seed,
            greedy=options.greedy,
        )
        stride = getattr(trained.config.agent.memory, "stride", None)
        played = [playback.prepare(env, episode, stride) for episode in episodes]
    if options.layer is not None:
        played = [one._replace(layer=_layer(one, options.layer)) for one in played]
    names = [env.title(levels[episode.level]) for episode in episodes]
    title = printable(f"{task.task}, {names[0]}, {_run(source)}")
    for kind, path in targets.items():
        with explained(f"{path} cannot be written"):
            if kind == "page":
                write_file(path, page.page(_data(trained, source, played, names), title).encode())
            else:
                _write_film(kind, path, played[0], title, options.fps)
        yield path, f"{path}: {path.stat().st_size / 1e3:,.0f} kB"
    for number, (one, name) in enumerate(zip(played, names, strict=True)):
        yield None, printable(f"  episode {number + 1}, {name}: {_said(one, env.scored_by)}")


def _said(one: Playback, scored_by: str) -> str:
    """How an episode went."""
    solved = {True: "solved", False: "not solved"}[one.success] if scored_by == "success" else ""
    parts = (f"{one.length} steps", solved, outcome(one.frames[-1]._replace(text="")))
    return ", ".join(part for part in parts if part)


def _checked(trained: Trained, source: str, options: Options) -> dict[str, Path]:
    """The files to write, by kind; raises ValueError or OSError where something asked for cannot be done."""
    for name, number, most in (("episodes", options.episodes, MOST), ("fps", options.fps, 50)):
        if not 1 <= number <= most:
            raise ValueError(f"{name} must be 1 to {most}, but is {number}.")
    if not 0 <= options.seed < 2**31 - 1:
        raise ValueError(f"seed must be from 0 to {2**31 - 2:,}, but is {options.seed}.")
    task, env = trained.config.task, trained.env
    for level in options.levels:
        task.level_params(env, level)  # refuses one that the environment does not know
    if len(options.levels) > 1:
        env.params(*options.levels)
    _refuse_unknown_layer(trained, options.layer)
    targets: dict[str, Path] = {}
    if options.gif:
        targets["gif"] = _ending(options.gif, GIF, "--gif")
    if options.mp4:
        films.video_library()
        targets["mp4"] = _ending(options.mp4, MP4, "--mp4")
    if options.out or not targets:
        targets = {"page": _page_path(options.out or PAGE, source, options.levels), **targets}
    for path in targets.values():
        refuse_unwritable(path)
    return targets


def _page_path(out: Path, source: str, levels: Sequence[str]) -> Path:
    """A file with the right ending; in a folder one that is called after the run."""
    if out.is_dir() or not out.suffix:
        name = re.sub(r"[^\w.-]+", "-", "-".join((_run(source).removeprefix(PREFIX), *levels))).strip("-.") or "watch"
        return out / f"{name}.html"
    return _ending(out, PAGES, "--out")


def _ending(path: Path, endings: Sequence[str], option: str) -> Path:
    if path.suffix.lower() not in endings:
        instead = {".gif": "--gif", ".mp4": "--mp4", ".html": "--out"}.get(path.suffix.lower())
        advice = f": use {instead} for this" if instead else ""
        raise ValueError(f"{option} {path} must end in {' or '.join(endings)}{advice}.")
    return path


def _refuse_unknown_layer(trained: Trained, layer: int | None) -> None:
    """Where the settings say how many layers there are, nothing has to be played to refuse one."""
    layers = getattr(trained.config.agent.memory, "layers", None)
    if layer is not None and isinstance(layers, int) and not 1 <= layer <= layers:
        raise ValueError(f"there is no layer {layer}: this memory has layers 1 to {layers}.")


def _layer(one: Playback, layer: int) -> int:
    layers = playback.layers(one.recall)
    if not 1 <= layer <= layers:
        shown = f"layers 1 to {layers}" if layers else "no layers that say what they recall: leave out --layer"
        raise ValueError(f"there is no layer {layer} to show: this memory has {shown}.")
    return layer - 1


def _data(trained: Trained, source: str, played: Sequence[Playback], names: Sequence[str]) -> dict[str, Any]:
    env = trained.env
    about = [{"level": printable(name), "scored": env.scored_by} for name in names]
    return {
        "task": printable(trained.config.task.task),
        "memory": printable(memories.name_of(trained.config.agent.memory).rpartition(":")[2]),
        "run": printable(_run(source)),
        "steps": trained.metadata["steps"],
        "episodes": [data.episode_data(one, env.action_names, said) for one, said in zip(played, about, strict=True)],
    }


def _run(source: str) -> str:
    """The name of a run, without the folders that it lies in."""
    return source if source.startswith(PREFIX) else Path(source).resolve().name


def _write_film(kind: str, path: Path, one: Playback, title: str, fps: int) -> None:
    taken = strip.shots(one, one.layer, fps)
    drawn = strip.pictures(one, one.layer, title, taken)
    if kind == "gif":
        films.write_gif(list(drawn), path, [shot.milliseconds for shot in taken], shared=True)
        return
    counts = [max(1, round(shot.milliseconds * fps / 1000)) for shot in taken]
    repeated = (picture for picture, count in zip(drawn, counts, strict=True) for _ in range(count))
    films.write_mp4(repeated, path, fps)
