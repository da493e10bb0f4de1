"""The read against the released module's recorded numbers, and its gradients against a slow loop's differences."""

from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.memory import choose_form, init_read, read
from hcam.memory.layers import position_code
from tests.memory import oracle
from tests.memory.cases import assert_same, noisy

FORMS = ("dense", "gather")
ORDERS = ("top_k_then_softmax", "softmax_then_top_k")
every_form = pytest.mark.parametrize("form", FORMS)
every_order = pytest.mark.parametrize("order", ORDERS)


# ---------------------------------------------------------------------------------------------------------------------
# Recorded from the released module: B=2, Q=3, M=5, C=4, D=E=S=8, 2 heads, k=3
# ---------------------------------------------------------------------------------------------------------------------
def golden_params() -> dict[str, dict[str, np.ndarray]]:
    """W_p[i, j] = 0.5 sin(p + 0.61 i (1 + 0.1 p) + 0.27 j) and bias_p[j] = 0.1 cos(p + j), p = 1..6."""
    i, j, params = np.arange(8)[:, None], np.arange(8)[None, :], {}
    for p, name in enumerate(("relevance_query", "relevance_key", "query", "key", "value", "out"), start=1):
        params[name] = {"w": (0.5 * np.sin(p + 0.61 * i * (1 + 0.1 * p) + 0.27 * j)).astype(np.float32)}
        if p > 2:  # relevance has no biases
            params[name]["b"] = (0.1 * np.cos(p + np.arange(8))).astype(np.float32)
    return params


def golden_memory() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    b, q, e = np.ogrid[:2, :3, :8]
    queries = np.sin(0.1 + 1.7 * b + 0.9 * q + 0.37 * e)
    b, m, c, d = np.ogrid[:2, :5, :4, :8]
    contents = np.cos(0.3 * b + 0.7 * m + 1.1 * c + 0.53 * d + 0.11 * m * d)
    return queries.astype(np.float32), contents.mean(2).astype(np.float32), contents.astype(np.float32)


def golden_mask(case: str) -> np.ndarray | None:
    b, q, m = np.ogrid[:2, :3, :5]
    if case in "AB":
        return None
    if case == "C":
        return (b + q + m) % 3 != 0
    if case == "D":  # one query may recall nothing
        return np.broadcast_to((b != 1) | (q != 2), (2, 3, 5))
    return np.broadcast_to(m == 2, (2, 3, 5))  # E: everyone may recall chunk 2 alone


class Golden(NamedTuple):
    case: str
    at: tuple[int, int]  # environment, query
    chunks: tuple[int, ...]
    weights: tuple[float, ...]
    output: tuple[float, ...]


A_00 = (0.553926, 0.320218, 0.125856)
A_12 = (0.480269, 0.404188, 0.115543)
GOLDEN = [
    Golden(
        *("A", (0, 0), (3, 4, 2), A_00),
        (-0.099578, -0.114354, -0.184695, -0.229331, -0.180183, -0.046914, 0.089378, 0.147725),
    ),
    Golden(
        *("A", (0, 2), (0, 1, 4), (0.593497, 0.241562, 0.164942)),
        (0.020874, -0.107227, -0.291411, -0.442156, -0.483696, -0.419125, -0.324559, -0.277945),
    ),
    Golden(
        *("A", (1, 2), (1, 0, 2), A_12),
        (0.410646, 0.571843, 0.627755, 0.650504, 0.703285, 0.776172, 0.792444, 0.679827),
    ),
    Golden(
        *("B", (0, 0), (3, 4, 2), A_00),
        (0.502718, 0.522608, 0.440780, 0.339337, 0.290474, 0.291627, 0.271274, 0.159797),
    ),
    Golden(
        *("B", (1, 2), (1, 0, 2), A_12),
        (0.744551, 0.835126, 0.801338, 0.721810, 0.667148, 0.635209, 0.556870, 0.366711),
    ),
    Golden(
        *("C", (0, 0), (4, 2, 1), (0.681843, 0.267985, 0.050172)),
        (-0.034225, -0.078430, -0.180803, -0.257753, -0.238859, -0.131594, -0.015169, 0.030887),
    ),
    Golden(
        *("C", (1, 1), (0, 2, 3), (0.925799, 0.048759, 0.025442)),
        (0.228903, 0.092706, -0.114060, -0.300237, -0.387494, -0.375609, -0.336882, -0.345215),
    ),
    Golden(
        *("D", (1, 2), (0, 1, 2), (1 / 3, 1 / 3, 1 / 3)),
        (0.567902, 0.708692, 0.734280, 0.718987, 0.728764, 0.756800, 0.729625, 0.578114),
    ),
    Golden(
        *("E", (0, 1), (2, 0, 1), (1, 0, 0)),
        (-1.062099, -1.271293, -1.452222, -1.515603, -1.391999, -1.096469, -0.721866, -0.366427),
    ),
]


