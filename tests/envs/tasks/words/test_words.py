"""Rapid word learning: its rules step by step, against chance and an expert, and against bad input."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.envs import make
from hcam.envs.body import FORWARD, LIFT, STAY, TURN_RIGHT
from hcam.envs.check import check
from hcam.envs.play import at_random, begin, knowing, play
from hcam.envs.render.things import THINGS
from hcam.envs.tasks.words import VOCABULARY, Words
from hcam.envs.tasks.words.episodes import DISTRACTOR, LEARNING, TEST, kind_of, things_in
from hcam.envs.tasks.words.levels import DISTRACTORS, POOL, WORDS, Level
from hcam.envs.tasks.words.words import NEVER, _instruction

ENV = Words(width=8, height=8)
SINGLE = ["distractors0", "distractors1", "distractors2", "quick_distractors0", "quick_distractors2"]

advance: Any = jax.jit(lambda state, action: ENV.advance(jax.random.key(0), state, action, ENV.level("distractors0")))
expert: Any = jax.jit(ENV.expert)
say: Any = jax.jit(_instruction)


def opening(level: str | Level, seed: int = 0) -> Any:
    return ENV.start(jax.random.key(seed), ENV.level(level))


def step(state, action):
    state, reward, terminated, truncated, info = advance(state, jnp.int32(action))
    return state, float(reward), bool(terminated), bool(truncated), bool(info["success"])


def text(state) -> str:
    return ENV.observation_space["instruction"].text(say(state))  # type: ignore[union-attr]


def kind(state) -> int:
    return int(kind_of(state.episode.rules, state.phase))


def until(state, wanted: int, lesson: int = 0):
    """The expert plays to the first frame of a phase of this kind, of this lesson."""
    while not (kind(state) == wanted and int(state.phase) // int(state.episode.rules.distractors + 2) == lesson):
        state, _, terminated, truncated, _ = step(state, expert(state))
        assert not terminated
        assert not truncated
    return state


def bring(state, thing: int):
    """The state with this object in front of the agent, which is moved there: to the south of it, looking north."""
    return state._replace(
        body=state.body._replace(position=state.place_o2[thing] - jnp.array([0, 0.8]), heading=jnp.int32(0))
    )


def episodes(policy, levels, batch, steps):
    """Level, success, reward, and whether a choice was made, of every episode that ended in a batch of environments."""
    params = ENV.params(*levels)

    def one(key):
        key_reset, key_play = jax.random.split(key)
        _, taken = play(ENV, policy, key_play, begin(ENV, key_reset, params), params, steps)
        return taken.info["level"], taken.info["success"], taken.reward, taken.terminated, taken.truncated

    found = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(0), batch))
    level, success, reward, chose, timed_out = (np.asarray(values) for values in found)
    return tuple(values[chose | timed_out] for values in (level, success, reward, chose))


# Who plays ------------------------------------------------------------------------------------------------------------


def test_the_expert_is_always_right_on_every_level():
    """All in one mixture and one program: twenty distractors and super-episodes end in time as well."""
    level, success, reward, chose = episodes(knowing(ENV.expert), ENV.levels, batch=256, steps=700)
    assert set(level) == set(range(len(ENV.levels)))
    assert chose.all()
    assert success.all()
    assert (reward == 1).all()
    assert len(level) > 1000


def test_without_memory_a_choice_is_chance():
    """It knows the distractors' names and gets to the test, but there is at one in three."""
    levels = [*SINGLE, "quick_episodes2_distractors0"]
    level, success, _, chose = episodes(knowing(ENV.memoryless), levels, batch=256, steps=1000)
    assert chose.mean() > 0.8
    for number, name in enumerate(levels):
        right = success[chose & (level == number)]
        assert len(right) > 50
        assert abs(right.mean() - ENV.chance(name)) <= 4 * np.sqrt(2 / 9 / len(right)), name


