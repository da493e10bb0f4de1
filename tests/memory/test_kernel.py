"""The kernels against their oracles in plain JAX. Without a GPU they are interpreted: the same programs, slowly."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.memory import HCAM, kernel, make, window
from hcam.memory.relevance import top_weights

ROWS, CHUNK, WIDTH, K = 80, 16, 32, 4


def drawn(seed, heads=8, dtype="float32"):
    keys = jax.random.split(jax.random.key(seed), 5)
    return {
        "inner_hd": jax.random.normal(keys[0], (heads, WIDTH)).astype(dtype),
        "row_rd": jax.random.normal(keys[1], (ROWS, WIDTH)).astype(dtype),
        "begin_k": jax.random.randint(keys[2], (K,), 0, ROWS),
        "weight_k": jax.nn.softmax(jax.random.normal(keys[3], (K,))),
        "count": jnp.int32(K),
        "code_cd": jax.random.normal(keys[4], (CHUNK, WIDTH)).astype(dtype),
    }


def slow(inner_hd, row_rd, begin_k, weight_k, count, code_cd):
    """In NumPy, a step at a time."""
    inner_hd, row_rd, weight_k, code_cd = (np.asarray(x, np.float64) for x in (inner_hd, row_rd, weight_k, code_cd))
    mixed_hd = np.zeros_like(inner_hd)
    for k in range(int(count)):
        content = np.stack([row_rd[(int(begin_k[k]) + c) % ROWS] + code_cd[c] for c in range(CHUNK)])
        for h, query in enumerate(inner_hd):
            score = np.exp(content @ query - (content @ query).max())
            mixed_hd[h] += weight_k[k] * (score / score.sum()) @ content
    return mixed_hd


@pytest.mark.parametrize("heads", [1, 8, 16, 20])
@pytest.mark.parametrize("count", [0, 1, 3, K])
def test_kernel_and_plain_form_equal_the_slow_loop(heads, count):
    case = drawn(heads, heads) | {"count": jnp.int32(count)}
    expected = slow(**case)
    np.testing.assert_allclose(kernel.step(*case.values()), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(kernel.plain_step(*case.values()), expected, rtol=1e-4, atol=1e-5)


def test_a_chunk_goes_on_at_the_start_of_its_ring():
    case = drawn(1) | {"begin_k": jnp.array([ROWS - 5, 0, ROWS - 1, 7], jnp.int32)}
    np.testing.assert_allclose(kernel.step(*case.values()), slow(**case), rtol=1e-4, atol=1e-5)


def test_bfloat16_rounds_where_the_plain_form_does():
    for seed in range(5):
        case = drawn(seed, dtype="bfloat16")
        found, plain = (np.asarray(form(*case.values()), np.float32) for form in (kernel.step, kernel.plain_step))
        assert np.abs(found - plain).max() < 2**-7 * np.abs(plain).max()
        assert np.mean(found == plain) > 0.9  # what differs is the last bit of a sum


def test_many_environments_are_one_call():
    cases = [drawn(seed) | {"count": jnp.int32(seed)} for seed in range(3)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *cases)
    found = jax.jit(jax.vmap(lambda case: kernel.step(**case)))(stacked)
    for case, one in zip(cases, found, strict=True):
        np.testing.assert_allclose(one, slow(**case), rtol=1e-4, atol=1e-5)


def test_its_gradient_is_that_of_the_plain_form():
    case = drawn(2)
    of = lambda form: jax.grad(lambda inner_hd: jnp.square(form(inner_hd, *list(case.values())[1:])).sum())  # noqa: E731
    np.testing.assert_allclose(of(kernel.step)(case["inner_hd"]), of(kernel.plain_step)(case["inner_hd"]), rtol=1e-4)


# Learning


def recalled(seed, queries=20, heads=4, slots=6, k=3, dtype="float32"):
    """Queries, chunks, and what becomes of their weights: as in an episode, later queries may recall more of them."""
    keys = jax.random.split(jax.random.key(seed), 3)
    inner_qhd = jax.random.normal(keys[0], (queries, heads, WIDTH)).astype(dtype)
    content_mcd = jax.random.normal(keys[1], (slots, CHUNK, WIDTH)).astype(dtype)
    there_qm = jnp.arange(slots)[None, :] * 4 <= jnp.arange(queries)[:, None]
    logits_qm = jnp.where(there_qm, 2 * jax.random.normal(keys[2], (queries, slots)), window.MASKED)
    return inner_qhd, content_mcd, logits_qm, lambda logits_qm: top_weights(logits_qm, k, "top_k_then_softmax")


def gradients(form, inner_qhd, content_mcd, logits_qm, weigh):
    def total(inner_qhd, logits_qm):
        return jnp.square(form(inner_qhd, content_mcd, weigh(logits_qm)).astype(jnp.float32)).sum()

    return jax.grad(total, (0, 1))(inner_qhd, logits_qm)


# Rows that fill a block, that need several, that leave one half empty, and heads that lie in two blocks.
@pytest.mark.parametrize(("queries", "heads"), [(16, 4), (32, 8), (5, 4), (43, 3), (1, 1)])
def test_answers_and_gradients_equal_those_of_the_plain_form(queries, heads):
    inner_qhd, content_mcd, logits_qm, weigh = recalled(queries, queries, heads)
    args = inner_qhd, content_mcd, weigh(logits_qm)
    np.testing.assert_allclose(kernel.unroll(*args), kernel.plain_unroll(*args), rtol=1e-4, atol=1e-5)
    case = inner_qhd, content_mcd, logits_qm, weigh
    for found, expected in zip(gradients(kernel.unroll, *case), gradients(kernel.plain_unroll, *case), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max() + 1e-6)


def test_chunks_without_a_weight_are_not_looked_at():
    """Not even if there is nothing sensible in them: a ring's rows are never cleared."""
    inner_qhd, content_mcd, logits_qm, weigh = recalled(3)
    weight_qm = weigh(jnp.where(jnp.arange(6)[None] == 2, window.MASKED, logits_qm))
    spoilt_mcd = content_mcd.at[2].set(jnp.nan)
    expected = kernel.plain_unroll(inner_qhd, content_mcd, weight_qm)
    found, pull = jax.vjp(lambda *args: kernel.unroll(args[0], spoilt_mcd, args[1]), inner_qhd, weight_qm)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert all(np.isfinite(leaf).all() for leaf in pull(jnp.ones_like(found)))


