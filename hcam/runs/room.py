"""Give a trained agent's memory more room than it was trained with, where its parameters do not depend on that."""

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any, Literal

from hcam import agent
from hcam.agent import memories
from hcam.envs.environment import Environment
from hcam.memory import checks
from hcam.runs.pretrained import Trained
from hcam.runs.resources import refuse_too_many

Room = int | Literal["auto"] | None  # auto: as much as the longest episode needs; None: what it was trained with


def resized(trained: Trained, levels: Iterable[str], episodes: int, **room: Room) -> tuple[Trained, dict[str, int]]:
    """The agent with other sizes of its memory (`slots=64`), and these by name; unchanged where none is asked for.

    `auto` asks the memory's configuration what an episode of one of these levels needs: `slots_for(steps)` of an option
    `slots`. Raises ValueError where the memory has no such option, or where so many episodes at once would not fit.
    """
    asked = {name: value for name, value in room.items() if value is not None}
    if not asked:
        return trained, {}
    memory = trained.config.agent.memory
    for name in asked:
        refuse_without(memory, name)
    steps = longest(trained.env, levels) if "auto" in asked.values() else 0
    sizes = {name: _size(memory, name, value, steps) for name, value in asked.items()}
    config = replace(trained.config.agent, memory=replace(memory, **sizes))
    made = agent.make(config, trained.env)
    refuse_too_many(made, episodes, " and ".join(f"--{name}" for name in sizes))
    return trained._replace(config=replace(trained.config, agent=config), agent=made), sizes


def room_of(memory: Any) -> dict[str, int]:
    """The options that decide how much a memory holds, by name."""
    return {field.name: getattr(memory, field.name) for field in fields(memory) if hasattr(memory, f"{field.name}_for")}


def refuse_without(memory: Any, name: str) -> None:
    """Raises where a memory's room is not this option, or where its parameters would have another shape."""
    if hasattr(memory, f"{name}_for"):
        return
    instead = "".join(f", what it holds depends on --{known}" for known in room_of(memory))
    raise ValueError(f"the memory {memories.name_of(memory)} has no {name} to change: leave out --{name}{instead}.")


def longest(env: Environment, levels: Iterable[str]) -> int:
    """The steps of the longest episode of these levels."""
    lengths = {level: env.max_steps_in_episode(level) for level in levels}
    if unknown := [level for level, length in lengths.items() if length is None]:
        raise ValueError(f"nobody knows how long an episode of {unknown[0]} may be: give a number instead of auto.")
    return max(length or 0 for length in lengths.values())


def _size(memory: Any, name: str, asked: Any, steps: int) -> int:
    if asked == "auto":
        return int(getattr(memory, f"{name}_for")(steps))
    checks.positive(**{name: asked})
    return int(asked)
