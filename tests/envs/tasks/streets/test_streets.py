"""One-Shot StreetLearn: the released rules by worked examples, the contract, the expert, and other interfaces."""

from functools import lru_cache
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.envs import make
from hcam.envs.check import check
from hcam.envs.environment import Event
from hcam.envs.play import at_random, begin, knowing, play
from hcam.envs.tasks.streets import Streets
from hcam.envs.tasks.streets.levels import Level
from hcam.envs.tasks.streets.streets import ACTIONS, COLLECT, FORWARD, LEFT, RIGHT

SMALL: Any = {"neighbourhoods": 16}
NO_LEVEL: Any = None  # an episode has what it needs of its level
# A crossing: 0 in the middle, 1 north, 2 east, 3 south, 4 west, 100 m away each.
CROSSING: Any = {
    "nodes": [[0, 0], [0, 100], [100, 0], [0, -100], [-100, 0]],
    "streets": [[0, 1], [0, 2], [0, 3], [0, 4]],
    "start": [0, 1],
    "goal": [2, 0],
}
# 0 in the middle, 1 north of it, 2 nearly south, but 10 m to the west: bearings pi and -3.04 on the same way.
KINK: Any = {"nodes": [[0, 0], [0, 100], [-10, -100]], "streets": [[0, 1], [0, 2]], "start": [1, 0], "goal": [2, 0]}


@lru_cache
def stepper(env):
    params = env.params("train")
    return jax.jit(lambda key, state, action: env.step(key, state, action, params))


def where(state):
    """The node at which the agent stands, and the one that it faces."""
    at = state.episode.map
    return int(at.tail_s[state.place]), int(at.head_s[state.place])


def walk(description, actions, seed=0):
    """Where the agent is before and after each action, rewards and goals."""
    env = Streets(**SMALL)
    state = env.episode(description)
    places, rewards, goals = [where(state)], [], [int(state.goal)]
    for number, action in enumerate(actions):
        key = jax.random.fold_in(jax.random.key(seed), number)
        _, state, reward, terminated, truncated, _ = stepper(env)(key, state, jnp.int32(action))
        assert not bool(terminated | truncated)
        places.append(where(state))
        rewards.append(float(reward))
        goals.append(int(state.goal))
    return places, rewards, goals


def test_actions_are_in_the_released_order():
    assert ACTIONS == ("forward", "left", "right", "collect")
    assert (FORWARD, LEFT, RIGHT, COLLECT) == (0, 1, 2, 3)
    assert Streets().action_space.n == 4


def test_left_is_the_next_larger_bearing_which_is_clockwise():
    """From north: east, south, west, and north again. Right is the other way round."""
    left, _, _ = walk(CROSSING, [LEFT] * 4)
    assert left == [(0, 1), (0, 2), (0, 3), (0, 4), (0, 1)]
    right, _, _ = walk(CROSSING, [RIGHT] * 4)
    assert right == [(0, 1), (0, 4), (0, 3), (0, 2), (0, 1)]


def test_a_dead_end_turns_the_agent_round_and_has_nowhere_to_turn():
    places, _, _ = walk(CROSSING, [FORWARD, LEFT, RIGHT, FORWARD])
    assert places == [(0, 1), (1, 0), (1, 0), (1, 0), (0, 3)]


def test_straight_on_over_a_crossing():
    for start, end in ((1, 3), (2, 4), (3, 1), (4, 2)):
        places, _, _ = walk(CROSSING | {"start": [start, 0], "goal": [0, 1]}, [FORWARD])
        assert places[-1] == (0, end)


def test_bearings_do_not_wrap_around():
    """Going south (pi), the street that goes on at -3.04 is 6.18 away and the way back (0) only pi: round it goes."""
    assert walk(KINK, [FORWARD])[0][-1] == (0, 1)
    mirrored = KINK | {"nodes": [[0, 0], [0, 100], [10, -100]]}
    assert walk(mirrored, [FORWARD])[0][-1] == (0, 2)


def test_collecting_pays_on_the_goal_alone_and_moves_nobody():
    """There, collect: reward, a new goal, the agent stays. Before, and on passing by: nothing."""
    start = CROSSING | {"start": [0, 2], "goal": [2, 0]}
    places, rewards, goals = walk(start, [COLLECT, FORWARD, LEFT, COLLECT, COLLECT])
    assert places == [(0, 2), (0, 2), (2, 0), (2, 0), (2, 0), (2, 0)]
    assert rewards == [0, 0, 0, 1, 0]
    assert goals[:4] == [goals[0]] * 4
    assert goals[4] == goals[5] != goals[0]
    first: Any = Streets(**SMALL).episode(start)
    assert Streets().events([first._replace(goal=goal) for goal in goals]) == [Event(3, 4, "goal 1", kind="goal")]


