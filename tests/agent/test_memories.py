"""Memories by name: ours, those of installed packages, a configuration of one's own, and the way back."""

import re
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from hcam import memory
from hcam.agent import memories
from hcam.agent.readers import READERS
from tests.packages import install

HERE = "tests.agent.test_memories"


@dataclass(frozen=True)
class Own:
    """Of one's own, at the top of a module."""

    width: int = 8

    def build(self, dtype: str) -> Any:
        raise NotImplementedError


@dataclass(frozen=True)
class NotOne:
    """Has no `build`."""

    width: int = 8


def not_a_class() -> None: ...


@pytest.mark.parametrize("name", memory.MEMORIES)
def test_ours_have_short_names_both_ways(name):
    kind = memories.find(name)
    assert kind is memory.MEMORIES[name]
    assert memories.name_of(kind()) == name


def test_the_papers_memories_are_there():
    assert [memories.find(name) for name in ("hcam", "trxl", "lstm", "none")] == [
        memory.HCAM,
        memory.TrXL,
        memory.LSTM,
        memory.Local,
    ]
    assert set(memories.names()) >= {"hcam", "trxl", "lstm", "none"}


def test_a_configuration_of_one_s_own():
    assert memories.find(f"{HERE}:Own") is Own
    assert memories.name_of(Own(width=4)) == f"{HERE}:Own"


CODE = """
class Config:
    width = 8
    def build(self, dtype): pass
"""


def test_a_memory_of_an_installed_package(tmp_path, monkeypatch):
    """It has a short name both ways; a name of ours stays ours, and listing names imports nothing."""
    points = {memories.GROUP: {"theirs": "stranger:Config", "hcam": "stranger:Config"}}
    install(monkeypatch, tmp_path, "stranger", CODE, points)
    assert memories.names() == (*memory.MEMORIES, *READERS, "theirs")
    assert "stranger" not in sys.modules
    assert memories.find("hcam") is memory.HCAM
    assert memories.name_of(memory.LSTM()) == "lstm"
    assert "stranger" not in sys.modules
    theirs = memories.find("theirs")
    assert theirs.__name__ == "Config"
    assert memories.name_of(theirs()) == "theirs"
    assert memories.name_of(Own()) == f"{HERE}:Own"


def test_a_package_that_cannot_be_imported_is_nobody_elses_trouble(tmp_path, monkeypatch):
    """Runs with other memories are written down all the same; who asks for its memory is told what is wrong."""
    install(
        monkeypatch, tmp_path, "stranger", "import no_such_package\n", {memories.GROUP: {"theirs": "stranger:Config"}}
    )
    assert memories.name_of(memory.HCAM()) == "hcam"
    assert memories.name_of(Own()) == f"{HERE}:Own"
    with pytest.raises(ValueError, match="stranger:Config cannot be loaded, since stranger cannot be imported"):
        memories.find("theirs")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            "waltz",
            f"there is no memory 'waltz': choose from {', '.join(memories.names())}, or name a configuration of your "
            "own, as package.module:Class.",
        ),
        ("waltz.steps:Memory", "waltz.steps:Memory cannot be loaded, since waltz.steps cannot be imported"),
        (f"{HERE}:Missing", f"{HERE}:Missing cannot be loaded, since {HERE} has no Missing."),
        (
            f"{HERE}:NotOne",
            f"{HERE}:NotOne is no configuration of a memory: it must be a dataclass with a method build.",
        ),
        (f"{HERE}:not_a_class", f"{HERE}:not_a_class is no configuration of a memory"),
    ],
)
def test_what_there_is_not_is_refused_in_one_sentence(name, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}[^\n]*$"):
        memories.find(name)


def test_a_configuration_that_could_not_be_read_again_is_refused():
    @dataclass(frozen=True)
    class Local(Own):
        pass

    sentence = (
        "Local cannot be loaded by name, so a run with it could not be read again: define it at the top of a module."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        memories.name_of(Local())
