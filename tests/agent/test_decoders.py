"""Decoders: shapes of what they reconstruct, losses by hand, parameters of their own."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from hcam import envs
from hcam.agent import convolutions, decoders, encoder
from hcam.agent.encoder import EncoderConfig
from hcam.envs.spaces import Box, Discrete, Tokens
from hcam.envs.tasks.ballet import VOCABULARY
from hcam.memory.layers import init_norm, layer_norm

TASK: Any = envs.make("ballet", tile=1)
cnn: Any = partial(EncoderConfig, vision="cnn")
BALLET = cnn(kernel_sizes=(9, 3, 3), strides=(9, 1, 1))
TINY = cnn(channels=(4, 8), kernel_sizes=(1, 3), strides=(1, 1), language=16, word=8)
WIDTH = 32
RESNET = EncoderConfig()
WORDS = Tokens(("", "a", "b", "c"), length=3)


@pytest.mark.parametrize(
    ("config", "space", "shape"),
    [
        (BALLET, Box((99, 99, 3), 0, 255, "uint8"), (99, 99, 3)),
        (cnn(kernel_sizes=(5, 3, 3), strides=(3, 2, 1)), Box((33, 20, 1), 0, 255, "uint8"), (33, 20, 1)),
        (cnn(kernel_sizes=(3, 3, 3), strides=(3, 2, 2)), Box((33, 21, 1), 0, 255, "uint8"), (33, 21, 1)),
        (RESNET, Box((72, 96, 3), 0, 255, "uint8"), (72, 96, 3)),
        (RESNET, Box((71, 97, 3), 0, 255, "uint8"), (71, 97, 3)),
        (RESNET, Box((1, 5, 2), 0, 1), (1, 5, 2)),
        (EncoderConfig(vision="resnet", kernel_sizes=(2, 2, 2), strides=(2, 2, 2)), Box((8, 16, 3), 0, 1), (8, 16, 3)),
        (BALLET, WORDS, (3, 4)),
        (BALLET, Tokens(("", "a"), length=1), (1, 2)),
        (BALLET, Box((5,), -1, 1), (5,)),
        (BALLET, Box((2, 3), -1, 1), (2, 3)),
        (BALLET, Box((), -1, 1), ()),
        (BALLET, Discrete(7), (7,)),
    ],
)
def test_decoders_have_the_shape_of_what_they_reconstruct(config, space, shape):
    def run(key):
        params = decoders.init_part(key, config, space, WIDTH)
        decoded = decoders.decode(params, config, space, jnp.zeros(WIDTH))
        seen = encoder.preprocess(config, {"part": space}, {"part": jnp.zeros(space.shape, space.dtype)})
        whole = {"part": params, "norm": init_norm(WIDTH)}
        return decoded, decoders.losses(whole, config, {"part": space}, jnp.zeros(WIDTH), seen)["part"]

    decoded, loss = jax.eval_shape(run, jax.random.key(0))
    assert decoded.shape == shape
    assert (loss.shape, loss.dtype) == ((), jnp.float32)


def by_hand(params, config, space, y_d):
    """Logits [H, W, C] of the CNN's decoder, whose last layer's patches do not overlap, each put in its place."""
    x_hwc = jax.nn.relu(y_d @ params["start"]["w"] + params["start"]["b"])
    x_hwc = x_hwc.reshape(encoder.feature_map(config, space.shape))
    for n in reversed(range(1, len(config.channels))):
        x_hwc = jax.nn.relu(
            decoders.conv_transpose(params[f"conv_{n}"], x_hwc, config.kernel_sizes[n], config.strides[n])
        )
    size, drawn = config.kernel_sizes[0], jnp.zeros(space.shape)
    for row, column in np.ndindex(space.shape[0] // size, space.shape[1] // size):
        patch = x_hwc[row, column] @ params["conv_0"]["w"] + params["conv_0"]["b"]
        rows, columns = slice(size * row, size * row + size), slice(size * column, size * column + size)
        drawn = drawn.at[rows, columns].set(patch.reshape(size, size, -1))
    return drawn


@pytest.mark.parametrize(
    ("config", "space"),
    [
        (cnn(channels=(4, 8), kernel_sizes=(9, 3), strides=(9, 1)), Box((27, 18, 3), 0, 255, "uint8")),
        (cnn(channels=(4, 8), kernel_sizes=(5, 3), strides=(5, 2)), Box((15, 25, 1), 0, 255, "uint8")),
        (TINY, Box((4, 5, 3), 0, 255, "uint8")),
        (cnn(channels=(4, 8), kernel_sizes=(2, 2), strides=(2, 2)), Box((4, 8, 5), 0, 1)),
    ],
)
def test_an_image_is_decoded_patch_by_patch(config, space):
    params = decoders.init_part(jax.random.key(0), config, space, WIDTH)
    params = jax.tree.map(lambda leaf: leaf + 0.1, params)  # biases as well
    y_d = jax.random.normal(jax.random.key(1), (WIDTH,))
    found = jax.jit(lambda: decoders.decode(params, config, space, y_d))()
    np.testing.assert_allclose(found, by_hand(params, config, space, y_d), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("config", "space"),
    [
        (cnn(channels=(4, 8), kernel_sizes=(9, 3), strides=(9, 1)), Box((27, 18, 3), 0, 255, "uint8")),
        (cnn(channels=(4, 8), kernel_sizes=(5, 3), strides=(5, 1)), Box((15, 20, 1), 0, 255, "uint8")),
        (TINY, Box((4, 5, 3), 0, 255, "uint8")),
        (
            EncoderConfig(vision="resnet", channels=(4, 8), kernel_sizes=(3, 3), strides=(2, 2), blocks=(1, 1)),
            Box((9, 7, 3), 0, 1),
        ),
        (
            EncoderConfig(vision="resnet", channels=(4, 8), kernel_sizes=(3, 2), strides=(3, 2), blocks=(1, 1)),
            Box((12, 18, 3), 0, 255, "uint8"),
        ),
    ],
)
def test_the_loss_of_an_image_is_that_of_its_pixels_and_so_is_its_gradient(config, space):
    """Of all pixels of the decoded image and no others: what fills up patches neither costs nor teaches."""
    key_params, key_y, key_image = jax.random.split(jax.random.key(0), 3)
    params = decoders.init(key_params, config, {"image": space}, WIDTH)
    params = jax.tree.map(lambda leaf: leaf + 0.1, params)
    y_d, image = jax.random.normal(key_y, (WIDTH,)), space.sample(key_image)
    seen = encoder.preprocess(config, {"image": space}, {"image": image})

    def ours(params, y_d):
        return decoders.losses(params, config, {"image": space}, y_d, seen)["image"]

    def plain(params, y_d):
        logit = decoders.decode(params["image"], config, space, layer_norm(params["norm"], y_d))
        target = image.astype(jnp.float32) / space.high
        return -(target * jax.nn.log_sigmoid(logit) + (1 - target) * jax.nn.log_sigmoid(-logit)).mean()

    (found, slope), (expected, wanted) = (
        jax.jit(jax.value_and_grad(run, argnums=(0, 1)))(params, y_d) for run in (ours, plain)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    for one, two in zip(jax.tree.leaves(slope), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-5 * np.abs(two).max())


def test_conv_transpose_puts_patches_back_where_they_came_from():
    x_hwc = jax.random.normal(jax.random.key(0), (6, 9, 2))
    identity = {"w": jnp.eye(3 * 3 * 2), "b": jnp.zeros(3 * 3 * 2)}
    np.testing.assert_array_equal(decoders.conv_transpose(identity, convolutions.patches(x_hwc, 3), 3, 3), x_hwc)


def test_conv_transpose_is_the_transpose_of_conv():
    """<conv x, y> = <x, conv_transpose y>, with the transposed weights, where patches do not overlap."""
    keys = jax.random.split(jax.random.key(0), 3)
    x_hwc, y_hwc = jax.random.normal(keys[0], (6, 9, 2)), jax.random.normal(keys[1], (2, 3, 5))
    weight = jax.random.normal(keys[2], (3 * 3 * 2, 5))
    down = convolutions.conv({"w": weight, "b": jnp.zeros(5)}, x_hwc, 3, 3)
    up = decoders.conv_transpose({"w": weight.T, "b": jnp.zeros(18)}, y_hwc, 3, 3)
    np.testing.assert_allclose((down * y_hwc).sum(), (x_hwc * up).sum(), rtol=1e-4)


@pytest.mark.parametrize(("size", "stride"), [(3, 1), (3, 2), (5, 3), (2, 2), (1, 1), (1, 2)])
def test_conv_transpose_grows_by_the_stride_and_adds_its_bias(size, stride):
    params = decoders.init_conv_transpose(jax.random.key(0), size, stride, 4, 2)
    x_hwc = jax.random.normal(jax.random.key(1), (3, 5, 4))
    y_hwc = decoders.conv_transpose(params, x_hwc, size, stride)
    assert y_hwc.shape == (3 * stride, 5 * stride, 2)
    higher = decoders.conv_transpose(params | {"b": params["b"] + 1}, x_hwc, size, stride)
    np.testing.assert_allclose(higher - y_hwc, np.ones(y_hwc.shape), rtol=1e-4)


@pytest.mark.parametrize(("size", "stride"), [(3, 2), (4, 2), (5, 3), (7, 4), (2, 3), (1, 2)])
def test_conv_transpose_equals_the_librarys(size, stride):
    params = decoders.init_conv_transpose(jax.random.key(0), size, stride, 5, 3)
    x_hwc = jax.random.normal(jax.random.key(1), (2, 6, 7, 5))

    def librarys(params, x_nhwc):
        weight, axes = params["w"].reshape(size, size, 5, 3), ("NHWC", "HWIO", "NHWC")
        y_nhwc = jax.lax.conv_transpose(x_nhwc, weight, (stride, stride), "SAME", dimension_numbers=axes)
        return y_nhwc + params["b"][None, None, None]

    def ours(params, x_nhwc):
        return decoders.conv_transpose(params, x_nhwc, size, stride)

    y_hwc, gradient = jax.vjp(ours, params, x_hwc)
    real_hwc, real_gradient = jax.vjp(librarys, params, x_hwc)
    np.testing.assert_allclose(y_hwc, real_hwc, atol=2e-6)
    for got, real in zip(jax.tree.leaves(gradient(real_hwc)), jax.tree.leaves(real_gradient(real_hwc)), strict=True):
        np.testing.assert_allclose(got, real, rtol=1e-5, atol=1e-4)


def test_conv_transpose_spreads_a_pixel_around_its_place():
    """A single bright pixel, weights of one: it lights the square of filters that overlap it, and nothing else."""
    params = {"w": jnp.ones((9, 1)), "b": jnp.zeros(1)}
    lit = np.asarray(decoders.conv_transpose(params, jnp.zeros((4, 4, 1)).at[1, 2].set(1), 3, 2))[..., 0]
    assert lit.shape == (8, 8)
    assert lit.sum() == 9
    rows, cols = np.nonzero(lit)
    assert (rows.max() - rows.min(), cols.max() - cols.min()) == (2, 2)
    assert set(rows) & {2, 3}
    assert set(cols) & {4, 5}


# Losses ---------------------------------------------------------------------------------------------------------------


def test_image_loss_is_sigmoid_cross_entropy_mean_over_pixels():
    """Logit 0 costs log 2 whatever the pixel; logit log 3 is the probability 3/4."""
    pixel = jnp.array([[[255], [0]]], jnp.uint8)
    np.testing.assert_allclose(decoders.pixel_loss(255, 1, jnp.zeros((1, 2, 1)), pixel), np.log(2), rtol=1e-6)
    logit = jnp.full((1, 2, 1), np.log(3), jnp.float32)
    np.testing.assert_allclose(
        decoders.pixel_loss(255, 1, logit, pixel), (-np.log(3 / 4) - np.log(1 / 4)) / 2, rtol=1e-6
    )
    half = jnp.array([[[51], [51]]], jnp.uint8)  # a fifth lit
    expected = -(0.2 * np.log(3 / 4) + 0.8 * np.log(1 / 4))
    np.testing.assert_allclose(decoders.pixel_loss(255, 1, logit, half), expected, rtol=1e-6)


def test_the_image_loss_has_its_own_gradient():
    """(sigmoid(logit) - pixel) / pixels, whatever is asked of the loss afterwards; the same as differentiating it."""
    logit = jax.random.normal(jax.random.key(0), (4, 5, 3))
    pixel = jax.random.randint(jax.random.key(1), (4, 5, 3), 0, 256).astype(jnp.uint8)

    def by_hand(logit):
        target = pixel.astype(jnp.float32) / 255
        return jnp.square((-target * jax.nn.log_sigmoid(logit) - (1 - target) * jax.nn.log_sigmoid(-logit)).mean())

    expected = jax.grad(by_hand)(logit)
    found = jax.grad(lambda logit: jnp.square(decoders.pixel_loss(255, 3, logit, pixel)))(logit)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-8)
    assert jax.grad(decoders.pixel_loss, 2)(255, 3, logit.astype(jnp.bfloat16), pixel).dtype == jnp.bfloat16


def test_the_padding_of_a_patch_is_no_pixel():
    """Whatever stands there, in logits or target: the loss is the same, and none of its gradient goes there."""
    logit = 3 * jax.random.normal(jax.random.key(0), (6, 32))
    patch = jax.random.randint(jax.random.key(1), (6, 32), 0, 256).astype(jnp.uint8)
    found, slope = jax.value_and_grad(decoders.pixel_loss, 2)(255, 27, logit, patch)
    expected, wanted = jax.value_and_grad(decoders.pixel_loss, 2)(255, 27, logit[:, :27], patch[:, :27])
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    np.testing.assert_allclose(slope[:, :27], wanted, rtol=1e-6)
    assert not slope[:, 27:].any()


def test_language_loss_is_summed_over_the_sequence():
    """Three words of a vocabulary of four, all equally likely: 3 log 4."""
    space = Tokens(("", "a", "b", "c"), length=3)
    np.testing.assert_allclose(decoders.loss(space, jnp.zeros((3, 4)), jnp.array([1, 2, 0])), 3 * np.log(4), rtol=1e-6)


def test_other_parts_have_losses_too():
    np.testing.assert_allclose(decoders.loss(Discrete(4), jnp.zeros(4), jnp.int32(2)), np.log(4), rtol=1e-6)
    numbers = decoders.loss(Box((2,), -1, 1), jnp.array([1.0, 0.0]), jnp.array([0.0, 2.0]))
    np.testing.assert_allclose(numbers, (1 + 4) / 2, rtol=1e-6)


# Reconstruction -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def seen():
    space = TASK.observation_space

    @jax.jit
    def begin(key):
        key_encoder, key_decoders, key_episode = jax.random.split(key, 3)
        params = {
            "encoder": encoder.init(key_encoder, TINY, space, actions=8, width=WIDTH),
            "decoders": decoders.init(key_decoders, TINY, space, WIDTH),
        }
        return params, encoder.preprocess(TINY, space, TASK.reset(key_episode)[0])

    return begin(jax.random.key(0))


def encode(params, observation):
    space, nothing = TASK.observation_space, (jnp.zeros(8), jnp.float32(0))
    return encoder.encode(params["encoder"], TINY, space, observation, *nothing, "float32")


def reconstruct(params, y_d, observation):
    return decoders.losses(params["decoders"], TINY, TASK.observation_space, y_d, observation)


def norms(tree):
    return {name: float(optax.tree.norm(part)) for name, part in tree.items()}


def test_every_part_has_a_finite_loss_near_that_of_a_guess(seen):
    params, observation = seen
    losses = jax.jit(lambda: reconstruct(params, encode(params, observation), observation))()
    assert set(losses) == {"image", "instruction"}
    words = len(VOCABULARY)
    assert 0.3 < losses["image"] < 2.0  # an even guess costs log 2
    assert abs(losses["instruction"] - np.log(words)) < 1.0


def test_decoders_have_weights_of_their_own(seen):
    """What is reconstructed teaches the encoder through y_d alone, and never by sharing weights with it."""
    params, observation = seen

    def total(params, through):
        y_d = encode(params, observation)
        y_d = through * y_d + (1 - through) * jax.lax.stop_gradient(y_d)
        losses = reconstruct(params, y_d, observation)
        return losses["image"] + losses["instruction"]

    slope = jax.jit(jax.grad(total))
    apart, through = slope(params, 0.0), slope(params, 1.0)
    assert set(norms(apart["encoder"]).values()) == {0.0}
    assert min(norms(apart["decoders"]).values()) > 0
    assert min(norms(through["encoder"]).values()) > 0
    ours = {leaf.tobytes() for leaf in map(np.asarray, jax.tree.leaves(params["encoder"])) if leaf.std() > 0}
    theirs = {leaf.tobytes() for leaf in map(np.asarray, jax.tree.leaves(params["decoders"])) if leaf.std() > 0}
    assert not ours & theirs


def test_one_observation_can_be_learned_by_heart(seen):
    params, observation = seen
    adam = optax.adam(1e-2)

    def total(params):
        losses = reconstruct(params, encode(params, observation), observation)
        return losses["image"] + losses["instruction"], losses

    def body(carry, _):
        params, state = carry
        gradient, losses = jax.grad(total, has_aux=True)(params)
        with jax.numpy_dtype_promotion("standard"):
            change, state = adam.update(gradient, state)
            return (optax.apply_updates(params, change), state), losses

    _, losses_t = jax.jit(lambda carry: jax.lax.scan(body, carry, None, length=60))((params, adam.init(params)))
    pixel = np.asarray(observation["image"]) / 255
    with np.errstate(divide="ignore", invalid="ignore"):
        least = -np.nan_to_num(pixel * np.log(pixel) + (1 - pixel) * np.log(1 - pixel)).mean()  # grey is never certain
    image, words = losses_t["image"], losses_t["instruction"]
    assert np.isfinite(image).all()
    assert image[-1] - least < 0.3 * (image[0] - least)
    assert words[-1] < 0.1 * words[0]
