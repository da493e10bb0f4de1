"""The whole update on probes with known answers: each finds the value or the policy that is the right one."""

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam import agent, envs
from hcam.agent import AgentConfig, Inputs, MemoryConfig
from hcam.agent.heads import HeadsConfig
from hcam.learning import curriculum, optimiser
from hcam.learning.learner import Learner, LearnerConfig
from hcam.learning.loss import LossConfig
from hcam.learning.optimiser import OptimiserConfig

DISCOUNT = 0.8


def make(task, level, memory="lstm", minibatches=2, epochs=1, reconstruction=0.1, learning_rate=3e-3):
    env = envs.make(task)
    sizes = MemoryConfig(memory=memory, width=32, layers=1, heads=2, chunk=4, slots=4, top_k=2, mlp=2)
    sizes = MemoryConfig(**(vars(sizes) | {"window": 16 if memory == "trxl" else 3}))
    config = AgentConfig(memory=sizes, heads=HeadsConfig(hidden=32), dtype="float32")
    return Learner(
        agent=agent.make(config, env),
        env=env,
        level=env.params(*level),
        levels=max(1, len(level)),
        optimiser=optimiser.make(OptimiserConfig(learning_rate=learning_rate), 1000),
        config=LearnerConfig(environments=32, unroll=16, minibatches=minibatches, epochs=epochs),
        loss=LossConfig(discount=DISCOUNT, policy=1.0, baseline=1.0, entropy=0.01, reconstruction=reconstruction),
    )


def trained(learner, updates, seed=0):
    """The state and what was told, after so many updates in one program."""

    def run(key):
        return jax.lax.scan(lambda state, _: learner.update(state), learner.init(key), None, length=updates)

    return jax.jit(run)(jax.random.key(seed))


@lru_cache
def recalling(memory):
    return trained(make("first_symbol", ("blanks6",), memory), 600)


def success(seen, last=50):
    tally = seen.tally
    return float(tally.success_l[-last:].sum() / tally.episodes_l[-last:].sum())


SLOW = [pytest.param(memory, marks=pytest.mark.slow) for memory in ("trxl", "lstm")]


@pytest.mark.parametrize("memory", ["hcam", *SLOW])
def test_every_memory_learns_to_recall(memory):
    """The best there is: 1. Without memory: 1/4."""
    assert success(recalling(memory)[1]) > 0.97


def test_it_notes_how_episodes_went():
    """The older the less they count."""
    state, seen = recalling("hcam")
    faded_u = curriculum.DECAY ** np.arange(600)[::-1]
    for name, noted_l in state.record._asdict().items():
        np.testing.assert_allclose(noted_l, faded_u @ np.asarray(getattr(seen.tally, name)), rtol=1e-4)


@pytest.mark.slow
def test_without_memory_it_stays_at_chance():
    _, seen = recalling("none")
    episodes = float(seen.tally.episodes_l[-300:].sum())
    assert abs(success(seen, 300) - 1 / 4) < 4 * np.sqrt(3 / 16 / episodes)


def test_the_policy_finds_what_is_rewarded():
    _, seen = trained(make("echo", ()), 150)
    assert success(seen, 20) > 0.97


def values(learner, state, observation_t):
    """Values along an episode that shows these."""
    steps = len(observation_t)
    seen_t = jax.vmap(learner.agent.preprocess)(observation_t)
    inputs = Inputs(seen_t, jnp.arange(steps) == 0, jnp.zeros(steps, jnp.int32), jnp.zeros(steps))
    return np.asarray(learner.agent.unroll(state.params, learner.agent.init_state(), inputs)[1].value)


def test_values_go_back_in_time_by_the_discount():
    """k steps before the reward, the value is discount^(k-1)."""
    learner = make("discount", ("steps6",))
    state, _ = trained(learner, 250)
    to_go = np.arange(6)[::-1]  # steps after this one, as the environment shows them
    found = values(learner, state, jax.nn.one_hot(to_go, 32, dtype=jnp.float32))
    np.testing.assert_allclose(found, DISCOUNT**to_go, atol=0.03)


def test_a_time_out_is_not_an_end():
    """1 a step for ever is worth 1 / (1 - discount) = 5; a learner that took the time-out after 4 steps for an end
    would find 2.5 (1 / (1 - 0.8 * 3/4)), and one that went on with the next episode something between."""
    learner = make("timeout", ("steps4",))
    state, _ = trained(learner, 400)
    nothing, paid = (values(learner, state, jnp.tile(jnp.eye(2)[symbol], (4, 1))) for symbol in (0, 1))
    np.testing.assert_allclose(paid, 5.0, atol=0.4)
    np.testing.assert_allclose(nothing, 0.0, atol=0.2)


def test_the_first_minibatch_is_on_policy():
    """Acting equals learning: before the parameters change, every importance weight is 1."""
    _, seen = recalling("hcam")
    np.testing.assert_allclose(seen.losses["rho_first"], 1.0, atol=1e-4)
    assert abs(np.asarray(seen.losses["rho"]) - 1).max() > 1e-4  # the second minibatch is not


def test_minibatches_share_out_the_environments():
    """Share m has the m-th environments, with the memories they began with and the values they ended with."""
    whole, shared = (make("first_symbol", ("blanks6",), "hcam", minibatches=m) for m in (1, 4))
    state, _ = jax.jit(whole.update)(jax.jit(whole.init)(jax.random.key(0)))  # so that no two memories are alike
    (_, one), (_, four) = (jax.jit(learner.act)(state) for learner in (whole, shared))

    def check(axis, of_all, of_shares):
        assert of_all.std() > 0
        assert len(of_shares) == 4
        np.testing.assert_array_equal(of_all[0], np.concatenate(np.asarray(of_shares), axis))

    check(1, one.transitions_mtb.inputs.observation, four.transitions_mtb.inputs.observation)
    check(1, one.transitions_mtb.logits, four.transitions_mtb.logits)
    check(0, one.memory_mb.layers[0].input_rd, four.memory_mb.layers[0].input_rd)
    check(0, one.value_mb, four.value_mb)


def test_every_minibatch_is_learned_from_in_every_epoch():
    """With a rate of 0 nothing changes on the way: two epochs then tell what one tells, and shares what the whole."""
    learners = [make("echo", (), minibatches=m, epochs=e, learning_rate=1e-30) for m, e in ((1, 1), (4, 1), (4, 2))]
    state = jax.jit(learners[0].init)(jax.random.key(0))
    whole, *others = (jax.jit(learner.update)(state)[1].losses for learner in learners)
    for losses in others:
        for name in ("policy", "baseline", "entropy"):
            np.testing.assert_allclose(losses[name], whole[name], rtol=1e-5)


def test_updates_use_new_keys_and_epochs_more_gradient_steps():
    learner = make("echo", (), epochs=2)
    assert learner.config.gradient_steps == 4
    state = jax.jit(learner.init)(jax.random.key(0))
    one, _ = jax.jit(learner.update)(state)
    again = one._replace(params=state.params, actors_b=state.actors_b, optimiser=state.optimiser)
    two, _ = jax.jit(learner.update)(again)  # the same start, one update later
    assert not np.array_equal(one.actors_b.inputs.action, two.actors_b.inputs.action)
    count = [leaf for leaf in jax.tree.leaves(one.optimiser) if leaf.dtype == jnp.int32]
    assert {int(leaf) for leaf in count} == {4}


def test_environments_must_be_divisible():
    with pytest.raises(ValueError, match="10 environments cannot be shared out evenly among 3 minibatches"):
        LearnerConfig(environments=10, minibatches=3)
