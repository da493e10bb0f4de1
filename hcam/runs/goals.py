"""Steps per goal over the course of an episode: the sign of an agent that explores first, and plans with what it saw.

For tasks that are scored by their return and whose positive rewards mark goals: a new goal follows each one that was
reached. An agent that remembers and plans needs fewer steps for later goals, down to those of the task's expert; one
that does not needs as many for the tenth goal as for the first.
"""

from collections.abc import Mapping
from math import sqrt
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from hcam.agent import Agent
from hcam.envs.environment import Environment
from hcam.runs import rewards
from hcam.runs.files import as_json, explained, parse_json, read_file, write_file
from hcam.runs.rewards import Episodes
from hcam.types import EnvParams, Params

FILE = "goals.json"
PLAYERS = ("greedy", "sampled", "oracle", "random")

Goals = dict[str, dict[str, Any]]  # by player: its episodes, its mean return, and a list of goals


def measure(
    agent: Agent, env: Environment, params_s: Params, levels: Mapping[str, EnvParams], episodes: int, *, seed: int = 0
) -> dict[str, Goals]:
    """The agent's steps per goal, greedy and sampled, those of the expert and those of random actions, by level.

    Several seeds that were trained at once share the episodes among them.
    """
    refuse_without_goals(env)
    seeds = len(jax.tree.leaves(params_s)[0])
    share = -(-episodes // seeds)
    found: dict[str, Goals] = {}
    for level, env_params in levels.items():
        players: dict[str, list[Any]] = {}
        for way in ("greedy", "sampled"):
            for s in range(seeds):
                params = jax.tree.map(lambda leaf, s=s: leaf[s], params_s)
                options: Any = {"episodes": share, "seed": seed + s, "greedy": way == "greedy"}
                players.setdefault(way, []).append(rewards.of_agent(agent, env, params, env_params, **options))
        players["oracle"] = [rewards.of_expert(env, env_params, episodes=episodes, seed=seed)]
        players["random"] = [rewards.of_random(env, env_params, episodes=episodes, seed=seed)]
        found[level] = {name: summary(parts) for name, parts in players.items() if parts != [None]}
    return found


def refuse_without_goals(env: Environment) -> None:
    if env.scored_by != "return":
        raise ValueError(
            f"{type(env).__name__} is scored by success and has no goals to count steps for: leave out --goals."
        )


def summary(parts: list[Episodes]) -> dict[str, Any]:
    """Steps per goal of episodes that were played in several parts."""
    spent = [pair for part in parts for pair in map(intervals, part.reward_bt, part.length_b)]
    returns = np.concatenate([part.returns for part in parts])
    most = max((len(steps) for steps, _ in spent), default=0)
    goals = [_goal(n, [(steps[n], bool(done[n])) for steps, done in spent if n < len(steps)]) for n in range(most)]
    return {
        "episodes": len(returns),
        "return": float(returns.mean()),
        "goals": [goal for goal in goals if goal["reached"]],
    }


def intervals(reward_t: NDArray[Any], length: int) -> tuple[list[int], list[bool]]:
    """The steps that one episode spent on each of its goals, and whether it reached that; only the last may be open."""
    reached = [int(t) + 1 for t in np.flatnonzero(reward_t[:length] > 0)]
    ends = reached + ([int(length)] if not reached or reached[-1] < length else [])
    steps = np.diff([0, *ends]).tolist()
    return steps, [n < len(reached) for n in range(len(steps))]


def _goal(number: int, spent: list[tuple[int, bool]]) -> dict[str, Any]:
    """One goal's line: steps per time that it was reached, with a 95 % interval.

    Steps that an episode spent on a goal which it did not reach count as well: without them, only the lucky ones of a
    bad agent would be seen. If all reach it, this is the mean of the steps.
    """
    steps, done = np.array([s for s, _ in spent], float), np.array([d for _, d in spent], float)
    count = int(done.sum())
    line = {"goal": number + 1, "started": len(spent), "reached": count}
    if not count:
        return line
    mean = float(steps.sum() / count)
    half = 1.96 * sqrt(float(((steps - mean * done) ** 2).sum())) / count
    return line | {"steps": mean, "low": max(0.0, mean - half), "high": mean + half}


def write(folder: Path, content: Mapping[str, Any]) -> Path:
    """Writes goals.json; returns its path."""
    with explained(f"{folder / FILE} cannot be written"):
        folder.mkdir(parents=True, exist_ok=True)
        write_file(folder / FILE, as_json(dict(content)))
    return folder / FILE


def read(folder: Path) -> dict[str, Goals]:
    """The levels of a goals.json, checked."""
    damaged = ValueError(f"{folder / FILE} is damaged: delete it and count again, with `hcam eval RUN --goals FOLDER`.")
    try:
        levels = parse_json(read_file(folder / FILE))["levels"]
        lines = [goal for level in levels.values() for player in level.values() for goal in player["goals"]]
        numbers = [line[name] for line in lines for name in ("goal", "reached", "steps", "low", "high")]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise damaged from None
    if not all(type(number) in (int, float) and abs(number) < 1e18 for number in numbers):
        raise damaged
    found: dict[str, Goals] = levels
    return found
