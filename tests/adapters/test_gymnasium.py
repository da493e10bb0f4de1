"""In Gymnasium, Ballet is the published task frame by frame, and a batch is what Gymnasium makes of single ones."""

import hashlib
import importlib
import sys
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import hcam  # noqa: F401  # tells Gymnasium the names of the tasks
from hcam.adapters.gymnasium import GymnasiumEnv, GymnasiumVectorEnv, to_gymnasium
from hcam.envs import Environment
from hcam.envs.spaces import Box, Discrete, Tokens
from hcam.envs.tasks.ballet import Ballet
from hcam.envs.tasks.ballet.choreography import COLORS, DANCES, HOMES, SHAPES
from tests.envs.tasks.ballet.golden import GOLDEN

BALLET = "hcam/Ballet-v0"
NORTH, SOUTH, SOUTH_WEST, NORTH_WEST = 0, 4, 5, 7


class Thrown(NamedTuple):
    face: jax.Array
    time: jax.Array


@dataclass(frozen=True)
class Dice(Environment):
    """Thrown at every step. Action 1 ends an episode, and after three steps time is up."""

    @property
    def action_space(self):
        return Discrete(2)

    @property
    def observation_space(self):
        return Discrete(1000)

    def start(self, key, params):
        return Thrown(self.observation_space.sample(key), jnp.int32(0))

    def advance(self, key, state, action, params):
        state = Thrown(self.observation_space.sample(key), state.time + 1)
        terminated = action == 1
        info = {"time": state.time, "share": state.time.astype(jnp.float32), "pair": jnp.stack([state.face, action])}
        return state, jnp.float32(0.5), terminated, (state.time >= 3) & ~terminated, info

    def observe(self, state, params):
        return state.face


@pytest.fixture(scope="module")
def ballet():
    return gymnasium.make(BALLET, level="2_delay16", render_mode="rgb_array")


def sha(frames):
    return hashlib.sha256(b"".join(frame.tobytes() for frame in frames)).hexdigest()


def play(env, description, act):
    """One episode: its observations, and all that the steps returned besides."""
    observation, info = env.reset(options={"episode": description})
    assert info == {}
    seen: list[Any] = [observation]
    rest: list[Any] = []
    while not rest or not (rest[-1][1] or rest[-1][2]):
        observation, *others = env.step(act(len(rest), observation["instruction"]))
        seen.append(observation)
        rest.append(others)
    return seen, rest


# The published task ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: "_".join(map(str, golden[:4])))
def test_episode_is_the_published_one_frame_by_frame(ballet, golden):
    seen, rest = play(ballet, golden.description, lambda t, text: t % 8 if text == "watch" else golden.action)
    frames = [observation["image"] for observation in seen]
    assert len(frames) == golden.frames
    assert frames[0].dtype == np.uint8
    assert sha(frames[:1]).startswith(golden.first)
    assert sha(frames[-1:]).startswith(golden.last)
    assert sha(frames)[:32] == golden.sha
    assert [each["instruction"] for each in seen] == ["watch"] * (golden.frames - 4) + [golden.instruction] * 4
    assert [reward for reward, *_ in rest] == [0.0] * (golden.frames - 2) + [1.0]
    assert rest[-1] == [1.0, True, False, {"level": None, "success": True}]


@pytest.mark.parametrize("seed", sorted({golden.seed for golden in GOLDEN}))
def test_golden_episodes_are_what_the_published_generator_draws(seed):
    generator = np.random.default_rng(seed)
    for golden in (golden for golden in GOLDEN if golden.seed == seed):
        target = int(generator.integers(golden.dancers))
        homes, dances, colors, shapes = (list(names) for names in (HOMES, DANCES, COLORS, SHAPES))
        for names in (homes, dances, colors, shapes):
            generator.shuffle(names)
        drawn = list(zip(homes, dances, shapes, colors, strict=False))[: golden.dancers]
        dancers = [dict(zip(("home", "dance", "shape", "color"), each, strict=True)) for each in drawn]
        dancers = [dancer | {"home": list(dancer["home"])} for dancer in dancers]
        assert {"dancers": dancers, "target": target, "delay": golden.delay} == golden.description


