"""Acting equals learning, and nothing crosses from one episode into the next, for every memory."""

import re
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam import agent, envs, memory
from hcam.agent import AgentConfig, encoder
from hcam.agent.agent import RESERVED
from hcam.agent.encoder import EncoderConfig
from hcam.agent.heads import HeadsConfig
from hcam.envs.probes import Echo
from hcam.envs.spaces import Box
from hcam.learning import metrics, objectives
from hcam.memory import HCAM, LSTM, Local, TrXL
from hcam.memory.layers import in_dtype
from hcam.types import Inputs

MEMORIES: dict[str, Any] = {
    "hcam": partial(HCAM, heads=2, chunk=3, slots=2, top_k=2, mlp=1, window=2),
    "trxl": partial(TrXL, heads=2, mlp=1, window=5),
    "lstm": LSTM,
    "none": partial(Local, heads=2, mlp=1, window=3),
}
TASKS = {"ballet": envs.make("ballet", tile=1), "first_symbol": envs.make("first_symbol")}
T, CUT = 14, 8  # an episode always begins at step CUT


def config_of(task, memory, dtype="float32"):
    """Ballet's agent also sees its last action and reward, where a leak could hide."""
    return AgentConfig(
        encoder=EncoderConfig(
            vision="cnn",
            channels=(3,),
            kernel_sizes=(1,),
            strides=(1,),
            language=4,
            word=4,
            last_action=task == "ballet",
        ),
        memory=MEMORIES[memory](width=16, layers=2 if task == "ballet" else 1),
        heads=HeadsConfig(hidden=8),
        dtype=dtype,
    )


def random_params(made, scale):
    """As `init_params` has them, but drawn by NumPy: nothing to compile, and nothing that happens to be zero."""
    rng = np.random.default_rng(0)
    shapes = jax.eval_shape(made.init_params, jax.random.key(0))
    return jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape, scale=scale), leaf.dtype), shapes)


@cache
def built(task, memory):
    made = agent.make(config_of(task, memory), TASKS[task])
    params = random_params(made, 0.3)
    return made, params, jax.jit(partial(made.unroll, params)), jax.jit(partial(scan, made, params))


def scan(made, params, state, inputs_t):
    return jax.lax.scan(partial(made.step, params), state, inputs_t)


def random_inputs(task, seed):
    """Observations, actions and rewards without rhyme or reason; episodes begin at random."""
    env, rng = TASKS[task], np.random.default_rng(seed)
    image, word = rng.integers(0, 256, (T, 11, 11, 3)), rng.integers(1, 15, (T, 1))
    observation: Any = {"image": jnp.asarray(image, jnp.uint8), "instruction": jnp.asarray(word, jnp.int32)}
    if task == "first_symbol":
        observation = jnp.asarray(rng.random((T, 5)), jnp.float32)
    first = rng.random(T) < 0.15
    first[CUT] = True
    seen = partial(encoder.preprocess, config_of(task, "lstm").encoder, env.observation_space)  # for all memories
    return Inputs(
        jax.vmap(seen)(observation),
        jnp.asarray(first),
        jnp.asarray(rng.integers(0, env.action_space.n, T), jnp.int32),
        jnp.asarray(rng.normal(size=T), jnp.float32),
    )


def close(one, two, atol=1e-5):
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5, atol=atol), one, two)


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("task", TASKS)
def test_acting_equals_learning(task, memory):
    made, _, unroll, acted = built(task, memory)
    learned_state = acted_state = made.init_state()
    for seed in range(3):  # each goes on with its own state, so these are compared as well
        inputs_t = random_inputs(task, seed)
        learned_state, learned = unroll(learned_state, inputs_t)
        acted_state, stepped = acted(acted_state, inputs_t)
        close(stepped, learned)
        assert learned.logits.shape == (T, TASKS[task].action_space.n)
        assert np.std(learned.logits, axis=0).max() > 1e-3  # there is something to compare


@pytest.mark.parametrize("memory", MEMORIES)
def test_nothing_of_the_episode_before_is_left(memory):
    """Another episode before step CUT changes everything up to it and nothing from it on."""
    made, _, unroll, _ = built("ballet", memory)
    one, two = random_inputs("ballet", 0), random_inputs("ballet", 1)
    ours, theirs = (inputs._replace(first=one.first.at[CUT + 1 :].set(False)) for inputs in (one, two))

    def swap(a, b, until):
        return jnp.concatenate([b[:until], a[until:]])

    # The action and reward that come with an episode's first step are the ones before it.
    other = Inputs(
        jax.tree.map(partial(swap, until=CUT), ours.observation, theirs.observation),
        ours.first,
        swap(ours.action, theirs.action, CUT + 1),
        swap(ours.reward, theirs.reward, CUT + 1),
    )
    state, _ = unroll(made.init_state(), two)
    (_, before), (_, after) = unroll(made.init_state(), ours), unroll(state, other)
    assert np.abs(before.logits[:CUT] - after.logits[:CUT]).max() > 1e-3
    later = lambda output: jax.tree.map(lambda leaf: leaf[CUT:], output)  # noqa: E731
    close(later(before), later(after), atol=1e-6)

    # Without the mark of a new episode, the same change is remembered.
    (_, before), (_, after) = (
        unroll(made.init_state(), inputs._replace(first=jnp.arange(T) == 0)) for inputs in (ours, other)
    )
    assert np.abs(before.logits[CUT] - after.logits[CUT]).max() > 1e-4


