"""Rapid word learning: its rules step by step, against chance and an expert, and against bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.envs import make
from hcam.envs.body import BACKWARD, FORWARD, LIFT, STAY, TURN_RIGHT
from hcam.envs.check import check
from hcam.envs.render.things import THINGS
from hcam.envs.tasks.words import VOCABULARY, Words, policies, words
from hcam.envs.tasks.words.episodes import DISTRACTOR, LEARNING, TEST, things_in
from hcam.envs.tasks.words.levels import DISTRACTORS, HELD_OUT_LEVELS, TRAINING_LEVELS, WORDS
from hcam.envs.tasks.words.words import NEVER
from tests.envs.tasks.undrawn import undrawn
from tests.envs.tasks.words.playing import ENV, bring, expert, kind, opening, step, text, until


def test_it_keeps_the_contract():
    env = undrawn(ENV, words._instruction)
    report = check(env, env.params("quick_distractors0", "quick_episodes2_distractors0"), batch=4, steps=300)
    assert report.terminated


@pytest.mark.slow
def test_it_keeps_the_contract_with_its_pictures():
    report = check(ENV, ENV.params("quick_distractors0", "quick_episodes2_distractors0"), batch=4, steps=300)
    assert report.terminated


@pytest.mark.slow
def test_the_mixture_of_training_keeps_the_contract():
    """Random actions hardly ever come to a choice: the time of the first episodes is up after 1,800 steps."""
    assert check(ENV, batch=4, steps=1900).truncated


# Learning phases ------------------------------------------------------------------------------------------------------


def test_a_new_name_pays_once_and_three_end_the_phase_after_a_pause():
    state = opening("distractors1")
    assert not bool(state.named_o.any())
    for count, thing in enumerate([2, 0, 1], start=1):
        state, reward, *_ = step(bring(state, thing), STAY)
        assert reward == pytest.approx(0.1)
        assert int(state.named_o.sum()) == count
        state, reward, *_ = step(state, STAY)
        assert reward == 0
    for _ in range(2):
        state, *_ = step(state, STAY)
        assert kind(state) == LEARNING
    assert text(state).startswith("this is a")  # what was said last is said for the whole second
    before = state.place_o2
    state, reward, *_ = step(state, STAY)
    assert kind(state) == DISTRACTOR
    assert reward == 0
    assert not np.allclose(before, state.place_o2)


def test_lifting_while_learning_does_nothing():
    state = bring(opening("distractors0"), 0)
    after, _, terminated, truncated, success = step(state, LIFT)
    assert kind(after) == LEARNING
    assert (terminated, truncated, success) == (False, False, False)


# Distractor phases ----------------------------------------------------------------------------------------------------


def test_distractors_pay_for_the_right_one_and_nothing_else():
    state = until(opening("distractors2"), DISTRACTOR)
    asked = int(state.asked)
    assert [THINGS[thing] for thing in things_in(state.episode, state.phase)] == list(DISTRACTORS)
    assert text(state) == f"lift the {DISTRACTORS[asked]}"
    for wrong in {0, 1, 2} - {asked}:
        state, reward, terminated, *_ = step(bring(state, wrong), LIFT)
        assert (reward, terminated, int(state.phase)) == (0, False, 1)
    state, reward, *_ = step(bring(state, asked), TURN_RIGHT)  # in front, but not lifted
    assert (reward, int(state.phase)) == (0, 1)
    state, reward, terminated, _, success = step(bring(state, asked), LIFT)
    assert reward == pytest.approx(0.1)
    assert (terminated, success, int(state.phase), kind(state)) == (False, False, 2, DISTRACTOR)


def test_a_distractor_phase_ends_after_twenty_seconds():
    state = until(opening("distractors1"), DISTRACTOR)
    for _ in range(79):
        state, reward, *_ = step(state, STAY)
        assert (reward, kind(state)) == (0, DISTRACTOR)
    state, reward, *_ = step(state, STAY)
    assert (reward, kind(state)) == (0, TEST)
    assert text(state) == f"pick up a {WORDS[int(state.episode.word_w[int(state.episode.target_e[0])])]}"


def test_nothing_is_lifted_out_of_reach():
    state = until(opening("distractors1"), DISTRACTOR)
    far = bring(state, int(state.asked))
    far = far._replace(body=far.body._replace(position=far.body.position - jnp.array([0, 0.5])))  # 1.3 m away
    assert (step(far, LIFT)[1], step(step(far, FORWARD)[0], LIFT)[1]) == (0, pytest.approx(0.1))


def test_every_distractor_is_asked_for_and_phases_differ():
    state = opening("distractors20")
    asked, places = [], []
    while kind(state) != TEST:
        if kind(state) == DISTRACTOR and int(state.since) == int(state.time):
            asked.append(int(state.asked))
            places.append(tuple(np.asarray(state.place_o2).ravel().tolist()))
        state, *_ = step(state, expert(state))
    assert len(asked) == len(set(places)) == 20
    assert set(asked) == {0, 1, 2}


# Guidance -------------------------------------------------------------------------------------------------------------


def test_a_guided_way_pays_what_it_leads_nearer():
    """To and fro pays nothing, whatever the way; what is asked for counts, and nothing else."""
    state = until(opening("guided_distractors1", seed=2), DISTRACTOR)
    asked = int(state.asked)
    far = bring(state, asked)
    far = far._replace(body=far.body._replace(position=far.body.position - jnp.array([0, 0.7])))  # 0.3 m too far
    near, reward, *_ = step(far, FORWARD)
    assert reward == pytest.approx(0.05 * 0.3 / 0.5, abs=1e-4)
    _, back, *_ = step(near, BACKWARD)
    assert back == pytest.approx(-reward, abs=1e-6)
    turned, once, *_ = step(far, TURN_RIGHT)
    turned, twice, *_ = step(turned, TURN_RIGHT)
    assert once == pytest.approx(-0.05 * (22.5 - 15) / 22.5, abs=1e-4)  # what is in front may be 15 degrees aside
    assert twice == pytest.approx(-0.05, abs=1e-4)
    assert step(far, STAY)[1] == 0
    other = (asked + 1) % 3
    assert step(bring(state, other), LIFT)[1] == 0


@pytest.mark.parametrize("seed", range(3))
def test_a_guided_episode_pays_for_every_way_to_its_end_and_once(seed):
    """Of each phase: the way to the nearest object without a name, again after each; the way to what is asked for."""
    state, paid, ways = opening("guided_distractors1", seed), 0.0, 0.0
    places, terminated, published = None, False, 0.0
    while not terminated:
        wanted = ~np.asarray(state.named_o) if kind(state) == LEARNING else np.arange(3) == int(state.asked)
        now = (int(state.phase), wanted.tobytes())
        if now != places and wanted.any():
            ways += float(policies.way(state.body, state.place_o2, state.episode.rules)[wanted].min())
        places = now
        guided = state._replace(
            episode=state.episode._replace(rules=state.episode.rules._replace(guide=jnp.float32(0)))
        )
        action = expert(state)
        published += step(guided, action)[1]
        state, reward, terminated, *_ = step(state, action)
        paid += reward
    assert published == pytest.approx(1.4, abs=1e-5)
    assert paid - published == pytest.approx(0.05 * ways, abs=1e-3)


def test_published_levels_pay_no_guidance():
    assert all(float(ENV.level(level).rules.guide) == 0 for level in (*TRAINING_LEVELS, *HELD_OUT_LEVELS))


# Tests and limits -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("aside", [0, 1, 2])
def test_the_test_ends_with_the_first_lift(aside):
    state = until(opening("distractors0"), TEST)
    chosen = (int(state.asked) + aside) % 3
    _, reward, terminated, truncated, success = step(bring(state, chosen), LIFT)
    assert (reward, terminated, truncated, success) == (float(aside == 0), True, False, aside == 0)


@pytest.mark.parametrize("level", ["distractors0", "episodes4_distractors1"])
def test_time_is_up_after_1800_steps_whatever_the_phase(level):
    assert ENV.max_steps_in_episode(level) == 1800
    state = bring(opening(level), 0)._replace(time=jnp.int32(1798))
    state, reward, terminated, truncated, success = step(state, STAY)
    assert reward == pytest.approx(0.1)
    assert (terminated, truncated) == (False, False)
    _, reward, terminated, truncated, success = step(bring(state, 1), STAY)
    assert (reward, terminated, truncated, success) == (0, False, True, False)


def test_a_choice_at_the_last_step_is_a_choice():
    state = until(opening("distractors0"), TEST)._replace(time=jnp.int32(1799))
    assert step(bring(state, int(state.asked)), LIFT)[1:] == (1.0, True, False, True)


@pytest.mark.parametrize("right", [True, False])
def test_in_a_super_episode_only_the_last_test_counts_and_asks_for_the_first_lesson(right):
    state = until(opening("episodes2_distractors0"), TEST)
    chosen = (int(state.asked) + (not right)) % 3
    state, reward, terminated, _, success = step(bring(state, chosen), LIFT)
    assert (reward, terminated, success) == (float(right), False, False)
    assert kind(state) == LEARNING
    assert things_in(state.episode, state.phase).tolist() == state.episode.thing_w[3:6].tolist()
    state = until(state, TEST, lesson=1)
    assert things_in(state.episode, state.phase).tolist() == state.episode.thing_w[:3].tolist()
    assert int(state.asked) == int(state.episode.target_e[1])
    assert text(state) == f"pick up a {WORDS[int(state.episode.word_w[int(state.asked)])]}"
    _, reward, terminated, _, success = step(bring(state, int(state.asked)), LIFT)
    assert (reward, terminated, success) == (1, True, True)


def test_tests_in_between_ask_for_their_own_lesson():
    state = opening("episodes4_distractors1")
    for lesson in range(3):
        state = until(state, TEST, lesson)
        assert (
            things_in(state.episode, state.phase).tolist()
            == state.episode.thing_w[3 * lesson : 3 * lesson + 3].tolist()
        )
        word = state.episode.word_w[3 * lesson + int(state.episode.target_e[lesson])]
        assert text(state) == f"pick up a {WORDS[int(word)]}"


# Facts ----------------------------------------------------------------------------------------------------------------


def test_what_matters_is_when_the_targets_name_was_heard():
    state = opening("distractors1", seed=3)
    foreseen = [int(moment) for moment in ENV.moments(state)]
    heard, asked = [], None
    word = WORDS[int(state.episode.word_w[int(state.episode.target_e[0])])]
    assert int(state.heard) == int(state.question) == NEVER
    terminated = False
    while not terminated:
        time = int(state.time)
        heard += [time] if text(state) == f"this is a {word}" else []
        asked = time if asked is None and text(state) == f"pick up a {word}" else asked
        last = state
        state, _, terminated, *_ = step(state, expert(state))
    assert [int(moment) for moment in ENV.moments(last)] == [heard[0], heard[-1] + 1, asked] == foreseen


def test_words_owns_its_facts():
    assert ENV.title("distractors10") == "10 distractors"
    assert ENV.title("distractors1") == "1 distractor"
    assert ENV.title("episodes4_distractors0") == "4 episodes, no distractors each"
    assert ENV.title("quick_distractors2") == "2 distractors, small"
    assert ENV.title("near_distractors0") == "no distractors, near"
    assert ENV.title("guided_distractors1") == "1 distractor, guided"
    titles = [ENV.title(level) for level in ENV.levels]
    assert len(set(titles)) == len(titles)
    assert Words().smaller(ENV.default_levels) == []
    assert len(Words(width=32, height=24).smaller(["quick_distractors1"])) == 5
    assert len(Words().smaller(["near_distractors0"])) == 2
    assert Words().smaller(["guided_distractors0"]) == ["rewards for coming nearer"]
    assert Words().smaller(["guided_distractors0", "distractors0"]) == []
    assert [int(d) for d in ENV.params().level_l.rules.distractors] == [0, 1, 2]
    assert Words().observation_space["image"].shape == (72, 96, 3)
    assert len(WORDS) >= 20
    assert VOCABULARY[0] == ""
    assert max(len(sentence.split()) for sentence in ("this is a dax", "lift the rocket", "pick up a dax")) == 4


def test_all_levels_are_one_program():
    traces = []

    @jax.jit
    def reset(key, params):
        traces.append(1)
        return ENV.reset(key, params)

    for level in (*ENV.levels, "episodes3_distractors20"):
        reset(jax.random.key(0), ENV.params(level))
    assert len(traces) == 1


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: Words(width=4), "width must be 8 to 1024 pixels"),
        (lambda: make("words", size=3), "words has no option size: choose from width, height"),
    ],
)
def test_bad_input_is_one_sentence(wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        wrong()


def test_a_state_of_another_environment_is_refused():
    with pytest.raises(TypeError, match="this is no state of Words"):
        ENV.expert(make("ballet").reset(jax.random.key(0))[1])
