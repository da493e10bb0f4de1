"""V-trace by hand and by a slow loop; every loss term on a small worked example."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hcam import agent, envs
from hcam.agent import AgentConfig, Inputs, MemoryConfig, heads
from hcam.agent.encoder import EncoderConfig
from hcam.agent.heads import HeadsConfig
from hcam.envs.spaces import Box, Discrete, Tokens
from hcam.learning import loss
from hcam.learning.loss import LossConfig, vtrace
from hcam.learning.rollout import Episode, Transition


def trace(log_rho, reward, value, value_end, ended=None, cut=None, **config):
    no = [False] * len(reward)
    flags = [jnp.array(no if flag is None else flag) for flag in (ended, cut)]
    numbers: list[Any] = [jnp.array(part, jnp.float32) for part in (log_rho, reward, value, value_end)]
    return vtrace(*numbers, *flags, config=LossConfig(**config))


def test_on_policy_vtrace_is_the_discounted_return():
    """rho = 1, discount 1/2, rewards 1, 2, 4, value after the end 8:
    target_2 = 4 + 8/2 = 8, target_1 = 2 + 8/2 = 6, target_0 = 1 + 6/2 = 4. Advantages: minus the values 1, 1, 1."""
    target, advantage = trace([0.0] * 3, [1, 2, 4], [1, 1, 1], 8, discount=0.5)
    np.testing.assert_allclose(target, [4, 6, 8])
    np.testing.assert_allclose(advantage, [3, 5, 7])


def test_vtrace_off_policy_by_hand():
    """discount 1/2, rho = 1/2 and 4 (clipped to 1), rewards 1 and 2, values 2 and 4, value after the end 8.

    delta_1 = 1 (2 + 8/2 - 4) = 2                    target_1 = 4 + 2 = 6
    delta_0 = 1/2 (1 + 4/2 - 2) = 1/2
    error_0 = 1/2 + 1/2 * 1/2 * 2 = 1                target_0 = 2 + 1 = 3
    advantage_1 = 1 (2 + 8/2 - 4) = 2
    advantage_0 = 1/2 (1 + 6/2 - 2) = 1
    """
    target, advantage = trace(np.log([0.5, 4.0]), [1, 2], [2, 4], 8, discount=0.5)
    np.testing.assert_allclose(target, [3, 6], rtol=1e-6)
    np.testing.assert_allclose(advantage, [1, 2], rtol=1e-6)


def test_nothing_follows_an_end():
    """The second step ends an episode: its target is its reward, whatever comes later."""
    target, advantage = trace([0.0] * 3, [1, 2, 4], [1, 1, 1], 8, ended=[False, True, False], discount=0.5)
    np.testing.assert_allclose(target, [1 + 2 / 2, 2, 8])
    np.testing.assert_allclose(advantage, [1, 1, 7])


def test_a_time_out_goes_on_with_the_value_of_what_was_seen_last():
    """Time is up at the second step: it teaches nothing, and the first goes on with the value 10 that it led to."""
    target, advantage = trace([0.0] * 3, [1, 2, 4], [1, 10, 1], 8, cut=[False, True, False], discount=0.5)
    np.testing.assert_allclose(target, [1 + 10 / 2, 10, 8])
    np.testing.assert_allclose(advantage, [5, 0, 7])


def slow_vtrace(log_rho, reward, value, value_end, ended, cut, config):
    """Equation 1 of the V-trace paper, term by term: a sum over all later steps, weighted by a product of traces."""
    steps, rho = len(reward), np.exp(log_rho)
    values = np.append(value, value_end)
    discount = np.where(ended, 0.0, config.discount)
    weight = np.where(cut, 0.0, np.minimum(rho, config.max_rho))
    traces = np.where(cut, 0.0, config.trace * np.minimum(rho, config.max_c))
    target = np.zeros(steps + 1)
    target[-1] = value_end
    for s in range(steps):
        target[s] = value[s]
        for t in range(s, steps):
            factor = np.prod([discount[i] * traces[i] for i in range(s, t)])
            target[s] += factor * weight[t] * (reward[t] + discount[t] * values[t + 1] - value[t])
    advantage = [weight[s] * (reward[s] + discount[s] * target[s + 1] - value[s]) for s in range(steps)]
    return target[:-1], np.array(advantage)


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.sampled_from([(1.0, 1.0, 1.0), (2.0, 0.7, 1.0), (1.0, 1.0, 0.9)]))
def test_vtrace_equals_the_slow_loop(seed, constants):
    rng, steps = np.random.default_rng(seed), 7
    log_rho, reward, value = (rng.normal(size=steps).astype(np.float32) for _ in range(3))
    ended = rng.random(steps) < 0.2
    cut = (rng.random(steps) < 0.2) & ~ended
    config = LossConfig(discount=0.9, max_rho=constants[0], max_c=constants[1], trace=constants[2])
    arrays = [jnp.asarray(part) for part in (log_rho, reward, value, np.float32(1.5), ended, cut)]
    found = vtrace(*arrays, config=config)
    for one, two in zip(found, slow_vtrace(log_rho, reward, value, 1.5, ended, cut, config), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-5)


# The terms ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tiny():
    env = envs.make("first_symbol", symbols=2)
    memory = MemoryConfig(memory="lstm", width=8, layers=1)
    built = agent.make(AgentConfig(encoder=EncoderConfig(), memory=memory, heads=HeadsConfig(hidden=8)), env)
    return built, built.init_params(jax.random.key(0))


def unroll_of(built, steps=3, terminated=False):
    observation_t = jax.vmap(built.preprocess)(jax.nn.one_hot(jnp.arange(steps) % 3, 3, dtype=jnp.float32))
    inputs = Inputs(observation_t, jnp.arange(steps) == 0, jnp.zeros(steps, jnp.int32), jnp.zeros(steps))
    none = jnp.zeros(steps, bool)
    episode = Episode(none, jnp.zeros(steps), jnp.zeros(steps, jnp.int32), jnp.zeros(steps, jnp.int32), none)
    steps_t = Transition(
        inputs,
        jnp.arange(steps, dtype=jnp.int32) % 2,
        jnp.zeros((steps, 2)),
        jnp.arange(steps, dtype=jnp.float32),
        none | terminated,
        none,
        episode,
    )
    return steps_t, jnp.float32(2.0)


def per_step(built, config, params, steps_t, value_end, offset=0):
    """Of one environment: [T]."""
    memory_b, value_b = jax.tree.map(lambda leaf: leaf[None], (built.init_state(), value_end))
    transitions_tb = jax.tree.map(lambda leaf: leaf[:, None], steps_t)
    run = jax.jit(partial(loss.per_step, built, config))
    return jax.tree.map(lambda leaf: leaf[:, 0], run(params, memory_b, transitions_tb, value_b, offset))


def test_policy_baseline_and_entropy_are_their_formulas(tiny):
    """With every step an end, the target is the reward: baseline 1/2 (r - V)^2, policy -rho (r - V) log pi(a)."""
    built, params = tiny
    steps_t, value_end = unroll_of(built, terminated=True)
    losses, seen = per_step(built, LossConfig(), params, steps_t, value_end)
    _, output = built.unroll(params, built.init_state(), steps_t.inputs)
    log_pi = jax.nn.log_softmax(output.logits)
    chosen = np.take_along_axis(np.asarray(log_pi), np.asarray(steps_t.action)[:, None], 1)[:, 0]
    rho = np.exp(chosen - np.log(0.5))
    advantage = np.minimum(rho, 1) * (np.asarray(steps_t.reward) - np.asarray(output.value))
    np.testing.assert_allclose(seen["rho"], rho, rtol=1e-5)
    np.testing.assert_allclose(losses["policy"], -advantage * chosen, rtol=1e-4)
    np.testing.assert_allclose(losses["entropy"], (np.exp(log_pi) * np.asarray(log_pi)).sum(-1), rtol=1e-5)
    error = np.minimum(rho, 1) * (np.asarray(steps_t.reward) - np.asarray(output.value))
    np.testing.assert_allclose(losses["baseline"], 0.5 * error**2, rtol=1e-4)


def test_the_policy_learns_from_its_own_term_alone(tiny):
    """Neither the advantage nor the value target carries a gradient: only log pi and V themselves do."""
    built, params = tiny
    steps_t, value_end = unroll_of(built)

    def of(name, params):
        return per_step(built, LossConfig(), params, steps_t, value_end)[0][name].sum()

    policy, baseline = (jax.grad(lambda params, name=name: of(name, params))(params) for name in ("policy", "baseline"))
    norm = lambda tree: sum(float(jnp.abs(leaf).sum()) for leaf in jax.tree.leaves(tree))  # noqa: E731
    assert norm(policy["heads"]["value"]) == 0
    assert norm(policy["heads"]["policy"]) > 0
    assert norm(baseline["heads"]["policy"]) == 0
    assert norm(baseline["heads"]["value"]) > 0


def test_total_weighs_the_means(tiny):
    built, params = tiny
    steps_t, value_end = unroll_of(built)
    config = LossConfig(policy=2.0, baseline=3.0, entropy=0.5, reconstruction=7.0)
    losses, _ = per_step(built, config, params, steps_t, value_end)
    batch = lambda tree, axis: jax.tree.map(lambda leaf: jnp.stack([leaf, leaf], axis), tree)  # noqa: E731
    unroll = (batch(built.init_state(), 0), batch(steps_t, 1), batch(value_end, 0))
    total, means = loss.total(config, *loss.per_step(built, config, params, *unroll))
    expected = {name: float(value.mean()) for name, value in losses.items()}
    for name, value in expected.items():
        np.testing.assert_allclose(means[name], value, rtol=1e-5)
    weights = {"policy": 2.0, "baseline": 3.0, "entropy": 0.5, "observation": 7.0}
    np.testing.assert_allclose(total, sum(weights[name] * value for name, value in expected.items()), rtol=1e-5)


def reconstructed(built, params, every, offset):
    """Losses of 6 steps, with one in `every` reconstructed."""
    steps_t, value_end = unroll_of(built, steps=6)
    config = LossConfig(reconstruct_every=every)
    return per_step(built, config, params, steps_t, value_end, offset)[0]


@pytest.mark.parametrize("every", [1, 2, 3, 6])
def test_one_step_in_so_many_is_reconstructed(tiny, every):
    """From the offset on, which may be a counter; all other losses are of every step."""
    built, params = tiny
    whole, run = reconstructed(built, params, 1, 0), jax.jit(partial(reconstructed, built, params, every))
    assert np.std(whole["observation"]) > 0  # steps can be told apart
    for offset in (0, 1, 5, 1000):
        found = run(jnp.int32(offset))
        np.testing.assert_allclose(found["observation"], whole["observation"][offset % every :: every], rtol=1e-6)
        for name in ("policy", "baseline", "entropy"):
            np.testing.assert_allclose(found[name], whole[name], rtol=1e-5, atol=1e-7)


def test_reconstructing_fewer_steps_is_the_same_loss_on_average(tiny):
    """Over all offsets, the mean of the total and of its gradient is that of reconstructing every step."""
    built, params = tiny
    one = unroll_of(built, steps=6)
    state_b, value_b = (jax.tree.map(lambda leaf: leaf[None], part) for part in (built.init_state(), one[1]))
    transitions_tb = jax.tree.map(lambda leaf: leaf[:, None], one[0])

    @partial(jax.jit, static_argnums=0)
    def learn(every, offset):
        config = LossConfig(reconstruct_every=every, reconstruction=7.0)

        def total(params):
            return loss.total(config, *loss.per_step(built, config, params, state_b, transitions_tb, value_b, offset))

        (value, means), slope = jax.value_and_grad(total, has_aux=True)(params)
        return value, means["observation"], slope

    parts = [learn(3, jnp.int32(offset)) for offset in range(3)]
    mean = jax.tree.map(lambda *leaves: sum(leaves) / 3, *parts)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), mean, learn(1, jnp.int32(0)))
    assert len({float(part[1]) for part in parts}) == 3


def test_image_loss_is_sigmoid_cross_entropy_mean_over_pixels():
    """Logit 0 costs log 2 whatever the pixel; logit log 3 is the probability 3/4."""
    pixel = jnp.array([[[255], [0]]], jnp.uint8)
    np.testing.assert_allclose(heads.pixel_loss(255, 1, jnp.zeros((1, 2, 1)), pixel), np.log(2), rtol=1e-6)
    logit = jnp.full((1, 2, 1), np.log(3), jnp.float32)
    np.testing.assert_allclose(heads.pixel_loss(255, 1, logit, pixel), (-np.log(3 / 4) - np.log(1 / 4)) / 2, rtol=1e-6)
    half = jnp.array([[[51], [51]]], jnp.uint8)  # a fifth lit
    expected = -(0.2 * np.log(3 / 4) + 0.8 * np.log(1 / 4))
    np.testing.assert_allclose(heads.pixel_loss(255, 1, logit, half), expected, rtol=1e-6)


def test_the_image_loss_has_its_own_gradient():
    """(sigmoid(logit) - pixel) / pixels, whatever is asked of the loss afterwards; the same as differentiating it."""
    logit = jax.random.normal(jax.random.key(0), (4, 5, 3))
    pixel = jax.random.randint(jax.random.key(1), (4, 5, 3), 0, 256).astype(jnp.uint8)

    def by_hand(logit):
        target = pixel.astype(jnp.float32) / 255
        return jnp.square((-target * jax.nn.log_sigmoid(logit) - (1 - target) * jax.nn.log_sigmoid(-logit)).mean())

    expected = jax.grad(by_hand)(logit)
    found = jax.grad(lambda logit: jnp.square(heads.pixel_loss(255, 3, logit, pixel)))(logit)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-8)
    assert jax.grad(heads.pixel_loss, 2)(255, 3, logit.astype(jnp.bfloat16), pixel).dtype == jnp.bfloat16


def test_what_fills_up_a_patch_is_no_pixel():
    """Whatever stands there, in logits or target: the loss is the same, and none of its gradient goes there."""
    logit = 3 * jax.random.normal(jax.random.key(0), (6, 32))
    patch = jax.random.randint(jax.random.key(1), (6, 32), 0, 256).astype(jnp.uint8)
    found, slope = jax.value_and_grad(heads.pixel_loss, 2)(255, 27, logit, patch)
    expected, wanted = jax.value_and_grad(heads.pixel_loss, 2)(255, 27, logit[:, :27], patch[:, :27])
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    np.testing.assert_allclose(slope[:, :27], wanted, rtol=1e-6)
    assert not slope[:, 27:].any()


def test_language_loss_is_summed_over_the_sequence():
    """Three words of a vocabulary of four, all equally likely: 3 log 4."""
    space = Tokens(("", "a", "b", "c"), length=3)
    np.testing.assert_allclose(heads.loss(space, jnp.zeros((3, 4)), jnp.array([1, 2, 0])), 3 * np.log(4), rtol=1e-6)


def test_other_parts_have_losses_too():
    np.testing.assert_allclose(heads.loss(Discrete(4), jnp.zeros(4), jnp.int32(2)), np.log(4), rtol=1e-6)
    numbers = heads.loss(Box((2,), -1, 1), jnp.array([1.0, 0.0]), jnp.array([0.0, 2.0]))
    np.testing.assert_allclose(numbers, (1 + 4) / 2, rtol=1e-6)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"discount": 1.0}, "discount must be at least 0 and below 1, but is 1.0"),
        ({"trace": 2.0}, "trace must be from 0 to 1"),
        ({"entropy": -1.0}, "entropy must not be negative, but is -1.0"),
        ({"policy": float("nan")}, "policy must not be negative"),
        ({"reconstruct_every": 0}, "reconstruct_every must be a whole number of at least 1, but is 0"),
        ({"reconstruct_every": 1.5}, "reconstruct_every must be a whole number of at least 1, but is 1.5"),
    ],
)
def test_bad_weights_are_refused(wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        LossConfig(**wrong)