@cache
def golden_read(case: str, form: str, order: str = "top_k_then_softmax") -> Any:
    one = partial(read, k=3, heads=2, positions=case != "B", order=order, form=form, recall=True)
    return jax.device_get(jax.jit(one)(golden_params(), *golden_memory(), golden_mask(case)))


@every_form
@pytest.mark.parametrize("row", GOLDEN, ids=lambda row: f"{row.case}{row.at[0]}{row.at[1]}")
def test_recorded_values_of_the_released_module(form, row):
    output, recalled = golden_read(row.case, form)
    assert output.shape == (2, 3, 8)
    assert tuple(recalled.chunk_qk[row.at]) == row.chunks
    np.testing.assert_allclose(recalled.weight_qk[row.at], row.weights, rtol=0, atol=1e-5)
    np.testing.assert_allclose(output[row.at], row.output, rtol=0, atol=1e-5)


@pytest.mark.parametrize("row", GOLDEN, ids=lambda row: f"{row.case}{row.at[0]}{row.at[1]}")
def test_the_slow_loop_gives_the_recorded_values_too(row):
    """So that the loop may judge where nothing was recorded."""
    queries, keys, contents = (oracle.to_float64(x) for x in golden_memory())
    (b, q), mask = row.at, golden_mask(row.case)
    allowed = None if mask is None else mask[b, q]
    params = oracle.to_float64(golden_params())
    found = oracle.read_one(
        params, queries[b, q], keys[b], contents[b], allowed, k=3, heads=2, positions=row.case != "B"
    )
    assert tuple(found.chunk) == row.chunks
    np.testing.assert_allclose(found.weight, row.weights, rtol=0, atol=1e-6)
    np.testing.assert_allclose(found.output, row.output, rtol=0, atol=1e-6)


@every_form
def test_the_papers_order_leaves_weight_on_what_is_not_recalled(form):
    """Softmax over all five chunks gives the three best 0.947283 of the weight, and nothing brings it back to one."""
    released, _ = golden_read("A", form)
    paper, recalled = golden_read("A", form, "softmax_then_top_k")
    np.testing.assert_allclose(paper[0, 0], 0.947283 * released[0, 0], rtol=0, atol=1e-5)
    np.testing.assert_allclose(recalled.weight_qk[0, 0].sum(), 0.947283, rtol=0, atol=1e-5)


def test_positions_inside_a_chunk():
    """Recorded for C=4, D=8: newest step last, position 0; all sines, then all cosines."""
    expected: list[list[float]] = [
        [0.141120, 0.295520, 0.029996, 0.003000, -0.989992, 0.955336, 0.999550, 0.999996],
        [0.909297, 0.198669, 0.019999, 0.002000, -0.416147, 0.980067, 0.999800, 0.999998],
        [0.841471, 0.099833, 0.010000, 0.001000, 0.540302, 0.995004, 0.999950, 1.000000],
        [0, 0, 0, 0, 1, 1, 1, 1],
    ]
    np.testing.assert_allclose(position_code(4, 8, True, "float32"), expected, rtol=0, atol=1e-6)


