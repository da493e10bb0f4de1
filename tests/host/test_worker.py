"""What a worker process does, called in this one."""

import subprocess
import sys

import numpy as np
import pytest

from hcam.host import source, worker
from hcam.host.source import Source


def looked(name, kind="gymnasium", **options):
    return worker.look(Source(kind, f"tests.host.toys:{name}", options))


def test_look_says_what_is_observed_and_done():
    found = looked("clock")
    assert [part.name for part in found["parts"]] == ["clock", "drawn"]
    assert (found["single"], found["actions"], found["start"]) == (False, 3, 1)
    text = looked("talking")
    assert text["single"]
    assert text["parts"][0].shape == (5,)
    assert looked("symbols", one_hot={"observation": [3, 2]})["parts"][0].kind == "one_hot"
    assert looked("catch", "dm_env")["actions"] == 2
    several = looked("several")
    assert ([part.name for part in several["parts"]], several["actions"]) == (["part_0", "part_1"], 6)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("continuous", "actions must be Discrete here, but .* has Box"),
        ("growing", r"has shape \(2,\), but observation_space says \(1,\)"),
        ("nested", "an observation must be Box, .* but a is Dict"),
    ],
)
def test_what_does_not_fit_is_refused_before_a_run(name, sentence):
    with pytest.raises(ValueError, match=sentence):
        looked(name)


def test_an_explanation_has_the_frames_of_the_users_code():
    try:
        source.make(Source("gymnasium", "tests.host.toys:breaking", {"how": "raise", "after": 0})).step(1)
    except LookupError as error:
        told = worker.explain(error)
    assert (told["type"], told["text"], told["slot"], told["refused"]) == (
        "LookupError",
        "the floor is lava",
        None,
        False,
    )
    assert [frame[2] for frame in told["frames"]][-2:] == ["step", "fail"]


def test_a_worker_steps_its_slots_and_says_what_was_cut():
    found = looked("clock")
    arrays = {"clock": np.zeros((2, 1), np.int32), "drawn": np.zeros(2, np.int32)}
    arrays |= {f"final {name}": array.copy() for name, array in arrays.items()}
    kinds = {"reward": np.float32, "terminated": bool, "truncated": bool, "cut": bool, "action": np.int32, "seed": int}
    arrays |= {name: np.zeros(2, kind) for name, kind in kinds.items()}
    spec = {**found, "slots": [[0], [1]]}
    one = worker.Worker(Source("gymnasium", "tests.host.toys:clock"), spec, arrays)
    one.reset(0)
    one.step(0)
    one.step(1)  # after a restart there is no episode to go on with
    assert arrays["clock"][:, 0].tolist() == [1, 0]
    assert arrays["cut"].tolist() == [False, True]
    assert arrays["truncated"].tolist() == [False, True]
    one.step(1)
    assert arrays["clock"][:, 0].tolist() == [1, 1]
    assert not arrays["cut"].any()
    ends = 0
    for _ in range(40):
        before = arrays["clock"][0, 0]
        one.step(0)
        if arrays["terminated"][0] or arrays["truncated"][0]:
            ends += 1
            assert arrays["clock"][0] == 0
            assert arrays["final clock"][0] == before + 1
    assert ends > 3
    assert not (arrays["terminated"] & arrays["truncated"]).any()


def test_a_worker_imports_no_jax():
    code = "import sys, hcam.host.worker, hcam.host.wrappers, hcam.benchmarks.vector; sys.exit('jax' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
