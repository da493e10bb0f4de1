"""Tasks by name: ours, those of installed packages, a function of one's own, and the way back from an environment."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from hcam.envs import make, registry
from hcam.envs.probes import PROBES, Echo, FirstSymbol
from hcam.envs.spaces import Discrete
from hcam.envs.tasks.ballet import Ballet
from tests.packages import forget, install


@dataclass(frozen=True)
class Own(Echo):
    """Of one's own, at the top of a module."""

    speed: float = 1.0


@dataclass(frozen=True)
class Odd(Echo):
    """Has a field that is no plain JSON."""

    names: tuple[str, ...] = ()
    act: Callable[[int], int] = field(default=abs)


def make_own(symbols: int, speed: float = 2.0) -> Own:
    return Own(symbols, speed)


def make_any(**options: Any) -> Own:
    return Own(len(options))


HERE, GIVEN = "tests.envs.test_registry", Own()


def test_published_tasks_are_the_modules_of_the_folder():
    assert "ballet" in registry.published()
    assert registry.published() == tuple(sorted(registry.published()))
    assert not set(registry.published()) & set(PROBES)


def test_names_are_the_published_the_probes_and_the_installed(tmp_path, monkeypatch):
    assert registry.names() == (*registry.published(), *PROBES)
    points = {registry.GROUP: {"zither": "stranger:Task", "accordion": "stranger:Task", "ballet": "stranger:Task"}}
    install(monkeypatch, tmp_path, "stranger", "raise RuntimeError\n", points)
    assert registry.names() == (*registry.published(), *PROBES, "accordion", "zither")  # each once
    assert "stranger" not in sys.modules


def test_every_name_makes_an_environment():
    assert make("ballet", tile=3) == Ballet(tile=3)
    assert make("first_symbol", symbols=7) == FirstSymbol(symbols=7)
    for name in (*registry.published(), *PROBES):
        assert make(name).action_space.n > 1


def test_a_task_of_an_installed_package(tmp_path, monkeypatch):
    """By its class or by a function; a name of ours stays ours."""
    code = "from hcam.envs.probes import Echo\nclass Task(Echo): pass\ndef task(size): return Task(size)\n"
    points = {registry.GROUP: {"song": "stranger:Task", "tune": "stranger:task", "echo": "stranger:Task"}}
    install(monkeypatch, tmp_path, "stranger", code, points)
    assert type(make("song")).__name__ == type(make("tune", size=3)).__name__ == "Task"
    assert make("tune", size=3).action_space == Discrete(3)
    assert type(make("echo")) is Echo


def test_a_function_or_class_of_one_s_own():
    assert make(f"{HERE}:Own", symbols=3) == Own(symbols=3)
    assert make(f"{HERE}:make_own", symbols=3) == Own(symbols=3, speed=2.0)
    assert make(f"{HERE}:make_any", a=1, b=2) == Own(symbols=2)


def test_a_module_in_the_working_directory(tmp_path, monkeypatch):
    code = "from hcam.envs.probes import Echo\ndef make_env(size=2): return Echo(size)\n"
    (tmp_path / "task_of_one_s_own.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    forget(monkeypatch, "task_of_one_s_own")
    assert make("task_of_one_s_own:make_env", size=4) == Echo(4)


def test_what_a_function_makes_is_adapted():
    pytest.importorskip("gymnax")
    env = make("gymnax.environments.classic_control.cartpole:CartPole")
    assert env.action_space == Discrete(2)


# Refusals -------------------------------------------------------------------------------------------------------------


def refusal(task, **options):
    with pytest.raises(ValueError, match=r"^[^\n]+\.$") as refused:
        make(task, **options)
    return str(refused.value)


def test_a_task_that_there_is_not():
    for task in ("waltz", "", "hcam.envs", "my-module:make"):
        assert refusal(task) == (
            f"there is no task {task!r}: choose from {', '.join(registry.names())}, or name a function of your own "
            "that makes an environment, as package.module:function."
        )


def test_a_task_is_named_by_a_text():
    with pytest.raises(TypeError, match=r"^a task is named by a text, such as '\w+', but this is None\.$"):
        make(None)  # type: ignore[arg-type]


def test_a_function_that_there_is_not():
    assert refusal("waltz:make").startswith("waltz:make cannot be loaded, since waltz cannot be imported")
    assert refusal(f"{HERE}:waltz") == f"{HERE}:waltz cannot be loaded, since {HERE} has no waltz."


@pytest.mark.parametrize(("name", "kind"), [("HERE", "str"), ("GIVEN", "Own")])
def test_what_makes_nothing(name, kind):
    """An environment itself is none either: there would be nothing to give options to."""
    expected = f"{HERE}:{name} must be a class or a function that makes an environment, but is a {kind}."
    assert refusal(f"{HERE}:{name}") == expected


def test_an_environment_that_was_given_in_python_cannot_be_made_again():
    assert refusal("python:Maze") == (
        "the environment Maze was given in Python and cannot be made from its name: give it again, as in "
        "hcam.load(RUN, env=...), or define it as a dataclass at the top of a module."
    )


@pytest.mark.parametrize(
    ("task", "options", "sentence"),
    [
        ("ballet", {"tiles": 3}, "ballet has no option tiles: choose from tile."),
        ("echo", {"size": 3, "speed": 1}, "echo has no option size, speed: choose from symbols."),
        ("timeout", {"symbols": 3}, "timeout has no option symbols: it has none, leave it out."),
        (f"{HERE}:make_own", {"size": 3}, f"{HERE}:make_own has no option size: choose from symbols, speed."),
    ],
)
def test_an_option_that_there_is_not(task, options, sentence):
    assert refusal(task, **options) == sentence


def test_options_are_only_checked_where_they_are_known():
    registry.refuse_unknown("x", make_any, {"whatever": 1})
    any_maker: Any = dict  # written in C: no signature
    registry.refuse_unknown("x", any_maker, {"whatever": 1})
    registry.refuse_unknown("x", lambda *rest, size=1: Echo(), {"size": 1})
    with pytest.raises(ValueError, match="x has no option rest"):
        registry.refuse_unknown("x", lambda *rest, size=1: Echo(), {"rest": 1})


# The way back ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env", "name", "options"),
    [
        (Ballet(), "ballet", {}),
        (Ballet(tile=1), "ballet", {"tile": 1}),
        (FirstSymbol(symbols=9), "first_symbol", {"symbols": 9}),
        (Own(), f"{HERE}:Own", {}),
        (Own(speed=0.5), f"{HERE}:Own", {"speed": 0.5}),
    ],
)
def test_an_environment_knows_what_makes_it(env, name, options):
    assert registry.spec(env) == (name, options)
    assert make(name, **options) == env


@pytest.mark.parametrize("name", PROBES)
def test_every_probe_knows_what_makes_it(name):
    assert registry.spec(make(name)) == (name, {})


def test_an_environment_that_cannot_be_written_down():
    @dataclass(frozen=True)
    class Local(Echo):
        pass

    class Plain(Echo):
        """Equal to none but itself."""

        def __eq__(self, other):
            return self is other

        __hash__ = object.__hash__

    assert registry.spec(Local()) is None  # no other process can import it
    assert registry.spec(Plain()) is None
    assert registry.spec(Odd(act=int)) is None
    assert registry.spec(Odd()) == (f"{HERE}:Odd", {})


def test_a_function_that_lacks_an_argument_is_one_sentence():
    with pytest.raises(ValueError, match=r"^json:loads needs a value for s: give it as an option"):
        registry.make("json:loads")
