"""The whole update on probes with known answers: each finds the value or the policy that is the right one."""

from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from hcam import agent, envs
from hcam.agent import AgentConfig
from hcam.agent.heads import HeadsConfig
from hcam.learning import curriculum, metrics, objectives, optimiser
from hcam.learning.learner import Learner, LearnerConfig
from hcam.learning.objectives import ObjectiveConfig
from hcam.learning.optimiser import OptimiserConfig
from hcam.memory import HCAM, LSTM, Local, TrXL
from hcam.types import Inputs

DISCOUNT = 0.8
MEMORIES: dict[str, Any] = {
    "hcam": HCAM(width=32, layers=1, heads=2, chunk=4, slots=4, top_k=2, window=3, mlp=2),
    "trxl": TrXL(width=32, layers=1, heads=2, window=16, mlp=2),
    "lstm": LSTM(width=32, layers=1),
    "none": Local(width=32, layers=1, heads=2, window=3, mlp=2),
}


def make(task, levels, memory="lstm", minibatches=2, epochs=1, learning_rate=3e-3, **objective):
    env = envs.make(task)
    config = AgentConfig(memory=MEMORIES[memory], heads=HeadsConfig(hidden=32), dtype="float32")
    weights: Any = {"discount": DISCOUNT, "policy": 1.0, "baseline": 1.0, "entropy": 0.01, "reconstruction": 0.1}
    return Learner(
        agent=agent.make(config, env),
        env=env,
        env_params=env.params(*levels),
        levels=max(1, len(levels)),
        optimiser=optimiser.make(OptimiserConfig(learning_rate=learning_rate), 1000),
        objective=objectives.make(ObjectiveConfig(**(weights | objective))),
        config=LearnerConfig(environments=32, unroll=16, minibatches=minibatches, epochs=epochs),
    )


def trained(learner, updates, seed=0):
    """The state after so many updates in one program, and the metrics of each."""

    def run(key):
        return jax.lax.scan(lambda state, _: learner.update(state), learner.init(key), None, length=updates)

    return jax.jit(run)(jax.random.key(seed))


@lru_cache
def recalling(memory):
    return trained(make("first_symbol", ("blanks6",), memory), 600)


def success(seen, last=50):
    episodes = seen.episodes
    return float(episodes.success_l[-last:].sum() / episodes.episodes_l[-last:].sum())


SLOW = [pytest.param(memory, marks=pytest.mark.slow) for memory in ("trxl", "lstm")]


@pytest.mark.parametrize("memory", ["hcam", *SLOW])
def test_every_memory_learns_to_recall(memory):
    """The best there is: 1. Without memory: 1/4."""
    assert success(recalling(memory)[1]) > 0.97


def test_it_records_how_episodes_ended():
    """The older the less they count."""
    state, seen = recalling("hcam")
    decay_u = curriculum.DECAY ** np.arange(600)[::-1]
    for name, sum_l in state.curriculum._asdict().items():
        np.testing.assert_allclose(sum_l, decay_u @ np.asarray(getattr(seen.episodes, name)), rtol=1e-4)


def test_the_entropy_of_the_policy_is_positive_and_falls():
    """From nearly that of a uniform policy; it is a diagnostic, and no loss by that name is logged."""
    _, seen = recalling("hcam")
    entropy_u = np.asarray(seen.means["entropy"])
    assert (entropy_u > 0).all()
    np.testing.assert_allclose(entropy_u[0], np.log(4), rtol=0.01)
    assert entropy_u[-1] < entropy_u[0]
    row = metrics.row(jax.tree.map(lambda leaf_u: leaf_u[None, -1], seen), ("blanks6",))
    assert set(row["losses"]) == {"policy", "baseline", "observation"}
    assert set(row["diagnostics"]) == set(metrics.DIAGNOSTICS) - {"accuracy"}


@pytest.mark.slow
def test_without_memory_it_stays_at_chance():
    _, seen = recalling("none")
    episodes = float(seen.episodes.episodes_l[-300:].sum())
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
    np.testing.assert_allclose(seen.means["ratio_first"], 1.0, atol=1e-4)
    np.testing.assert_allclose(seen.means["ratio_deviation_first"], 0.0, atol=1e-4)
    assert abs(np.asarray(seen.means["ratio"]) - 1).max() > 1e-4  # the second minibatch is not


def test_minibatches_split_the_environments():
    """Minibatch n has the n-th environments, with the memories they began with and the values they ended with."""
    whole, split = (make("first_symbol", ("blanks6",), "hcam", minibatches=n) for n in (1, 4))
    state, _ = recalling("hcam")  # in which no two memories are alike
    (_, one), (_, four) = (jax.jit(learner.act)(state) for learner in (whole, split))

    def check(axis, of_all, of_parts):
        assert of_all.std() > 0
        assert len(of_parts) == 4
        np.testing.assert_array_equal(of_all[0], np.concatenate(np.asarray(of_parts), axis))

    check(1, one.transitions_tb.inputs.observation, four.transitions_tb.inputs.observation)
    check(1, one.transitions_tb.logits, four.transitions_tb.logits)
    check(0, one.memory_b.layers[0].input_rd, four.memory_b.layers[0].input_rd)
    check(0, one.bootstrap_value_b, four.bootstrap_value_b)


def test_every_minibatch_is_learned_from_in_every_epoch():
    """At a learning rate of 0 nothing changes on the way: two epochs of four parts find the losses of the whole."""
    learners = [make("echo", (), minibatches=n, epochs=e, learning_rate=1e-30) for n, e in ((1, 1), (4, 2))]
    state = jax.jit(learners[0].init)(jax.random.key(0))
    whole, parts = (jax.jit(learner.update)(state)[1].means for learner in learners)
    for name in ("policy", "baseline", "entropy"):
        np.testing.assert_allclose(parts[name], whole[name], rtol=1e-5)


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
    for moment in ("mu", "nu"):  # under the names of the parameters
        jax.tree.map(
            lambda a, b: np.testing.assert_equal(a.shape, b.shape), optax.tree.get(one.optimiser, moment), one.params
        )


def test_environments_must_be_divisible():
    with pytest.raises(ValueError, match="10 environments cannot be split evenly into 3 minibatches"):
        LearnerConfig(environments=10, minibatches=3)


# Labels ---------------------------------------------------------------------------------------------------------------


def test_it_learns_to_recall_from_labels():
    """From the right answers alone, in a third of the updates that rewards take; no reward has any part in it."""
    learner = make("first_symbol", ("blanks6",), "hcam", objective="cross_entropy", policy=0.0, baseline=0.0)
    _, seen = trained(learner, 200)
    accuracy_u = np.asarray(seen.means["accuracy"])
    assert abs(accuracy_u[:5].mean() - 1 / 4) < 0.15
    assert accuracy_u[-20:].mean() > 0.97
    assert np.asarray(seen.means["labels"])[-20:].mean() < 0.1
    assert success(seen, 20) > 0.9  # actions are sampled
    assert "policy" not in seen.means


def test_only_supervised_learning_computes_labels():
    for objective, labelled in (("vtrace", False), ("cross_entropy", True)):
        learner = make("first_symbol", ("blanks6",), objective=objective)
        state = jax.eval_shape(learner.init, jax.random.key(0))
        _, minibatch_n = jax.eval_shape(learner.act, state)
        assert (minibatch_n.transitions_tb.label is not None) == labelled