def test_no_gradient_goes_into_what_is_stored():
    inner_qhd, content_mcd, logits_qm, weigh = recalled(4)
    gradient = jax.grad(lambda content_mcd: kernel.unroll(inner_qhd, content_mcd, weigh(logits_qm)).sum())(content_mcd)
    assert not gradient.any()


def test_learning_in_bfloat16_is_close_to_the_plain_form():
    case = recalled(5, dtype="bfloat16")
    for found, expected in zip(gradients(kernel.unroll, *case), gradients(kernel.plain_unroll, *case), strict=True):
        found, expected = np.asarray(found, np.float32), np.asarray(expected, np.float32)
        assert np.abs(found - expected).max() < 0.03 * np.abs(expected).max()


def test_learning_from_many_environments_is_one_call():
    *case, weigh = recalled(6)
    two = [jnp.stack([leaf, 0.5 * leaf]) for leaf in case]

    def of(form):
        return jax.vmap(lambda inner, content, logits: gradients(form, inner, content, logits, weigh))

    found, expected = jax.jit(of(kernel.unroll))(*two), of(kernel.plain_unroll)(*two)
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3), found, expected)


# In the memory


def test_they_are_used_on_a_gpu_where_the_sizes_suit(monkeypatch):
    assert not kernel.suits(32, 512, "bfloat16")  # a CPU
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert kernel.suits(32, 512, "bfloat16")
    assert kernel.suits(16, 128, "bfloat16")
    for chunk, width, dtype in (
        (32, 512, "float32"),
        (8, 512, "bfloat16"),
        (24, 512, "bfloat16"),
        (32, 96, "bfloat16"),
    ):
        assert not kernel.suits(chunk, width, dtype)


@pytest.mark.parametrize(("overlap", "order"), [(0, "softmax_then_top_k"), (3, "top_k_then_softmax")])
def test_the_memory_acts_and_learns_the_same_with_them(monkeypatch, overlap, order):
    """Over several episodes, from the first step, when there is nothing to recall, until the oldest are forgotten."""
    config = HCAM(width=32, layers=2, heads=4, chunk=16, slots=3, top_k=2, window=4, overlap=overlap, order=order)
    memory, first_t = make(config), np.isin(np.arange(150), [0, 20, 30])
    params = memory.init_params(jax.random.key(0))
    x_td = jax.random.normal(jax.random.key(1), (150, 32))

    def lived():
        """Acted step by step, and learned from in two unrolls."""

        def body(state, step):
            state, y_d, recall = memory.step(params, state, *step, recall=True)
            return state, (y_d, recall)

        def loss(params):
            state, first_y = memory.unroll(params, memory.init_state(), x_td[:70], jnp.asarray(first_t[:70]))
            _, then_y = memory.unroll(params, state, x_td[70:], jnp.asarray(first_t[70:]))
            return jnp.square(then_y).mean(), (first_y, then_y)

        run = jax.jit(lambda: jax.lax.scan(body, memory.init_state(), (x_td, jnp.asarray(first_t))))
        return run(), jax.jit(jax.grad(loss, has_aux=True))(params)

    without = lived()
    calls: list[tuple[object, ...]] = []

    def suits(*sizes):
        calls.append(sizes)
        return True

    monkeypatch.setattr(kernel, "suits", suits)
    found = lived()
    assert len(calls) == 2 + 4  # two layers in acting, and in each unroll
    jax.tree.map(lambda one, two: np.testing.assert_allclose(one, two, rtol=1e-3, atol=3e-5), found, without)
