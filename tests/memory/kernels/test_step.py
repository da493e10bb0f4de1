"""The kernels of acting against their oracles in plain JAX; interpreted where there is no GPU: the same, slowly."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.memory.kernels import step

ROWS, CHUNK, WIDTH, K = 80, 16, 32, 4
FORMS = step.recall, step.plain_recall


def drawn(seed, heads=8, dtype="float32"):
    keys = jax.random.split(jax.random.key(seed), 5)
    return {
        "inner_hd": jax.random.normal(keys[0], (heads, WIDTH)).astype(dtype),
        "code_hc": jax.random.normal(keys[4], (heads, CHUNK)),
        "row_rd": jax.random.normal(keys[1], (ROWS, WIDTH)).astype(dtype),
        "begin_k": jax.random.randint(keys[2], (K,), 0, ROWS),
        "weight_k": jax.nn.softmax(jax.random.normal(keys[3], (K,))),
        "count": jnp.int32(K),
    }


def slow(inner_hd, code_hc, row_rd, begin_k, weight_k, count):
    """In NumPy, a step at a time."""
    inner_hd, code_hc, row_rd, weight_k = (np.asarray(x, np.float64) for x in (inner_hd, code_hc, row_rd, weight_k))
    mixed_hd, seen_hc = np.zeros_like(inner_hd), np.zeros_like(code_hc)
    for k in range(int(count)):
        content = np.stack([row_rd[(int(begin_k[k]) + c) % ROWS] for c in range(CHUNK)])
        for h, query in enumerate(inner_hd):
            logits = content @ query + code_hc[h]
            score = np.exp(logits - logits.max())
            mixed_hd[h] += weight_k[k] * (score / score.sum()) @ content
            seen_hc[h] += weight_k[k] * score / score.sum()
    return mixed_hd, seen_hc


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("heads", "count"), [(8, 0), (1, 1), (20, 3), (8, K)])
def test_kernel_and_plain_form_equal_the_slow_loop(heads, count):
    case = drawn(heads, heads) | {"count": jnp.int32(count)}
    for form in FORMS:
        assert_same(form(**case), slow(**case))


def test_a_chunk_goes_on_at_the_start_of_its_ring():
    case = drawn(1) | {"begin_k": jnp.array([ROWS - 5, 0, ROWS - 1, 7], jnp.int32)}
    assert_same(step.recall(**case), slow(**case))


def test_in_bfloat16_it_is_no_further_from_the_truth_than_the_plain_form():
    for seed in range(2):
        case = drawn(seed, dtype="bfloat16")
        for n, exact in enumerate(slow(**case)):
            found = [form(**case)[n] for form in FORMS]
            off = [np.linalg.norm(np.float64(one) - exact) for one in found]
            assert off[0] < 1.3 * off[1] < 0.02 * np.linalg.norm(exact)


def test_many_environments_are_one_call():
    cases = [drawn(seed) | {"count": jnp.int32(seed)} for seed in range(3)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *cases)
    found = jax.jit(jax.vmap(lambda case: step.recall(**case)))(stacked)
    for n, case in enumerate(cases):
        assert_same([one[n] for one in found], slow(**case))


def test_its_gradient_is_that_of_the_plain_form():
    case = drawn(2)

    def gradient(form):
        def size(of):
            mixed_hd, seen_hc = form(**(case | of))
            return jnp.square(mixed_hd).sum() + jnp.square(seen_hc).sum()

        return jax.grad(size)({name: case[name] for name in ("inner_hd", "code_hc", "weight_k")})

    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5), *map(gradient, FORMS))


# Summaries


@pytest.mark.parametrize("form", [step.summarise, step.plain_summarise])
@pytest.mark.parametrize("begin", [7, ROWS - 3])
def test_a_whole_chunk_is_summarised_and_nothing_else(form, begin):
    row_rd, summary_md = drawn(1)["row_rd"], jnp.ones((5, WIDTH))
    args = (CHUNK, row_rd, summary_md, jnp.int32(begin), jnp.int32(3))
    found = form(*args, jnp.bool_(True))
    expected = np.mean([row_rd[(begin + c) % ROWS] for c in range(CHUNK)], axis=0)
    np.testing.assert_allclose(found[3], expected, rtol=1e-5, atol=1e-6)
    assert (np.delete(np.asarray(found), 3, axis=0) == 1).all()
    assert (form(*args, jnp.bool_(False)) == 1).all()


def test_summaries_of_many_environments_are_one_call():
    row_brd = jnp.stack([drawn(seed)["row_rd"] for seed in range(3)])
    whole_b, slot_b = jnp.array([True, False, True]), jnp.arange(3, dtype=jnp.int32)
    args = (row_brd, jnp.zeros((3, 4, WIDTH)), slot_b * 5, slot_b, whole_b)
    forms = (step.summarise, step.plain_summarise)
    found, expected = (jax.vmap(partial(form, CHUNK))(*args) for form in forms)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert found[0, 0].any()
    assert not found[1].any()