def test_time_runs_out(ballet):
    seen, rest = play(ballet, GOLDEN[0].description, lambda t, text: NORTH)  # to the wall, past both dancers
    assert len(seen) == 321
    assert rest[-1] == [0.0, False, True, {"level": None, "success": False}]
    assert seen[-1]["instruction"] == "zee"


# One environment ------------------------------------------------------------------------------------------------------


def test_gymnasiums_own_check():
    check_env(gymnasium.make(BALLET, level="8_delay48").unwrapped)
    entry_point: Any = GymnasiumEnv
    check_env(gymnasium.make(EnvSpec("Dice-v0", entry_point, kwargs={"env": Dice()})).unwrapped)


def test_kinds_of_values():
    env = GymnasiumEnv("ballet", level=Ballet().levels, tile=1)
    observation, _ = env.reset(seed=0)
    assert observation["image"].shape == (11, 11, 3)
    assert type(observation["instruction"]) is str
    observation["image"][:] = 0  # may be written to
    found = env.step(np.array(3, np.int8))
    assert [type(value) for value in found[1:4]] == [float, bool, bool]
    assert found[4]["success"] is False
    assert found[4]["level"] in Ballet().levels
    dice = GymnasiumEnv(Dice())
    assert type(dice.reset()[0]) is np.int64
    info = dice.step(0)[4]
    assert info | {"pair": 0} == {"time": 1, "share": 1.0, "pair": 0}
    assert {name: type(value) for name, value in info.items()} == {"time": int, "share": float, "pair": np.ndarray}


def test_level_names_and_changes():
    env = GymnasiumEnv("ballet", tile=1)
    found = set()
    for seed in range(40):
        env.reset(seed=seed)
        found.add(env.step(0)[4]["level"])
    assert found == set(Ballet().levels)
    env.reset(options={"level": "3_delay2"})
    env.reset()  # and so it stays
    assert env.step(0)[4]["level"] == "3_delay2"
    texts = [env.step(0)[0]["instruction"] for _ in range(50)]
    assert texts.index(next(text for text in texts if text != "watch")) == 3 * (15 + 2) - 2


def test_seeds_decide_everything_and_steps_take_no_numbers():
    def faces(env, **seed):
        return [env.reset(**seed)[0], *(env.step(0)[0] for _ in range(3))]

    one, two = GymnasiumEnv(Dice()), GymnasiumEnv(Dice())
    first = faces(one, seed=7)
    assert len(set(first)) == 4, "each step throws anew"
    assert faces(two, seed=7) == first
    two.reset(seed=7)
    again = faces(one)
    assert again != first
    assert faces(two) == again, "as many resets, however many steps"
    assert faces(one, seed=8) != first


def test_an_episode_that_is_over_needs_a_reset():
    env = GymnasiumEnv(Dice())
    with pytest.raises(ResetNeeded, match=r"call reset\(\)"):
        env.step(0)
    env.reset()
    assert env.step(1)[2:4] == (True, False)
    with pytest.raises(ResetNeeded, match=r"call reset\(\)"):
        env.step(0)
    env.reset()
    assert [env.step(0)[2:4] for _ in range(3)] == [(False, False), (False, False), (False, True)]


def test_render_shows_the_observation(ballet):
    observation, _ = ballet.reset(seed=0)
    np.testing.assert_array_equal(ballet.render(), observation["image"])
    observation = ballet.step(0)[0]
    np.testing.assert_array_equal(ballet.render(), observation["image"])
    assert gymnasium.make(BALLET).unwrapped.render() is None
    assert GymnasiumEnv(Dice()).metadata["render_modes"] == []
    for env, mode in ((Dice(), "rgb_array"), (Ballet(), "human")):
        with pytest.raises(ValueError, match=f"render_mode must be None.*but is '{mode}'"):
            GymnasiumEnv(env, render_mode=mode)