def test_the_new_goal_is_any_other_state():
    here = CROSSING | {"start": [0, 2], "goal": [2, 0]}
    found = {walk(here, [FORWARD, COLLECT], seed)[2][-1] for seed in range(60)}
    assert len(found) == 7  # of eight states, all but the agent's own


def test_an_episode_has_200_steps_and_its_last_ends_it():
    """Terminated, as the release gives the last step discount 0; a goal collected with it still counts."""
    env = Streets(**SMALL)
    state = env.episode(CROSSING | {"start": [0, 2], "goal": [2, 0]})
    state = state._replace(time=jnp.int32(198))
    _, state, _, terminated, _, _ = stepper(env)(jax.random.key(0), state, jnp.int32(FORWARD))
    assert not bool(terminated)
    _, after, reward, terminated, truncated, _ = stepper(env)(jax.random.key(1), state, jnp.int32(COLLECT))
    assert (float(reward), bool(terminated), bool(truncated), int(after.time)) == (1, True, False, 0)


def test_what_is_no_action_is_to_stay():
    env = Streets(**SMALL)
    for action in (-1, 4, 100):
        _, state, reward, *_ = stepper(env)(jax.random.key(0), env.episode(CROSSING), jnp.int32(action))
        assert where(state) == (0, 1)
        assert float(reward) == 0


def test_keeps_the_contract():
    env = make("streets", **SMALL)
    report = check(env, env.params(Level(junctions=1, steps=50), "test"), batch=2, steps=60)
    assert report.terminated
    assert not report.truncated


def test_one_hot_observations_are_the_symbols_of_the_episode():
    env = Streets(**SMALL)
    symbols = list(range(59, -1, -1))
    state = env.episode(CROSSING | {"symbols": symbols})
    seen = env.observe(state, NO_LEVEL)
    assert {name: (part.shape, str(part.dtype)) for name, part in seen.items()} == dict.fromkeys(
        ("position", "goal"), ((60,), "int32")
    )
    # At node 0, by bearing: west, north, east, south; then one state at each of the nodes 1 to 4.
    assert int(seen["position"].argmax()) == symbols[1]
    assert int(seen["goal"].argmax()) == symbols[5]
    assert int(seen["position"].sum()) == int(seen["goal"].sum()) == 1


def test_pixels_are_the_views_of_here_and_of_the_goal():
    env = Streets(observation="pixels", side=16)
    state = env.episode(CROSSING)
    observe = jax.jit(lambda state: env.observe(state, NO_LEVEL)["image"])
    image, there = (np.asarray(observe(s)) for s in (state, state._replace(place=state.goal, goal=state.place)))
    assert env.observation_space["image"].contains(image)
    assert image.shape == (16, 32, 3)
    assert (image[:, :16] == there[:, 16:]).all()
    assert (image[:, 16:] == there[:, :16]).all()
    assert (image[:, :16] != image[:, 16:]).any()


def returns(env, policy, level, batch, steps):
    params = env.params(level)

    def one(key):
        key_reset, key_play = jax.random.split(key)
        _, taken = play(env, policy, key_play, begin(env, key_reset, params), params, steps)
        return taken.reward.sum()

    return np.asarray(jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(0), batch)))


def test_the_expert_collects_forty_times_as_much_as_chance():
    """As on the released code: 45.7 and 1.3 on a lattice, measured there; real streets are a little longer."""
    env = Streets(neighbourhoods=64)
    assert 40 < returns(env, knowing(env.expert), "train", 64, 200).mean() < 46
    chance = env.chance("train")
    assert chance
    assert abs(returns(env, at_random(env), "train", 256, 200).mean() - chance) < 0.35  # five standard errors


def test_the_expert_takes_a_shortest_way():
    """Against distances of a plain search, in all pairs of states of a few real neighbourhoods."""
    env = Streets(**SMALL)
    params = env.params("train")
    act = jax.jit(jax.vmap(jax.vmap(env.expert)))
    for seed in range(3):
        state = env.reset(jax.random.key(seed), params)[1]
        count = int(state.episode.map.states)
        after = np.array([[_moved(state, s, action) for action in range(3)] for s in range(count)])
        grid = jax.tree.map(lambda leaf, n=count: jnp.broadcast_to(leaf, (n, n, *leaf.shape)), state)
        number = jnp.arange(count, dtype=jnp.int32)
        place, goal = (jnp.broadcast_to(axis, (count, count)) for axis in (number[:, None], number[None, :]))
        chosen = np.asarray(act(grid._replace(place=place, goal=goal)))
        for target in range(count):
            far = _distances(after, target)
            assert max(far) < 60  # every state can be reached
            for s in range(count):
                if s == target:
                    assert chosen[s, target] == COLLECT
                else:
                    assert far[after[s, chosen[s, target]]] == far[s] - 1


