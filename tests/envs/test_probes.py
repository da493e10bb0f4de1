"""The probes' known answers, by experts, by chance, by small policies with and without memory, and by hand."""

from contextlib import contextmanager
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.envs import make, play
from hcam.envs.check import check
from hcam.envs.probes import PROBES, Constant, Discount, Echo, FirstSymbol, KthItem, Timeout

BATCH, STEPS = 512, 200
NAMED = [pytest.param(probe(), id=name) for name, probe in PROBES.items()]


@lru_cache
def program(env):
    """Many environments, each one episode after another, by the expert or at random: arrays of [B, T, ...]."""

    @jax.jit
    def run(keys, params, knows):
        def policy(key, state, observation):
            return jnp.where(knows, env.expert(state), play.at_random(env)(key, state, observation))

        now = jax.vmap(lambda key: play.begin(env, key, params))(keys[:, 0])
        return jax.vmap(lambda key, now: play.play(env, policy, key, now, params, STEPS)[1])(keys[:, 1], now)

    return run


@lru_cache
def played(env, policy, *levels):
    levels = levels or env.levels[:1] * len(env.levels)  # as many as in the mixture, so that the program is the same
    keys = jax.random.split(jax.random.key(0), (BATCH, 2))
    return jax.device_get(program(env)(keys, env.params(*levels), policy == "expert"))


@contextmanager
def jax_compiling_quickly():
    """For programs that run once."""
    jax.config.update("jax_disable_most_optimizations", True)
    try:
        yield
    finally:
        jax.config.update("jax_disable_most_optimizations", False)


def ended(steps):
    return steps.terminated | steps.truncated


def returns(steps):
    """Of every complete episode, in the order in which `steps.x[ended(steps)]` lists their last steps."""
    parts = [
        np.split(reward_t, np.flatnonzero(ended_t) + 1)[:-1]
        for reward_t, ended_t in zip(steps.reward, ended(steps), strict=True)
    ]
    return np.array([part.sum() for row in parts for part in row])


@pytest.mark.parametrize("env", NAMED)
def test_the_environment_contract_is_kept(env):
    with jax_compiling_quickly():
        report = check(env, batch=4, steps=200, fixed_start=isinstance(env, Constant))
    assert report.episodes == (report.truncated if isinstance(env, Timeout) else report.terminated)


@pytest.mark.parametrize("env", NAMED)
def test_the_expert_gets_the_best_return(env):
    steps = played(env, "expert", *env.levels)
    return_e, end = returns(steps), ended(steps)
    assert len(return_e) > 1000
    if isinstance(env, Timeout):  # half of the episodes pay, n each; nothing ever ends by itself
        number_e = np.asarray(env.params(*env.levels).level_l)[steps.info["level"][end]]
        np.testing.assert_array_equal(return_e, number_e * steps.observation[end][:, 1])
        assert [env.best(level) for level in ("steps8", "steps2")] == [4, 1]
        assert not steps.terminated.any()
    else:
        np.testing.assert_array_equal(return_e, env.best())
        np.testing.assert_array_equal(steps.info["success"], end)
        assert not steps.truncated.any()
    assert set(np.unique(steps.info["level"])) == set(range(max(1, len(env.levels))))


@pytest.mark.parametrize("env", NAMED)
def test_random_actions_get_what_chance_says(env):
    """Within 4 standard errors, where one is at most 1 % of a success: chances of 1/4 and of 1/3 are 8 errors apart."""
    return_e = returns(played(env, "random"))
    error = return_e.std() / np.sqrt(len(return_e))
    assert error < 0.01 * return_e.max()
    assert abs(return_e.mean() - env.guess()) <= 4 * error