# ---------------------------------------------------------------------------------------------------------------------
# Parameters
# ---------------------------------------------------------------------------------------------------------------------
def test_parameter_count_at_the_papers_size():
    """Two relevance maps of 512^2 and four maps of 512^2 + 512: 1,574,912."""
    sizes = jax.eval_shape(partial(init_read, query_width=512, memory_width=512, width=512), jax.random.key(0))
    assert sum(leaf.size for leaf in jax.tree.leaves(sizes)) == 1_574_912


def test_parameters_start_with_variance_two_over_fan_in():
    params = jax.jit(partial(init_read, query_width=100, memory_width=200, width=300))(jax.random.key(0))
    fan_in = {"relevance_query": 100, "relevance_key": 200, "query": 100, "key": 200, "value": 200, "out": 300}
    assert set(params) == set(fan_in)
    for name, size in fan_in.items():
        weight = np.asarray(params[name]["w"])
        assert weight.shape == (size, 300)
        np.testing.assert_allclose(weight.var(), 2 / size, rtol=0.03)  # of at least 30,000 draws
        np.testing.assert_allclose(weight.mean(), 0, atol=0.01)
        # Cut off at two standard deviations of the normal, which are 2 / 0.87963 of what is left.
        assert np.abs(weight).max() <= 2 / 0.87962566 * np.sqrt(2 / size) * 1.0001
        assert ("b" in params[name]) == (not name.startswith("relevance"))
        assert not np.any(params[name].get("b", 0))


# ---------------------------------------------------------------------------------------------------------------------
# Values and gradients against the slow loop
# ---------------------------------------------------------------------------------------------------------------------
class Sizes(NamedTuple):
    queries: int = 3
    slots: int = 5
    chunk: int = 4
    query_width: int = 4  # E
    memory_width: int = 4  # D
    width: int = 4  # S
    heads: int = 2
    k: int = 3
    masked: bool = False
    ties: bool = False
    positions: bool = True


SIZES = {
    "plain": Sizes(),
    "masked": Sizes(masked=True),
    # More queries than one block of the gather form holds, and no multiple of it; three different widths.
    "odd sizes": Sizes(queries=9, query_width=3, width=6, heads=3, chunk=3, masked=True),
    "many chunks": Sizes(queries=2, slots=130, chunk=2, query_width=3, heads=1, masked=True),
    "ties": Sizes(queries=2, slots=6, ties=True),
    "more queries than chunks": Sizes(queries=9, slots=2, chunk=2, query_width=3, memory_width=2, width=2, k=1),
    "all chunks": Sizes(queries=2, slots=4, k=4),
    "one chunk": Sizes(k=1, width=6, masked=True),
    "chunks of one step": Sizes(chunk=1),
    "no positions": Sizes(query_width=3, memory_width=5, positions=False, masked=True),
}
# Both orders with and without a mask; one order each for the rest.
CASES = [(name, order) for name in ("odd sizes", "ties") for order in ORDERS]
CASES += [(name, ORDERS[i % 2]) for i, name in enumerate(SIZES) if name not in ("odd sizes", "ties")]


class Problem(NamedTuple):
    params: Any
    queries: Any
    keys: Any
    contents: Any
    mask: Any
    cotangent: Any  # the loss is the sum of outputs, weighted by this


@cache
def problem(sizes: Sizes) -> Problem:
    shapes = jax.eval_shape(
        partial(init_read, query_width=sizes.query_width, memory_width=sizes.memory_width, width=sizes.width),
        jax.random.key(0),
    )
    rng = np.random.default_rng(3)
    contents = rng.standard_normal((sizes.slots, sizes.chunk, sizes.memory_width)).astype(np.float32)
    if sizes.ties:  # each chunk is there twice, so that the third best is always one of a pair
        contents[1::2] = contents[::2]
    mask = rng.random((sizes.queries, sizes.slots)) < 0.6 if sizes.masked else None
    if mask is not None:
        mask[0, sizes.k - 1 :] = False  # fewer chunks than k (none at all if k is 1)
    return Problem(
        oracle.to_float64(noisy(shapes, seed=4)),
        rng.standard_normal((sizes.queries, sizes.query_width)).astype(np.float32),
        contents.mean(1),
        contents,
        mask,
        rng.standard_normal((sizes.queries, sizes.width)).astype(np.float32),
    )


