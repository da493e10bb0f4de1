"""y_d -> the observation, reconstructed: decoders that mirror the encoders, with weights of their own."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hcam.agent import encoder, kernels, pixels, words
from hcam.agent.convolutions import conv, flat, init_conv
from hcam.agent.encoder import EncoderConfig
from hcam.envs.spaces import Box, Discrete, Space, Spaces, Tokens
from hcam.memory.layers import broadcast_like, init_linear, init_norm, layer_norm, linear, to_float32
from hcam.types import Array, Params


def init(key: Array, config: EncoderConfig, space: Spaces, width: int) -> Params:
    named = encoder.parts(space)
    keys = jax.random.split(key, len(named))
    return {
        name: init_part(part_key, config, part, width)
        for part_key, (name, part) in zip(keys, named.items(), strict=True)
    } | {"norm": init_norm(width)}


def losses(params: Params, config: EncoderConfig, space: Spaces, y_d: Array, observation: Any) -> dict[str, Array]:
    """The reconstruction loss of each part of a stored observation, by name: a float32 for each step.

    Of one step or of many (leading axes). Images are drawn one by one or together, as they are encoded.
    """
    seen, many = encoder.by_name(space, observation), y_d.ndim - 1
    if many and not encoder.many_at_once(config, y_d.dtype):
        found: dict[str, Array] = encoder.mapped(partial(losses, params, config, space), many)(y_d, observation)
        return found
    y_d = layer_norm(params["norm"], y_d)

    def of(name: str, part: Space) -> Array:
        if isinstance(part, Box) and encoder.is_image(part):
            drawn, real = decode_image(params[name], config, part, y_d), pixels_per_row(config, part)
            shown: Array = encoder.mapped(partial(pixel_loss, part.high, real), many)(drawn, seen[name])
            return shown
        other: Array = encoder.mapped(partial(decoded_loss, params[name], config, part), many)(y_d, seen[name])
        return other

    return {name: of(name, part) for name, part in encoder.parts(space).items()}


def init_part(key: Array, config: EncoderConfig, space: Space, width: int) -> Params:
    if encoder.is_image(space):
        key_start, key_image = jax.random.split(key)
        height, wide_, channels = encoder.feature_map(config, space.shape)
        start = init_linear(key_start, width, height * wide_ * channels, scale=2.0)
        return {
            "start": start,
            **(init_resnet_decoder if config.vision == "resnet" else init_cnn_decoder)(key_image, config, space),
        }
    if isinstance(space, Tokens):
        key_start, key_lstm, key_word = jax.random.split(key, 3)
        return {
            "start": init_linear(key_start, width, config.language),
            "lstm": words.init_lstm(key_lstm, config.language, config.language),
            "word": init_linear(key_word, config.language, len(space.vocabulary)),
        }
    return {"out": init_linear(key, width, encoder.features_of(config, space))}


def decode(params: Params, config: EncoderConfig, space: Space, y_d: Array) -> Array:
    """One part of an observation: logits of pixels, tokens or choices; numbers as they are."""
    if encoder.is_image(space):
        drawn = decode_image(params, config, space, y_d)[..., : pixels_per_row(config, space)]
        if not encoder.is_patchify(config):
            return drawn
        return join_patches(drawn.reshape(*encoder.grid(config, space.shape), -1), config.kernel_sizes[0])
    if isinstance(space, Tokens):
        return decode_tokens(params, y_d, space.length)
    return linear(params["out"], y_d).reshape(space.shape if isinstance(space, Box) else (space.n,))


def decode_image(params: Params, config: EncoderConfig, space: Space, y_d: Array) -> Array:
    """Logits of pixels, in the layout in which `encoder.preprocess` stores the image; of one or of many."""
    start = jax.nn.relu(linear(params["start"], y_d))
    x_hwc = start.reshape(*y_d.shape[:-1], *encoder.feature_map(config, space.shape))
    return (resnet_decoder if config.vision == "resnet" else cnn_decoder)(params, config, space, x_hwc)


def pixels_per_row(config: EncoderConfig, space: Space) -> int:
    """How many entries of the last axis of `decode_image` are pixels; the others are padding."""
    return space.shape[-1] * (config.kernel_sizes[0] ** 2 if encoder.is_patchify(config) else 1)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def pixel_loss(high: float, real: int, logits: Array, seen: Array) -> Array:
    """Sigmoid cross-entropy, mean over pixels: the first `real` along the last axis.

    Its gradient is recomputed from the logits: nothing in float32 is stored for it.
    """
    logits, target = to_float32(logits), pixels.dequantize(high, seen)
    return _only_pixels(real, jax.nn.softplus(logits) - target * logits).sum() / _pixels(real, logits)


def _pixel_loss_forward(high: float, real: int, logits: Array, seen: Array) -> tuple[Array, tuple[Array, Array]]:
    return pixel_loss(high, real, logits, seen), (logits, seen)


def _pixel_loss_backward(high: float, real: int, kept: tuple[Array, Array], gradient: Array) -> tuple[Array, None]:
    logits, seen = kept
    error = jax.nn.sigmoid(to_float32(logits)) - pixels.dequantize(high, seen)
    return (_only_pixels(real, error) * (gradient / _pixels(real, logits))).astype(logits.dtype), None


def _only_pixels(real: int, x: Array) -> Array:
    return jnp.where(jax.lax.broadcasted_iota(jnp.int32, x.shape, x.ndim - 1) < real, x, 0.0)


def _pixels(real: int, x: Array) -> int:
    return x.size // x.shape[-1] * real


pixel_loss.defvjp(_pixel_loss_forward, _pixel_loss_backward)


def decoded_loss(params: Params, config: EncoderConfig, space: Space, y_d: Array, seen: Array) -> Array:
    return loss(space, decode(params, config, space, y_d), seen)


def loss(space: Space, decoded: Array, seen: Array) -> Array:
    """The loss of a part that is no image: softmax cross-entropy, summed over tokens; mean squared error of numbers."""
    decoded = to_float32(decoded)
    if isinstance(space, Tokens):
        chosen = jnp.take_along_axis(jax.nn.log_softmax(decoded), seen[:, None], axis=-1)
        return -chosen.sum()
    if isinstance(space, Discrete):
        return -jax.nn.log_softmax(decoded)[seen]
    return jnp.square(decoded - seen.astype(jnp.float32)).mean()


def conv_transpose(params: Params, x_hwc: Array, size: int, stride: int) -> Array:
    """The transpose of `conv`: every pixel becomes a patch of stride x stride pixels.

    Where kernels overlap, that is a convolution of stride 1 over the pixels that a patch depends on. The library's own
    transposed convolution gives the same numbers, but a GPU takes twenty times as long for the gradient of its weights.
    """
    if stride == 1:
        return conv(params, x_hwc, size, stride)
    if size == stride:
        return join_patches(linear(params, x_hwc), size)
    weight = params["w"].reshape(size, size, x_hwc.shape[-1], -1)
    tap_uat, padding = subpixel_taps(size, stride)
    small = jnp.einsum("uat,vbs,tsio->uviabo", tap_uat, tap_uat, weight, precision="highest")
    small = small.reshape(*small.shape[:3], -1).astype(x_hwc.dtype)
    y_nhwc = jax.lax.conv_general_dilated(
        flat(x_hwc), small, (1, 1), (padding, padding), dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    y_hwc = join_patches(y_nhwc.reshape(*x_hwc.shape[:-1], -1), stride)
    return y_hwc + broadcast_like(params["b"], y_hwc)


def subpixel_taps(size: int, stride: int) -> tuple[np.ndarray, tuple[int, int]]:
    """Which tap of a transposed convolution joins a pixel and its neighbour U with pixel A of its patch, as 0 and 1.

    Along one axis: [U, A, size], and by how many neighbours before and after a pixel its patch is reached.
    """
    before = size - 1 if stride >= size else -(-(size + stride - 2) // 2)  # padding of `lax.conv_transpose`, "SAME"
    reach = [(a + tap - before, a, tap) for a in range(stride) for tap in range(size)]
    joined = [(n // stride, a, tap) for n, a, tap in reach if n % stride == 0]
    first, last = min(u for u, _, _ in joined), max(u for u, _, _ in joined)
    tap_uat = np.zeros((last - first + 1, stride, size), np.float32)
    for u, a, tap in joined:
        tap_uat[u - first, a, tap] = 1.0
    return tap_uat, (-first, last)


def join_patches(patch_hwp: Array, size: int) -> Array:
    """Undo `convolutions.patches`."""
    *many, height, width, _ = patch_hwp.shape
    cut = patch_hwp.reshape(*many, height, width, size, size, -1).swapaxes(-4, -3)
    return cut.reshape(*many, height * size, width * size, -1)


def pixel_layer(params: Params, config: EncoderConfig, space: Space, x_hwc: Array) -> Array:
    """The last layer: pixels, or padded patches of them. An odd side was rounded up by the encoder."""
    if encoder.is_patchify(config):
        rows, columns = encoder.grid(config, space.shape)
        wider = {name: pixels.pad_patch(part, axis=-1) for name, part in params.items()}
        return linear(wider, x_hwc[..., :rows, :columns, :].reshape(*x_hwc.shape[:-3], rows * columns, -1))
    x_hwc = conv_transpose(params, x_hwc, config.kernel_sizes[0], config.strides[0])
    return x_hwc[..., : space.shape[0], : space.shape[1], :]


def init_conv_transpose(key: Array, size: int, stride: int, channels_in: int, channels_out: int) -> Params:
    if size == stride:
        return init_linear(key, channels_in, size * size * channels_out, scale=2.0)
    return init_linear(key, size * size * channels_in, channels_out, scale=2.0)


def init_cnn_decoder(key: Array, config: EncoderConfig, space: Space) -> Params:
    outs = (space.shape[-1], *config.channels)
    keys = jax.random.split(key, len(config.channels))
    return {
        f"conv_{n}": init_conv_transpose(
            keys[n], config.kernel_sizes[n], config.strides[n], config.channels[n], outs[n]
        )
        for n in reversed(range(len(config.channels)))
    }


def cnn_decoder(params: Params, config: EncoderConfig, space: Space, x_hwc: Array) -> Array:
    for n in reversed(range(1, len(config.channels))):
        x_hwc = jax.nn.relu(conv_transpose(params[f"conv_{n}"], x_hwc, config.kernel_sizes[n], config.strides[n]))
    return pixel_layer(params["conv_0"], config, space, x_hwc)


def init_resnet_decoder(key: Array, config: EncoderConfig, space: Space) -> Params:
    params, outs = {}, (space.shape[-1], *config.channels)
    for n, (size, channels, blocks) in enumerate(zip(config.kernel_sizes, config.channels, config.blocks, strict=True)):
        keys = jax.random.split(jax.random.fold_in(key, n), 2 * blocks + 1)
        stage = {"up": init_conv_transpose(keys[0], size, config.strides[n], channels, outs[n])}
        for block in range(2 * blocks):
            stage[f"conv_{block}"] = init_conv(keys[block + 1], size, channels, channels)
        params[f"stage_{n}"] = stage
    return params


def resnet_decoder(params: Params, config: EncoderConfig, space: Space, x_hwc: Array) -> Array:
    for n in reversed(range(len(config.channels))):
        stage, size = params[f"stage_{n}"], config.kernel_sizes[n]
        for block in range(config.blocks[n]):
            pair = stage[f"conv_{2 * block}"], stage[f"conv_{2 * block + 1}"]
            x_hwc = kernels.residual.add(*pair, x_hwc, size)
        x_hwc = jax.nn.relu(x_hwc)
        x_hwc = (
            conv_transpose(stage["up"], x_hwc, size, config.strides[n])
            if n
            else pixel_layer(stage["up"], config, space, x_hwc)
        )
    return x_hwc


def decode_tokens(params: Params, y_d: Array, length: int) -> Array:
    """Logits [L, V]: an LSTM whose input at every token is the projected y_d."""
    start_d = linear(params["start"], y_d)

    def body(carry: words.Carry, _: None) -> tuple[words.Carry, Array]:
        carry = words.lstm_cell(params["lstm"], carry, start_d)
        return carry, carry[0]

    first = words.lstm_cell(params["lstm"], None, start_d)
    _, hidden_ld = jax.lax.scan(body, first, None, length=length - 1, unroll=4)
    return linear(params["word"], jnp.concatenate([first[0][None], hidden_ld]))
