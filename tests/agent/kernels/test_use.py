"""Agents with a ResNet: where their programs contain the kernels, and that nothing but speed changes with them."""

import re
from functools import partial
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from hcam import agent
from hcam.agent import AgentConfig, kernels
from hcam.agent.encoder import EncoderConfig
from hcam.agent.heads import HeadsConfig
from hcam.envs.spaces import Box, Discrete
from hcam.memory import LSTM
from hcam.memory.kernels import common
from hcam.types import Inputs
from tests.agent.kernels.cases import bytes_, close

TWO: Any = {"kernel_sizes": (3, 3), "strides": (2, 2), "blocks": (1, 1)}
RESNET = EncoderConfig(channels=(16, 32), **TWO)
STEPS, BATCH = 2, 3


def built(dtype, config=RESNET, shape=(8, 16, 3)):
    """An agent, the shapes of its parameters, and inputs [T, B]."""
    env: Any = SimpleNamespace(observation_space={"image": Box(shape, 0, 255, "uint8")}, action_space=Discrete(4))
    made = agent.make(
        AgentConfig(encoder=config, memory=LSTM(width=16, layers=1), heads=HeadsConfig(hidden=16), dtype=dtype), env
    )
    zeros = jnp.zeros((STEPS, BATCH))
    inputs = Inputs(
        observation={"image": bytes_(0, STEPS, BATCH, *shape)},
        action=zeros.astype(jnp.int32),
        reward=zeros,
        first=zeros.astype(bool),
    )
    return made, jax.eval_shape(made.init_params, jax.random.key(0)), inputs


def learned(made, params, inputs_tb):
    """What is encoded and reconstructed of many steps, and the gradient of the parameters."""

    def loss(params):
        x_tbd = made.encode_all(params, inputs_tb)
        losses_tb = made.reconstruction(params, x_tbd, inputs_tb.observation)["image"]
        return jnp.square(x_tbd.astype(jnp.float32)).sum() + losses_tb.sum(), (x_tbd, losses_tb)

    return jax.grad(loss, has_aux=True)(params)


def acted(made, params, inputs_b):
    return jax.vmap(partial(made.encode, params))(inputs_b)


def count(program, *args):
    """How often each kernel is called."""
    text = str(jax.make_jaxpr(program)(*args))
    names = ("first_layer", "first_layer_pull", "residual", "residual_pull")
    return [text.count(f"name={name}\n") for name in names]


def axes(program, *args):
    """How many axes the grids of the kernels have."""
    grids = re.findall(r"grid=\(([^)]*)\)", str(jax.make_jaxpr(program)(*args)))
    return {grid.rstrip(",").count(",") + 1 for grid in grids}


def test_with_the_kernels_an_agent_encodes_reconstructs_and_learns_the_same(monkeypatch):
    made, _, inputs = built("float32")
    params = jax.jit(made.init_params)(jax.random.key(0))
    now = jax.tree.map(lambda leaf_t: leaf_t[0], inputs)
    without = jax.jit(partial(learned, made))(params, inputs), acted(made, params, now)
    monkeypatch.setattr(common, "supported", lambda *args: True)
    found = jax.jit(partial(learned, made))(params, inputs), acted(made, params, now)
    close(found, without, rtol=1e-3)


def test_each_convolution_is_one_call_for_all_images(monkeypatch):
    made, params, inputs = built("bfloat16")
    now = jax.tree.map(lambda leaf_t: leaf_t[0], inputs)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert count(partial(acted, made), params, now) == [1, 0, 4, 0]
    assert count(partial(learned, made), params, inputs) == [1, 1, 8, 8]
    # Not a gradient of weights for each image: no call has an axis that `vmap` added, as those of acting have.
    assert axes(partial(acted, made), params, now) == {2}
    assert axes(partial(learned, made), params, inputs) == {1}


@pytest.mark.parametrize(
    ("dtype", "config", "shape", "backend", "calls"),
    [
        ("bfloat16", RESNET, (8, 16, 3), "cpu", [0, 0, 0, 0]),
        ("float32", RESNET, (8, 16, 3), "gpu", [0, 0, 0, 0]),
        ("bfloat16", EncoderConfig(channels=(8, 8), **TWO), (8, 16, 3), "gpu", [0, 0, 0, 0]),
        ("bfloat16", EncoderConfig(channels=(16, 32), vision="cnn", **TWO), (8, 16, 3), "gpu", [1, 1, 0, 0]),
        ("bfloat16", RESNET, (10, 9, 3), "gpu", [0, 0, 2, 2]),  # 5 x 5 and 3 x 3; drawn as 3 x 3 and 6 x 6
    ],
)
def test_elsewhere_and_for_other_sizes_there_is_no_kernel(monkeypatch, dtype, config, shape, backend, calls):
    made, params, inputs = built(dtype, config, shape)
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    assert count(partial(learned, made), params, inputs) == calls
    assert axes(partial(learned, made), params, inputs) == ({1} if any(calls) else set())


@pytest.mark.skipif(jax.__version_info__ >= (0, 11), reason="jax 0.11 lowers for a GPU only where there is one")
def test_acting_and_learning_lower_for_a_gpu(monkeypatch):
    made, params, inputs = built("bfloat16")
    now = jax.tree.map(lambda leaf_t: leaf_t[0], inputs)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    for program, given, calls in ((acted, now, 5), (learned, inputs, 18)):
        traced = jax.jit(partial(program, made)).trace(params, given)
        assert traced.lower(lowering_platforms=("cuda",)).as_text().count("__gpu$xla.gpu.triton") == calls


def test_they_are_used_in_bfloat16_on_a_gpu(monkeypatch):
    assert not kernels.used("bfloat16")
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert kernels.used("bfloat16")
    assert not kernels.used("float32")
