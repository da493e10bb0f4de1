"""The Episodic Planning Network against a slow one in NumPy, and what makes it one."""

from typing import Any

import jax
import numpy as np
import pytest

from hcam import memory
from hcam.memory import EPN, epn
from tests.memory.cases import CONFIGS, WIDTH, changed_by, inputs, params_of, programs, run_steps, starts

CONFIG = CONFIGS["epn"]
ATTEND: Any = epn.attend  # takes NumPy arrays as well
PLAN: Any = epn.plan


def normal(params, x):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * params["scale"] + params["offset"]


def dense(params, x):
    return x @ params["w"] + params.get("b", 0.0)


class Slow:
    """Keeps a list of transitions, and does one item at a time what the definition says."""

    def __init__(self, config, params):
        self.config, self.params = config, jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), params)
        self.before, self.items = None, []

    def step(self, x, first):
        if first:
            self.before, self.items = None, []
        if self.before is not None:
            self.items = [*self.items, (self.before, x)][-self.config.items :]
        self.before = x
        return x + self.read(x) if self.items else x

    def read(self, x):
        params, (x_item, x_match) = self.params, np.split(dense(self.params["present"], x), 2)
        pairs = [np.split(dense(params["before"], one) + dense(params["now"], two), 2) for one, two in self.items]
        rows = [item + x_item + match * x_match for item, match in pairs]
        for _ in range(self.config.iterations):
            rows = self.round(rows)
        found = [np.maximum(dense(params["read"], normal(params["norm"], row)), 0) for row in rows]
        return dense(params["out"], np.max(found, axis=0))

    def round(self, rows):
        params, heads = self.params["round"], self.config.heads
        split = [np.split(dense(params["attend"], normal(params["norm"], row)), 3) for row in rows]
        after = []
        for row, (query, _, _) in zip(rows, split, strict=True):
            answers = []
            for h in range(heads):
                part = slice(h * WIDTH // heads, (h + 1) * WIDTH // heads)
                logits = np.array([query[part] @ key[part] for _, key, _ in split]) / np.sqrt(WIDTH // heads)
                weights = np.exp(logits - logits.max())
                weights /= weights.sum()
                answers.append(sum(w * value[part] for w, (_, _, value) in zip(weights, split, strict=True)))
            row = row + dense(params["join"], np.concatenate(answers))
            hidden = np.maximum(dense(params["mlp"]["in"], normal(params["mlp"]["norm"], row)), 0)
            after.append(row + dense(params["mlp"]["out"], hidden))
        return after


@pytest.mark.parametrize("first", [(0, 21, 22, 31), (13,)])
def test_equals_the_slow_one(first):
    params, x, first_t = params_of(CONFIG), inputs(1), starts(*first)
    slow = Slow(CONFIG, params)
    expected = np.array([slow.step(x_d, bool(at_start)) for x_d, at_start in zip(x, first_t, strict=True)])
    empty = memory.make(CONFIG).init_state()
    np.testing.assert_allclose(programs(CONFIG).unroll(params, empty, x, first_t)[1], expected, atol=2e-5)
    np.testing.assert_allclose(run_steps(CONFIG, params, empty, x, first_t)[1], expected, atol=2e-5)


def test_an_empty_memory_adds_nothing():
    x, first = inputs(2), starts(0, 5)
    y = np.asarray(programs(CONFIG).unroll(params_of(CONFIG), memory.make(CONFIG).init_state(), x, first)[1])
    np.testing.assert_array_equal(y[[0, 5]], x[[0, 5]])
    assert (np.abs(y - x).max(-1)[[1, 4, 6]] > 1e-3).all()


def test_the_oldest_transition_is_forgotten():
    """An input is part of two transitions; of the last 6 that are kept, the later one leaves with step t + 7."""
    changed = changed_by(CONFIG, at=[10], first=starts(0))[0]
    np.testing.assert_array_equal(np.flatnonzero(changed), np.arange(10, 17))


def test_an_old_transition_attends_to_a_newer_one():
    """With one round, what an item becomes depends on the others, whichever came first; without any, on itself."""
    params, draw = params_of(CONFIG), np.random.default_rng(0)
    item = draw.standard_normal((6, WIDTH)).astype(np.float32)
    there = np.ones(6, bool)
    after = np.asarray(ATTEND(CONFIG, params["round"], item, there))
    item[5] += draw.standard_normal(WIDTH).astype(np.float32)
    again = np.asarray(ATTEND(CONFIG, params["round"], item, there))
    assert (np.abs(after - again).max(-1) > 1e-4).all()
    there[5] = False
    np.testing.assert_array_equal(
        np.asarray(ATTEND(CONFIG, params["round"], item, there))[:5],
        np.asarray(ATTEND(CONFIG, params["round"], item + 9 * np.eye(6, dtype=np.float32)[5][:, None], there))[:5],
    )


def test_the_order_of_transitions_does_not_matter():
    params, draw = params_of(CONFIG), np.random.default_rng(1)
    item, x = draw.standard_normal((6, 2 * WIDTH)).astype(np.float32), inputs(3)[0]
    there = np.array([True, True, False, True, True, True])
    mixed = draw.permutation(6)
    found, again = (PLAN(CONFIG, params, item[order], there[order], x) for order in (np.arange(6), mixed))
    np.testing.assert_allclose(found, again, atol=1e-5)


def test_all_rounds_have_the_same_weights():
    sizes = [
        sum(leaf.size for leaf in jax.tree.leaves(jax.eval_shape(memory.make(one).init_params, jax.random.key(0))))
        for one in (EPN(width=16, iterations=1), EPN(width=16, iterations=5))
    ]
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [({"items": 0}, "items must be"), ({"iterations": 0}, "iterations must be"), ({"heads": 3}, "heads")],
)
def test_options_that_do_not_fit_are_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        EPN(width=16, **options)