def options(sizes: Sizes, order: str) -> dict[str, Any]:
    return {"k": sizes.k, "heads": sizes.heads, "positions": sizes.positions, "order": order}


@cache
def slow_gradients(sizes: Sizes, order: str) -> tuple[np.ndarray, Any, np.ndarray]:
    """The outputs, and the gradients of the loss with respect to parameters and queries, by central differences."""
    case = problem(sizes)
    keys, contents, cotangent = (oracle.to_float64(x) for x in (case.keys, case.contents, case.cotangent))
    params, queries = jax.tree.map(np.copy, case.params), oracle.to_float64(case.queries).copy()
    run = partial(oracle.read, params, queries, keys, contents, case.mask, **options(sizes, order))
    output = run()

    def differences(array: np.ndarray, epsilon: float = 1e-6) -> np.ndarray:
        gradient = np.zeros_like(array)
        for index in np.ndindex(array.shape):  # the array is changed in place, under `run`
            middle = array[index]
            array[index] = middle + epsilon
            above = (run() * cotangent).sum()
            array[index] = middle - epsilon
            below = (run() * cotangent).sum()
            array[index] = middle
            gradient[index] = (above - below) / (2 * epsilon)
        return gradient

    return output, jax.tree.map(differences, params), differences(queries)


def fast_gradients(sizes: Sizes, order: str, form: str, dtype: Any) -> Any:
    """(output, gradients with respect to parameters, queries, keys and contents)."""
    case = jax.tree.map(lambda x: jnp.asarray(x, dtype), problem(sizes)._replace(mask=None))
    mask: Any = problem(sizes).mask

    def loss(params, queries, keys, contents):
        output = read(params, queries, keys, contents, mask, form=form, **options(sizes, order))
        return (output * case.cotangent).sum(), output

    gradients, output = jax.jit(jax.grad(loss, argnums=(0, 1, 2, 3), has_aux=True))(*case[:4])
    return jax.device_get((output, *gradients))


def assert_gradients_equal(sizes: Sizes, order: str, found: Any, tolerance: float) -> None:
    output, by_params, by_queries = slow_gradients(sizes, order)
    for mine, loop in zip(jax.tree.leaves(found[:3]), jax.tree.leaves((output, by_params, by_queries)), strict=True):
        scale = max(1.0, float(np.abs(loop).max()))
        np.testing.assert_allclose(mine, loop, rtol=tolerance, atol=tolerance * scale)
    assert not np.any(found[3]), "gradient into keys"
    assert not np.any(found[4]), "gradient into contents"


@pytest.mark.parametrize(("name", "order"), CASES)
def test_values_and_gradients_equal_the_slow_loops(name, order):
    """Position codes are float32 whatever the rest is, so with them agreement ends at 1e-6; without, at 1e-8."""
    sizes = SIZES[name]
    for form in FORMS:
        with jax.enable_x64(True):
            found = fast_gradients(sizes, order, form, jnp.float64)
        assert found[0].dtype == np.float64
        assert_gradients_equal(sizes, order, found, 1e-6 if sizes.positions else 1e-8)
        if name == "odd sizes":
            assert_gradients_equal(sizes, order, fast_gradients(sizes, order, form, jnp.float32), 1e-4)


def test_relevance_parameters_learn():
    """Weights outside the top k are cut off, not the gradient of those inside."""
    _, by_params, by_queries = slow_gradients(SIZES["plain"], ORDERS[0])
    assert all(np.abs(leaf).max() > 1e-3 for leaf in jax.tree.leaves(by_params["relevance_query"]))
    assert all(np.abs(leaf).max() > 1e-3 for leaf in jax.tree.leaves(by_params["relevance_key"]))
    assert np.abs(by_queries).max() > 1e-3