def test_random_actions_choose_by_chance_if_they_choose():
    level, success, _, chose = episodes(at_random(ENV), ["distractors0", "quick_distractors0"], batch=256, steps=1900)
    for number in range(2):
        right = success[chose & (level == number)]
        assert len(right) > 50
        assert abs(right.mean() - 1 / 3) <= 4 * np.sqrt(2 / 9 / len(right))
    assert not success[~chose].any()


def test_it_keeps_the_contract():
    """On the mixture of training, where the time of the first episodes is up, and where choices end them."""
    check(ENV, batch=4, steps=1900)
    check(ENV, ENV.params("quick_distractors0", "quick_episodes2_distractors0"), batch=4, steps=300)


# Learning phases ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["distractors0", "quick_distractors0"])
def test_a_name_is_heard_near_the_object_and_facing_it_alone(level):
    """All around an object, at all headings: the sentence is heard exactly where distance and angle allow it."""
    state = opening(level)
    state = state._replace(place_o2=jnp.array([[0.0, 0.0], [40.0, 40.0], [-40.0, 40.0]]))
    word = WORDS[int(state.episode.word_w[0])]
    near, heard = float(state.episode.rules.near), 0
    rng = np.random.default_rng(0)
    for _ in range(300):
        away, bearing, heading = rng.uniform(0.5, 2 * near), rng.uniform(-np.pi, np.pi), rng.integers(16)
        at = -away * np.array([np.sin(bearing), np.cos(bearing)])
        off = np.abs((bearing - heading * np.pi / 8 + np.pi) % (2 * np.pi) - np.pi)
        if min(abs(away - near), abs(off - np.radians(15))) < 1e-3:
            continue
        body = state.body._replace(position=jnp.float32(at), heading=jnp.int32(heading))
        named = away < near and off < np.radians(15)
        assert text(state._replace(body=body)) == (f"this is a {word}" if named else "explore")
        heard += named
    assert heard > 5


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


def test_words_are_bound_anew_in_every_episode():
    params = ENV.params("distractors0")
    draw = jax.jit(jax.vmap(lambda key: ENV.start(key, jax.tree.map(lambda leaf_l: leaf_l[0], params.level_l)).episode))
    found = jax.device_get(draw(jax.random.split(jax.random.key(0), 4000)))
    assert set(np.unique(found.thing_w[:, :3])) == {THINGS.index(thing) for thing in POOL}
    assert set(np.unique(found.word_w)) == set(range(len(WORDS)))
    counts = np.zeros((len(THINGS), len(WORDS)))
    np.add.at(counts, (found.thing_w[:, :3].ravel(), found.word_w[:, :3].ravel()), 1)
    expected = 12000 / len(POOL) / len(WORDS)
    used = counts[[THINGS.index(thing) for thing in POOL]]
    assert used.min() > 0
    assert used.max() < expected + 7 * np.sqrt(expected)
    assert abs(np.bincount(found.target_e[:, 0]) / 4000 - 1 / 3).max() < 0.04


def test_objects_and_words_of_a_super_episode_are_distinct_and_never_distractors():
    draw = jax.jit(jax.vmap(lambda key: ENV.start(key, ENV.level("quick_episodes4_distractors0")).episode))
    found = jax.device_get(draw(jax.random.split(jax.random.key(0), 200)))
    for thing_w, word_w in zip(found.thing_w, found.word_w, strict=True):
        assert len(set(thing_w)) == len(set(word_w)) == 12
        assert not {THINGS[thing] for thing in thing_w} & set(DISTRACTORS)


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


