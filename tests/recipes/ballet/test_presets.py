"""`paper` against the published table, and the reasoning of the quickstart."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam import agent
from hcam.config import Config, differences
from hcam.envs.tasks.ballet.choreography import PAPER_LEVELS, choice_time, parse
from hcam.memory import HCAM, LSTM, MEMORIES, Local, TrXL
from hcam.recipes.ballet import RECIPE
from hcam.types import Inputs

# Appendix A.2, "Hyperparameters used in main experiments": the column of Ballet, row by row as printed.
TABLE: dict[str, Any] = {
    "HCAM chunk size": 32,
    "HCAM chunk overlap": 0,
    "HCAM top-k": 8,
    "TrXL extra length": 256,
    "Visual encoder": "cnn",
    "Vis. enc. channels": (16, 32, 32),
    "Vis. enc. filt. size": (9, 3, 3),
    "Vis. enc. filt. stride": (9, 1, 1),
    "Vis. enc. num. blocks": (2, 2, 2),
    "Lang. enc. dimension": 256,
    "Word embed. dimension": 32,
    "Memory dimension": 512,
    "Memory layers": 4,
    "Memory num. heads": 8,
    "Policy & value nets: hidden units": 512,
    "Recon. loss weight (HCAM)": 1.0,
    "Recon. loss weight TrXL": 1.0,
    "V-trace loss weight (HCAM)": 0.1,
    "V-trace loss weight (TrXL)": 0.3,
    "V-trace baseline weight (HCAM)": 1.0,
    "V-trace baseline weight (TrXL)": 1.0,
    "Entropy weight": 1e-3,
    "Batch size": 32,
    "Training unroll length": 64,
    "LR": 2e-4,
}


def check_shared(config: Config) -> None:
    seen, memory = config.agent.encoder, config.agent.memory
    assert (memory.width, memory.layers) == (TABLE["Memory dimension"], TABLE["Memory layers"])
    assert seen.vision == TABLE["Visual encoder"]
    assert seen.channels == TABLE["Vis. enc. channels"]
    assert seen.kernel_sizes == TABLE["Vis. enc. filt. size"]
    assert seen.strides == TABLE["Vis. enc. filt. stride"]
    assert seen.blocks == TABLE["Vis. enc. num. blocks"]
    assert (seen.language, seen.word) == (TABLE["Lang. enc. dimension"], TABLE["Word embed. dimension"])
    assert config.agent.heads.hidden == TABLE["Policy & value nets: hidden units"]
    assert config.objective.objective == "vtrace"
    assert config.objective.entropy == TABLE["Entropy weight"]
    assert config.learner.environments == TABLE["Batch size"]
    assert config.learner.unroll == TABLE["Training unroll length"]
    assert config.learner.gradient_steps == 1
    assert (config.optimiser.learning_rate, config.optimiser.schedule) == (TABLE["LR"], "constant")
    assert config.task.levels == ()  # the task's own mixture
    assert config.task.level_names(config.task.make()) == PAPER_LEVELS


# Presets --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", ["hcam", "lstm", "none"])
def test_paper_is_the_published_table_for_hcam(memory):
    """All memories but TrXL have the column of HCAM."""
    config = RECIPE.preset("paper", memory)
    check_shared(config)
    assert config.objective.reconstruction == TABLE["Recon. loss weight (HCAM)"]
    assert config.objective.policy == TABLE["V-trace loss weight (HCAM)"]
    assert config.objective.baseline == TABLE["V-trace baseline weight (HCAM)"]


def test_paper_has_the_published_memory():
    memory = RECIPE.preset("paper", "hcam").agent.memory
    assert isinstance(memory, HCAM)
    assert (memory.chunk, memory.overlap, memory.top_k) == (
        TABLE["HCAM chunk size"],
        TABLE["HCAM chunk overlap"],
        TABLE["HCAM top-k"],
    )
    assert memory.heads == TABLE["Memory num. heads"]
    assert (memory.window_steps, memory.gated) == (memory.chunk, False)


def test_paper_is_the_published_table_for_trxl():
    config = RECIPE.preset("paper", "trxl")
    check_shared(config)
    memory = config.agent.memory
    assert isinstance(memory, TrXL)
    assert memory.heads == TABLE["Memory num. heads"]
    assert memory.window == TABLE["TrXL extra length"] + TABLE["Training unroll length"]
    assert (memory.gated, memory.top_k) == (True, None)
    assert config.objective.reconstruction == TABLE["Recon. loss weight TrXL"]
    assert config.objective.policy == TABLE["V-trace loss weight (TrXL)"]
    assert config.objective.baseline == TABLE["V-trace baseline weight (TrXL)"]


def test_the_controls_have_what_is_left_of_it():
    assert RECIPE.preset("paper", "lstm").agent.memory == LSTM()
    assert RECIPE.preset("paper", "none").agent.memory == Local(window=TABLE["HCAM chunk size"])


def test_the_memory_always_has_more_chunks_than_an_episode():
    """ "Always greater than max episode length // chunk size": the longest level takes 1024 steps."""
    config = RECIPE.preset("paper", "hcam")
    env = config.task.make()
    longest = max(env.max_steps_in_episode(level) or 0 for level in env.levels)
    assert longest == 1024
    assert config.agent.memory.slots > longest // config.agent.memory.chunk


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("name", RECIPE.presets)
def test_every_preset_builds_with_every_memory(name, memory):
    config = RECIPE.preset(name, memory)
    env = config.task.make()
    made = agent.make(config.agent, env)
    assert type(made.config.memory) is MEMORIES[memory]

    def act(key):
        key_params, key_env = jax.random.split(key)
        observation, _ = env.reset(key_env, config.task.params(env))
        inputs = Inputs(made.preprocess(observation), jnp.bool_(True), jnp.int32(0), jnp.float32(0))
        return made.step(made.init_params(key_params), made.init_state(), inputs)[1]

    output = jax.eval_shape(act, jax.random.key(0))
    assert (output.logits.shape, output.y_d.shape) == ((8,), (config.agent.memory.width,))
    assert config.updates > 100
    every = {"fast": 4, "paper": 1, "quickstart": 8 if memory == "lstm" else 1}[name]  # the paper: every step
    assert config.objective.reconstruct_every == every
    assert config.learner.unroll % config.objective.reconstruct_every == 0


def test_fast_is_the_paper_s_agent_half_as_wide():
    fast, paper = (RECIPE.preset(name, "hcam") for name in ("fast", "paper"))
    assert fast.agent.memory.width * 2 == paper.agent.memory.width
    assert (fast.task, fast.agent.encoder) == (paper.task, paper.agent.encoder)
    assert (fast.agent.memory.chunk, fast.agent.memory.top_k) == (32, 8)


def test_fast_has_a_short_horizon_and_a_curriculum():
    """The reward is a few steps away from the choice, and there are levels to choose from."""
    config = RECIPE.preset("fast", "hcam")
    assert config.objective.discount < 0.8
    assert config.learner.curriculum is True


# Quickstart -----------------------------------------------------------------------------------------------------------


def test_an_unroll_of_the_lstm_holds_an_episode():
    """Gradients reach no further back; and the memory is the only other thing in which memories differ there."""
    config, other = RECIPE.preset("quickstart", "lstm"), RECIPE.preset("quickstart", "gru")
    level = parse(config.task.levels[0])
    assert config.learner.unroll > choice_time(level.dancers, level.delay) > other.learner.unroll
    assert config.agent.memory.layers == other.agent.memory.layers
    assert set(differences(other, config)) == {
        *("agent.memory", "learner.unroll", "learner.minibatches", "objective.discount", "objective.entropy"),
        *("objective.reconstruct_every", "run.steps"),
    }


def test_local_attention_of_the_quickstart_does_not_reach_the_last_dance():
    """Play an episode: from the frame of the question, count back to the last one on which somebody dances."""
    task = RECIPE.preset("quickstart").task
    env, level = task.make(), parse(task.levels[0])
    asked, params = choice_time(level.dancers, level.delay), task.params(env)

    def body(carry, key):
        observation, state = carry
        return env.step(key, state, jnp.int32(0), params)[:2], observation

    def play(key):
        key_reset, key_steps = jax.random.split(key)
        return jax.lax.scan(body, env.reset(key_reset, params), jax.random.split(key_steps, asked + 1))[1]

    frames = jax.device_get(jax.jit(play)(jax.random.key(0)))
    said, image = frames["instruction"][:, 0], frames["image"]
    assert (said[:-1] == 1).all()
    assert said[-1] > 1
    last_dance = max(t for t in range(asked) if (image[t] != image[-1]).any())
    assert level.delay == 5
    assert last_dance <= asked - level.delay
    for name in ("hcam", "none"):
        memory = RECIPE.preset("quickstart", name).agent.memory
        window = memory.window_steps if name == "hcam" else memory.window
        reach = memory.layers * (window - 1)
        assert reach == 4
        assert asked - reach > last_dance


def test_the_quickstart_without_memory_forgets_what_is_five_frames_old():
    """The same by experiment: a changed frame changes what is known 4 frames later, and nothing after that."""
    config = RECIPE.preset("quickstart", "none")
    env = config.task.make()
    made = agent.make(config.agent, env)
    rng = np.random.default_rng(0)
    shapes = jax.eval_shape(made.init_params, jax.random.key(0))
    params = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape, scale=0.1), jnp.float32), shapes)
    frames, changed = 12, 3
    image = rng.integers(0, 256, (frames, 11, 11, 3)).astype(np.uint8)
    other = image.copy()
    other[changed] = 255 - image[changed]
    run = jax.jit(partial(made.unroll, params))

    def known(image):
        observation = {"image": jnp.asarray(image), "instruction": jnp.ones((frames, 1), jnp.int32)}
        seen_t, nothing = jax.vmap(made.preprocess)(observation), (jnp.zeros(frames, jnp.int32), jnp.zeros(frames))
        return run(made.init_state(), Inputs(seen_t, jnp.arange(frames) == 0, *nothing))[1].y_d

    moved = np.abs(known(image) - known(other)).max(-1)
    assert moved[:changed].max() == 0
    assert (moved[changed : changed + 5] > 1e-6).all()
    assert moved[changed + 5 :].max() < 1e-6