# ---------------------------------------------------------------------------------------------------------------------
# Recalled, batches, forms
# ---------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["odd sizes", "many chunks"])
@every_form
def test_what_was_recalled(name, form):
    sizes, case = SIZES[name], problem(SIZES[name])
    params = jax.tree.map(np.float32, case.params)
    run = partial(read, form=form, recall=True, **options(sizes, "top_k_then_softmax"))
    output, recalled = jax.jit(run)(params, case.queries, case.keys, case.contents, case.mask)
    slow = partial(oracle.read_one, case.params, keys=case.keys, contents=case.contents)
    for q, query in enumerate(case.queries):
        allowed = None if case.mask is None else case.mask[q]
        expected = slow(query, allowed=allowed, **options(sizes, "top_k_then_softmax"))
        np.testing.assert_array_equal(recalled.chunk_qk[q], expected.chunk)
        np.testing.assert_allclose(recalled.weight_qk[q], expected.weight, atol=1e-5)
        np.testing.assert_allclose(recalled.within_qkhc[q], expected.within, atol=1e-5)
        np.testing.assert_allclose(recalled.weight_qm[q], expected.before, atol=1e-5)
        np.testing.assert_allclose(output[q], expected.output, rtol=1e-4, atol=1e-5)


@every_form
@every_order
def test_ties_go_to_the_lower_index(form, order):
    """Summaries all equal: the first k are recalled, in equal parts."""
    case = problem(SIZES["plain"])
    keys = np.ones_like(case.keys)
    run = jax.jit(partial(read, k=3, heads=2, order=order, form=form, recall=True))
    _, recalled = run(jax.tree.map(np.float32, case.params), case.queries, keys, case.contents)
    np.testing.assert_array_equal(recalled.chunk_qk, [[0, 1, 2]] * 3)
    # 1/3 each of what is recalled, or 1/5 each of all.
    np.testing.assert_allclose(recalled.weight_qk, 1 / 3 if order == "top_k_then_softmax" else 1 / 5, atol=1e-6)


@every_form
def test_leading_axes_are_batches(form):
    """Two of them, against a Python loop, with a mask of its own for each."""
    sizes, case = SIZES["masked"], problem(SIZES["masked"])
    params = jax.tree.map(np.float32, case.params)
    rng = np.random.default_rng(5)
    shape = (2, 3, sizes.slots, sizes.chunk, sizes.memory_width)
    contents = rng.standard_normal(shape).astype(np.float32)
    queries = rng.standard_normal((2, 3, sizes.queries, sizes.query_width)).astype(np.float32)
    mask = rng.random((2, 3, sizes.queries, sizes.slots)) < 0.7
    run = jax.jit(partial(read, form=form, recall=True, **options(sizes, "top_k_then_softmax")))
    together = run(params, queries, contents.mean(3), contents, mask)
    for i, j in np.ndindex(2, 3):
        alone = run(params, queries[i, j], contents[i, j].mean(1), contents[i, j], mask[i, j])
        assert_same(jax.tree.map(lambda entry, at=(i, j): entry[at], together), alone)


def test_arguments_may_be_numpy_and_are_left_alone():
    """The released module adds positions in place to a NumPy array, at every call."""
    case = problem(SIZES["plain"])
    params, before = jax.tree.map(np.float32, case.params), case.contents.copy()
    with_numpy = read(params, case.queries, case.keys, case.contents, k=3, heads=2)  # not compiled
    np.testing.assert_array_equal(case.contents, before)
    arrays = jax.tree.map(jnp.asarray, (params, case.queries, case.keys, case.contents))
    assert_same(with_numpy, read(*arrays, k=3, heads=2), 0)


