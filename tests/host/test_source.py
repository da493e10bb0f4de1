"""Environments by name, and what is said where there is none."""

import sys

import pytest

from hcam.host import source
from hcam.host.source import Source


def test_names_of_gymnasium_and_functions_of_ones_own():
    env = source.make(Source("gymnasium", "CartPole-v1", {"max_episode_steps": 3}))
    assert env.spec.max_episode_steps == 3
    clock = source.make(Source("gymnasium", "tests.host.toys:clock", {"length": 3}))
    assert clock.length == 3
    caught = source.make(Source("dm_env", "tests.host.toys:catch"))
    assert caught.reset(seed=3)[0]["seed"] == 3
    small = source.make(Source("gymnasium", "tests.host.toys:picture", {"shrink": 2}))
    assert small.observation_space["screen"].shape == (2, 2, 3)
    wrapped = source.make(Source("gymnasium", "CartPole-v1", {"wrap": "gymnasium.wrappers:FlattenObservation"}))
    assert "FlattenObservation" in str(wrapped)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (Source("gymnasium", "NoSuch-v0"), "Gymnasium knows no environment NoSuch-v0"),
        (Source("gymnasium", "CartPole-v0.5"), "CartPole-v0.5"),
        (Source("gymnasium", "CartPole-v1", {"colour": 1}), "does not take this --env-arg: .*colour"),
        (Source("gymnasium", "CartPole-v1", {"wrap": "nothing"}), "must name a function"),
        (Source("dm_env", "no_such_module:f"), "no_such_module cannot be imported"),
        (Source("dm_env", "tests.host.toys:nothing"), "has no nothing"),
    ],
)
def test_what_cannot_be_made_is_refused_in_a_sentence(given, sentence):
    with pytest.raises(ValueError, match=sentence):
        source.make(given)


def test_a_package_that_is_missing_is_named_with_its_extra(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    missing = {"MiniGrid-Empty-5x5-v0": '"hcam.minigrid."', "popgym-X-v0": '"hcam.popgym."', "ALE/Pong-v5": "ale"}
    for name, what in missing.items():
        with pytest.raises(ValueError, match=f"install it with `pip install {what}"):
            source.import_package(name)
    with pytest.raises(ValueError, match=r'"hcam.dm."'):
        source.make(Source("dm_env", "a:b"))
    source.import_package("CartPole-v1")


def test_minigrid_is_seen_as_ones_and_zeros_without_a_mission_that_never_changes():
    pytest.importorskip("minigrid", reason='needs `pip install "hcam[minigrid]"`')
    memory = Source("gymnasium", "MiniGrid-MemoryS7-v0")
    decided = source.choices(memory, source.make(memory))
    assert decided.one_hot == source.MINIGRID
    assert decided.drop == ["mission"]
    changing = Source("gymnasium", "BabyAI-GoToObj-v0", {"one_hot": {}})
    decided = source.choices(changing, source.make(changing))
    assert (decided.one_hot, decided.drop) == ({}, [])
    assert "minigrid" in sys.modules
