"""`check` passes the memories of the package, and catches each way of breaking the contract."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from hcam import memory
from hcam.memory import ContractError, check
from tests.memory.cases import CONFIGS
from tests.memory.own_memory import Trace, init_params, init_state, step

CONFIG = Trace(width=6)


def broken(**changes: Any) -> memory.Memory:
    """`Trace` with some of its functions replaced."""
    functions: Any = {"init_params": init_params, "init_state": init_state, "step": step} | changes
    bound: Any = {name: partial(function, CONFIG) for name, function in functions.items()}
    return memory.define(CONFIG, dtype="float32", **bound)


@pytest.mark.parametrize("name", ["hcam", "trxl", "lstm", "gru"])
def test_memories_of_the_package_keep_it(name):
    check(memory.make(CONFIGS[name]))


def test_a_memory_from_outside_keeps_it():
    check(memory.make(CONFIG))
    check(memory.make(CONFIG, dtype="bfloat16"), tolerance=0.1)


def remembers_forever(config, params, state, x_d, first):
    return step(config, params, state, x_d, False)


def ignores_state(config, params, state, x_td, first_t):
    y_td = jax.lax.scan(lambda s, now: step(config, params, s, *now), init_state(config), (x_td, first_t))[1]
    return state, y_td


def sees_the_future(config, params, state, x_td, first_t):
    state, y_td = jax.lax.scan(lambda s, now: step(config, params, s, *now), state, (x_td, first_t))
    return state, y_td + jnp.roll(x_td, -1, axis=0)


def other_unroll(config, params, state, x_td, first_t):
    state, y_td = jax.lax.scan(lambda s, now: step(config, params, s, *now), state, (x_td, first_t))
    return state, 1.1 * y_td


def half_params(config, key):
    return {"w": init_params(config, key)["w"].astype(jnp.bfloat16)}


def half_step(config, params, state, x_d, first):
    return step(config, {"w": params["w"].astype(jnp.float32)}, state, x_d, first)


def forgets_to_undo(config, before, after):
    return after


def infinite_gradient(config, params, state, x_d, first):
    state, y_d = step(config, params, state, x_d, first)
    return state, y_d + jnp.sqrt(0 * params["w"][0])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"step": remembers_forever}, "forget the whole state where first is true"),
        ({"unroll": ignores_state}, "a sequence cut into two unrolls"),
        ({"unroll": other_unroll}, "scanning step gives other outputs than unroll"),
        ({"unroll": sees_the_future}, "scanning step gives other outputs than unroll"),
        ({"init_params": half_params, "step": half_step}, "params must be float32"),
        ({"undo": forgets_to_undo}, "a step that was undone changes later outputs"),
        ({"step": infinite_gradient}, "the gradient with respect to params is not finite"),
    ],
    ids=lambda part: "" if isinstance(part, str) else "-".join(f.__name__ for f in part.values()),
)
def test_each_rule_has_its_sentence(changes, sentence):
    with pytest.raises(ContractError, match=sentence) as caught:
        check(broken(**changes))
    assert str(caught.value).endswith(".")


def bare(mem: memory.Memory, **functions: Any) -> memory.Memory:
    """A memory that was not made with `define`, and lacks what that does."""
    return mem._replace(**functions)


def test_rules_that_define_sees_to_are_checked_as_well():
    mem = memory.make(CONFIG)
    with pytest.raises(ContractError, match="step gives other outputs with prepared params"):
        check(bare(mem, prepare=lambda params: {"w": 2 * params["w"]}))
    with pytest.raises(ContractError, match="step gives other outputs with a cached state"):
        check(bare(mem, cached=lambda params, state: {"trace": state["trace"] + 1}))

    def unroll(params, state, x_td, first_t, recall=False):
        state, y_td = jax.lax.scan(lambda s, now: step(CONFIG, params, s, *now), state, (x_td, first_t))
        return (state, y_td, memory.Recall()) if recall else (state, y_td)

    with pytest.raises(ContractError, match="NaN in one input reaches the outputs of other steps"):
        check(bare(mem, unroll=unroll))

    def guarded(params, state, x_td, first_t, recall=False):
        usable_t1 = jnp.isfinite(x_td).all(-1, keepdims=True)
        state, y_td, *seen = unroll(params, state, jnp.where(usable_t1, x_td, 0.0), first_t, recall)
        return state, jnp.where(usable_t1, y_td, jnp.nan), *seen

    with pytest.raises(ContractError, match="a gradient flows into the incoming state"):
        check(bare(mem, unroll=guarded))
