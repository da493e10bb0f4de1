"""The Memory&Planning Game against a slow one in plain Python, the published start, and the contract."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam import envs
from hcam.envs.check import check
from hcam.envs.tasks.planning import Planning
from hcam.envs.tasks.planning.levels import Level
from hcam.envs.tasks.planning.planning import COLLECT, DOWN, LEFT, RIGHT, UP, State
from hcam.runs import rewards

ENV = envs.make("planning")
STEP = jax.jit(ENV.step)


def symbol(observation, part="position"):
    seen = np.asarray(observation[part])
    assert seen.sum() == 1
    assert seen.dtype == np.int32
    return int(seen.argmax())


def published(seed, side=4):
    """The first episode of the released environment with this seed, as a description; its order of drawing."""
    random = np.random.RandomState(seed)
    cells = side**2
    symbols, start = random.permutation(cells), random.randint(cells)
    goal = random.randint(cells)
    while goal == start:
        goal = random.randint(cells)
    rows = symbols.reshape(side, side).tolist()
    return {"symbols": rows, "start": [*map(int, divmod(start, side))], "goal": [*map(int, divmod(goal, side))]}


def test_the_published_start():
    """Seed 123: start (3, 3) shows 14, goal (2, 1) shows 1; Up leads to (3, 0), which shows 12."""
    description = published(123)
    assert (description["start"], description["goal"]) == ([3, 3], [2, 1])
    state = ENV.episode(description)
    seen = ENV.observe(state, ENV.level("torus4"))
    assert (symbol(seen), symbol(seen, "goal")) == (14, 1)
    observation, state, reward, *_ = STEP(jax.random.key(0), state, jnp.int32(UP), ENV.params())
    assert (divmod(int(state.place), 4), symbol(observation), float(reward)) == ((3, 0), 12, 0.0)
    assert ENV.describe(state) == description | {"steps": 100, "placed": False}


@pytest.mark.parametrize("level", ["torus4", "torus3", "torus4_placed"])
def test_it_plays_like_a_slow_one(level):
    """Moves wrap, only collecting on the goal pays, and the new goal is never where the agent is."""
    side, params = int(level[5]), ENV.params(level)
    _, state = ENV.reset(jax.random.key(1), params)
    step, draw = jax.jit(ENV.step), np.random.default_rng(0)
    moves = {UP: (0, 1), DOWN: (0, -1), LEFT: (-1, 0), RIGHT: (1, 0), COLLECT: (0, 0)}
    collected = 0
    for number in range(99):
        expert = int(ENV.expert(state))
        action = expert if draw.random() < 0.5 else int(draw.integers(5))
        place, goal = divmod(int(state.place), side), divmod(int(state.goal), side)
        wanted = tuple((a + b) % side for a, b in zip(place, moves[action], strict=True))
        pays = action == COLLECT and place == goal
        observation, state, reward, terminated, _, _ = step(jax.random.key(number), state, jnp.int32(action), params)
        assert float(reward) == pays
        if not (pays and level.endswith("placed")):
            assert divmod(int(state.place), side) == wanted
        assert (int(state.goal) != goal[0] * side + goal[1]) <= pays
        assert int(state.goal) != int(state.place) or not pays
        assert symbol(observation) == int(state.episode.symbol_n[state.place])
        assert symbol(observation, "goal") == int(state.episode.symbol_n[state.goal])
        collected += pays
        assert not terminated
    assert collected > 5
    assert step(jax.random.key(0), state, jnp.int32(COLLECT), params)[3]


def test_goals_and_places_are_uniform():
    start = jax.jit(jax.vmap(lambda key: ENV.start(key, ENV.level("torus3"))))
    state = start(jax.random.split(jax.random.key(0), 6000))
    assert set(np.unique(state.place)) == set(range(9))
    counts = np.bincount(np.asarray((state.goal - state.place) % 9), minlength=9)
    assert counts[0] == 0
    np.testing.assert_allclose(counts[1:], 750, rtol=0.15)
    np.testing.assert_array_equal(np.sort(state.episode.symbol_n, axis=1), np.tile(np.arange(16), (6000, 1)))
    np.testing.assert_allclose(np.bincount(state.episode.symbol_n[:, 0], minlength=16), 375, rtol=0.25)


@pytest.mark.parametrize("side", [2, 3, 4, 5])
def test_the_expert_takes_shortest_ways(side):
    """From everywhere to everywhere: as many steps as the torus needs, and one to collect."""
    env, rows = Planning(symbols=25), np.arange(side**2).reshape(side, side).tolist()
    base = env.episode({"symbols": rows, "start": [0, 0], "goal": [0, 1], "steps": 99})
    pairs = np.array([(a, b) for a in range(side**2) for b in range(side**2) if a != b], np.int32)
    state = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (len(pairs), *leaf.shape)), base)
    state = state._replace(place=jnp.asarray(pairs[:, 0]), goal=jnp.asarray(pairs[:, 1]))
    step = jax.jit(jax.vmap(lambda s: env.advance(jax.random.key(0), s, env.expert(s), s.episode.rules)[:2]))
    away = [np.abs(part[:, 0] - part[:, 1]) for part in (pairs // side, pairs % side)]
    distance = sum(np.minimum(one, side - one) for one in away)
    taken = np.zeros(len(pairs), int)
    for number in range(1, side + 2):
        state, reward = step(state)
        taken = np.where((taken == 0) & (np.asarray(reward) > 0), number, taken)
    np.testing.assert_array_equal(taken, distance + 1)


def test_the_expert_earns_what_the_mean_distance_says():
    """On a 4 x 4 torus another cell is 32/15 steps away on average, and collecting takes one more."""
    found = rewards.expert_return(ENV, ENV.params())
    assert found == pytest.approx(100 / (32 / 15 + 1), abs=0.5)
    assert rewards.random_return(ENV, ENV.params()) == pytest.approx(1.0, abs=0.2)


def test_it_keeps_the_contract():
    print(check(ENV, batch=4, steps=250))


def test_other_actions_do_nothing():
    _, state = ENV.reset(jax.random.key(0))
    for action in (-1, 5, 2**31 - 1):
        _, after, reward, *_ = STEP(jax.random.key(1), state, jnp.int32(action), ENV.params())
        assert (int(after.place), float(reward)) == (int(state.place), 0.0)


def test_events_are_the_goals_that_were_collected():
    state, rewards, states = ENV.episode(published(123)), [], []
    for t in range(40):
        states.append(state)
        _, state, reward, *_ = STEP(jax.random.key(t), state, ENV.expert(state), ENV.params())
        rewards.append(float(reward))
    found = ENV.events(jax.device_get([*states, state]))
    assert [one.begin for one in found] == [t for t, reward in enumerate(rewards) if reward]
    assert [one.name for one in found] == [f"goal {n + 1}" for n in range(len(found))]
    assert all(one.end == one.begin + 1 and not one.matters for one in found)


def test_symbols_decide_which_levels_there_are():
    assert Planning(symbols=9).levels == ("torus3", "torus2")
    assert Planning(symbols=36).levels[-2:] == ("torus5", "torus6")
    assert ENV.default_levels == ("torus4",)
    with pytest.raises(ValueError, match=r"needs 25 symbols, but there are 16: set the option symbols=25\."):
        ENV.params("torus5")
    with pytest.raises(ValueError, match="symbols must be a whole number from 4 to 256, but is 3"):
        Planning(symbols=3)


def test_facts():
    assert ENV.scored_by == "return"
    assert ENV.smaller(["torus3"]) == ["a torus of 3 x 3 cells instead of 4 x 4"]
    assert ENV.smaller(["torus4", "torus3"]) == []
    assert ENV.title("torus4") == "4 x 4 torus"
    assert ENV.max_steps_in_episode("torus4_steps7") == 7
    assert Planning().level(Level(side=3)).side == 3


def test_a_state_of_another_environment_is_refused():
    with pytest.raises(TypeError, match="this is no state of Planning"):
        ENV.expert(envs.make("echo").reset(jax.random.key(0))[1])


def test_the_picture_follows_the_episode():
    states: list[State] = [ENV.reset(jax.random.key(0))[1]]
    before = ENV.picture(states)
    assert before.shape == (102, 102, 3)
    states.append(STEP(jax.random.key(0), states[0], jnp.int32(RIGHT), ENV.params())[1])
    assert (ENV.picture(states) != before).any()