def test_one_program_for_all_levels_and_objects():
    traces = []

    @dataclass(frozen=True)
    class Traced(Ballet):
        def advance(self, *args):
            traces.append(args)
            return super().advance(*args)

    for level in ("2_delay16", "8_delay48"):
        env = GymnasiumEnv(Traced(tile=1), level=level)
        env.reset()
        env.step(0)
    assert len(traces) == 1


# Bad input ------------------------------------------------------------------------------------------------------------


def changed(dancer=0, **fields):
    """The first golden episode, with one thing wrong."""
    description = GOLDEN[0].description
    dancers = [dict(each) for each in description["dancers"]]
    dancers[dancer] |= {name: value for name, value in fields.items() if name in dancers[dancer]}
    return description | {"dancers": dancers} | {name: value for name, value in fields.items() if name in description}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"level": "9_delay16"}, r"no Ballet level '9_delay16'.*2_delay16, 4_delay16"),
        ({"episode": changed(dance="waltz")}, r"no dance 'waltz': choose from circle_cw, circle_ccw"),
        ({"episode": changed(shape="star")}, r"no shape 'star': choose from triangle, empty_square"),
        ({"episode": changed(color="mauve")}, r"no color 'mauve': choose from red, green"),
        ({"episode": changed(home=[5, 8])}, r"two dancers have the home \[5, 8\].*\[2, 2\], \[2, 5\]"),
        ({"episode": changed(target=2)}, r"target must be the number of a dancer, 0 to 1, but is 2"),
        ({"seed": 3}, r"options episode and level, but was given seed"),
    ],
)
def test_reset_says_what_is_allowed_and_leaves_the_episode_alone(ballet, options, sentence):
    ballet.reset(options={"episode": GOLDEN[0].description})
    with pytest.raises(ValueError, match=sentence):
        ballet.reset(options=options)
    assert ballet.step(0)[4] == {"level": None, "success": False}


@pytest.mark.parametrize("action", [9, -1, 2.0, True, None, [1], "north"])
def test_action_says_what_is_allowed(ballet, action):
    ballet.reset()
    with pytest.raises(ValueError, match=r"action must be a whole number from 0 to 7, but is"):
        ballet.step(action)


def test_constructor_says_what_is_allowed():
    with pytest.raises(ValueError, match="no Ballet level 'easy'"):
        gymnasium.make(BALLET, level="easy")
    with pytest.raises(ValueError, match="no task 'opera': choose from ballet"):
        GymnasiumEnv("opera")
    with pytest.raises(ValueError, match=r"tile: set this where Ballet\(tile=9\) is made"):
        GymnasiumEnv(Ballet(), tile=3)


@pytest.mark.parametrize("adapter", ["hcam.adapters.gymnasium", "hcam.adapters.from_gymnasium"])
def test_without_gymnasium_the_import_says_what_to_install(monkeypatch, adapter):
    monkeypatch.delitem(sys.modules, adapter, raising=False)
    for name in [name for name in sys.modules if name.split(".")[0] == "gymnasium"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match="pip install gymnasium"):
        importlib.import_module(adapter)


# Spaces ---------------------------------------------------------------------------------------------------------------


def test_spaces():
    assert to_gymnasium(Discrete(5)) == spaces.Discrete(5)
    assert to_gymnasium(Box((2, 3), 0, 255, "uint8")) == spaces.Box(0, 255, (2, 3), np.uint8)
    assert to_gymnasium({"a": Discrete(2)}) == spaces.Dict({"a": spaces.Discrete(2)})


@pytest.mark.parametrize("length", [1, 3])
def test_text_holds_every_sentence(length):
    tokens = Tokens(("", "go", "left", "a_b"), length)
    text: Any = to_gymnasium(tokens)
    sentences = [tokens.text(ids) for ids in np.ndindex(*[4] * length)]
    assert all(sentence in text for sentence in sentences)
    assert {len(sentence) for sentence in sentences} >= {text.min_length, text.max_length}
    assert "wait" not in text
    assert (" " in text.characters) == (length > 1)