def _moved(state, place, action):
    """The rules once more, in plain Python."""
    at = state.episode.map
    tail, count = [int(node) for node in at.tail_s], int(at.states)
    group = [s for s in range(count) if tail[s] == tail[place]]
    if action == FORWARD:
        return int(at.forward_s[place])
    return group[(group.index(place) + (1 if action == LEFT else -1)) % len(group)]


def _distances(after, target):
    far = [10**6] * len(after)
    far[target] = 0
    for _ in after:
        far = [min(far[s], 1 + min(far[n] for n in after[s])) for s in range(len(after))]
    return far


def test_facts():
    env = Streets()
    assert env.default_levels == ("train",)
    assert env.max_steps_in_episode("test") == 200
    assert env.max_steps_in_episode("quick_test") == 200
    assert env.scored_by == "return"
    assert (env.chance("test"), env.chance("quick_liege")) == (1.15, 4.9)
    assert env.title("test") == "test cities"
    assert env.smaller(["train", "quick_train"]) == []
    told = " ".join(Streets(observation="pixels", side=32).smaller(["quick_train"]))
    for words in ("1 junction instead of 5", "32 x 32 pixels"):
        assert words in told
    short: Any = [Level(junctions=2, steps=50)]
    assert env.smaller(short) == ["2 junctions instead of 5", "50 steps instead of 200"]


def test_words_and_back_at_any_time():
    env = Streets(**SMALL)
    state = env.reset(jax.random.key(3), env.params("test"))[1]
    told = env.describe(state)
    for number in range(5):
        state = stepper(env)(jax.random.key(number), state, jnp.int32(number % 4))[1]
    assert env.describe(state) == told
    assert env.describe(env.episode(told)) == told


def test_the_picture_is_a_map_and_below_it_the_views():
    seen: Any = {"observation": "pixels", "side": 16}
    for options, height in (({}, 320), (seen, 480)):
        env = Streets(**SMALL, **options)
        state = env.episode(CROSSING)
        assert env.picture([state, state]).shape == (height, 320, 3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"observation": "words"}, "observation must be one_hot or pixels"),
        ({"side": 4}, "side must be 8 to 1024 pixels"),
        ({"neighbourhoods": 0}, "neighbourhoods must be 1 to 4,096 of each city"),
        ({"neighbourhoods": True}, "neighbourhoods must be 1 to 4,096 of each city"),
    ],
)
def test_bad_options_are_told_in_one_sentence(options, words):
    with pytest.raises(ValueError, match=words) as error:
        Streets(**options)
    assert str(error.value).count(". ") == 0


def test_a_state_of_another_environment_is_refused():
    with pytest.raises(TypeError, match="no state of Streets"):
        Streets().expert(jax.eval_shape(make("ballet").reset, jax.random.key(0))[1])


# Other interfaces -----------------------------------------------------------------------------------------------------


def test_gymnasium_plays_a_described_episode():
    import hcam  # noqa: F401, which registers the task

    env = gymnasium.make("hcam/Streets-v0", level="quick_liege", **SMALL)
    observation, _ = env.reset(seed=0, options={"episode": CROSSING})
    assert int(observation["position"].argmax()) == 1
    observation, reward, terminated, truncated, _ = env.step(FORWARD)
    assert (float(reward), terminated, truncated) == (0, False, False)
    assert int(observation["position"].argmax()) == 4


def test_dm_env_ends_with_discount_0():
    from hcam.adapters.dm_env import DmEnv

    env = DmEnv("streets", level="quick_liege", seed=0, **SMALL)
    step, count = env.reset(), 0
    while not step.last():
        step, count = env.step(COLLECT), count + 1
    assert (count, step.discount) == (200, 0)


def test_gymnax_draws_the_same_episode():
    from hcam.adapters.gymnax import to_gymnax

    env = Streets(**SMALL)
    theirs = to_gymnax(env)
    ours, _ = env.reset(jax.random.key(5), env.params())
    seen, _ = theirs.reset(jax.random.key(5), theirs.default_params)
    assert all((ours[name] == seen[name]).all() for name in ours)