@pytest.mark.parametrize("env", [Echo(), FirstSymbol(), KthItem()])
def test_no_policy_without_memory_beats_what_blind_says(env):
    """What each answer to each observation won: the best of them is as good as `blind`, to 4 standard errors."""
    steps = played(env, "random")
    shown_e, action_e, reward_e = (
        values[ended(steps)] for values in (steps.observation.argmax(-1), steps.action, steps.reward)
    )
    for shown in np.unique(shown_e):
        won = [reward_e[(shown_e == shown) & (action_e == action)] for action in range(env.symbols)]
        best = max(won, key=np.mean)
        error = np.sqrt(env.guess() * (1 - env.guess()) / len(best))
        assert 4 * error < 0.15
        assert abs(best.mean() - env.blind()) < 4 * error


def test_keeping_the_first_observation_solves_first_symbol():
    """A hand-made memory, one slot that `first` overwrites: its answer is right at every cue, and is the only one."""
    env = FirstSymbol()
    steps = played(env, "random", *env.levels)

    def keep(slot, seen):
        observation, first = seen
        slot = jnp.where(first, observation, slot)
        return slot, jnp.argmax(slot[: env.symbols])

    def run(observation_tx, first_t):
        return jax.lax.scan(keep, jnp.zeros(env.sizes.width), (observation_tx, first_t))[1]

    answer = jax.jit(jax.vmap(run))(steps.observation, steps.first)
    np.testing.assert_array_equal((answer == steps.action)[ended(steps)], steps.info["success"][ended(steps)])


def test_a_list_and_a_finger_solve_kth_item():
    """A memory of the items in their order: the one that the query points at is right, and no other."""
    env = KthItem()
    steps = played(env, "random", *env.levels)
    columns = (steps.first, steps.observation.argmax(-1), steps.action, steps.info["success"], ended(steps))
    for row in zip(*(column[:64] for column in columns), strict=True):
        items: list[int] = []
        for first, shown, action, success, end in zip(*row, strict=True):
            items = [] if first else items
            if end:
                assert success == (action == items[shown - env.symbols])
            else:
                items.append(shown)


def test_kth_item_asks_for_each_item_equally_often():
    steps = played(KthItem(), "random")  # four items
    asked_e = steps.observation.argmax(-1)[ended(steps)] - KthItem().symbols
    count_k = np.bincount(asked_e)
    expected = len(asked_e) / 4
    assert len(count_k) == 4
    assert (np.abs(count_k - expected) < 5 * np.sqrt(expected)).all()


