"""Objects by name: which names are paths, what loading one says, and what installed packages offer."""

import re
import sys

import pytest

from hcam import plugins
from tests.packages import forget, install


class Thing:
    class Inner:
        pass


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("package.module:function", True),
        ("module:Class.method", True),
        ("ballet", False),
        ("package.module", False),
        ("module:", False),
        (":function", False),
        ("module:a:b", False),
        ("my-module:function", False),
        ("C:\\folder:x", False),
        ("module: function", False),
        ("", False),
    ],
)
def test_a_path_is_a_module_and_an_attribute(name, expected):
    assert plugins.is_path(name) is expected


def test_loading_and_the_way_back():
    for thing, path in (
        (Thing, "tests.test_plugins:Thing"),
        (Thing.Inner, "tests.test_plugins:Thing.Inner"),
        (install, "tests.packages:install"),
        (plugins.load, "hcam.plugins:load"),
    ):
        assert plugins.path_of(thing) == path
        assert plugins.load(path) is thing


def test_what_another_process_could_not_load_has_no_path(monkeypatch):
    class Local:
        pass

    def renamed():
        pass

    renamed.__qualname__ = "install"
    renamed.__module__ = "tests.packages"  # where that name is something else
    assert plugins.path_of(Local) is None
    assert plugins.path_of(renamed) is None
    assert plugins.path_of(lambda: 0) is None
    assert plugins.path_of(3) is None
    monkeypatch.setattr(Thing, "__module__", "__main__")
    assert plugins.path_of(Thing) is None


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        (
            "no_such_package.here:make",
            "no_such_package.here:make cannot be loaded, since no_such_package.here cannot be imported (No module "
            "named 'no_such_package').",
        ),
        ("hcam.plugins:lode", "hcam.plugins:lode cannot be loaded, since hcam.plugins has no lode."),
        ("hcam.plugins:load.a.b", "hcam.plugins:load.a.b cannot be loaded, since hcam.plugins has no load.a.b."),
    ],
)
def test_what_cannot_be_loaded_is_one_sentence(path, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        plugins.load(path)


def test_modules_of_the_working_directory_are_found(tmp_path, monkeypatch):
    """As `python -m` finds them; also where the folder was not on the path before."""
    (tmp_path / "module_of_one_s_own.py").write_text("answer = 42\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    forget(monkeypatch, "module_of_one_s_own")
    assert plugins.load("module_of_one_s_own:answer") == 42


def test_installed_packages_offer_names_without_being_imported(tmp_path, monkeypatch):
    points = {"hcam.things": {"one": "stranger:One", "two": "stranger:two"}, "hcam.others": {"three": "stranger:three"}}
    assert plugins.installed("hcam.things") == {}
    install(monkeypatch, tmp_path, "stranger", "class One: pass\n", points)
    found = plugins.installed("hcam.things")
    assert {name: point.value for name, point in found.items()} == {"one": "stranger:One", "two": "stranger:two"}
    assert "stranger" not in sys.modules
    assert plugins.load(found["one"].value).__name__ == "One"
