"""A run on many devices is the run on one: the same episodes bit for bit, the same numbers to the rounding of sums."""

import os
import re
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.cli.train import parse
from hcam.learning import devices
from hcam.learning.devices import ONE, Devices, choose
from hcam.training import make_learner
from tests.learning.spread import CASES, SIZES
from tests.test_training import compiled_once

__all__ = ["compiled_once"]  # a fixture

Arrays = dict[str, np.ndarray]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """By case: the arrays of one device and of eight; then of both after an update of what the other one had saved."""

    def by(case: str) -> tuple[Arrays, ...]:
        out = tmp_path_factory.mktemp(case)
        subprocess.run([sys.executable, "-m", "tests.learning.spread", f"{out}", case], check=True, env=os.environ)
        names = (f"{case}-{count}{crossed}.npz" for crossed in ("", "-crossed") for count in (1, 8))
        return tuple(dict(np.load(out / name)) for name in names)

    return by


# HCAM and TrXL compile for a quarter of a minute each.
SLOW = [pytest.param(case, marks=pytest.mark.slow) for case in CASES if case != "seeds"]


@pytest.mark.parametrize("case", ["seeds", *SLOW])
def test_eight_devices_do_what_one_does(found: Any, case: str):
    one, eight, one_crossed, eight_crossed = found(case)
    for first, second, updates in ((one, eight, 4), (one_crossed, eight_crossed, 5)):
        assert list(first) == list(second)
        parts = (".env", ".inputs", ".episode", ".key", ".updates")
        exact = [name for name in first if any(part in name for part in parts)]
        assert len(exact) > 10
        assert first["['state'].updates"].tolist() == [updates] * len(first["['state'].updates"])
        for name in exact:
            np.testing.assert_array_equal(first[name], second[name], err_msg=name)
        for name in set(first) - set(exact) - {"collectives"}:
            np.testing.assert_allclose(first[name], second[name], rtol=2e-4, atol=2e-5, err_msg=name)
    finished = sum(value.sum() for name, value in one.items() if name.endswith(".episodes.episodes_l"))
    assert finished > 50  # and so most environments have begun another episode
    assert one["collectives"].tolist() == [0, 0]
    # The gradient, and what is logged; also the number of labels.
    assert eight["collectives"].tolist() == [3 if case == "supervised" else 2, 0]


# One device ----------------------------------------------------------------------------------------------------------


def test_one_device_alone_adds_nothing_to_the_program(monkeypatch: pytest.MonkeyPatch):
    for name in ("pmean", "psum", "axis_index"):
        monkeypatch.setattr(jax.lax, name, None)
    monkeypatch.setattr(jax, "shard_map", None)

    def run(state: Any) -> Any:
        return state

    assert ONE.spread(run, 2) is run
    tree: Any = {"x": object()}
    for name in ("mean", "sum", "local", "whole", "whole_kinds"):
        assert getattr(ONE, name)(tree) is tree
    assert ONE.place(tree, 2) is tree
    key = jax.random.key(0)
    text = str(jax.make_jaxpr(lambda key: ONE.split(key, 6, 2))(key))
    assert text == str(jax.make_jaxpr(lambda key: jax.random.split(key, 6))(key))
    learner = make_learner(parse([*SIZES, *CASES["supervised"]]).config)
    state = jax.eval_shape(learner.init, key)
    assert "device" not in str(jax.make_jaxpr(learner.update)(state))


# Which environments, which keys --------------------------------------------------------------------------------------


def test_every_device_has_a_share_of_every_minibatch():
    """8 environments, 2 minibatches of 4, 2 devices: the first has 0 1 and 4 5. Its keys are those of these numbers."""
    two = Devices(2)
    keys_of = jax.vmap(lambda seed: two.split(jax.random.key(seed), 8, 2), axis_name=devices.AXIS)
    found_db = jax.random.key_data(keys_of(jnp.full(2, 5)))
    all_b = np.asarray(jax.random.key_data(jax.random.split(jax.random.key(5), 8)))
    np.testing.assert_array_equal(found_db, all_b[np.array([[0, 1, 4, 5], [2, 3, 6, 7]])])


# How many ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("there", "asked", "environments", "minibatches", "count"),
    [
        (1, None, 6, 2, 1),
        (8, None, 64, 4, 8),
        (8, None, 12, 2, 6),
        (8, 2, 64, 4, 2),
        (8, 1, 7, 1, 1),
        (4, None, 7, 1, 1),
    ],
)
def test_as_many_as_can_share_a_minibatch(
    monkeypatch: pytest.MonkeyPatch, there: int, asked: int | None, environments: int, minibatches: int, count: int
):
    monkeypatch.setattr(jax, "device_count", lambda: there)
    assert choose(asked, environments, minibatches) == Devices(count)


@pytest.mark.parametrize(
    ("there", "processes", "asked", "environments", "on_host", "sentence"),
    [
        (1, 1, 0, 6, False, "devices must be from 1 to 1, as many as there are, but is 0."),
        (8, 1, 9, 6, False, "devices must be from 1 to 8, as many as there are, but is 9."),
        (
            *(8, 1, 8, 12, False),
            "a minibatch of 6 environments cannot be spread evenly over 8 devices: give --devices 1 or 2 or 3 or 6, or "
            "change --environments or --minibatches.",
        ),
        (
            *(4, 4, None, 6, False),
            "a minibatch of 3 environments cannot be spread evenly over 4 devices: change --environments or "
            "--minibatches.",
        ),
        (8, 2, 3, 12, False, "2 processes have as many devices each, but 3 is no multiple of 2."),
        (8, 1, 2, 8, True, "environments on the host cannot be spread over several devices: train them on one."),
        (8, 2, None, 8, True, "environments on the host cannot be spread over several devices: train them on one."),
    ],
)
def test_what_cannot_be_is_refused(
    monkeypatch: pytest.MonkeyPatch,
    there: int,
    processes: int,
    asked: int | None,
    environments: int,
    on_host: bool,
    sentence: str,
):
    monkeypatch.setattr(jax, "device_count", lambda: there)
    monkeypatch.setattr(jax, "process_count", lambda: processes)
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        choose(asked, environments, 2, on_host)


def test_environments_on_the_host_are_trained_on_one_device(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(jax, "device_count", lambda: 8)
    assert choose(None, 8, 1, on_host=True) == ONE
