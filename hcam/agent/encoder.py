"""Observation -> x_d: a CNN or ResNet for images, an LSTM over words; other observations are taken as they are.

Functions take one step of one environment; parameters are nested dicts, by the observation's own names. Observations go
through `preprocess` once; everything else takes its result.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, Literal

import jax
import jax.numpy as jnp

from hcam.agent import kernels, words
from hcam.agent.convolutions import conv, init_conv, patches
from hcam.agent.pixels import pad_patch, to_signed, zero_point
from hcam.envs.spaces import Box, Discrete, Space, Spaces, Tokens
from hcam.memory import checks
from hcam.memory.layers import broadcast_like, init_linear, init_norm, layer_norm, linear, to_float32
from hcam.types import Array, Params


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """How the agent sees (appendix A.2, table of hyper-parameters)."""

    vision: Literal["cnn", "resnet"] = "resnet"  # "visual encoder"
    channels: tuple[int, ...] = (16, 32, 32)  # "vis. enc. channels"
    kernel_sizes: tuple[int, ...] = (3, 3, 3)  # "filt. size"
    strides: tuple[int, ...] = (2, 2, 2)  # "filt. stride"; equal to the kernel size: patches that do not overlap
    blocks: tuple[int, ...] = (2, 2, 2)  # "num. blocks" of the ResNet
    language: int = 256  # "lang. enc. dimension"
    word: int = 32  # "word embed. dimension"
    last_action: bool = False  # whether the agent also sees its last action and reward; the paper does not say
    center: float = 0.0  # the brightness, 0 to 1, that enters the first layer as 0: about the mean of the images

    def __post_init__(self) -> None:
        checks.typed(self)
        checks.positive(language=self.language, word=self.word)
        if not 0 <= self.center <= 1:
            raise ValueError(f"center must be from 0 (black) to 1, but is {self.center}.")
        if not self.channels:
            raise ValueError("channels must have at least one entry: one per layer.")
        checks.depth(**{f"blocks[{n}]": count for n, count in enumerate(self.blocks)})
        for name in ("channels", "kernel_sizes", "strides", "blocks"):
            values, layers = getattr(self, name), len(self.channels)
            checks.positive(**{f"{name}[{n}]": value for n, value in enumerate(values)})
            if len(values) != layers and (name != "blocks" or self.vision == "resnet"):
                raise ValueError(f"{name} has {len(values)} entries, but channels has {layers}: one per layer.")


def parts(space: Spaces) -> dict[str, Space]:
    """The parts of an observation by name; an observation without parts is one part called `observation`."""
    return space if isinstance(space, dict) else {"observation": space}


def by_name(space: Spaces, observation: Any) -> dict[str, Array]:
    return observation if isinstance(space, dict) else {"observation": observation}


def is_image(space: Space) -> bool:
    return isinstance(space, Box) and len(space.shape) == 3


def init(key: Array, config: EncoderConfig, space: Spaces, actions: int, width: int) -> Params:
    named = parts(space)
    *part_keys, key_join = jax.random.split(key, len(named) + 1)
    params: dict[str, Params] = {
        name: init_part(part_key, config, part) for part_key, (name, part) in zip(part_keys, named.items(), strict=True)
    }
    features = sum(features_of(config, part) for part in named.values()) + config.last_action * (actions + 1)
    return params | {"join": init_linear(key_join, features, width, scale=2.0), "norm": init_norm(width)}


def preprocess(config: EncoderConfig, space: Spaces, observation: Any) -> Any:
    """The observation as an agent stores it: images cut into the first layer's patches, where those do not overlap.

    An image [H, W, C] becomes [H/size * W/size, P]; bytes become signed. Cutting moves every byte, so it is done once,
    when the observation arrives, and not each time that the agent acts on it, learns from it or reconstructs it.
    """

    def stored(part: Space, value: Array) -> Array:
        if not (is_image(part) and is_patchify(config)):
            return value
        patch_hwp = pad_patch(to_signed(patches(value, config.kernel_sizes[0])), axis=-1)
        return patch_hwp.reshape(-1, patch_hwp.shape[-1])

    if not isinstance(space, dict):
        return stored(space, observation)
    return {name: stored(part, observation[name]) for name, part in space.items()}


def encode(
    params: Params, config: EncoderConfig, space: Spaces, observation: Any, action: Array, reward: Array, dtype: str
) -> Array:
    """x_d, of unit variance. `action` (one-hot) and `reward` are those of the step before."""
    embedded = embed(params, config, space, observation, dtype)
    return join(params, config, space, embedded, action, reward, dtype)


def embed(params: Params, config: EncoderConfig, space: Spaces, observation: Any, dtype: str) -> dict[str, Array]:
    """The parts of an observation by name, images as features [..., F].

    Works on one step or on many (leading axes). Patches enter one flat product: XLA would change the layout of all
    images for the gradient of a product with more axes.
    """
    seen = by_name(space, observation)

    def features(name: str, part: Space) -> Array:
        if isinstance(part, Box) and is_image(part):
            return encode_image(params[name], config, part, seen[name], dtype)
        return seen[name]

    return {name: features(name, part) for name, part in parts(space).items()}


def join(
    params: Params, config: EncoderConfig, space: Spaces, embedded: Any, action: Array, reward: Array, dtype: str
) -> Array:
    """x_d, from what `embed` returned."""
    features = [encode_part(params[name], part, embedded[name], dtype) for name, part in parts(space).items()]
    if config.last_action:
        features += [action.astype(dtype), reward[None].astype(dtype)]
    joined = jax.nn.relu(linear(params["join"], jnp.concatenate(features)))
    return layer_norm(params["norm"], joined)


# Parts of an observation ----------------------------------------------------------------------------------------------


def init_part(key: Array, config: EncoderConfig, space: Space) -> Params:
    if is_image(space):
        return (init_resnet if config.vision == "resnet" else init_cnn)(key, config, space)
    if isinstance(space, Tokens):
        return words.init(key, len(space.vocabulary), config.word, config.language)
    return {}


def encode_part(params: Params, space: Space, value: Array, dtype: str) -> Array:
    """Features of a part as `embed` returns it."""
    if isinstance(space, Tokens):
        return words.read(params, value, dtype)
    if isinstance(space, Discrete):
        return jax.nn.one_hot(value, space.n, dtype=dtype)
    return value.astype(dtype).ravel()


def features_of(config: EncoderConfig, space: Space) -> int:
    if isinstance(space, Tokens):
        return config.language
    if isinstance(space, Discrete):
        return space.n
    if is_image(space):
        height, width, channels = feature_map(config, space.shape)
        return height * width * channels
    return math.prod(space.shape)


def feature_map(config: EncoderConfig, shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Height, width and channels of the image encoder's last feature map."""
    height, width = shape[:2]
    for size, stride in zip(config.kernel_sizes, config.strides, strict=True):
        if max(size, stride) > max(3, *shape[:2]):  # the usual 3 x 3, padded, takes an image of any size
            raise ValueError(
                f"a convolution of size {size} and stride {stride} is larger than an image of {shape[0]} x {shape[1]}: "
                "choose smaller kernel_sizes and strides."
            )
        if size == stride and (height % size or width % size):
            raise ValueError(
                f"images of {shape[0]} x {shape[1]} cannot be cut into patches of {size}: choose kernel_sizes and "
                "strides that divide them."
            )
        height, width = -(-height // stride), -(-width // stride)
    return height, width, config.channels[-1]


# Images: [..., H, W, C], or [..., H/size, W/size, P] where the first layer's patches do not overlap -------------------


def encode_image(params: Params, config: EncoderConfig, space: Box, seen: Array, dtype: str) -> Array:
    """The features of stored images, one or many: [..., F]."""
    if is_patchify(config):
        seen = embed_patches(first_layer(params, config, dtype), config, space, seen, dtype)
    layers = partial(encode_pixels, params, config, space, dtype)
    return layers(seen) if many_at_once(config, dtype) else mapped(layers, seen.ndim - 3)(seen)


def encode_pixels(params: Params, config: EncoderConfig, space: Box, dtype: str, y_hwc: Array) -> Array:
    """The features of images, or of what `embed_patches` made of them."""
    if not is_patchify(config):
        first, size, stride = first_layer(params, config, dtype), config.kernel_sizes[0], config.strides[0]
        y_hwc = kernels.first_layer.embed(first, space.high, y_hwc, size, stride, dtype)
    x_hwc = (resnet if config.vision == "resnet" else cnn)(params, config, y_hwc)
    return x_hwc.reshape(*x_hwc.shape[:-3], -1)


def many_at_once(config: EncoderConfig, dtype: Any) -> bool:
    """Whether layers are given many images, where some have kernels, or each one by itself, under `vmap`.

    A kernel sums the gradient of its weights over the images that it is given; under `vmap` each has a gradient of its
    own, and the sum is a pass over all of them.
    """
    return kernels.used(dtype) and (config.vision == "resnet" or not is_patchify(config))


def mapped(function: Callable[..., Any], axes: int) -> Callable[..., Any]:
    """`function` of one, for arguments with so many leading axes."""
    return reduce(lambda inner, _: jax.vmap(inner), range(axes), function)


def embed_patches(params: Params, config: EncoderConfig, space: Box, seen: Array, dtype: str) -> Array:
    """The first layer, from stored patches: [..., H/size * W/size, P] -> [..., H/size, W/size, C].

    Patches enter the product as they are stored; scale and zero point are applied to its result.
    """
    weight = pad_patch(params["w"], axis=0).astype(dtype)
    y_nc = seen.reshape(-1, seen.shape[-1]).astype(dtype) @ weight
    offset_c = to_float32(weight).sum(0) * (zero_point(seen) / space.high)
    y_nc = y_nc * jnp.asarray(1 / space.high, dtype) + broadcast_like(
        to_float32(params["b"].astype(dtype)) + offset_c, y_nc
    )
    return y_nc.reshape(*seen.shape[:-2], *grid(config, space.shape), -1)


def first_layer(params: Params, config: EncoderConfig, dtype: Any) -> Params:
    """Weights and biases of the first layer, so that it sees pixels less `center`: that is taken off its bias.

    Where all that a layer sees is positive, a gradient step moves all its weights in one direction, and its outputs
    with them, until no ReLU lets anything through any more.
    """
    layer = params["stage_0"]["down"] if config.vision == "resnet" else params["conv_0"]
    if not config.center:
        return layer
    sum_c = to_float32(layer["w"].astype(dtype)).sum(0)
    return layer | {"b": to_float32(layer["b"].astype(dtype)) - config.center * sum_c}


def is_patchify(config: EncoderConfig) -> bool:
    """Whether the first layer sees patches that do not overlap."""
    return config.kernel_sizes[0] == config.strides[0]


def grid(config: EncoderConfig, shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns of the first layer's patches."""
    return shape[0] // config.kernel_sizes[0], shape[1] // config.kernel_sizes[0]


def init_cnn(key: Array, config: EncoderConfig, space: Space) -> Params:
    ins, keys = (space.shape[-1], *config.channels), jax.random.split(key, len(config.channels))
    sizes = zip(keys, config.kernel_sizes, ins, config.channels, strict=False)
    return {f"conv_{n}": init_conv(*layer) for n, layer in enumerate(sizes)}


def cnn(params: Params, config: EncoderConfig, y_hwc: Array) -> Array:
    """The layers after the first convolution."""
    x_hwc = jax.nn.relu(y_hwc)
    for n in range(1, len(config.channels)):
        x_hwc = jax.nn.relu(conv(params[f"conv_{n}"], x_hwc, config.kernel_sizes[n], config.strides[n]))
    return x_hwc


def init_resnet(key: Array, config: EncoderConfig, space: Space) -> Params:
    """Each stage is a strided convolution followed by `blocks` residual pairs of convolutions."""
    params, channels_in = {}, space.shape[-1]
    for n, (size, channels, blocks) in enumerate(zip(config.kernel_sizes, config.channels, config.blocks, strict=True)):
        keys = jax.random.split(jax.random.fold_in(key, n), 2 * blocks + 1)
        stage = {"down": init_conv(keys[0], size, channels_in, channels)}
        for block in range(2 * blocks):
            stage[f"conv_{block}"] = init_conv(keys[block + 1], size, channels, channels)
        params[f"stage_{n}"], channels_in = stage, channels
    return params


def resnet(params: Params, config: EncoderConfig, x_hwc: Array) -> Array:
    """The layers after the first convolution."""
    for n, (size, stride, blocks) in enumerate(zip(config.kernel_sizes, config.strides, config.blocks, strict=True)):
        stage = params[f"stage_{n}"]
        x_hwc = conv(stage["down"], x_hwc, size, stride) if n else x_hwc
        for block in range(blocks):
            pair = stage[f"conv_{2 * block}"], stage[f"conv_{2 * block + 1}"]
            x_hwc = kernels.residual.add(*pair, x_hwc, size)
    return jax.nn.relu(x_hwc)
