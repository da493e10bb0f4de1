"""What perfect memory earns where an agent explores, remembers and plans: One-Shot StreetLearn and the planning game.

A script that knows no map. It sees what an agent sees, forgets nothing, takes a shortest known way to its goal, and
tries something new where it knows none. An agent may do better: it can learn what all maps share, such as that left
undoes right. The oracle knows the map from the start.

python examples/perfect_memory.py
python examples/perfect_memory.py --quick      # a few episodes, seconds
"""

import argparse
import random
from collections import deque

import jax
import numpy as np

from hcam import envs
from hcam.envs.environment import Environment

COLLECT = "collect"
LEVELS = {
    "streets": ("train", "test", "small_train", "quick_train"),
    "planning": ("torus4", "torus3", "torus2"),
}
SHOWN = (1, 2, 5, 10)  # goals whose steps are printed


class Map(dict[tuple[int, int], int]):
    """Where each action led: (place, action) -> place."""

    def first_step(self, place: int, actions: list[int], wanted) -> int | None:
        """The first action of a shortest known way to a place that is wanted; None: there is none."""
        queue: deque[tuple[int, int | None]] = deque([(place, None)])
        seen = {place}
        while queue:
            here, first = queue.popleft()
            if wanted(here):
                return first
            for action in actions:
                there = self.get((here, action))
                if there is not None and there not in seen:
                    seen.add(there)
                    queue.append((there, action if first is None else first))
        return None

    def choose(self, place: int, goal: int, actions: list[int], draw: random.Random) -> int:
        """Towards the goal, else to the nearest place where something is untried, and there, try it."""

        def untried(here: int) -> list[int]:
            return [action for action in actions if (here, action) not in self]

        known = self.first_step(place, actions, lambda here: here == goal)
        if known is not None:
            return known
        if here := untried(place):
            return draw.choice(here)
        nearest = self.first_step(place, actions, untried)
        return draw.choice(actions) if nearest is None else nearest


def play(env: Environment, level: str, seed: int, step, reset) -> list[int]:
    """The steps at which goals were collected in one episode."""
    collect, known, draw = env.action_names.index(COLLECT), Map(), random.Random(seed)
    actions = [action for action in range(len(env.action_names)) if action != collect]
    params = env.params(level)
    key_reset, key_step = jax.random.split(jax.random.key(seed))
    observation, state = reset(key_reset, params)
    collected = []
    steps = env.max_steps_in_episode(level) or 0
    for t, key in enumerate(jax.random.split(key_step, steps), start=1):
        place, goal = (int(np.argmax(observation[name])) for name in ("position", "goal"))
        action = collect if place == goal else known.choose(place, goal, actions, draw)
        observation, state, reward, *_ = step(key, state, action, params)
        if reward > 0:
            collected.append(t)
        if action != collect:
            known[place, action] = int(np.argmax(observation["position"]))
    return collected


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a few short episodes")
    given = parser.parse_args()
    print(f"| level | return | {' | '.join(f'steps to goal {n}' for n in SHOWN)} |")
    print("| --- " * (2 + len(SHOWN)) + "|")
    for task, levels in LEVELS.items():
        env = envs.make(task, **{"neighbourhoods": 16 if given.quick else 4096} if task == "streets" else {})
        step, reset = jax.jit(env.step), jax.jit(env.reset)
        for level in levels[-1:] if given.quick else levels:
            episodes = [play(env, level, seed, step, reset) for seed in range(4 if given.quick else 200)]
            earned = np.array([len(collected) for collected in episodes])
            each = [np.diff([0, *collected]) for collected in episodes]
            took = [[steps[n - 1] for steps in each if len(steps) >= n] for n in SHOWN]
            needed = " | ".join(f"{np.mean(steps):.1f}" if len(steps) > len(each) / 2 else "-" for steps in took)
            error = earned.std() / np.sqrt(len(earned))
            print(f"| {task} `{level}` | {earned.mean():.1f} ± {error:.1f} | {needed} |")


if __name__ == "__main__":
    main()