def test_an_agent_preprocesses_as_its_encoder_does():
    env = envs.make("ballet")
    made = agent.make(AgentConfig(encoder=EncoderConfig(vision="cnn", kernel_sizes=(9, 3, 3), strides=(9, 1, 1))), env)
    seen = jax.eval_shape(lambda key: made.preprocess(env.reset(key)[0]), jax.random.key(0))
    assert seen["image"].shape == (11 * 11, 256)  # a tile of 9 x 9 x 3, padded
    assert seen["instruction"].shape == (1,)


def test_many_steps_of_many_environments_are_encoded_as_each_is():
    made, params, _, _ = built("ballet", "none")
    inputs_tb = jax.tree.map(lambda *leaves: jnp.stack(leaves, 1), *(random_inputs("ballet", seed) for seed in (0, 1)))
    each = jax.vmap(jax.vmap(partial(made.encode, params)))(inputs_tb)
    assert each.shape == (T, 2, 16)
    close(made.encode_all(params, inputs_tb), each)


def test_what_was_done_and_gained_reaches_the_policy():
    made, _, unroll, _ = built("ballet", "lstm")
    inputs = random_inputs("ballet", 0)._replace(first=jnp.arange(T) == 0)
    _, before = unroll(made.init_state(), inputs)
    for changed in (inputs._replace(reward=inputs.reward + 1), inputs._replace(action=(inputs.action + 1) % 8)):
        _, after = unroll(made.init_state(), changed)
        np.testing.assert_array_equal(before.logits[0], after.logits[0])
        assert np.abs(before.logits[1:] - after.logits[1:]).max() > 1e-3


@pytest.mark.parametrize("memory", MEMORIES)
def test_parameters_and_outputs_are_float32_whatever_is_computed_in(memory):
    env = TASKS["ballet"]
    for dtype in ("float32", "bfloat16"):
        made = agent.make(config_of("ballet", memory, dtype), env)
        params = jax.eval_shape(made.init_params, jax.random.key(0))
        assert {leaf.dtype.name for leaf in jax.tree.leaves(params)} == {"float32"}
        inputs_t = random_inputs("ballet", 0)
        _, output = jax.eval_shape(made.unroll, params, made.init_state(), inputs_t)
        assert (output.logits.dtype, output.value.dtype, output.y_d.dtype) == (jnp.float32, jnp.float32, dtype)
        one = jax.tree.map(lambda leaf: leaf[0], inputs_t)
        _, output = jax.eval_shape(made.step, params, made.init_state(), one)
        assert (output.logits.dtype, output.value.dtype, output.y_d.dtype) == (jnp.float32, jnp.float32, dtype)
        seen = jax.eval_shape(made.reconstruction, params, output.y_d, one.observation)
        assert {name: loss.dtype for name, loss in seen.items()} == {"image": jnp.float32, "instruction": jnp.float32}


def test_auto_is_decided_where_the_agent_is_made():
    here = "float32" if jax.default_backend() == "cpu" else "bfloat16"
    made = agent.make(config_of("first_symbol", "lstm", "auto"), TASKS["first_symbol"])
    assert made.config.dtype == here
    params = jax.eval_shape(made.init_params, jax.random.key(0))
    _, output = jax.eval_shape(made.unroll, params, made.init_state(), random_inputs("first_symbol", 0))
    assert output.y_d.dtype == here
    assert AgentConfig(dtype="bfloat16").here().dtype == "bfloat16"
    assert AgentConfig().here() == AgentConfig(dtype=here)


# Options --------------------------------------------------------------------------------------------------------------


def test_without_options_every_memory_is_as_in_the_paper():
    """TrXL sees 256 + 64 steps and is gated; the others see a chunk at a time and are not."""
    assert AgentConfig().memory == HCAM()
    assert (HCAM().chunk, HCAM().window_steps, HCAM().gated) == (32, 32, False)
    assert (TrXL().window, TrXL().gated) == (320, True)
    assert (Local().window, Local().gated) == (32, False)
    for kind in (HCAM, TrXL, LSTM, Local):
        made: Any = kind()
        assert (made.width, made.layers) == (512, 4)


