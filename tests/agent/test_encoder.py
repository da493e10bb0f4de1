"""The encoder: convolutions against a slow loop, sizes as published, and what may and may not change x_d."""

import re
from dataclasses import replace
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam import agent, envs
from hcam.agent import AgentConfig, convolutions, encoder, kernels
from hcam.agent.encoder import EncoderConfig
from hcam.agent.heads import HeadsConfig
from hcam.envs.spaces import Box, Discrete, Tokens
from hcam.memory import LSTM
from hcam.memory.layers import in_dtype
from hcam.types import Inputs

WORDS = Tokens(("", "watch", "circle", "zee"), length=5)
cnn: Any = partial(EncoderConfig, vision="cnn")
BALLET = cnn(kernel_sizes=(9, 3, 3), strides=(9, 1, 1))  # one tile at a time
SMALL = cnn(channels=(4, 6), kernel_sizes=(3, 3), strides=(3, 1), language=8, word=4)
SPACE: Any = {
    "image": Box((6, 9, 3), 0, 255, "uint8"),
    "instruction": WORDS,
    "door": Discrete(3),
    "place": Box((2,), -1, 1),
}


def observation_of(space, seed=0):
    keys = jax.random.split(jax.random.key(seed), len(space))
    return {name: part.sample(key) for key, (name, part) in zip(keys, space.items(), strict=True)}


@pytest.fixture(scope="module")
def small():
    params = jax.jit(lambda key: encoder.init(key, SMALL, SPACE, actions=4, width=64))(jax.random.key(0))
    run = jax.jit(partial(encoder.encode, config=SMALL, space=SPACE), static_argnames="dtype")

    def encode(observation, dtype="float32"):
        seen = encoder.preprocess(SMALL, SPACE, observation)
        return run(params, observation=seen, action=jnp.zeros(4), reward=jnp.float32(0), dtype=dtype)

    return params, encode


# Images ---------------------------------------------------------------------------------------------------------------


