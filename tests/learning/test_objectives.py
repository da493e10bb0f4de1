"""Every term of an objective on a small worked example, their weights, and the labels of supervised learning."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam import agent, envs
from hcam.agent import AgentConfig
from hcam.agent.heads import HeadsConfig
from hcam.learning import metrics, objectives
from hcam.learning.objectives import ENTROPY, ObjectiveConfig, Terms
from hcam.memory import LSTM
from hcam.types import EpisodeEnd, Inputs, Minibatch, Output, Transition


@pytest.fixture(scope="module")
def tiny():
    env = envs.make("first_symbol", symbols=2)
    built = agent.make(AgentConfig(memory=LSTM(width=8, layers=1), heads=HeadsConfig(hidden=8)), env)
    return built, built.init_params(jax.random.key(0))


def minibatch_of(built, steps=3, terminated=False, label=None, copies=1):
    """An unroll of one environment, as often as asked for."""
    observation_t = jax.vmap(built.preprocess)(jax.nn.one_hot(jnp.arange(steps) % 3, 3, dtype=jnp.float32))
    none, zero = jnp.zeros(steps, bool), jnp.zeros(steps, jnp.int32)
    transition_t = Transition(
        inputs=Inputs(observation_t, jnp.arange(steps) == 0, zero, jnp.zeros(steps)),
        action=jnp.arange(steps, dtype=jnp.int32) % 2,
        logits=jnp.zeros((steps, 2)),
        reward=jnp.arange(steps, dtype=jnp.float32),
        terminated=none | terminated,
        truncated=none,
        label=None if label is None else jnp.array(label, jnp.int32),
        end=EpisodeEnd(none, jnp.zeros(steps), zero, zero, none),
    )

    def batch(tree: Any, axis: int) -> Any:
        return jax.tree.map(lambda leaf: jnp.stack([leaf] * copies, axis), tree)

    return Minibatch(batch(built.init_state(), 0), batch(transition_t, 1), batch(jnp.float32(2.0), 0))


def terms(built, config, params, minibatch, count=0):
    """Of the first environment: [T]."""
    found = jax.jit(partial(objectives.terms, config, built))(params, minibatch, count)
    return jax.tree.map(lambda leaf: leaf[:, 0], found)


def forward(built, params, minibatch):
    return jax.tree.map(lambda leaf: np.asarray(leaf[:, 0]), objectives.forward(built, params, minibatch))


# Learning from rewards ------------------------------------------------------------------------------------------------


def test_forward_is_the_agents_unroll(tiny):
    built, params = tiny
    minibatch = minibatch_of(built, copies=2)
    one = jax.tree.map(lambda leaf: leaf[:, 1], minibatch.transitions_tb.inputs)
    _, expected = built.unroll(params, built.init_state(), one)
    found = jax.tree.map(lambda leaf: leaf[:, 1], objectives.forward(built, params, minibatch))
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6), found, expected)


def test_policy_baseline_and_entropy_are_their_formulas(tiny):
    """With every step an end, the target is the reward: baseline 1/2 (r - V)^2, policy -rho (r - V) log pi(a)."""
    built, params = tiny
    minibatch = minibatch_of(built, terminated=True)
    losses, diagnostics = terms(built, ObjectiveConfig(), params, minibatch)
    output, steps = forward(built, params, minibatch), minibatch.transitions_tb
    log_pi = np.asarray(jax.nn.log_softmax(output.logits))
    chosen = np.take_along_axis(log_pi, np.asarray(steps.action), 1)[:, 0]
    rho = np.exp(chosen - np.log(0.5))
    advantage = np.minimum(rho, 1) * (np.asarray(steps.reward)[:, 0] - output.value)
    np.testing.assert_allclose(diagnostics["ratio"], rho, rtol=1e-5)
    np.testing.assert_allclose(diagnostics["ratio_deviation"], abs(rho - 1), rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(diagnostics["value"], output.value, rtol=1e-5)
    np.testing.assert_allclose(diagnostics["advantage"], advantage, rtol=1e-4)
    np.testing.assert_allclose(losses["policy"], -advantage * chosen, rtol=1e-4)
    np.testing.assert_allclose(losses["baseline"], 0.5 * advantage**2, rtol=1e-4)
    np.testing.assert_allclose(losses[ENTROPY], (np.exp(log_pi) * log_pi).sum(-1), rtol=1e-5)


def test_the_entropy_that_is_logged_is_positive(tiny):
    """The loss is minus the entropy, and is minimised; the log has the entropy itself, between 0 and log A."""
    built, params = tiny
    for config in (ObjectiveConfig(), ObjectiveConfig(objective="cross_entropy")):
        minibatch = minibatch_of(built, label=[-1, 0, 1])
        found = objectives.terms(config, built, params, minibatch, 0)
        log_pi = np.asarray(jax.nn.log_softmax(forward(built, params, minibatch).logits))
        entropy = -(np.exp(log_pi) * log_pi).sum(-1)
        np.testing.assert_allclose(found.diagnostics["entropy"][:, 0], entropy, rtol=1e-5)
        assert (entropy > 0).all()
        assert (entropy <= np.log(2) + 1e-6).all()
        _, means = objectives.total(objectives.make(config), found)
        np.testing.assert_allclose(means["entropy"], entropy.mean(), rtol=1e-5)
        assert ENTROPY not in means


def test_the_policy_learns_from_its_own_term_alone(tiny):
    """Neither the advantage nor the value target carries a gradient: only log pi and V themselves do."""
    built, params = tiny
    minibatch = minibatch_of(built)

    def of(name, params):
        return terms(built, ObjectiveConfig(), params, minibatch).losses[name].sum()

    policy, baseline = (jax.grad(lambda params, name=name: of(name, params))(params) for name in ("policy", "baseline"))
    norm = lambda tree: sum(float(jnp.abs(leaf).sum()) for leaf in jax.tree.leaves(tree))  # noqa: E731
    assert norm(policy["heads"]["value"]) == 0
    assert norm(policy["heads"]["policy"]) > 0
    assert norm(baseline["heads"]["policy"]) == 0
    assert norm(baseline["heads"]["value"]) > 0


# Learning from labels -------------------------------------------------------------------------------------------------

LOGITS = np.array([[2.0, 0.0, -1.0], [0.0, 1.0, 0.0], [0.5, 0.0, 3.0], [1.0, 1.0, 4.0]], np.float32)
LABELS = [0, -1, 1, -1]  # right, none, wrong, none


def labelled_terms(logits, label):
    """[T, B = 1], of an output with these logits."""
    steps = len(label)
    output_tb = Output(jnp.asarray(logits)[:, None], jnp.arange(steps, dtype=jnp.float32)[:, None], jnp.zeros(1))
    transitions: Any = [None] * len(Transition._fields)
    transitions_tb = Transition(*transitions)._replace(label=jnp.array(label, jnp.int32)[:, None])
    return objectives.cross_entropy_terms(ObjectiveConfig(), output_tb, Minibatch((), transitions_tb, jnp.zeros(1)))


def test_cross_entropy_is_a_mean_over_labelled_steps():
    """By hand: the mean of all steps is that of the two with a label, and no other step has any part in it."""
    losses, diagnostics = labelled_terms(LOGITS, LABELS)
    log_policy = LOGITS - np.log(np.exp(LOGITS).sum(-1, keepdims=True))
    expected = -(log_policy[0, 0] + log_policy[2, 1]) / 2
    assert set(losses) == {"labels"}
    np.testing.assert_allclose(losses["labels"].mean(), expected, rtol=1e-5)
    np.testing.assert_array_equal(losses["labels"][[1, 3], 0], 0)
    np.testing.assert_allclose(losses["labels"][0, 0], -2 * log_policy[0, 0], rtol=1e-5)
    np.testing.assert_allclose(diagnostics["accuracy"].mean(), 1 / 2)
    np.testing.assert_allclose(diagnostics["value"][:, 0], [0, 1, 2, 3])


@pytest.mark.parametrize(
    ("label", "accuracy"), [([0, 1, 2, 2], 1.0), ([1, 1, 2, 0], 0.5), ([0, -1, -1, -1], 1.0), ([2, -1, 0, -1], 0.0)]
)
def test_accuracy_is_the_share_of_labelled_steps_whose_likeliest_action_is_right(label, accuracy):
    np.testing.assert_allclose(labelled_terms(LOGITS, label).diagnostics["accuracy"].mean(), accuracy)


def test_the_gradient_is_zero_where_there_is_no_label():
    """And softmax minus one-hot over the number of labelled steps where there is one."""
    slope = jax.grad(lambda logits: labelled_terms(logits, LABELS).losses["labels"].mean())(jnp.asarray(LOGITS))
    np.testing.assert_array_equal(slope[jnp.array([1, 3])], 0)
    expected = (jax.nn.softmax(LOGITS[[0, 2]]) - np.eye(3)[[0, 1]]) / 2
    np.testing.assert_allclose(slope[jnp.array([0, 2])], expected, rtol=1e-5, atol=1e-7)


def test_without_any_label_there_is_nothing_to_learn():
    """No division by zero either."""
    losses, diagnostics = labelled_terms(LOGITS, [-1] * 4)
    slope = jax.grad(lambda logits: labelled_terms(logits, [-1] * 4).losses["labels"].mean())(jnp.asarray(LOGITS))
    for found in (losses["labels"], diagnostics["accuracy"], slope):
        np.testing.assert_array_equal(found, 0)


def test_supervised_learning_has_labels_and_reconstructions_and_nothing_else(tiny):
    built, params = tiny
    config = ObjectiveConfig(objective="cross_entropy")
    found = objectives.terms(config, built, params, minibatch_of(built, label=[-1, 0, 1]), 0)
    assert set(found.losses) == {"labels", "observation"}
    slope = jax.grad(
        lambda params: (
            objectives.terms(config, built, params, minibatch_of(built, label=[0, 1, 1]), 0).losses["labels"].mean()
        )
    )(params)
    assert not any(leaf.any() for leaf in jax.tree.leaves(slope["heads"]["value"]))
    assert any(leaf.any() for leaf in jax.tree.leaves(slope["heads"]["policy"]))


# The whole ------------------------------------------------------------------------------------------------------------


def test_an_objective_weighs_each_loss_and_knows_whether_it_needs_labels():
    config = ObjectiveConfig(policy=2.0, baseline=3.0, entropy=0.5, labels=5.0, reconstruction=7.0)
    made = objectives.make(config)
    names = ("policy", "baseline", ENTROPY, "labels", "image", "instruction", "observation")
    assert [made.weight(name) for name in names] == [2.0, 3.0, 0.5, 5.0, 7.0, 7.0, 7.0]
    assert made.labelled is False
    assert objectives.make(ObjectiveConfig(objective="cross_entropy")).labelled is True


def test_total_weighs_the_means(tiny):
    built, params = tiny
    config = ObjectiveConfig(policy=2.0, baseline=3.0, entropy=0.5, reconstruction=7.0)
    losses, _ = terms(built, config, params, minibatch_of(built))
    found = objectives.terms(config, built, params, minibatch_of(built, copies=2), 0)
    total, means = objectives.total(objectives.make(config), found)
    expected = {name: float(value.mean()) for name, value in losses.items()}
    for name, value in expected.items():
        np.testing.assert_allclose(-means["entropy"] if name == ENTROPY else means[name], value, rtol=1e-5)
    weights = {"policy": 2.0, "baseline": 3.0, ENTROPY: 0.5, "observation": 7.0}
    np.testing.assert_allclose(total, sum(weights[name] * value for name, value in expected.items()), rtol=1e-5)


def test_what_is_logged_is_a_loss_or_a_diagnostic():
    """Every diagnostic is known as such to the log, and no loss is."""
    found = Terms({"policy": jnp.ones((2, 1)), ENTROPY: -jnp.ones((2, 1))}, {"entropy": jnp.ones((2, 1))})
    total, means = objectives.total(objectives.make(ObjectiveConfig(policy=1.0, entropy=0.25)), found)
    assert float(total) == 1 - 0.25
    assert {name: float(mean) for name, mean in means.items()} == {"policy": 1.0, "entropy": 1.0}
    assert set(labelled_terms(LOGITS, LABELS).diagnostics) <= set(metrics.DIAGNOSTICS)


# Reconstruction -------------------------------------------------------------------------------------------------------


def reconstructed(built, params, every, count):
    """Losses of 6 steps, with one in `every` reconstructed."""
    return terms(built, ObjectiveConfig(reconstruct_every=every), params, minibatch_of(built, steps=6), count).losses


@pytest.mark.parametrize("every", [1, 2, 3, 6])
def test_one_step_in_so_many_is_reconstructed(tiny, every):
    """From the count of gradient steps on; all other losses are of every step."""
    built, params = tiny
    whole, run = reconstructed(built, params, 1, 0), jax.jit(partial(reconstructed, built, params, every))
    assert np.std(whole["observation"]) > 0  # steps can be told apart
    for count in (0, 1, 5, 1000):
        found = run(jnp.int32(count))
        np.testing.assert_allclose(found["observation"], whole["observation"][count % every :: every], rtol=1e-6)
        for name in ("policy", "baseline", ENTROPY):
            np.testing.assert_allclose(found[name], whole[name], rtol=1e-5, atol=1e-7)


def test_reconstructing_fewer_steps_is_the_same_loss_on_average(tiny):
    """Over all offsets, the mean of the total and of its gradient is that of reconstructing every step."""
    built, params = tiny
    minibatch = minibatch_of(built, steps=6)

    @partial(jax.jit, static_argnums=0)
    def learn(every, count):
        objective = objectives.make(ObjectiveConfig(reconstruct_every=every, reconstruction=7.0))

        def total(params):
            return objectives.total(objective, objective.terms(built, params, minibatch, count))

        (value, means), slope = jax.value_and_grad(total, has_aux=True)(params)
        return value, means["observation"], slope

    parts = [learn(3, jnp.int32(count)) for count in range(3)]
    mean = jax.tree.map(lambda *leaves: sum(leaves) / 3, *parts)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), mean, learn(1, jnp.int32(0)))
    assert len({float(part[1]) for part in parts}) == 3


# Refusals -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"discount": 1.0}, "discount must be at least 0 and below 1, but is 1.0"),
        ({"lambda_": 2.0}, "lambda must be from 0 to 1"),
        ({"entropy": -1.0}, "entropy must not be negative, but is -1.0"),
        ({"labels": -1.0}, "labels must not be negative, but is -1.0"),
        ({"policy": float("nan")}, "policy must be a finite number, but is nan"),
        ({"max_rho": float("inf")}, "max_rho must be a finite number, but is inf"),
        ({"reconstruct_every": 0}, "reconstruct_every must be a whole number of at least 1, but is 0"),
        ({"reconstruct_every": 1.5}, "reconstruct_every must be a whole number, but is 1.5"),
        ({"objective": "ppo"}, "objective must be one of 'vtrace', 'cross_entropy', but is 'ppo'"),
    ],
)
def test_bad_settings_are_refused(wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        ObjectiveConfig(**wrong)
