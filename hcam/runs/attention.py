"""How much a memory attends to what is asked for: the analysis of the paper's appendix on attention (D.3).

Relative attention (relative.py) of many episodes, each of which is one sample: to what is asked for at its end, while
that is asked for, and to what could have been asked for instead. Where something else was asked for before, also to the
same moment then, which is the paper's comparison.
"""

from collections.abc import Callable, Mapping, Sequence
from math import sqrt
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from hcam.agent import Agent
from hcam.envs.environment import Environment
from hcam.learning.rollout import reset_actor
from hcam.memory import checks
from hcam.runs import recording
from hcam.runs.files import as_json, explained, parse_json, read_file, write_file
from hcam.runs.relative import Layout, Numbers, Sample, asked_at_last, mean, sample
from hcam.types import EnvParams, Params

FILE = "attention.json"
AT_ONCE = 32  # environments: what is recorded of more would fill the memory of a small machine
FEWEST = 10  # episodes that have an interval
LARGEST_RATIO = 1000
COMPARED = {  # by whether any, and whether all, have others of its kind in other chunks
    (False, False): "all else",
    (True, False): "others of its kind, or all else where these are in the same chunk",
    (True, True): "others of its kind",
}
GROUPS = {"solved_episodes": True, "failed_episodes": False}

OnProgress = Callable[[int, int], None]


def measure(
    agent: Agent,
    env: Environment,
    params: Params,
    env_params: EnvParams,
    *,
    episodes: int,
    seed: int = 0,
    on_progress: OnProgress = lambda done, total: None,
) -> dict[str, Any]:
    """Plays so many episodes greedily; returns a level's part of attention.json."""
    checks.positive(episodes=episodes)
    layout = refuse_what_cannot_be_analysed(agent, env, params, env_params)
    at_once, samples, lengths, solved = min(AT_ONCE, episodes), list[Sample | None](), list[int](), 0
    for start in range(0, episodes, at_once):
        options: Any = {"episodes": at_once, "seed": seed, "start": start, "moments": "states"}
        played = recording.record(agent, env, params, env_params, **options)[: episodes - start]
        for one in played:
            events = env.events(states_of(one))
            samples.append(sample(one, events, layout))
            solved += int(one.steps_t.success[-1])
            lengths += [end - begin for begin, end in asked_at_last(events)]
        if not lengths:
            raise ValueError(
                f"an episode of {type(env).__name__} does not say what is asked for at its end: its `events` must have "
                "one that matters, with `asked`."
            )
        on_progress(min(episodes, start + at_once), episodes)
    found = [one for one in samples if one is not None]
    groups = {name: [one for one in found if one.solved == wanted] for name, wanted in GROUPS.items()}
    if max(map(len, groups.values())) < FEWEST:
        raise ValueError(
            f"of {episodes} episodes {len(found)} had in memory what they were asked for: play more, so that at least "
            f"{FEWEST} of the solved or of the failed ones have, with --episodes."
        )
    return {
        "episodes": episodes,
        "solved": solved,
        "counted": len(found),
        "question_steps": float(np.mean(lengths)),
        "moment_steps": float(np.mean([one.steps for one in found])),
        "compared_with": COMPARED[any(one.alike for one in found), all(one.alike for one in found)],
        **{name: summary(some, layout.offsets) for name, some in groups.items() if len(some) >= FEWEST},
    }


def refuse_what_cannot_be_analysed(agent: Agent, env: Environment, params: Params, env_params: EnvParams) -> Layout:
    """Returns how the memory cuts up the past; raises ValueError with one sentence before anything is played."""
    name = type(agent.config.memory).__name__
    actor: Any = jax.eval_shape(lambda key: reset_actor(agent, env, key, env_params), jax.random.key(0))
    recall = jax.eval_shape(agent.step_recalling, params, actor.memory, actor.inputs)[2]
    if recall.relevance_m is None and recall.window_hw is None:
        raise ValueError(f"{name} does not attend to anything that it remembers, so there is no attention to analyse.")
    if type(env).events is Environment.events and type(env).moments is Environment.moments:
        raise ValueError(
            f"{type(env).__name__} does not say which moment of an episode matters: write its `moments` or `events` "
            "(docs/add_a_task.md)."
        )
    if recall.relevance_m is None:
        return Layout(1, 1)
    chunk = getattr(agent.config.memory, "chunk", None)
    if not isinstance(chunk, int):
        raise ValueError(f"{name} does not say how many steps a chunk has: give it a field `chunk`.")
    return Layout(chunk, getattr(agent.config.memory, "stride", chunk))