# Many environments ----------------------------------------------------------------------------------------------------


class Scripted(gymnasium.Wrapper):
    """Begins with the episode described, then goes on as it likes: SyncVectorEnv has no options for each."""

    def __init__(self, description):
        super().__init__(gymnasium.make(BALLET, level="2_delay16"))
        self.description = description

    def reset(self, *, seed=None, options=None):
        options, self.description = self.description and {"episode": self.description}, None
        return self.env.reset(seed=seed, options=options)


def described(value):
    """What kinds of values there are, by name."""
    if isinstance(value, dict):
        return {name: described(part) for name, part in value.items()}
    return (value.dtype, value.shape) if isinstance(value, np.ndarray) else type(value)


# The first walks to the right dancer and the second goes a roundabout way, while the third walks into its time limit.
SCRIPTS = [
    (GOLDEN[0].description, [GOLDEN[0].action] * 3),
    (GOLDEN[1].description, [NORTH, SOUTH, *[SOUTH_WEST] * 3]),
    (GOLDEN[0].description | {"max_steps": 66}, [NORTH_WEST] * 4),
]


def test_a_batch_is_what_gymnasium_makes_of_single_environments():
    descriptions = [description for description, _ in SCRIPTS]
    sync: Any = SyncVectorEnv(
        [partial(Scripted, each) for each in descriptions], autoreset_mode=AutoresetMode.SAME_STEP
    )
    batch: Any = gymnasium.make_vec(BALLET, num_envs=3, level="2_delay16")
    assert batch.observation_space == sync.observation_space
    assert batch.action_space == sync.action_space
    assert data_equivalence(batch.reset(options={"episode": descriptions}), sync.reset(), exact=True)
    ended, ends = np.zeros(3, bool), []
    for t in range(68):
        actions = [walk[t - 62] if 62 <= t < 62 + len(walk) else t % 8 for _, walk in SCRIPTS]
        expected, found = sync.step(np.array(actions)), batch.step(np.array(actions))
        infos, infos_found = expected[4], found[4]
        assert described(found) == described(expected)
        assert infos_found.keys() == infos.keys()
        assert data_equivalence(found[1:4], expected[1:4], exact=True)
        for name in {"final_obs", "_final_obs", "final_info", "_final_info", "_success", "success"} & infos.keys():
            assert data_equivalence(infos_found[name], infos[name], exact=True), name
        assert described(infos_found) == described(infos)
        ended |= found[2] | found[3]
        for name in ("image", "instruction"):  # the episodes after these are drawn by each in its own way
            for i in np.flatnonzero(~ended):
                assert data_equivalence(found[0][name][i], expected[0][name][i], exact=True)
        ends += [(t + 1, int(i), *(part[i] for part in found[1:4])) for i in np.flatnonzero(found[2] | found[3])]
        assert found[0] in batch.observation_space
    assert ends == [(65, 0, 1.0, True, False), (66, 2, 0.0, False, True), (67, 1, 1.0, True, False)]
    assert found[4]["level"].tolist() == ["2_delay16"] * 3, "the new episodes have a level"


def test_the_last_observation_is_kept_and_a_new_episode_begins():
    batch = GymnasiumVectorEnv(Ballet(), 3, level="2_delay16")
    batch.reset(options={"episode": GOLDEN[0].description})
    for _ in range(62):
        infos = batch.step([0, 0, 0])[4]
        assert not any("final" in name for name in infos)
    for action in [[2, 6, 6]] * 3:
        observation, *_, infos = batch.step(action)
    assert sha([infos["final_obs"][0]["image"]]).startswith(GOLDEN[0].last)
    assert infos["final_obs"][0]["instruction"] == "zee"
    assert infos["final_obs"][1] is None
    assert infos["final_info"]["success"].tolist() == [True, False, False]
    assert infos["final_info"]["_success"].tolist() == infos["_final_obs"].tolist() == [True, False, False]
    assert infos["_success"].tolist() == [False, True, True]
    assert observation["instruction"] == ("watch", "zee", "zee")


