"""`paper` against the published table, and the reasoning behind the quickstart against the task itself."""

import re
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hcam.presets import MEMORIES, PRESETS, preset

from hcam import agent, presets
from hcam.agent import Inputs
from hcam.envs.tasks.ballet.choreography import choice_time, parse

# Appendix A.2, "Hyperparameters used in main experiments", row by row as printed; None where it says NA.
TASKS = ("ballet", "objects", "words", "image", "streets")
TABLE = {
    "HCAM chunk size": (32, 16, 16, 16, 4),
    "HCAM chunk overlap": (0, 0, 0, 0, 1),
    "HCAM top-k": (8, 8, 16, 16, 32),
    "TrXL extra length": (256, 512, 256, None, 200),
    "Visual encoder": ("cnn", "resnet", "resnet", "resnet", "resnet"),
    "Vis. enc. filt. size": ((9, 3, 3), (3, 3, 3), (3, 3, 3), (3, 3, 3), (3, 3, 3)),
    "Vis. enc. filt. stride": ((9, 1, 1), (2, 2, 2), (2, 2, 2), (2, 2, 2), (2, 2, 2)),
    "Lang. enc. dimension": (256, 256, 256, None, None),
    "Word embed. dimension": (32, 32, 32, None, None),
    "Recon. loss weight (HCAM)": (1.0, 1.0, 0.3, 1.0, 0.3),
    "Recon. loss weight TrXL": (1.0, 1.0, 1.0, None, 1.0),
    "V-trace loss weight (HCAM)": (0.1, 0.1, 0.3, 0.1, 1.0),
    "V-trace loss weight (TrXL)": (0.3, 0.1, 0.1, None, 1.0),
    "V-trace baseline weight (HCAM)": (1.0, 1.0, 0.3, 1.0, 0.3),
    "V-trace baseline weight (TrXL)": (1.0, 0.3, 1.0, None, 1.0),
    "Entropy weight": (1e-3, 1e-4, 1e-4, 1e-4, 1e-4),
    "Training unroll length": (64, 128, 128, 128, 64),
    "LR": (2e-4, 2e-4, 2e-4, 2e-4, 4e-4),
}


def column(task):
    return {name: values[TASKS.index(task)] for name, values in TABLE.items()}


def check_shared(config, printed):
    seen, memory = config.agent.encoder, config.agent.memory
    assert (memory.width, memory.layers, memory.heads) == (512, 4, 8)
    assert seen.vision == printed["Visual encoder"]
    assert seen.channels == (16, 32, 32)
    assert seen.filters == printed["Vis. enc. filt. size"]
    assert seen.strides == printed["Vis. enc. filt. stride"]
    assert seen.blocks == (2, 2, 2)
    assert printed["Lang. enc. dimension"] in (seen.language, None)
    assert printed["Word embed. dimension"] in (seen.word, None)
    assert config.agent.heads.hidden == 512
    assert config.loss.entropy == printed["Entropy weight"]
    assert config.learner.environments == 32  # "batch size"
    assert config.learner.unroll == printed["Training unroll length"]
    assert config.learner.gradient_steps == 1
    assert (config.optimiser.learning_rate, config.optimiser.schedule) == (printed["LR"], "constant")


@pytest.mark.parametrize("task", TASKS)
def test_paper_is_the_published_table_for_hcam(task):
    config, printed = preset("paper", task, "hcam"), column(task)
    check_shared(config, printed)
    memory = config.agent.memory
    assert (memory.chunk, memory.overlap, memory.top_k) == (
        printed["HCAM chunk size"],
        printed["HCAM chunk overlap"],
        printed["HCAM top-k"],
    )
    assert config.loss.reconstruction == printed["Recon. loss weight (HCAM)"]
    assert config.loss.policy == printed["V-trace loss weight (HCAM)"]
    assert config.loss.baseline == printed["V-trace baseline weight (HCAM)"]
    built: Any = memory.build()
    assert (built.window_steps, built.gated) == (built.chunk, False)