def states_of(episode: recording.Episode) -> list[Any]:
    assert episode.moments_t is not None
    return [jax.tree.map(lambda leaf, t=t: leaf[t], episode.moments_t.state) for t in range(episode.length + 1)]


# Many episodes --------------------------------------------------------------------------------------------------------


def summary(samples: Sequence[Sample], offset_n: NDArray[np.int64]) -> dict[str, Any]:
    """The means over episodes, with 95 % intervals."""
    profile_eln = np.stack([one.profile_ln for one in samples])
    profile_ln = mean(profile_eln, 0)
    seen_n = (~np.isnan(profile_eln).any(1)).sum(0) >= FEWEST
    layers = []
    for n in range(len(profile_ln)):
        asked = np.array([one.asked_l[n] for one in samples])
        line: dict[str, Any] = {"layer": n + 1, **compared(asked, np.array([one.other_l[n] for one in samples]))}
        line["first"] = compared(
            np.array([one.asked_first_l[n] for one in samples]), np.array([one.other_first_l[n] for one in samples])
        )
        earlier = np.array([one.earlier_l[n] for one in samples])
        if (~np.isnan(earlier)).sum() >= FEWEST:
            line["earlier"] = compared(asked, earlier)
        layers.append(line)
    rounded = [[round(float(value), 4) for value in line_n[seen_n]] for line_n in profile_ln]
    return {
        "episodes": len(samples),
        "layers": layers,
        "profile": {"steps": offset_n[seen_n].tolist(), "layers": rounded},
    }


def compared(asked_e: Numbers, other_e: Numbers) -> dict[str, Any]:
    """Means and their ratio over the episodes that have both, or the mean of the first alone if hardly any has."""
    both_e = ~np.isnan(asked_e) & ~np.isnan(other_e)
    if both_e.sum() < FEWEST:
        known = asked_e[~np.isnan(asked_e)]
        return {"episodes": len(known), "asked": interval(known)} if len(known) >= FEWEST else {"episodes": len(known)}
    asked, other = asked_e[both_e], other_e[both_e]
    return {
        "episodes": len(asked),
        "asked": interval(asked),
        "other": interval(other),
        "ratio": ratio_interval(asked, other),
    }


def interval(values: Numbers) -> dict[str, float]:
    """A mean over episodes, with its 95 % interval."""
    centre, half = float(values.mean()), 1.96 * float(values.std(ddof=1)) / sqrt(len(values))
    return {"mean": centre, "low": max(0.0, centre - half), "high": centre + half}


def ratio_interval(above: Numbers, below: Numbers) -> dict[str, float] | None:
    """The ratio of two means with its 95 % interval, in which the two numbers of an episode belong together.

    None where it is beyond LARGEST_RATIO: next to nothing was attended to but the one.
    """
    if above.sum() >= LARGEST_RATIO * below.sum():
        return None
    ratio, count = float(above.sum() / below.sum()), len(above)
    spread = sqrt(float(((above - ratio * below) ** 2).sum()) * count / (count - 1))
    half = 1.96 * spread / float(below.sum())
    return {"mean": ratio, "low": max(0.0, ratio - half), "high": ratio + half}


# Files ----------------------------------------------------------------------------------------------------------------


def write(folder: Path, content: Mapping[str, Any]) -> Path:
    """Writes attention.json; returns its path."""
    with explained(f"{folder / FILE} cannot be written"):
        folder.mkdir(parents=True, exist_ok=True)
        write_file(folder / FILE, as_json(dict(content)))
    return folder / FILE


def read(folder: Path) -> dict[str, Any]:
    """The content of an attention.json, with all that is shown of it checked."""
    damaged = ValueError(f"{folder / FILE} is damaged: delete it and analyse again, with `hcam attention`.")
    try:
        content = parse_json(read_file(folder / FILE), strict=True)
        for level in content["levels"].values():
            _check_level(level)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        raise damaged from None
    found: dict[str, Any] = content
    return found


def _check_level(level: Mapping[str, Any]) -> None:
    numbers = [level[name] for name in ("episodes", "solved", "counted", "question_steps", "moment_steps")]
    for group in (level[name] for name in GROUPS if name in level):
        numbers += [group["episodes"], *group["profile"]["steps"]]
        for line, values in zip(group["layers"], group["profile"]["layers"], strict=True):
            numbers += [line["layer"], *values]
            for part in (line, line["first"], line.get("earlier", {})):
                ends = [part[name] for name in ("asked", "other", "ratio") if part.get(name)]
                numbers += [end[name] for end in ends for name in ("mean", "low", "high")]
    if not all(type(number) in (int, float) and abs(number) < 1e9 for number in numbers):
        raise ValueError("not numbers")