def slow_conv(x, weight, bias, stride):
    """Every output pixel by itself; the image is padded with zeros, the odd one out at the bottom and right."""
    size, sides = weight.shape[0], x.shape[:2]
    outs = [-(-side // stride) for side in sides]
    pads = [max((out - 1) * stride + size - side, 0) for out, side in zip(outs, sides, strict=True)]
    x = np.pad(x, [(pad // 2, pad - pad // 2) for pad in pads] + [(0, 0)])
    y = np.zeros((*outs, weight.shape[-1]))
    for row, col in np.ndindex(*outs):
        seen = x[row * stride : row * stride + size, col * stride : col * stride + size]
        y[row, col] = np.einsum("ijc,ijco->o", seen, weight) + bias
    return y


@pytest.mark.parametrize(
    ("size", "stride", "shape"),
    [(3, 3, (6, 9)), (2, 2, (4, 6)), (1, 1, (4, 3)), (3, 1, (5, 7)), (3, 2, (5, 7)), (3, 2, (6, 8)), (5, 3, (7, 8))],
)
def test_conv_equals_the_slow_loop(size, stride, shape):
    rng = np.random.default_rng(size + stride)
    x, bias = rng.normal(size=(*shape, 2)).astype(np.float32), rng.normal(size=3).astype(np.float32)
    weight = rng.normal(size=(size, size, 2, 3)).astype(np.float32)
    params = {"w": jnp.asarray(weight.reshape(-1, 3)), "b": jnp.asarray(bias)}
    found = convolutions.conv(params, jnp.asarray(x), size, stride)
    np.testing.assert_allclose(found, slow_conv(x, weight, bias, stride), rtol=1e-4, atol=1e-5)


def test_patches_keep_rows_columns_and_channels_apart():
    x_hwc = jnp.arange(4 * 6 * 2).reshape(4, 6, 2)
    cut = convolutions.patches(x_hwc, 2)
    assert cut.shape == (2, 3, 8)
    np.testing.assert_array_equal(cut[1, 2], np.asarray(x_hwc)[2:4, 4:6].ravel())


def shape_of_map(config, space):
    def run(key):
        params = encoder.init_part(key, config, space)
        seen = encoder.preprocess(config, space, jnp.zeros(space.shape))
        y_hwc = seen
        if encoder.is_patchify(config):
            y_hwc = encoder.embed_patches(
                encoder.first_layer(params, config, "float32"), config, space, seen, "float32"
            )
        else:
            y_hwc = convolutions.conv(
                encoder.first_layer(params, config, "float32"), y_hwc, config.kernel_sizes[0], config.strides[0]
            )
        return (encoder.resnet if config.vision == "resnet" else encoder.cnn)(params, config, y_hwc)

    return jax.eval_shape(run, jax.random.key(0)).shape


def test_the_cnn_of_ballet_sees_one_tile_at_a_time():
    config, space = BALLET, Box((99, 99, 3), 0, 255, "uint8")
    assert (config.channels, config.kernel_sizes, config.strides) == ((16, 32, 32), (9, 3, 3), (9, 1, 1))
    assert shape_of_map(config, space) == encoder.feature_map(config, space.shape) == (11, 11, 32)
    first = encoder.init_cnn(jax.random.key(0), config, space)["conv_0"]
    assert first["w"].shape == (9 * 9 * 3, 16)


@pytest.mark.parametrize(
    ("shape", "expected"), [((72, 96, 3), (9, 12)), ((71, 97, 3), (9, 13)), ((65, 3, 1), (9, 1)), ((1, 1, 3), (1, 1))]
)
def test_a_resnet_takes_images_of_any_size(shape, expected):
    config = EncoderConfig()
    assert (config.vision, config.kernel_sizes, config.strides) == ("resnet", (3, 3, 3), (2, 2, 2))
    space = Box(shape, 0, 255, "uint8")
    assert shape_of_map(config, space) == encoder.feature_map(config, shape) == (*expected, 32)


def test_a_resnet_encodes_an_image_with_odd_sides():
    config = EncoderConfig(vision="resnet", channels=(4, 4), kernel_sizes=(3, 3), strides=(2, 2), blocks=(1, 2))
    space = Box((9, 7, 3), 0, 255, "uint8")
    params = jax.jit(lambda key: encoder.init(key, config, space, actions=2, width=64))(jax.random.key(0))
    assert sorted(params["observation"]["stage_1"], reverse=True) == ["down", "conv_3", "conv_2", "conv_1", "conv_0"]
    run = jax.jit(lambda seen: encoder.encode(params, config, space, seen, jnp.zeros(2), jnp.float32(0), "float32"))
    one, two = (run(encoder.preprocess(config, space, space.sample(jax.random.key(seed)))) for seed in (1, 2))
    assert one.shape == (64,)
    assert np.isfinite(one).all()
    assert not np.allclose(one, two)


def test_a_residual_pair_adds_to_what_came_in():
    """With the second convolution at zero, nothing is added."""
    params = convolutions.init_conv(jax.random.key(0), 3, 2, 2)
    nothing = jax.tree.map(jnp.zeros_like, params)
    x_hwc = jax.random.normal(jax.random.key(1), (4, 4, 2))
    np.testing.assert_array_equal(kernels.residual.add(params, nothing, x_hwc, 3), x_hwc)
    assert not np.allclose(kernels.residual.add(params, params, x_hwc, 3), x_hwc)


def part_of(params, config, space, seen):
    """The features of one image."""
    embedded = encoder.embed({"image": params}, config, {"image": space}, {"image": seen}, "float32")
    return embedded["image"]


def test_bytes_are_scaled_to_one():
    """A 1 x 1 image through a single weight of 1 gives the pixel over 255."""
    config = cnn(channels=(1,), kernel_sizes=(1,), strides=(1,))
    space = Box((1, 1, 1), 0, 255, "uint8")
    params = {"conv_0": {"w": jnp.ones((1, 1)), "b": jnp.zeros(1)}}
    for pixel in (0, 51, 255):
        seen = encoder.preprocess(config, space, jnp.full((1, 1, 1), pixel, jnp.uint8))
        found = part_of(params, config, space, seen)
        np.testing.assert_allclose(found, [pixel / 255], rtol=1e-6)


@pytest.mark.parametrize("vision", ["cnn", "resnet"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_center_is_what_the_first_layer_sees_as_zero(vision, dtype):
    """An image of that brightness gives the biases alone, and so do no weights; other images give something else."""
    config = EncoderConfig(vision=vision, channels=(4,), kernel_sizes=(3,), strides=(3,), blocks=(1,), center=0.2)
    space = Box((6, 9, 3), 0, 255, "uint8")
    params = encoder.init_part(jax.random.key(0), config, space)
    first = encoder.first_layer(params, config, dtype)
    bias = encoder.first_layer(params, replace(config, center=0.0), dtype)["b"]

    def seen(value):
        stored = encoder.preprocess(config, space, jnp.full(space.shape, value, jnp.uint8))
        return encoder.embed_patches(first, config, space, stored, dtype).astype(jnp.float32)

    at_center = jnp.broadcast_to(bias, seen(51).shape)
    np.testing.assert_allclose(seen(51), at_center, atol=1e-5 if dtype == "float32" else 0.02)
    assert not np.allclose(seen(151), at_center, atol=0.1)


def test_without_a_center_the_first_layer_is_as_learned():
    config = cnn()
    params = encoder.init_part(jax.random.key(0), config, Box((99, 99, 3), 0, 255, "uint8"))
    assert config.center == 0
    assert encoder.first_layer(params, config, "bfloat16") is params["conv_0"]


def test_a_centered_encoder_acts_as_it_learns():
    """With parameters that were cast for acting, the first layer is the same."""
    config = replace(cnn(), center=0.45)
    params = encoder.init_part(jax.random.key(0), config, Box((99, 99, 3), 0, 255, "uint8"))
    learning, acting = (
        encoder.first_layer(own, config, "bfloat16")["b"] for own in (params, in_dtype(params, "bfloat16"))
    )
    np.testing.assert_array_equal(learning, acting)


# What is kept of an image ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_preprocessing_cuts_an_image_and_leaves_all_else_as_it_is(dtype):
    space = SPACE | {"image": Box((6, 9, 3), 0, 255, dtype)}
    observation = observation_of(space)
    seen = encoder.preprocess(SMALL, space, observation)
    assert list(seen) == list(space)
    for name in ("instruction", "door", "place"):
        assert seen[name] is observation[name]
    kept = {"uint8": "int8"}.get(dtype, dtype)
    assert (seen["image"].shape, seen["image"].dtype) == ((2 * 3, 32), kept)  # 3 x 3 x 3 = 27 of them pixels
    image = np.asarray(observation["image"]).astype("float32") - (128 if dtype == "uint8" else 0)
    for n, (row, column) in enumerate(np.ndindex(2, 3)):
        patch = image[3 * row : 3 * row + 3, 3 * column : 3 * column + 3]
        np.testing.assert_array_equal(seen["image"][n, :27], patch.ravel())
    assert not seen["image"][:, 27:].any()


def test_small_patches_are_not_padded_and_overlapping_ones_not_cut():
    space = Box((6, 9, 3), 0, 255, "uint8")
    image = space.sample(jax.random.key(0))
    pixels = encoder.preprocess(cnn(channels=(4,), kernel_sizes=(1,), strides=(1,)), space, image)
    np.testing.assert_array_equal(pixels, np.asarray(image).reshape(6 * 9, 3).astype("int32") - 128)
    assert encoder.preprocess(cnn(kernel_sizes=(5, 3, 3), strides=(3, 1, 1)), space, image) is image


def plain_conv(params, x_hwc, size, stride):
    """A product for every place in the filter, summed up."""
    sides, channels = x_hwc.shape[:2], x_hwc.shape[2]
    outs = [-(-side // stride) for side in sides]
    pads = [max((out - 1) * stride + size - side, 0) for out, side in zip(outs, sides, strict=True)]
    x_hwc = jnp.pad(x_hwc, [(pad // 2, pad - pad // 2) for pad in pads] + [(0, 0)])
    ends = [(out - 1) * stride + 1 for out in outs]
    y_hwc = jnp.zeros((*outs, params["b"].size)) + jnp.broadcast_to(params["b"], (*outs, params["b"].size))
    for (i, j), weight in zip(np.ndindex(size, size), params["w"].reshape(-1, channels, params["b"].size), strict=True):
        y_hwc += x_hwc[i : i + ends[0] : stride, j : j + ends[1] : stride] @ weight
    return y_hwc


def plain_cnn(params, config, x_hwc):
    for n, (size, stride) in enumerate(zip(config.kernel_sizes, config.strides, strict=True)):
        x_hwc = jax.nn.relu(plain_conv(params[f"conv_{n}"], x_hwc, size, stride))
    return x_hwc


def plain_resnet(params, config, x_hwc):
    for n, (size, stride, blocks) in enumerate(zip(config.kernel_sizes, config.strides, config.blocks, strict=True)):
        stage = params[f"stage_{n}"]
        x_hwc = plain_conv(stage["down"], x_hwc, size, stride)
        for b in range(blocks):
            inner = plain_conv(stage[f"conv_{2 * b}"], jax.nn.relu(x_hwc), size, 1)
            x_hwc += plain_conv(stage[f"conv_{2 * b + 1}"], jax.nn.relu(inner), size, 1)
    return jax.nn.relu(x_hwc)


RESNET: Any = {"vision": "resnet", "channels": (4, 4), "blocks": (1, 2)}


@pytest.mark.parametrize(
    ("config", "space"),
    [
        (BALLET, Box((99, 99, 3), 0, 255, "uint8")),  # 243 pixels a patch, padded to 256
        (cnn(channels=(4, 6), kernel_sizes=(5, 3), strides=(5, 2)), Box((15, 25, 1), 0, 255, "uint8")),  # 25 to 32
        (cnn(channels=(4,), kernel_sizes=(1,), strides=(1,)), Box((4, 6, 3), 0, 255, "uint8")),  # 3, and no more
        (cnn(channels=(4, 6), kernel_sizes=(3, 2), strides=(3, 2)), Box((12, 6, 2), 0, 1)),
        (EncoderConfig(**RESNET, kernel_sizes=(3, 3), strides=(2, 2)), Box((9, 7, 3), 0, 255, "uint8")),  # overlap
        (EncoderConfig(**RESNET, kernel_sizes=(3, 2), strides=(3, 2)), Box((12, 18, 3), 0, 255, "uint8")),  # 27 to 32
    ],
)
def test_encoding_and_learning_are_those_of_plain_convolutions(config, space):
    """Values and gradients, against sums of products with the image as the environment shows it."""
    params = encoder.init_part(jax.random.key(0), config, space)
    params = jax.tree.map(lambda leaf: leaf + 0.1, params)  # biases as well
    image = space.sample(jax.random.key(1))
    up_f = jax.random.normal(jax.random.key(2), (encoder.features_of(config, space),))

    def ours(params):
        return part_of(params, config, space, encoder.preprocess(config, space, image))

    def plain(params):
        pixels = image.astype(jnp.float32) / space.high
        return (plain_resnet if config.vision == "resnet" else plain_cnn)(params, config, pixels).ravel()

    @partial(jax.jit, static_argnums=0)
    def both(run, params):
        return run(params), jax.grad(lambda params: (run(params) * up_f).sum())(params)

    (found, slope), (expected, wanted) = both(ours, params), both(plain, params)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
    for one, two in zip(jax.tree.leaves(slope), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-4 * np.abs(two).max())


# All parts ------------------------------------------------------------------------------------------------------------


def test_features_are_finite_and_of_unit_variance(small):
    _, encode = small
    for seed in range(3):
        x_d = encode(observation_of(SPACE, seed))
        assert x_d.shape == (64,)
        assert np.isfinite(x_d).all()
        np.testing.assert_allclose([np.mean(x_d), np.std(x_d)], [0, 1], atol=0.02)


def test_every_part_of_an_observation_is_seen(small):
    _, encode = small
    one, two = observation_of(SPACE, 0), observation_of(SPACE, 1)
    for name in SPACE:
        other = (one[name] + 1) % 3 if name == "door" else two[name]
        assert np.abs(encode(one | {name: other}) - encode(one)).max() > 1e-4, name


def test_an_observation_without_anything_in_it_is_finite_and_so_is_its_gradient():
    """The blanks of a probe are all zeros: there is nothing to bring to unit variance."""
    space = Box((3,), 0, 1)
    params = encoder.init(jax.random.key(0), SMALL, space, actions=2, width=8)

    def total(params):
        return encoder.encode(params, SMALL, space, jnp.zeros(3), jnp.zeros(2), jnp.float32(0), "float32").sum()

    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(jax.grad(total)(params)))


def test_vmap_is_a_batch(small):
    _, encode = small
    many = [observation_of(SPACE, seed) for seed in range(3)]
    batch = jax.vmap(encode)(jax.tree.map(lambda *leaves: jnp.stack(leaves), *many))
    np.testing.assert_allclose(batch, [encode(one) for one in many], rtol=1e-4, atol=1e-5)


def test_bfloat16_is_close_to_float32(small):
    params, encode = small
    assert {leaf.dtype.name for leaf in jax.tree.leaves(params)} == {"float32"}
    observation = observation_of(SPACE)
    wide, narrow = encode(observation), encode(observation, dtype="bfloat16")
    assert (wide.dtype, narrow.dtype) == (jnp.float32, jnp.bfloat16)
    np.testing.assert_allclose(narrow.astype(jnp.float32), wide, atol=0.1)
    assert np.abs(narrow.astype(jnp.float32) - wide).max() > 0


# What was done and gained a step ago ----------------------------------------------------------------------------------


@cache
def built(last_action):
    config = AgentConfig(
        encoder=EncoderConfig(last_action=last_action),
        memory=LSTM(width=16, layers=1),
        heads=HeadsConfig(hidden=4),
    )
    made: Any = agent.make(config, envs.make("echo"))
    params = jax.jit(made.init_params)(jax.random.key(0))
    run = jax.jit(made.encode)

    def encode(first, action, reward):
        seen = made.preprocess(jnp.ones(4))
        return np.asarray(run(params, Inputs(seen, jnp.bool_(first), jnp.int32(action), jnp.float32(reward))))

    return encode


def test_the_last_action_and_reward_are_seen_where_asked_for():
    encode = built(last_action=True)
    here = encode(False, 1, 0.0)
    assert np.abs(encode(False, 2, 0.0) - here).max() > 1e-3
    assert np.abs(encode(False, 1, 1.0) - here).max() > 1e-3


def test_an_episode_begins_without_the_action_and_reward_before_it():
    encode = built(last_action=True)
    np.testing.assert_array_equal(encode(True, 1, 0.0), encode(True, 3, 7.0))
    assert np.abs(encode(True, 0, 0.0) - encode(False, 0, 0.0)).max() > 1e-3  # action 0 is an action too


def test_without_the_option_they_are_not_seen():
    encode = built(last_action=False)
    np.testing.assert_array_equal(encode(False, 1, 0.0), encode(False, 2, 5.0))


# Refusals -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"vision": "vit"}, "vision must be one of 'cnn', 'resnet', but is 'vit'."),
        ({"kernel_sizes": (9, 3)}, "kernel_sizes has 2 entries, but channels has 3: one per layer."),
        ({"strides": (9, 1, 1, 1)}, "strides has 4 entries, but channels has 3: one per layer."),
        ({"vision": "resnet", "blocks": (2,)}, "blocks has 1 entries, but channels has 3: one per layer."),
        ({"channels": (), "kernel_sizes": (), "strides": ()}, "channels must have at least one entry: one per layer."),
        ({"channels": (16, 0, 32)}, "channels[1] must be a whole number of at least 1, but is 0."),
        ({"strides": (9, 1, -1)}, "strides[2] must be a whole number of at least 1, but is -1."),
        ({"language": 0}, "language must be a whole number of at least 1, but is 0."),
        ({"word": 2.5}, "word must be a whole number, but is 2.5."),
        ({"channels": [16, 32, 32]}, "channels must be a tuple, each of it a whole number, but is [16, 32, 32]."),
        ({"last_action": 1}, "last_action must be True or False, but is 1."),
    ],
)
def test_sizes_that_make_no_sense_are_refused(wrong, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        EncoderConfig(**wrong)


def test_a_cnn_needs_no_blocks():
    assert cnn(blocks=()).blocks == ()


def test_images_that_cannot_be_cut_into_patches_are_refused_before_anything_is_built():
    sentence = "images of 11 x 11 cannot be cut into patches of 9: choose kernel_sizes and strides that divide them."
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        agent.make(AgentConfig(encoder=BALLET), envs.make("ballet", tile=1))


def test_convolutions_larger_than_the_image_are_refused():
    """A kernel of a billion would otherwise be padded to, and take all memory."""
    config = cnn(channels=(4,), kernel_sizes=(12,), strides=(3,))
    sentence = (
        "a convolution of size 12 and stride 3 is larger than an image of 11 x 11: choose smaller kernel_sizes and "
        "strides."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        agent.make(AgentConfig(encoder=config), envs.make("ballet", tile=1))
