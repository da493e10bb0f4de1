"""Check that an environment keeps the contract of docs/environments.md: `check(env)`.

It looks only at `reset`, `step`, `params` and the two spaces, so it serves every environment, however it is made: a
subclass, an adapter, or one that calls back to the host. Each rule below raises a sentence that says what to change.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hcam.envs import play
from hcam.envs.check_types import (
    ContractError,
    Programs,
    check_one_trace,
    check_params,
    check_static,
    check_types,
    no_action,
    require,
)
from hcam.envs.environment import Environment, EnvParams, Observation, State
from hcam.envs.spaces import Box, Discrete, Space, Spaces, Tokens

__all__ = ["ContractError", "Report", "check"]

DRAWS = 8  # keys that are tried from one state


class Report(NamedTuple):
    """What was played while checking."""

    steps: int
    episodes: int  # complete ones
    terminated: int
    truncated: int
    mean_length: float
    mean_return: float

    def __str__(self) -> str:
        return (
            f"{self.episodes} random episodes in {self.steps} steps: {self.terminated} terminated, "
            f"{self.truncated} truncated, mean length {self.mean_length:.1f}, mean return {self.mean_return:.3f}"
        )


def check(
    env: Environment,
    params: EnvParams | None = None,
    *,
    batch: int = 8,
    steps: int = 2000,
    key: jax.Array | None = None,
    fixed_start: bool = False,
    replay: bool = True,
) -> Report:
    """Plays `steps` random steps in each of `batch` environments, and raises ContractError where a rule is broken.

    `fixed_start=True` is for an environment whose episodes all begin alike. `replay=False` is for one whose state is
    only a handle, because the rest of it lives on the host: it skips the rules that step from one state twice (same
    key, same step; a batch does not change an environment) and compares beginnings by observation, not by state.
    """
    if batch < 1 or steps < 1:
        raise ValueError(f"there must be something to play, but batch is {batch} and steps is {steps}.")
    key_reset, key_play = jax.random.split(jax.random.key(0) if key is None else key)
    check_static(env)
    params = env.params() if params is None else params
    check_params("params", params)
    check_types(env, params)
    alone = check_one_trace(env, params)
    seed_n = jax.random.bits(key_reset, (batch * DRAWS if replay else max(2, batch),))
    resets = _check_reset(env, params, alone, seed_n, fixed_start, replay)
    key_b = jax.random.split(key_play, batch)
    seen_bt, held_b = _play(env, params, key_b, _row(resets, slice(batch)), steps, replay)
    report = _judge(seen_bt, steps, fixed_start)
    if replay:
        _check_replay(env, params, alone, held_b, jax.device_get(resets.observation), fixed_start)
    return report


class _Seen(NamedTuple):
    """One step, as the rules see it."""

    reward: jax.Array
    terminated: jax.Array
    truncated: jax.Array
    again: jax.Array  # the episode ended, and the next one begins as it did
    stays: jax.Array  # the episode ended, its last observation is not its first, and is still on show
    left: jax.Array  # the episode ended, its last observation is not its first, and is on show no longer
    broken: dict[str, jax.Array]  # by a sentence that says which rule


class _Held(NamedTuple):
    """Where an environment stood, and what was done, when its first episode ended."""

    state: State
    action: jax.Array
    ended: jax.Array


def _check_reset(
    env: Environment, params: EnvParams, alone: Programs, seed_n: jax.Array, fixed_start: bool, replay: bool
) -> play.Now:
    def begun(observation: Observation, state: State) -> Any:
        return _on_host(state if replay else observation)

    again = begun(*alone.reset(jax.random.key(seed_n[0]), params))
    # The last reset before the steps: an environment on the host goes on from its latest one.
    resets: play.Now = jax.jit(jax.vmap(lambda seed: play.begin(env, jax.random.key(seed), params)))(seed_n)
    begun_n = begun(resets.observation, resets.state)
    sentence = "reset began two different episodes with the same key: draw from the key (jax.random) and nothing else."
    require(_close(_row(begun_n, 0), again), sentence)
    sentence = f"reset began the same episode with {seed_n.size} different keys: draw it from the key, {_FIXED}."
    require(fixed_start or not _all_alike(begun_n), sentence)
    return resets


def _play(
    env: Environment, params: EnvParams, key_b: jax.Array, now_b: play.Now, steps: int, replay: bool
) -> tuple[_Seen, _Held]:
    """One compiled program, in which each step is looked at where it happens: nothing large is kept."""

    def body(key: jax.Array, carry: tuple[play.Now, play.Now, _Held], t: jax.Array) -> tuple[Any, _Seen]:
        before, start, held = carry
        now, step = play.one(env, play.at_random(env), jax.random.fold_in(key, t), before, params)
        final, done = step.info["final_observation"], now.first
        again = _same(now.state, start.state) if replay else _same(now.observation, start.observation)
        moved, stays = done & ~_same(final, start.observation), _same(now.observation, final)
        seen = _Seen(*step[3:6], done & again, moved & stays, moved & ~stays, _broken(env, step, now.observation))
        held = _where(done & ~held.ended, _Held(before.state, step.action, done), held)
        return (now, _where(done, now, start), held), seen

    def run(key: jax.Array, now: play.Now) -> tuple[_Seen, _Held]:
        carry = (now, now, _Held(now.state, no_action(env), jnp.bool_(False)))
        (_, _, held), seen_t = jax.lax.scan(partial(body, key), carry, jnp.arange(steps))
        return seen_t, held

    played: tuple[_Seen, _Held] = jax.jit(jax.vmap(run))(key_b, now_b)
    return played


def _broken(env: Environment, step: play.Step, observation: Observation) -> dict[str, jax.Array]:
    info, both = step.info, step.terminated & step.truncated
    agree = (info["terminated"] == step.terminated) & (info["truncated"] == step.truncated)
    goes_on = ~(step.terminated | step.truncated)
    return {
        **_outside("the observation", env.observation_space, step.observation),
        **_outside("info['final_observation']", env.observation_space, info["final_observation"]),
        "the reward is not finite: look for a division by zero": ~jnp.isfinite(step.reward),
        "a step is both terminated and truncated: terminated wins, so return truncated & ~terminated": both,
        "info['terminated'] and info['truncated'] are not what step returns: put the same there": ~agree,
        "an episode goes on, but info['final_observation'] is not the observation: put the same there": (
            goes_on & ~_same(observation, info["final_observation"])
        ),
    }


def _outside(name: str, space: Spaces, value: Any) -> dict[str, jax.Array]:
    if isinstance(space, dict):
        parts = [_outside(f"{name}[{part!r}]", space[part], value[part]) for part in space]
        return {sentence: flag for part in parts for sentence, flag in part.items()}
    low, high = _bounds(space)
    number = value.astype(jnp.float32)
    inside = (number >= low) & (number <= high) & jnp.isfinite(number)
    return {f"{name} has a value that is not from {low} to {high} as its space says, or not finite": ~inside.all()}


def _bounds(space: Space) -> tuple[float, float]:
    match space:
        case Box():
            return space.low, space.high
        case Discrete():
            return 0, space.n - 1
        case Tokens():
            return 0, len(space.vocabulary) - 1


def _judge(seen_bt: _Seen, steps: int, fixed_start: bool) -> Report:
    seen_bt = jax.device_get(seen_bt)
    broken = {tuple(np.argwhere(flag.T)[0]): sentence for sentence, flag in seen_bt.broken.items() if flag.any()}
    if broken:
        (t, b), sentence = min(broken.items())
        raise ContractError(f"{sentence} (step {t} of environment {b}).")
    ended = seen_bt.terminated | seen_bt.truncated
    sentence = f"no episode ended within {steps} random steps: raise steps, or truncate episodes that take too long."
    require(ended.any(), sentence)
    require(fixed_start or (ended & ~seen_bt.again).any(), _REPLAYED)
    require(seen_bt.left.any() or not seen_bt.stays.any(), _STALE)
    complete = np.flip(np.logical_or.accumulate(np.flip(ended, 1), 1), 1)  # an end follows
    episodes, terminated, truncated = (int(flag.sum()) for flag in (ended, seen_bt.terminated, seen_bt.truncated))
    means = (float(values.sum() / episodes) for values in (complete, seen_bt.reward * complete))
    return Report(ended.size, episodes, terminated, truncated, *means)


def _check_replay(
    env: Environment, params: EnvParams, alone: Programs, held: _Held, resets: Observation, fixed_start: bool
) -> None:
    """Steps again and again from where each environment stood before its first end."""

    def draw(seed: Any, state: State, action: jax.Array) -> Any:
        return env.step(jax.random.key(seed), state, action, params)

    many = jax.jit(jax.vmap(jax.vmap(draw, (0, None, None)), (None, 0, 0)))
    drawn = _on_host(many(jnp.arange(DRAWS), held.state, held.action))
    for b in range(min(3, held.ended.size)):
        args = (*_row((held.state, held.action), b), params)
        step = _on_host(alone.step(jax.random.key(0), *args))
        if not _close(step, _row(drawn, (b, 0))):
            again = _on_host(jax.jit(lambda *args: env.step(*args))(jax.random.key(0), *args))
            raise ContractError(_ENTANGLED if _close(step, again) else _IMPURE)
    observation, state, _, terminated, truncated, _ = drawn
    fresh = (terminated | truncated) & np.asarray(held.ended)[:, None]
    require(fixed_start or fresh.sum() < 2 or not _all_alike(_row(state, fresh)), _REPLAYED)
    for reset, first in zip(jax.tree.leaves(resets), jax.tree.leaves(_row(observation, fresh)), strict=True):
        strange = (reset == reset[0]).all(0) & (first != reset[0]).all(0) & (first.size > 0)
        require(not strange.any(), _STALE)


_FIXED = "or say fixed_start=True if all episodes begin alike"
_REPLAYED = f"auto-reset replays the same episode: draw a new one from the key of the step that ends the old, {_FIXED}."
_STALE = (
    "after an end, the observation is none that reset could give: return the new episode's first one, and keep the old "
    "episode's last one in info['final_observation']."
)
_IMPURE = "step gave two results for the same key, state and action: draw from the key (jax.random) and nothing else."
_ENTANGLED = "a step inside jax.vmap differs from the same step alone: environments of a batch must not share anything."


def _where(which: jax.Array, yes: Any, no: Any) -> Any:
    return jax.tree.map(lambda one, two: jnp.where(which, one, two), yes, no)


def _row(tree: Any, index: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf[index], tree)


def _raw(tree: Any) -> Any:
    """Random keys as the numbers they are made of, to compare them."""
    return jax.tree.map(lambda x: jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x, tree)


def _same(one: Any, two: Any) -> jax.Array:
    equal = jax.tree.map(lambda x, y: (x == y).all(), _raw(one), _raw(two))
    return jnp.stack([jnp.bool_(True), *jax.tree.leaves(equal)]).all()


def _all_alike(rows: Any) -> bool:
    return all((leaf == leaf[:1]).all() for leaf in jax.tree.leaves(rows))


def _on_host(tree: Any) -> Any:
    return jax.device_get(_raw(tree))


def _close(one: Any, two: Any) -> bool:
    """Rounding may differ in a batch, and by it a pixel's value."""

    def close(x: Any, y: Any) -> bool:
        return bool(np.allclose(x.astype(float), y.astype(float), 1e-4, 1e-4 + (x.dtype == np.uint8), equal_nan=True))

    return all(map(close, jax.tree.leaves(one), jax.tree.leaves(two)))
