"""Policy, value and decoders: shapes of what they reconstruct, a calm start, weights of their own."""

import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from hcam import envs
from hcam.agent import encoder, heads
from hcam.agent.encoder import EncoderConfig
from hcam.agent.heads import HeadsConfig
from hcam.envs import ballet
from hcam.envs.spaces import Box, Discrete, Tokens
from hcam.memory.layers import init_norm, layer_norm

BALLET = envs.make("ballet", tile=1)
TINY = EncoderConfig(channels=(4, 8), filters=(1, 3), strides=(1, 1), language=16, word=8)
WIDTH = 32

# Policy and value -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def calm():
    return jax.jit(lambda key: heads.init(key, HeadsConfig(hidden=16), actions=8, width=WIDTH))(jax.random.key(0))


def test_the_policy_starts_nearly_uniform_and_the_value_near_zero(calm):
    run, rng = jax.jit(jax.vmap(partial(heads.policy_value, calm))), np.random.default_rng(0)
    for scale in (1.0, 100.0):
        logits, value = run(jnp.asarray(rng.normal(size=(50, WIDTH), scale=scale), jnp.float32))
        assert (logits.shape, value.shape) == ((50, 8), (50,))
        assert np.abs(jax.nn.softmax(logits) - 1 / 8).max() < 0.02
        assert np.abs(value).max() < 0.1
        assert np.abs(logits - logits[:1].repeat(50, 0)).max() > 0  # near, and yet of what is seen


def test_policy_and_value_are_one_hidden_layer_of_relus(calm):
    y = np.random.default_rng(0).normal(size=WIDTH, loc=1, scale=3).astype(np.float32)
    logits, value = heads.policy_value(calm, jnp.asarray(y))
    normal = (y - y.mean()) / np.sqrt(y.var() + 1e-5)
    for name, found in (("policy", logits), ("value", value[None])):
        inner, out = (jax.tree.map(np.asarray, calm[name][part]) for part in ("in", "out"))
        assert inner["w"].shape == (WIDTH, 16)
        expected = np.maximum(normal @ inner["w"] + inner["b"], 0) @ out["w"] + out["b"]
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_logits_and_value_are_float32_whatever_comes_in(calm):
    logits, value = jax.eval_shape(heads.policy_value, calm, jnp.ones(WIDTH, jnp.bfloat16))
    assert (logits.dtype, value.dtype) == (jnp.float32, jnp.float32)


def test_bad_sizes_are_refused():
    with pytest.raises(ValueError, match=re.escape("hidden must be a whole number of at least 1, but is 0.")):
        HeadsConfig(hidden=0)


# Decoders -------------------------------------------------------------------------------------------------------------

RESNET = EncoderConfig(vision="resnet", filters=(3, 3, 3), strides=(2, 2, 2))
WORDS = Tokens(("", "a", "b", "c"), length=3)


@pytest.mark.parametrize(
    ("config", "space", "shape"),
    [
        (EncoderConfig(), Box((99, 99, 3), 0, 255, "uint8"), (99, 99, 3)),
        (EncoderConfig(filters=(5, 3, 3), strides=(3, 2, 1)), Box((33, 20, 1), 0, 255, "uint8"), (33, 20, 1)),
        (EncoderConfig(filters=(3, 3, 3), strides=(3, 2, 2)), Box((33, 21, 1), 0, 255, "uint8"), (33, 21, 1)),
        (RESNET, Box((72, 96, 3), 0, 255, "uint8"), (72, 96, 3)),
        (RESNET, Box((71, 97, 3), 0, 255, "uint8"), (71, 97, 3)),
        (RESNET, Box((1, 5, 2), 0, 1), (1, 5, 2)),
        (EncoderConfig(vision="resnet", filters=(2, 2, 2), strides=(2, 2, 2)), Box((8, 16, 3), 0, 1), (8, 16, 3)),
        (EncoderConfig(), WORDS, (3, 4)),
        (EncoderConfig(), Tokens(("", "a"), length=1), (1, 2)),
        (EncoderConfig(), Box((5,), -1, 1), (5,)),
        (EncoderConfig(), Box((2, 3), -1, 1), (2, 3)),
        (EncoderConfig(), Box((), -1, 1), ()),
        (EncoderConfig(), Discrete(7), (7,)),
    ],
)
def test_decoders_have_the_shape_of_what_they_reconstruct(config, space, shape):
    def run(key):
        params = heads.init_decoder(key, config, space, WIDTH)
        decoded = heads.decode(params, config, space, jnp.zeros(WIDTH))
        seen = encoder.preprocess(config, {"part": space}, {"part": jnp.zeros(space.shape, space.dtype)})
        decoders = {"part": params, "norm": init_norm(WIDTH)}
        return decoded, heads.losses(decoders, config, {"part": space}, jnp.zeros(WIDTH), seen)["part"]

    decoded, loss = jax.eval_shape(run, jax.random.key(0))
    assert decoded.shape == shape
    assert (loss.shape, loss.dtype) == ((), jnp.float32)