@pytest.mark.parametrize("task", [task for task in TASKS if task != "image"])
def test_paper_is_the_published_table_for_trxl(task):
    config, printed = preset("paper", task, "trxl"), column(task)
    check_shared(config, printed)
    built: Any = config.agent.memory.build()
    assert built.window == printed["TrXL extra length"] + printed["Training unroll length"]
    assert (built.gated, built.top_k) == (True, None)
    assert config.loss.reconstruction == printed["Recon. loss weight TrXL"]
    assert config.loss.policy == printed["V-trace loss weight (TrXL)"]
    assert config.loss.baseline == printed["V-trace baseline weight (TrXL)"]


def test_the_memory_always_has_more_chunks_than_an_episode_of_ballet():
    """ "Always greater than max episode length // chunk size": the longest level takes 1024 steps."""
    config = preset("paper", "ballet", "hcam")
    longest = max(parse(level).max_steps for level in config.task.make().levels)
    assert longest == 1024
    assert config.agent.memory.slots > longest // config.agent.memory.chunk


@pytest.mark.parametrize(("task", "memory"), [("image", "trxl"), ("associative", "hcam"), ("associative", "trxl")])
def test_what_the_paper_did_not_train_has_no_settings(task, memory):
    with pytest.raises(ValueError, match=f"the paper trained no {memory} agent on {task}"):
        preset("paper", task, memory)


def test_a_task_of_our_own_has_the_settings_of_ballet():
    ours, theirs = (preset("paper", task, "hcam") for task in ("first_symbol", "ballet"))
    assert ours.task.task == "first_symbol"
    assert (ours.agent, ours.loss, ours.learner, ours.optimiser) == (
        theirs.agent,
        theirs.loss,
        theirs.learner,
        theirs.optimiser,
    )


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_builds_with_every_memory(name, memory):
    config = preset(name, "ballet", memory)
    env = config.task.make()
    made = agent.make(config.agent, env)
    assert made.config.memory.memory == memory

    def act(key):
        key_params, key_env = jax.random.split(key)
        observation, _ = env.reset(key_env, config.task.params(env))
        inputs = Inputs(made.preprocess(observation), jnp.bool_(True), jnp.int32(0), jnp.float32(0))
        return made.step(made.init_params(key_params), made.init_state(), inputs)[1]

    output = jax.eval_shape(act, jax.random.key(0))
    assert (output.logits.shape, output.y_d.shape) == ((8,), (config.agent.memory.width,))
    assert config.updates > 100
    assert config.loss.reconstruct_every == (4 if name == "fast" else 1)  # the paper: every step


def test_fast_is_the_paper_s_agent_half_as_wide():
    fast, paper = (preset(name, "ballet", "hcam") for name in ("fast", "paper"))
    assert fast.agent.memory.width * 2 == paper.agent.memory.width
    assert (fast.task, fast.agent.encoder) == (paper.task, paper.agent.encoder)
    assert (fast.agent.memory.chunk, fast.agent.memory.top_k) == (32, 8)


def test_only_ballet_has_a_reward_a_few_steps_away_and_levels_to_choose_from():
    ballet, other = preset("fast", "ballet"), preset("fast", "streets")
    assert ballet.loss.discount < 0.8 < other.loss.discount
    assert (ballet.learner.curriculum, other.learner.curriculum) == (True, False)


def test_names_that_do_not_exist_are_refused_with_those_that_do():
    sentence = "preset must be one of 'quickstart', 'fast', 'paper', but is 'slow'."
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        preset("slow")
    sentence = "memory must be one of 'hcam', 'trxl', 'lstm', 'none', but is 'gru'."
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        preset("fast", memory="gru")
    assert preset("quickstart") == presets.quickstart("ballet", "hcam")


# Quickstart -----------------------------------------------------------------------------------------------------------


def test_local_attention_of_the_quickstart_does_not_reach_the_last_dance():
    """Play an episode: from the frame of the question, count back to the last one on which somebody dances."""
    task = preset("quickstart").task
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
    for memory in ("hcam", "none"):
        built: Any = preset("quickstart", "ballet", memory).agent.memory.build()
        window = built.window_steps if memory == "hcam" else built.window
        reach = built.layers * (window - 1)
        assert reach == 4
        assert asked - reach > last_dance


def test_the_quickstart_without_memory_forgets_what_is_five_frames_old():
    """The same by experiment: a changed frame changes what is known 4 frames later, and nothing after that."""
    config = preset("quickstart", "ballet", "none")
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