@pytest.mark.parametrize(
    "config",
    [
        HCAM(width=48, layers=3, heads=6, mlp=2, window=7, gated=True, chunk=12, slots=9, top_k=5, overlap=2),
        TrXL(width=48, layers=3, heads=6, mlp=2, window=7, gated=False, top_k=4),
        LSTM(width=48, layers=3),
        Local(width=48, layers=3, heads=6, mlp=2, window=7, gated=True),
    ],
    ids=lambda config: type(config).__name__,
)
def test_every_option_reaches_its_memory(config):
    """The agent's memory is the one that `memory.make` makes of the configuration, in the agent's dtype."""
    made: Any = agent.make(AgentConfig(memory=config, dtype="bfloat16"), TASKS["first_symbol"])
    assert made.config.memory == config
    expected = memory.make(config, dtype="bfloat16")
    assert made.memory.config == expected.config
    for found, wanted in (
        (made.init_state, expected.init_state),
        (partial(made.memory.init_params, jax.random.key(0)), partial(expected.init_params, jax.random.key(0))),
    ):
        jax.tree.map(lambda one, two: np.testing.assert_equal(one, two), jax.eval_shape(found), jax.eval_shape(wanted))


@pytest.mark.parametrize(
    ("kind", "wrong", "sentence"),
    [
        (HCAM, {"width": 0}, "width must be a whole number of at least 1, but is 0."),
        (
            HCAM,
            {"width": 20, "heads": 8},
            "width 20 is not divisible by heads 8: each head takes an equal part of the width.",
        ),
        (HCAM, {"top_k": 65}, "top-k is 65, but there are only 64 slots to choose from: lower k or add slots."),
        (HCAM, {"overlap": 32}, "overlap must be a whole number from 0 to chunk - 1 = 31, but is 32."),
        (HCAM, {"window": 0}, "window must be a whole number of at least 1, but is 0."),
        (TrXL, {"window": 0}, "window must be a whole number of at least 1, but is 0."),
        (Local, {"window": 0}, "window must be a whole number of at least 1, but is 0."),
        (TrXL, {"top_k": 0}, "top_k must be a whole number of at least 1, but is 0."),
        (LSTM, {"layers": 0}, "layers must be a whole number of at least 1, but is 0."),
    ],
)
def test_bad_options_are_refused_at_once(kind, wrong, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        AgentConfig(memory=kind(**wrong))


def test_a_dtype_that_is_none_is_refused():
    sentence = "dtype must be one of 'auto', 'float32', 'bfloat16', but is 'float64'."
    with pytest.raises(ValueError, match=re.escape(sentence)):
        AgentConfig(dtype="float64")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["join", "norm", "policy", "labels", "entropy", "gradient_norm"])
def test_a_part_may_not_be_called_like_a_parameter_or_a_loss(name):
    class Odd(Echo):
        @property
        def observation_space(self):
            return {name: Box((2,), 0, 1)}

    with pytest.raises(ValueError, match=f"called '{name}', which hcam uses itself: rename it"):
        agent.make(AgentConfig(), Odd())


def test_every_name_that_the_log_uses_is_reserved():
    """A part of that name would be lost in the sum of the losses, or in a row of metrics."""
    assert set(metrics.DIAGNOSTICS) <= RESERVED
    assert {"policy", "baseline", "labels", objectives.ENTROPY} <= RESERVED


@pytest.mark.parametrize("memory", MEMORIES)
def test_prepared_parameters_act_the_same_to_the_bit(memory):
    """Acting converts them before its loop, and makes of them what it can; learning does so where they are used."""
    made = agent.make(config_of("ballet", memory, "bfloat16"), TASKS["ballet"])
    params = random_params(made, 0.3)
    inputs = jax.tree.map(lambda leaf: leaf[0], random_inputs("ballet", 0))
    act = jax.jit(made.step)
    one, two = (act(given, made.init_state(), inputs) for given in (params, made.prepare(params)))
    jax.tree.map(np.testing.assert_array_equal, one, two)
    kinds = {leaf.dtype for leaf in jax.tree.leaves(in_dtype(params, "bfloat16"))}
    assert kinds == {jnp.dtype("bfloat16"), jnp.dtype("float32")}  # the norms' own stay


def test_an_agent_s_memory_saves_the_guard_of_its_inputs():
    """They come out of a layer norm; with the guard, updates are 2 % slower and differ in their last bits."""
    made: Any = agent.make(config_of("first_symbol", "hcam"), TASKS["first_symbol"])

    def program(mem):
        params = jax.eval_shape(mem.init_params, jax.random.key(0))
        return str(jax.make_jaxpr(mem.step)(params, mem.init_state(), jnp.zeros(16), jnp.bool_(True)))

    assert "nan" in program(memory.make(made.config.memory))
    assert "nan" not in program(made.memory)
