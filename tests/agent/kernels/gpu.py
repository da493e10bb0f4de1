"""The kernels against their plain forms on this machine: `python -m tests.agent.kernels.gpu`.

Each kernel runs in bfloat16, forwards and backwards, against its plain form in float32; then a whole ResNet, as in
acting and as in learning. On a GPU the sizes are those of 72 x 96 pixels; elsewhere the kernels are interpreted, at
small sizes. The exit code is 1 if an error exceeds its limit.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp

from hcam.agent import encoder, kernels
from hcam.agent.encoder import EncoderConfig
from hcam.envs.spaces import Box
from hcam.memory.kernels import common
from tests.agent.kernels.cases import bytes_, frames, params
from tests.memory.kernels.gpu import FORWARD, Result, cotangent, error

BACKWARD = 0.04  # bfloat16 rounds the two cotangents on the way, and the sign of what is near zero: as the plain form


class Sizes(NamedTuple):
    images: int
    height: int  # of the image
    width: int
    encoder: EncoderConfig


TINY = EncoderConfig(channels=(16, 32), kernel_sizes=(3, 3), strides=(2, 2), blocks=(1, 1))
REALISTIC = Sizes(images=129, height=72, width=96, encoder=EncoderConfig())
SMALL = Sizes(images=3, height=8, width=16, encoder=TINY)


def results(sizes: Sizes) -> Iterator[Result]:
    yield from compare_first_layer(sizes)
    yield from compare_residual(sizes, 2, 16)
    yield from compare_residual(sizes, 4, 32)
    yield from compare_encoder(sizes)


def with_gradients(form: Any, own: Any, *given: Any) -> tuple[Any, Any]:
    """The result, and the gradients with respect to `own`."""
    found, pull = jax.vjp(lambda own: form(own, *given), own)
    return found, pull(cotangent(found))


def compared(name: str, fused: Any, plain: Any, own: Any, *given: Any) -> Iterator[Result]:
    """Both as one program; the plain form in float32."""

    def exact(tree: Any) -> Any:
        return jax.tree.map(lambda leaf: leaf.astype(jnp.float32) if leaf.dtype == jnp.bfloat16 else leaf, tree)

    def program(own: Any, given: Any) -> tuple[jax.Array, jax.Array]:
        found = with_gradients(fused, own, *given)
        with jax.default_matmul_precision("highest"):
            expected = with_gradients(plain, exact(own), *given)
        return error(found[0], expected[0]), error(found[1], expected[1])

    forward, backward = jax.jit(program)(own, given)
    yield Result(name, float(forward), FORWARD)
    yield Result(f"{name}, gradient", float(backward), BACKWARD)


def compare_first_layer(sizes: Sizes) -> Iterator[Result]:
    seen = bytes_(0, sizes.images, sizes.height, sizes.width, 3)

    def plain(own: Any, seen: jax.Array) -> jax.Array:
        return kernels.first_layer.plain_embed(own, 255, seen, 3, 2, "float32")

    fused = partial(kernels.first_layer.fused_embed, 255, "bfloat16")
    yield from compared("first_layer.embed", fused, plain, params(1, 3, 16), seen)


def compare_residual(sizes: Sizes, cut: int, channels: int) -> Iterator[Result]:
    """Of all images together."""
    x = frames(0, sizes.images, sizes.height // cut, sizes.width // cut, channels, dtype="bfloat16")
    own = params(1, channels, channels), params(2, channels, channels), x

    def fused(own: Any) -> jax.Array:
        return kernels.residual.fused_add(*own)

    def plain(own: Any) -> jax.Array:
        first, second, x = own
        return kernels.residual.plain_add(first, second, x, 3)

    yield from compared(f"residual.add, {channels} channels", fused, plain, own)


def compare_encoder(sizes: Sizes) -> Iterator[Result]:
    """All layers of the ResNet with the kernels, and image by image, as in acting.

    Rounding turns the sign of what is near zero, and with it the gradient behind a relu: how far bfloat16 may be from
    float32 is known only from the plain form in bfloat16.
    """
    config, space = sizes.encoder, Box((sizes.height, sizes.width, 3), 0, 255, "uint8")
    own = jax.jit(partial(encoder.init_part, config=config, space=space))(jax.random.key(0))
    seen = bytes_(0, sizes.images, *space.shape)

    def fused(own: Any, seen: jax.Array) -> jax.Array:
        return encoder.encode_pixels(own, config, space, "bfloat16", seen)

    def plain(dtype: str, own: Any, seen: jax.Array) -> jax.Array:
        with mock.patch.object(common, "supported", return_value=False):
            return encoder.encode_pixels(own, config, space, dtype, seen)

    def off(own: Any, seen: jax.Array) -> jax.Array:
        return error(jax.vmap(partial(fused, own))(seen), fused(own, seen).astype(jnp.float32))

    exact = partial(plain, "float32")
    usual = compared("", partial(plain, "bfloat16"), exact, own, seen)
    for found, known in zip(compared("ResNet", fused, exact, own, seen), usual, strict=True):
        yield found._replace(limit=1.3 * known.error + 1e-3)
    yield Result("ResNet, acting against learning", float(jax.jit(off)(own, seen)), FORWARD)


def main() -> int:
    on_gpu, begun = jax.default_backend() == "gpu", time.perf_counter()
    print(f"{jax.devices()[0].device_kind}: kernels {'compiled' if on_gpu else 'interpreted, small sizes'}", flush=True)
    print(f"{'comparison':40}{'relative error':>14}{'limit':>7}  ok", flush=True)
    wrong = 0
    # Without a GPU, the ResNet would run its plain form.
    force: AbstractContextManager[Any] = (
        nullcontext() if on_gpu else mock.patch.object(common, "supported", return_value=True)
    )
    with force:
        for found in results(REALISTIC if on_gpu else SMALL):
            print(f"{found.name:40}{found.error:14.5f}{found.limit:7.2f}  {'yes' if found.ok else 'NO'}", flush=True)
            wrong += not found.ok
    print(f"{wrong} of the comparisons failed, {time.perf_counter() - begun:.0f} s", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
