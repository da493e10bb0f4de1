"""What happens in an episode, against what the instruction says frame by frame."""

import jax
import pytest

from hcam.envs.environment import Event
from hcam.envs.tasks.words.levels import DISTRACTORS
from tests.envs.tasks.words.playing import ENV, expert, opening, step, text


@pytest.fixture(scope="module")
def lived():
    """States and instructions of an episode with two lessons, a distractor phase and a test each."""
    states, said, terminated = [opening("quick_episodes2_distractors0", seed=5)], [], False
    while not terminated:
        said.append(text(states[-1]))
        state, _, terminated, *_ = step(states[-1], expert(states[-1]))
        states.append(state)
    return jax.device_get(states), said


def test_names_are_heard_and_asked_for_when_the_instruction_says_so(lived):
    states, said = lived
    found = ENV.events(states)
    assert found == sorted(found)
    names, tests = ([one for one in found if one.kind == kind] for kind in ("name", "test"))
    heard = {t: one.name.rpartition(" ")[2] for one in names for t in range(one.begin, one.end)}
    assert heard == {t: words.removeprefix("this is a ") for t, words in enumerate(said) if words.startswith("this")}
    asked = {t: one.name for one in tests for t in range(one.begin, one.end)}
    assert asked == {t: words for t, words in enumerate(said) if words.startswith("pick up")}
    assert len(tests) == 2


def test_a_name_is_asked_for_in_the_tests_of_its_word_and_the_last_test_is_what_matters(lived):
    states, said = lived
    for one in ENV.events(states):
        if one.kind == "name":
            word = one.name.rpartition(" ")[2]
            tests = [t for t, words in enumerate(said) if words == f"pick up a {word}"]
            assert [t for begin, end in one.asked for t in range(begin, end)] == tests
            assert one.matters == (said[-1] == f"pick up a {word}")
            thing = one.name.split()[1]
            lessons = ENV.describe(states[0])["lessons"]
            assert {"thing": thing, "word": word} in [pair for lesson in lessons for pair in lesson]
    assert sum(one.matters for one in ENV.events(states)) == 1


def test_a_distractor_phase_is_one_event():
    state, states = opening("quick_distractors1", seed=1), []
    terminated = False
    while not terminated:
        states.append(state)
        state, _, terminated, *_ = step(state, expert(state))
    found = ENV.events(jax.device_get([*states, state]))
    (lifted,) = [one for one in found if one.kind == "distractor"]
    phase = [t for t, one in enumerate(states) if text(one).startswith("lift the")]
    assert lifted == Event(phase[0], phase[-1] + 1, text(states[phase[0]]), kind="distractor")
    assert lifted.name.removeprefix("lift the ") in DISTRACTORS


def test_an_episode_that_has_just_begun_has_no_test_yet():
    found = ENV.events(jax.device_get([opening("quick_distractors1")]))
    assert all(one.kind == "name" and one.asked == () and not one.matters for one in found)