# Rooms ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["distractors0", "quick_distractors0"])
def test_nothing_overlaps_and_everything_is_inside(level):
    start = jax.jit(jax.vmap(lambda key: ENV.start(key, ENV.level(level))))
    state = jax.device_get(start(jax.random.split(jax.random.key(0), 2000)))
    place_bn2 = np.concatenate([state.body.position[:, None], state.place_o2], axis=1)
    known = Level() if level == "distractors0" else ENV.level(level).rules
    assert (np.abs(place_bn2) + 0.3 < state.episode.rules.half[:, None, None]).all()
    apart_bnn = np.linalg.norm(place_bn2[:, :, None] - place_bn2[:, None], axis=-1) + 9 * np.eye(4)
    assert apart_bnn.min() > 2 * 0.36 * float(known.size)
    if level == "distractors0":
        assert apart_bnn.min() > float(known.near)  # so that the first frame says no name
        assert len(np.unique(state.body.heading)) == 16
        assert place_bn2.std(axis=0).min() > 1.2  # all over the room


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


def test_episodes_in_words():
    for level in ("distractors2", "quick_distractors0", "episodes3_distractors5"):
        state = opening(level)
        description = ENV.describe(state)
        assert ENV.describe(ENV.episode(description)) == description
        again = ENV.episode(description)
        count = 3 * int(state.episode.rules.episodes)
        for leaf, same in zip(jax.tree.leaves(state), jax.tree.leaves(again), strict=True):
            if leaf.shape == (12,):
                np.testing.assert_array_equal(leaf[:count], same[:count])
            elif leaf.shape != (4,):
                np.testing.assert_array_equal(leaf, same)
        assert len(description["lessons"]) == len(description["targets"]) == count // 3


def test_words_owns_its_facts():
    assert ENV.title("distractors10") == "10 distractors"
    assert ENV.title("distractors1") == "1 distractor"
    assert ENV.title("episodes4_distractors0") == "4 episodes, no distractors each"
    assert ENV.title("quick_distractors2") == "2 distractors, small"
    assert Words().smaller(ENV.default_levels) == []
    assert len(Words(width=32, height=24).smaller(["quick_distractors1"])) == 5
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


def described(**changes):
    return ENV.describe(opening("distractors0")) | changes


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: ENV.params("distractor2"), "there is no Words level 'distractor2'"),
        (lambda: ENV.params("distractors21"), "distractors must be a whole number from 0 to 20"),
        (lambda: ENV.params("quick_episodes5_distractors0"), "episodes must be a whole number from 1 to 4"),
        (lambda: Words(width=4), "width must be 8 to 1024 pixels"),
        (lambda: Level(limit=0.1), "limit must be seconds in quarters"),
        (lambda: Level(spacing=0.5), "raise spacing"),
        (lambda: Level(room=4), "raise room"),
        (lambda: Level(near=0.2), "near must be at least 0.57 m"),
        (lambda: Level(size=-1), "must be metres above 0"),
        (lambda: Level(ahead=3), "ahead must be true or false"),  # type: ignore[arg-type]
        (lambda: Level(things=("duck", "mug", "rocket")), "things must be at least 3 different of duck"),
        (lambda: Level(episodes=2, words=WORDS[:5]), "words must be at least 6 different of dax"),
        (lambda: ENV.episode({}), "an episode is described by lessons, targets"),
        (lambda: ENV.episode(described(lessons=[])), "lessons must be 1 to 4 lists of 3 objects"),
        (lambda: ENV.episode(described(targets=[3])), "targets must be 1 numbers of objects, 0 to 2"),
        (lambda: ENV.episode(described(seed=-1)), "seed must be a whole number from 0 to 4,294,967,295"),
        (
            lambda: ENV.episode(described(lessons=[[{"thing": "duck", "word": word} for word in WORDS[:3]]])),
            "every object needs a thing of its own",
        ),
        (lambda: make("words", size=3), "words has no option size: choose from width, height"),
    ],
)
def test_bad_input_is_one_sentence(wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        wrong()


def test_a_state_of_another_environment_is_refused():
    with pytest.raises(TypeError, match="this is no state of Words"):
        ENV.expert(make("ballet").reset(jax.random.key(0))[1])