def by_hand(params, config, space, y_d):
    """Logits [H, W, C] of the CNN's decoder, whose last layer's patches do not overlap, each put in its place."""
    x_hwc = jax.nn.relu(y_d @ params["start"]["w"] + params["start"]["b"])
    x_hwc = x_hwc.reshape(encoder.feature_map(config, space.shape))
    for n in reversed(range(1, len(config.channels))):
        x_hwc = jax.nn.relu(heads.unconv(params[f"conv_{n}"], x_hwc, config.filters[n], config.strides[n]))
    size, drawn = config.filters[0], jnp.zeros(space.shape)
    for row, column in np.ndindex(space.shape[0] // size, space.shape[1] // size):
        patch = x_hwc[row, column] @ params["conv_0"]["w"] + params["conv_0"]["b"]
        rows, columns = slice(size * row, size * row + size), slice(size * column, size * column + size)
        drawn = drawn.at[rows, columns].set(patch.reshape(size, size, -1))
    return drawn


@pytest.mark.parametrize(
    ("config", "space"),
    [
        (EncoderConfig(channels=(4, 8), filters=(9, 3), strides=(9, 1)), Box((27, 18, 3), 0, 255, "uint8")),
        (EncoderConfig(channels=(4, 8), filters=(5, 3), strides=(5, 2)), Box((15, 25, 1), 0, 255, "uint8")),
        (TINY, Box((4, 5, 3), 0, 255, "uint8")),
        (EncoderConfig(channels=(4, 8), filters=(2, 2), strides=(2, 2)), Box((4, 8, 5), 0, 1)),
    ],
)
def test_an_image_is_decoded_patch_by_patch(config, space):
    params = heads.init_decoder(jax.random.key(0), config, space, WIDTH)
    params = jax.tree.map(lambda leaf: leaf + 0.1, params)  # biases as well
    y_d = jax.random.normal(jax.random.key(1), (WIDTH,))
    found = jax.jit(lambda: heads.decode(params, config, space, y_d))()
    np.testing.assert_allclose(found, by_hand(params, config, space, y_d), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("config", "space"),
    [
        (EncoderConfig(channels=(4, 8), filters=(9, 3), strides=(9, 1)), Box((27, 18, 3), 0, 255, "uint8")),
        (EncoderConfig(channels=(4, 8), filters=(5, 3), strides=(5, 1)), Box((15, 20, 1), 0, 255, "uint8")),
        (TINY, Box((4, 5, 3), 0, 255, "uint8")),
        (
            EncoderConfig(vision="resnet", channels=(4, 8), filters=(3, 3), strides=(2, 2), blocks=(1, 1)),
            Box((9, 7, 3), 0, 1),
        ),
        (
            EncoderConfig(vision="resnet", channels=(4, 8), filters=(3, 2), strides=(3, 2), blocks=(1, 1)),
            Box((12, 18, 3), 0, 255, "uint8"),
        ),
    ],
)
def test_the_loss_of_an_image_is_that_of_its_pixels_and_so_is_its_gradient(config, space):
    """Of all pixels of the decoded image and no others: what fills up patches neither costs nor teaches."""
    key_params, key_y, key_image = jax.random.split(jax.random.key(0), 3)
    params = heads.init_decoders(key_params, config, {"image": space}, WIDTH)
    params = jax.tree.map(lambda leaf: leaf + 0.1, params)
    y_d, image = jax.random.normal(key_y, (WIDTH,)), space.sample(key_image)
    seen = encoder.preprocess(config, {"image": space}, {"image": image})

    def ours(params, y_d):
        return heads.losses(params, config, {"image": space}, y_d, seen)["image"]

    def plain(params, y_d):
        logit = heads.decode(params["image"], config, space, layer_norm(params["norm"], y_d))
        target = image.astype(jnp.float32) / space.high
        return -(target * jax.nn.log_sigmoid(logit) + (1 - target) * jax.nn.log_sigmoid(-logit)).mean()

    (found, slope), (expected, wanted) = (
        jax.jit(jax.value_and_grad(run, argnums=(0, 1)))(params, y_d) for run in (ours, plain)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    for one, two in zip(jax.tree.leaves(slope), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-5 * np.abs(two).max())


def test_unconv_puts_patches_back_where_they_came_from():
    x_hwc = jax.random.normal(jax.random.key(0), (6, 9, 2))
    identity = {"w": jnp.eye(3 * 3 * 2), "b": jnp.zeros(3 * 3 * 2)}
    np.testing.assert_array_equal(heads.unconv(identity, encoder.patches(x_hwc, 3), 3, 3), x_hwc)


def test_unconv_is_the_transpose_of_conv():
    """<conv x, y> = <x, unconv y>, with the transposed weights, where patches do not overlap."""
    keys = jax.random.split(jax.random.key(0), 3)
    x_hwc, y_hwc = jax.random.normal(keys[0], (6, 9, 2)), jax.random.normal(keys[1], (2, 3, 5))
    weight = jax.random.normal(keys[2], (3 * 3 * 2, 5))
    down = encoder.conv({"w": weight, "b": jnp.zeros(5)}, x_hwc, 3, 3)
    up = heads.unconv({"w": weight.T, "b": jnp.zeros(18)}, y_hwc, 3, 3)
    np.testing.assert_allclose((down * y_hwc).sum(), (x_hwc * up).sum(), rtol=1e-4)


@pytest.mark.parametrize(("size", "stride"), [(3, 1), (3, 2), (5, 3), (2, 2), (1, 1), (1, 2)])
def test_unconv_grows_by_the_stride_and_adds_its_bias(size, stride):
    params = heads.init_unconv(jax.random.key(0), size, stride, 4, 2)
    x_hwc = jax.random.normal(jax.random.key(1), (3, 5, 4))
    y_hwc = heads.unconv(params, x_hwc, size, stride)
    assert y_hwc.shape == (3 * stride, 5 * stride, 2)
    higher = heads.unconv(params | {"b": params["b"] + 1}, x_hwc, size, stride)
    np.testing.assert_allclose(higher - y_hwc, np.ones(y_hwc.shape), rtol=1e-4)


def test_unconv_spreads_a_pixel_around_its_place():
    """A single bright pixel, weights of one: it lights the square of filters that overlap it, and nothing else."""
    params = {"w": jnp.ones((9, 1)), "b": jnp.zeros(1)}
    lit = np.asarray(heads.unconv(params, jnp.zeros((4, 4, 1)).at[1, 2].set(1), 3, 2))[..., 0]
    assert lit.shape == (8, 8)
    assert lit.sum() == 9
    rows, cols = np.nonzero(lit)
    assert (rows.max() - rows.min(), cols.max() - cols.min()) == (2, 2)
    assert set(rows) & {2, 3}
    assert set(cols) & {4, 5}


# Reconstruction -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def seen():
    space = BALLET.observation_space

    @jax.jit
    def begin(key):
        key_encoder, key_decoders, key_episode = jax.random.split(key, 3)
        params = {
            "encoder": encoder.init(key_encoder, TINY, space, actions=8, width=WIDTH),
            "decoders": heads.init_decoders(key_decoders, TINY, space, WIDTH),
        }
        return params, encoder.preprocess(TINY, space, BALLET.reset(key_episode)[0])

    return begin(jax.random.key(0))


def encode(params, observation):
    space, nothing = BALLET.observation_space, (jnp.zeros(8), jnp.float32(0))
    return encoder.encode(params["encoder"], TINY, space, observation, *nothing, "float32")


def reconstruct(params, y_d, observation):
    return heads.losses(params["decoders"], TINY, BALLET.observation_space, y_d, observation)


def norms(tree):
    return {name: float(optax.tree.norm(part)) for name, part in tree.items()}


def test_every_part_has_a_finite_loss_near_that_of_a_guess(seen):
    params, observation = seen
    losses = jax.jit(lambda: reconstruct(params, encode(params, observation), observation))()
    assert set(losses) == {"image", "instruction"}
    words = len(ballet.VOCABULARY)
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