def test_a_masked_chunk_has_no_influence():
    case = problem(SIZES["plain"])
    params, mask = jax.tree.map(np.float32, case.params), jnp.ones((3, 5), bool).at[:, 3].set(False)
    other = case.contents.copy()
    other[3] = 1e3
    for form in FORMS:
        run = jax.jit(partial(read, params, case.queries, mask=mask, k=3, heads=2, form=form))
        assert_same(run(keys=other.mean(1), contents=other), run(keys=case.keys, contents=case.contents), 0)


def test_a_query_without_any_chunk_is_finite():
    """Equal parts of the first k, even of a memory of zeros: the block around it decides what to make of that."""
    case = problem(SIZES["plain"])
    empty = [np.zeros_like(x) for x in (case.keys, case.contents)]
    for form in FORMS:
        params, mask = jax.tree.map(np.float32, case.params), np.zeros((3, 5), bool)
        answer = jax.jit(partial(read, k=2, heads=2, form=form))(params, case.queries, *empty, mask)
        assert np.isfinite(answer).all()
        assert np.abs(answer).max() > 1e-3  # positions and biases


def test_auto_takes_one_of_the_two_forms():
    assert choose_form(queries=1, slots=1000, k=8) == "gather"
    assert choose_form(queries=64, slots=18, k=8) == "dense"  # learning at the paper's size
    assert choose_form(queries=3, slots=32, k=31) == "gather"
    assert choose_form(queries=3, slots=32, k=32) == "dense"  # whatever is recalled by all needs no copy for each
    case = problem(SIZES["odd sizes"])
    sizes, params = SIZES["odd sizes"], jax.tree.map(np.float32, case.params)
    form = choose_form(sizes.queries, sizes.slots, sizes.k)
    assert form in FORMS
    texts = [
        str(jax.make_jaxpr(partial(read, k=3, heads=3, form=f))(params, *case[1:5])) for f in ("auto", form, *FORMS)
    ]
    assert texts[0] == texts[1]
    assert texts[2] != texts[3]


@every_form
def test_bfloat16_is_float32_with_less_precision(form):
    case = problem(SIZES["masked"])
    params, arrays = jax.tree.map(np.float32, case.params), (case.queries, case.keys, case.contents)
    run = jax.jit(
        partial(read, params, mask=case.mask, k=5, heads=2, form=form)
    )  # all chunks: no decision to differ in
    low = run(*(jnp.asarray(x, jnp.bfloat16) for x in arrays))
    assert low.dtype == jnp.bfloat16
    np.testing.assert_allclose(low.astype(jnp.float32), run(*arrays), rtol=0.05, atol=0.1)


@every_form
def test_gradients_reach_keys_and_contents_only_if_asked(form):
    """Both forms, against differences of the output in one key and one content."""
    sizes = SIZES["masked"]
    case = jax.tree.map(jnp.asarray, problem(sizes))

    def loss(keys, contents, gradients=True):
        output = read(
            case.params,
            case.queries,
            keys,
            contents,
            case.mask,
            form=form,
            gradients=gradients,
            **options(sizes, "top_k_then_softmax"),
        )
        return (output * case.cotangent).sum()

    found = jax.jit(jax.grad(loss, argnums=(0, 1)))(case.keys, case.contents)
    none = jax.jit(jax.grad(partial(loss, gradients=False), argnums=(0, 1)))(case.keys, case.contents)
    assert not any(np.any(leaf) for leaf in none)
    for number, leaf in enumerate(found):
        direction = np.zeros(leaf.shape)
        direction[np.unravel_index(np.argmax(np.abs(leaf)), leaf.shape)] = 1e-3
        ends = []
        for sign in (1, -1):
            moved = [case.keys, case.contents]
            moved[number] = moved[number] + jnp.asarray(sign * direction, moved[number].dtype)
            ends.append(float(loss(*moved)))
        slope = (ends[0] - ends[1]) / 2e-3
        np.testing.assert_allclose(np.abs(leaf).max(), abs(slope), rtol=0.02, atol=1e-3)
