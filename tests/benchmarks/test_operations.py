import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl

from hcam.benchmarks import operations
from hcam.benchmarks.operations import count
from hcam.memory import HCAM, make
from hcam.memory.kernels import common

A, B = jnp.ones((3, 5)), jnp.ones((5, 7))
ONE = 2 * 3 * 5 * 7


def convolve(x, w):
    return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def test_products_count_two_for_every_pair():
    assert count(jnp.matmul, A, B) == ONE
    assert count(jax.vmap(jnp.matmul, in_axes=(0, None)), jnp.ones((9, 3, 5)), B) == 9 * ONE
    assert count(lambda a, b: jnp.einsum("bij,bjk->bik", a, b), jnp.ones((4, 3, 5)), jnp.ones((4, 5, 7))) == 4 * ONE
    assert count(lambda a: a + jnp.tanh(a), A) == 0


def test_what_is_called_counts_as_often_as_it_is_called():
    square = jnp.ones((5, 5))
    once = 2 * 5**3
    assert count(jax.jit(lambda a: a @ a), square) == once
    assert count(lambda a: jax.lax.scan(lambda a, _: (a @ a, None), a, None, length=6)[0], square) == 6 * once
    assert count(lambda a: jax.lax.cond(a.sum() > 0, lambda a: a @ a, lambda a: a @ a @ a, a), square) == 2 * once
    assert count(jax.checkpoint(lambda a: a @ a), square) == once


def test_a_kernel_without_an_estimate_counts_as_no_products():
    """The ray caster's kernel, through which `hcam bench train` of a first-person task is traced on a GPU."""

    def copy(x, out):
        out[...] = x[...]

    kernel = pl.pallas_call(copy, out_shape=jax.ShapeDtypeStruct(A.shape, A.dtype), interpret=True)
    assert count(lambda a, b: kernel(a) @ b, A, B) == ONE


def test_learning_costs_three_times_seeing():
    """Products of a layer: one forwards, one for the weights, one for what came in."""
    loss = lambda a, b: jnp.square(a @ b).sum()  # noqa: E731
    assert count(jax.grad(loss, (0, 1)), A, B) == 3 * ONE
    image, weights = jnp.ones((2, 11, 11, 16)), jnp.ones((3, 3, 16, 32))
    assert count(convolve, image, weights) == 2 * 2 * 11 * 11 * 9 * 16 * 32
    loss = lambda x, w: jnp.square(convolve(x, w)).sum()  # noqa: E731
    assert count(jax.grad(loss, (0, 1)), image, weights) == 3 * count(convolve, image, weights)


def test_a_spread_out_image_meets_zeros():
    def upwards(x, w):
        return jax.lax.conv_transpose(x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    assert count(upwards, jnp.ones((1, 4, 4, 3)), jnp.ones((2, 2, 3, 5))) == 2 * 8 * 8 * 5 * 3 * 4 // 4


def test_what_nothing_comes_of_does_not_count():
    assert count(lambda a, b: (a @ b, a.sum())[1], A, B) == 0
    assert (
        count(lambda a: jax.lax.scan(lambda a, _: ((a, a @ a)[0], None), a, None, length=6)[0], jnp.ones((5, 5))) == 0
    )


def test_a_kernel_counts_as_its_plain_form(monkeypatch):
    """In acting to the operation, but that the position code is met apart; in learning, k chunks instead of all.

    And there the window is a row longer, out of reach, which is projected and looked at by all steps.
    """
    config = HCAM(width=32, layers=2, heads=4, chunk=16, slots=3, top_k=2)
    memory = make(config)
    params, state, x_td = memory.init_params(jax.random.key(0)), memory.init_state(), jnp.ones((64, 32))

    def counted():  # new functions each time, or their first trace is kept
        step = lambda x_d: memory.step(params, state, x_d, jnp.bool_(False))  # noqa: E731
        loss = lambda params: memory.unroll(params, state, x_td, jnp.zeros(64, bool))[1].sum()  # noqa: E731
        return count(step, x_td[0]), count(jax.vmap(step), x_td[:5]), count(jax.grad(loss), params)

    plain = counted()
    monkeypatch.setattr(common, "supported", lambda *sizes: True)
    acting, of_five, learning = counted()
    code = 2 * 2 * (2 * 16 * 32)  # in two layers, before and after: steps of a chunk, features of all heads
    projected = 32 * code  # once, whoever looks
    assert acting == plain[0] + projected + code
    assert of_five == plain[1] + projected + 5 * code
    every, some = (2 * 2 * 4 * 64 * 4 * 32 * 16 * chunks for chunks in (4 + 4, 2))  # layers, there and back, ...
    row = 2 * 3 * (2 * 32 * 64 + 4 * 64 * 32)  # layers, there and back, ...
    assert learning == plain[2] - every + some + row


@pytest.mark.parametrize(("kind", "peak"), [("NVIDIA H200", 989e12), ("NVIDIA H100 80GB HBM3", 989e12), ("cpu", None)])
def test_the_peak_is_that_of_the_device(monkeypatch, kind, peak):
    class Device:
        device_kind = kind

    monkeypatch.setattr(jax, "devices", lambda: [Device()])
    assert operations.peak_here() == peak