def test_the_frames_of_first_symbol():
    """Symbol, 8 blanks (zeros), cue: ten steps, of which the action at the cue ends the episode."""
    steps = played(FirstSymbol(), "random")
    symbol, blanks, cue = np.split(steps.observation[:, :10], [1, 9], axis=1)
    assert (symbol[..., :4].sum(-1) == 1).all()
    assert not symbol[..., 4].any()
    assert not blanks.any()
    np.testing.assert_array_equal(cue, np.broadcast_to([0, 0, 0, 0, 1], cue.shape))
    np.testing.assert_array_equal(ended(steps), np.tile(np.arange(10) == 9, (BATCH, STEPS // 10)))
    np.testing.assert_array_equal(steps.first, np.tile(np.arange(10) == 0, (BATCH, STEPS // 10)))


@pytest.mark.parametrize("env", [Echo(), FirstSymbol(), KthItem(), Timeout()])
def test_a_new_episode_draws_new_symbols(env):
    """An episode's first symbol says nothing about the next episode's, in the same environment."""
    steps = played(env, "random")
    count = np.zeros((env.symbols, env.symbols))
    for shown_t, first_t in zip(steps.observation.argmax(-1), steps.first, strict=True):
        np.add.at(count, (shown_t[first_t][:-1], shown_t[first_t][1:]), 1)
    expected = count.sum() / env.symbols**2
    assert expected > 400
    assert (np.abs(count - expected) < 5 * np.sqrt(expected)).all()


def test_values_of_discount_by_hand():
    """discount 0.5, reward at the 4th step: 0.5^3, 0.5^2, 0.5, 1 as the steps to go count down 4, 3, 2, 1."""
    env = Discount(longest=6)
    params = env.params("steps4")
    observation, state = env.reset(jax.random.key(0), params)
    for to_go, value, reward in ((4, 0.125, 0.0), (3, 0.25, 0.0), (2, 0.5, 0.0), (1, 1.0, 1.0)):
        np.testing.assert_array_equal(observation, np.eye(6)[to_go - 1])
        assert float(env.value(state, 0.5)) == value
        stepped = env.step(jax.random.key(to_go), state, jnp.int32(0), params)
        observation, state, found, terminated, _, info = stepped
        assert float(found) == reward
    assert terminated
    np.testing.assert_array_equal(info["final_observation"], np.zeros(6))
    np.testing.assert_array_equal(observation, np.eye(6)[3])


@pytest.mark.parametrize(
    ("target", "pays", "pays_not"),
    [
        # discount 0.9, time is up after 8 steps; v is the value where symbol 1 is on show, w where symbol 0 is.
        ("final", 10.0, 0.0),  # v = 1 + 0.9 v and w = 0.9 w
        ("end", 4.706, 0.0),  # v = 1 + 0.9 (7/8) v, as if one step in eight were the end: 1 / 0.2125
        ("next", 7.353, 2.647),  # v + w = 1 + 0.9 (v + w) is 10, v - w = 1 + 0.9 (7/8) (v - w) is 4.706
    ],
)
def test_values_of_timeout_by_hand(target, pays, pays_not):
    """What one-step learning settles at: right from the final observation, wrong with an end or the next episode."""
    steps = played(Timeout(), "random")
    symbol, final = steps.observation.argmax(-1), steps.info["final_observation"].argmax(-1)
    after = symbol[:, 1:] if target == "next" else final[:, :-1]
    factor = np.where(steps.truncated[:, :-1] & (target == "end"), 0, 0.9)
    value = np.zeros(2)
    for _ in range(300):
        backup = steps.reward[:, :-1] + factor * value[after]
        value = np.array([backup[symbol[:, :-1] == shown].mean() for shown in (0, 1)])
    np.testing.assert_allclose(value, (pays_not, pays), atol=0.1)
    if target == "final":
        states = [Timeout().reset(jax.random.key(seed))[1] for seed in range(4)]
        assert {float(Timeout().value(state, 0.9).round(4)) for state in states} == {0.0, 10.0}


@pytest.mark.parametrize("env", NAMED)
def test_the_longest_episode_is_as_long_as_it_says(env):
    """A probe without levels is asked by the name of its task, as any environment without levels is."""
    name = env.levels[0] if env.levels else type(env).__name__.lower()
    length_e = np.diff(np.flatnonzero(ended(played(env, "random")).ravel()))
    assert env.max_steps_in_episode(name) == length_e.max()
    assert env.chance(name) in (env.guess(), None)


def test_one_program_serves_all_levels():
    env, traces = KthItem(), 0

    @jax.jit
    def reset(key, params):
        nonlocal traces
        traces += 1
        return env.reset(key, params)

    for level in env.levels:
        reset(jax.random.key(0), env.params(level))
    assert traces == 1


@pytest.mark.parametrize(
    ("env", "level", "words"),
    [
        (FirstSymbol(), "blank8", "blanks{n}, with n from 0 to 99999999, such as blanks8, blanks0"),
        (FirstSymbol(), "blanks08", "blanks{n}"),
        (KthItem(longest=3), "items4", "items{n}, with n from 1 to 3, such as items3, items2"),
        (KthItem(), "items0", "from 1 to 8"),
        (Discount(), "steps33", "from 1 to 32"),
        (Timeout(), "steps0", "from 1"),
        (Echo(), "1", "no levels"),
    ],
)
def test_an_unknown_level_is_refused(env, level, words):
    with pytest.raises(ValueError, match=f"there is no {type(env).__name__} level {level!r}") as refusal:
        env.params(*env.levels, level)
    assert words in str(refusal.value)


@pytest.mark.parametrize(("task", "options"), [("echo", {"symbols": 1}), ("kth_item", {"longest": 0})])
def test_sizes_that_make_no_task_are_refused(task, options):
    with pytest.raises(ValueError, match="must be at least"):
        make(task, **options)
