"""What a page holds is what was recorded, and that is what the memory returned."""

import base64
import json
import re
import zlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.runs import recording
from hcam.types import Inputs
from hcam.viewer import data
from hcam.viewer.watch import Options, watch
from tests.viewer import episodes


def unpack(text, kind="<u2"):
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), kind)


def written(html):
    """The data inside a page, as its script reads it."""
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    return json.loads(found)


@pytest.fixture(scope="module")
def recorded(small, tmp_path_factory):
    """An agent, its parameters, an episode, and that episode's data in the page that `hcam watch` writes of it."""
    path = tmp_path_factory.mktemp("recorded") / "page.html"
    (episode, *_) = recording.record(
        small.agent, small.env, small.params, small.env.params("blanks8"), episodes=3, seed=4
    )
    list(watch(small, "run", Options(levels=("blanks8",), episodes=3, seed=4, out=path)))
    return small.agent, small.params, episode, written(path.read_text())["episodes"][0]


def test_weights_in_a_page_are_those_that_the_memory_returned(recorded):
    """Scans the memory alone over the inputs of the episode; chunks by number, weights to 0.002 percent."""
    built, params, episode, found = recorded
    steps, recall = episode.length, found["recall"]
    assert (recall["layers"], recall["length"], recall["stride"], recall["top"]) == (2, 3, 2, 2)
    shape = (steps, 2, 2)
    number_tlk = unpack(recall["number"], "<i2").reshape(shape)
    weight_tlk = data.restored(unpack(recall["weight"])).reshape(shape)
    within_tlkc = data.restored(unpack(recall["within"])).reshape(*shape, 3)
    relevance_tln = data.restored(unpack(recall["relevance"])).reshape(steps, 2, recall["chunks"])
    assert recall["chunks"] == 4  # more than the slots
    state, step = built.init_state(), jax.jit(built.memory.step, static_argnames="recall")
    reward_t, action_t = (np.concatenate([[0], part]) for part in (episode.steps_t.reward, episode.steps_t.action))
    for t in range(steps):
        seen = built.preprocess(episode.moments_t.observation[t])
        inputs = Inputs(seen, jnp.bool_(t == 0), jnp.int32(action_t[t]), jnp.float32(reward_t[t]))
        state, _, real = step(params["memory"], state, built.encode(params, inputs), inputs.first, recall=True)
        for layer in range(2):
            np.testing.assert_array_equal(number_tlk[t, layer], real.chunk_k[layer])
            np.testing.assert_allclose(weight_tlk[t, layer], real.relevance_k[layer], atol=2e-5)
            np.testing.assert_allclose(within_tlkc[t, layer], real.within_khc[layer].mean(1), atol=2e-5)
            shown = relevance_tln[t, layer]
            for number, weight in zip(real.chunk_k[layer].tolist(), real.relevance_k[layer].tolist(), strict=True):
                assert number < 0 or abs(shown[number] - weight) < 2e-5
            assert abs(shown.sum() - real.relevance_m[layer].sum()) < 1e-4
            done = max(0, (t - 3) // 2 + 1)
            assert not shown[done:].any()  # what is not complete yet
            assert not shown[: max(0, done - 3)].any()  # what is forgotten


def test_the_rest_of_a_page_is_what_was_recorded(recorded):
    built, _, episode, found = recorded
    steps_t = episode.steps_t
    assert found["action"] == steps_t.action.tolist()
    np.testing.assert_allclose(found["reward"], steps_t.reward, rtol=1e-3)
    np.testing.assert_allclose(found["value"], steps_t.value, rtol=1e-3)
    policy = data.restored(unpack(found["policy"])).reshape(steps_t.policy_a.shape)
    np.testing.assert_allclose(policy, steps_t.policy_a, atol=2e-5)
    assert found["actions"] == [f"action {n}" for n in range(built.actions)]
    assert found["length"] == len(found["text"]) - 1 == len(found["frames"]["numbers"]) - 1
    assert found["events"] == [{"begin": 0, "end": 1, "name": "to be remembered", "matters": True}]
    assert found["question"] == found["opening"] == 9


def test_weights_keep_their_differences():
    weight = np.concatenate([np.linspace(0, 1, 1001), np.logspace(-5, 0, 200)])
    error = np.abs(data.restored(data.quantised(weight)) - weight)
    assert (error < 2e-5).all()
    assert (error <= 1.6e-5 * np.sqrt(weight) + 1e-9).all()
    assert data.quantised(np.array([-1e-9, 1 + 1e-6])).tolist() == [0, data.LARGEST]


def test_numbers_that_json_does_not_have_are_null():
    assert data.rounded(np.array([1 / 3, np.nan, np.inf, -2e9], np.float32)) == [0.3333, None, None, -2e9]


def test_a_memory_of_steps_and_one_that_reports_nothing():
    recall = episodes.window(20)
    found = data.episode_data(episodes.played(recall, 20), list("abcdefgh"), {})
    assert {key: found["recall"][key] for key in ("kind", "layers", "window")} == {
        "kind": "window",
        "layers": 2,
        "window": 16,
    }
    back = data.restored(unpack(found["recall"]["weight"])).reshape(20, 2, 16)
    np.testing.assert_allclose(back, recall.weight_tlw, atol=2e-5)
    assert data.episode_data(episodes.played(None, 20), (), {})["recall"] is None
