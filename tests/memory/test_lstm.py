"""The LSTM against the slow one. What it shares with the GRU is tested in test_recurrent.py."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from hcam import agent, memory
from hcam.envs.tasks.ballet.choreography import choice_time
from hcam.learning import optimiser
from hcam.learning.optimiser import OptimiserConfig
from hcam.memory import LSTM, Recall
from hcam.recipes.ballet import quickstart
from hcam.types import Inputs
from tests.memory.cases import CONFIGS, assert_same, inputs, params_of, programs, run_steps, starts
from tests.memory.oracle import SlowLSTM

CONFIG = CONFIGS["lstm"]


def test_equals_the_slow_lstm():
    params, x, first = params_of(CONFIG), inputs(1), starts(0, 13, 14, 30)
    slow = SlowLSTM(params)
    expected = np.array([slow.step(x_d, bool(at_start)) for x_d, at_start in zip(x, first, strict=True)])
    state, *one = programs(CONFIG).unroll(params, memory.make(CONFIG).init_state(), x[:20], first[:20])
    state, *two = programs(CONFIG).unroll(params, state, x[20:], first[20:])
    np.testing.assert_allclose(np.concatenate([one[0], two[0]]), expected, atol=1e-5)
    np.testing.assert_allclose(state.hidden_ld, slow.hidden, atol=1e-5)
    np.testing.assert_allclose(state.cell_ld, slow.cell, atol=1e-5)
    stepped = run_steps(CONFIG, params, memory.make(CONFIG).init_state(), x, first)[1]
    np.testing.assert_allclose(stepped, expected, atol=1e-5)


def test_cells_start_with_time_scales_from_1_to_the_maximum():
    """A cell of time scale n keeps n / (1 + n) of its state at each step, and takes in the rest."""
    config = LSTM(width=64, layers=2, max_timescale=100)
    params = jax.jit(memory.make(config).init_params)(jax.random.key(0))
    assert len(params) == config.layers
    assert not np.array_equal(params[0]["in"]["w"], params[1]["in"]["w"])
    for layer in params:
        assert "b" not in layer["hidden"]
        take_d, keep_d, candidate_d, out_d = np.split(np.asarray(layer["in"]["b"]), 4)
        kept_d = 1 / (1 + np.exp(-keep_d))
        np.testing.assert_allclose(kept_d / (1 - kept_d), 1 + 99 * (np.arange(64) + 0.5) / 64, rtol=1e-4)
        np.testing.assert_array_equal(take_d, -keep_d)
        assert not np.any([candidate_d, out_d])


def test_there_is_nothing_to_recall_and_nothing_to_cache():
    mem, params = memory.make(CONFIG), params_of(CONFIG)
    state, _, recall = programs(CONFIG).step(params, mem.init_state(), inputs(3)[0], False)
    assert recall == Recall()
    cached = mem.cached(params, state)
    assert_same(cached, state, 0)


EPISODES, UPDATES = 64, 4000


def told(params, made, env, level):
    """How often an agent is right in the end about the quickstart's question, if it learns from the right answer."""
    time_t = jnp.arange(int(choice_time(2, 5)) + 1, dtype=jnp.int32)  # up to the question

    def episode(key):
        begin, steps = env.start(key, level), len(time_t)
        seen_t = jax.vmap(lambda time: made.preprocess(env.observe(begin._replace(time=time), level)))(time_t)
        return Inputs(seen_t, time_t == 0, jnp.zeros(steps, jnp.int32), jnp.zeros(steps)), env.expert(begin)

    def loss(params, key):
        inputs_bt, answer_b = jax.vmap(episode)(jax.random.split(key, EPISODES))
        unroll = jax.vmap(lambda inputs_t: made.unroll(params, made.init_state(), inputs_t)[1].logits[-1])
        logits_ba = unroll(inputs_bt)
        right_b = logits_ba.argmax(-1) == answer_b
        return optax.softmax_cross_entropy_with_integer_labels(logits_ba, answer_b).mean(), right_b.mean()

    config = OptimiserConfig(learning_rate=2e-3, schedule="linear", clip=1.0)
    rule = optimiser.make(config, UPDATES)

    def update(carry, key):
        params, state = carry
        gradient, right = jax.grad(loss, has_aux=True)(params, key)
        with jax.numpy_dtype_promotion("standard"):
            change, state = rule.update(gradient, state, params)
        return (optax.apply_updates(params, change), state), right

    keys = jax.random.split(jax.random.key(7), UPDATES)
    _, right_u = jax.jit(lambda carry: jax.lax.scan(update, carry, keys))((params, rule.init(params)))
    return float(right_u[-UPDATES // 20 :].mean())


@pytest.mark.slow
def test_with_the_usual_gates_it_does_not_even_learn_what_it_is_told():
    """Chance is 1/2, give or take 1/200. It is for this that cells begin by holding on; four minutes each."""
    config = quickstart("lstm")
    env = config.task.make()
    made, level = agent.make(config.agent, env), env.level(*config.task.levels)
    params = made.init_params(jax.random.key(0))
    usual = jnp.repeat(jnp.array([0.0, 1.0, 0.0, 0.0]), config.agent.memory.width)
    forgetful = tuple(layer | {"in": layer["in"] | {"b": usual}} for layer in params["memory"])
    assert told(params | {"memory": forgetful}, made, env, level) < 0.55
    assert told(params, made, env, level) > 0.65