def test_vectorization_modes():
    for mode, kind in (("vector_entry_point", GymnasiumVectorEnv), ("sync", SyncVectorEnv)):
        batch: Any = gymnasium.make_vec(BALLET, 3, mode, level="2_delay16", render_mode="rgb_array")
        assert type(batch) is kind
        observation, _ = batch.reset(seed=3)
        assert observation in batch.observation_space
        shown: Any = batch.render()
        np.testing.assert_array_equal(np.stack(shown), observation["image"])
    assert batch.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert gymnasium.make_vec(BALLET).metadata["autoreset_mode"] is AutoresetMode.SAME_STEP


def test_batch_of_plain_observations():
    batch = GymnasiumVectorEnv(Dice(), 3)
    sync: Any = SyncVectorEnv([lambda: GymnasiumEnv(Dice())] * 3, autoreset_mode=AutoresetMode.SAME_STEP)
    assert data_equivalence(batch.reset(seed=5), sync.reset(seed=5), exact=True), "the same seeds, the same episodes"
    found, expected = batch.step([0, 1, 0]), sync.step(np.array([0, 1, 0]))
    assert described(found) == described(expected)
    assert data_equivalence(found[4], expected[4], exact=True)
    assert found[0] in batch.observation_space
    faces = np.stack([batch.step([0, 1, 0])[0] for _ in range(20)])
    assert min(len(set(column)) for column in faces.T) > 15, "every episode and step throws anew"
    assert (faces[:, 0] != faces[:, 2]).sum() > 15, "and every environment for itself"


def test_seeds_of_a_batch():
    batch = GymnasiumVectorEnv(Dice(), 3)
    first = batch.reset(seed=5)[0].tolist()
    second = batch.reset()[0].tolist()
    assert batch.reset(seed=[5, 6, 7])[0].tolist() == first != second
    assert batch.reset()[0].tolist() == second
    assert batch.reset(seed=[None, 6, None])[0].tolist()[1] == first[1]
    with pytest.raises(ValueError, match=r"seed must be one number, or a list of 3, but is a list of 2"):
        batch.reset(seed=[1, 2])


def test_images_of_episodes_that_go_on_are_fetched_once(monkeypatch):
    batch = GymnasiumVectorEnv(Ballet(), 3, level="2_delay16")
    image = 99 * 99 * 3
    batch.reset(options={"episode": GOLDEN[0].description})
    fetched: list[Any] = []
    fetch = jax.device_get

    def noted(tree):
        fetched.append(tree)
        return fetch(tree)

    monkeypatch.setattr(jax, "device_get", noted)
    for action in [[0, 0, 0]] * 62 + [[2, 6, 6]] * 3:
        fetched.clear()
        done = batch.step(action)[2]
        assert len(fetched) == 1 + done.any()
        size = sum(leaf.nbytes for leaf in jax.tree.leaves(fetched) if leaf.ndim >= 3)
        assert size == (3 + done.sum()) * image
    assert done.sum() == 1


@pytest.mark.parametrize("actions", [[0, 8], [0], 0, [0.0, 1.0], [[0], [1]]])
def test_actions_say_what_is_allowed(actions):
    batch = GymnasiumVectorEnv(Ballet(tile=1), 2)
    with pytest.raises(ValueError, match=r"actions must be 2 whole numbers from 0 to 7, but are"):
        batch.step(actions)
    with pytest.raises(ResetNeeded, match=r"call reset\(\)"):
        batch.step([0, 1])
    with pytest.raises(ValueError, match=r"one description, or a list of 2, but is a list of 1"):
        batch.reset(options={"episode": [GOLDEN[0].description]})
