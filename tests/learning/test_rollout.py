"""Transitions line up, every episode is reported once and correctly, and actors continue from rollout to rollout."""

from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam import agent, envs
from hcam.agent import AgentConfig
from hcam.agent.encoder import EncoderConfig
from hcam.agent.heads import HeadsConfig
from hcam.envs.environment import Environment
from hcam.learning import rollout
from hcam.memory import LSTM
from hcam.types import ActorState, Inputs, Output

SYMBOLS = 4
TASKS = {
    "first_symbol": (envs.make("first_symbol", symbols=SYMBOLS), ("blanks1", "blanks3"), 60),
    "timeout": (envs.make("timeout"), ("steps8",), 5),
    "ballet": (envs.make("ballet", tile=1), ("1_delay0",), 250),
}
B = 3


@partial(jax.jit, static_argnames=("agent", "env", "steps"))
def run(agent, env, params, env_params, key, actors_b, steps):
    """In one minibatch: [T, B]."""
    actors_b, transitions_ntb = rollout.rollout(agent, env, params, env_params, key, actors_b, steps)
    return actors_b, jax.tree.map(lambda leaf_ntb: leaf_ntb[0], transitions_ntb)


def random_params(made, scale):
    """As `init_params` has them, but drawn by NumPy: nothing to compile, and nothing that happens to be zero."""
    rng = np.random.default_rng(0)
    shapes = jax.eval_shape(made.init_params, jax.random.key(0))
    return jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape, scale=scale), leaf.dtype), shapes)


@cache
def built(task):
    env, levels, _ = TASKS[task]
    config = AgentConfig(
        encoder=EncoderConfig(vision="cnn", channels=(2,), kernel_sizes=(1,), strides=(1,), language=4, word=4),
        memory=LSTM(width=8, layers=1),
        heads=HeadsConfig(hidden=8),
    )
    made, env_params = agent.make(config, env), env.params(*levels)
    return made, *reset(made, env, env_params)


def reset(made, env, env_params):
    """Parameters, the mixture of levels and B actors."""
    keys_b = jax.random.split(jax.random.key(1), B)
    actors_b = jax.jit(jax.vmap(lambda key: rollout.reset_actor(made, env, key, env_params)))(keys_b)
    return random_params(made, 0.1), env_params, actors_b


def rolled(task, seed=0, actors_b=None):
    made, params, env_params, fresh_b = built(task)
    env, _, steps = TASKS[task]
    actors_b = fresh_b if actors_b is None else actors_b
    return run(made, env, params, env_params, jax.random.key(seed), actors_b, steps)


def learn(made, params):
    return jax.jit(jax.vmap(lambda memory, inputs: made.unroll(params, memory, inputs), in_axes=(0, 1)))


@cache
def numbers(task):
    actors_b, transitions_tb = rolled(task)
    return jax.device_get(actors_b), jax.device_get(transitions_tb)


@pytest.mark.parametrize("task", TASKS)
def test_steps_line_up(task):
    """What an agent is given is what the step before it led to."""
    actors_b, steps = numbers(task)
    inputs, done = steps.inputs, steps.terminated | steps.truncated
    assert steps.action.shape == steps.reward.shape == done.shape == (TASKS[task][2], B)
    assert inputs.first[0].all()
    for given, led_to, after in (
        (inputs.first, done, actors_b.inputs.first),
        (inputs.action, steps.action, actors_b.inputs.action),
        (inputs.reward, steps.reward, actors_b.inputs.reward),
    ):
        np.testing.assert_array_equal(given[1:], led_to[:-1])
        np.testing.assert_array_equal(after, led_to[-1])
    assert (inputs.action[0] == 0).all()
    assert (inputs.reward[0] == 0).all()


def by_hand(steps):
    """(t, b, return, length) of every episode that ended, counted along each environment."""
    done, ended = steps.terminated | steps.truncated, []
    for b in range(done.shape[1]):
        ret, length = 0.0, 0
        for t in range(len(done)):
            ret, length = ret + float(steps.reward[t, b]), length + 1
            if done[t, b]:
                ended.append((t, b, ret, length))
                ret, length = 0.0, 0
    return ended


@pytest.mark.parametrize("task", TASKS)
def test_every_episode_is_reported_once(task):
    actors_b, steps = numbers(task)
    # Two rollouts of the time-out probe, so that an episode of 8 steps ends in the second.
    if task == "timeout":
        _, more = jax.device_get(rolled(task, 1, jax.tree.map(jnp.asarray, actors_b)))
        steps = jax.tree.map(lambda one, two: np.concatenate([one, two]), steps, more)
    ended = by_hand(steps)
    reported = [(t, b, float(steps.end.episode_return[t, b]), int(steps.end.length[t, b])) for t, b, *_ in ended]
    assert ended
    assert reported == ended
    done = steps.terminated | steps.truncated
    np.testing.assert_array_equal(steps.end.done, done)
    for value in steps.end:
        assert not value[~done].any()  # nothing is reported in between


def test_a_probe_step_by_step():
    """The first observation is the symbol, the last the cue: naming the symbol there, and only there, is rewarded."""
    _, steps = numbers("first_symbol")
    names = []
    for t, b, ret, length in by_hand(steps):
        begin = t - length + 1
        assert steps.inputs.first[begin : t + 1, b].tolist() == [True] + [False] * (length - 1)
        shown = steps.inputs.observation[begin : t + 1, b]
        symbol = int(shown[0].argmax())
        assert symbol < SYMBOLS
        assert shown[-1].argmax() == SYMBOLS  # the cue
        assert not shown[1:-1].any()
        assert ret == float(steps.action[t, b] == symbol)
        level = int(steps.end.level[t, b])
        assert length == (1, 3)[level] + 2
        names.append(level)
        assert steps.end.success[t, b] == (ret == 1)
    assert set(names) == {0, 1}
    assert 0 < steps.end.success.sum() < len(names)


def test_ballet_with_one_dancer_ends_at_the_dancer():
    _, steps = numbers("ballet")
    for t, b, ret, length in by_hand(steps):
        assert steps.terminated[t, b]
        assert (ret, bool(steps.end.success[t, b])) == (1.0, True)
        assert length >= 15 + 2  # a dance, then the way there
        said = steps.inputs.observation["instruction"][t - length + 1 : t + 1, b, 0]
        assert (said[:15] == 1).all()
        assert (said[15:] > 1).all()
        assert len(set(said[15:])) == 1


class Fixed:
    """An agent with fixed logits, without parameters or memory."""

    def preprocess(self, observation):
        return observation + 2

    def step(self, params, memory, inputs):
        return memory, Output(jnp.array([0.0, 0.5, 0.2]), jnp.float32(0), jnp.zeros(1))


class Payer(Environment):
    """An environment that says nothing of levels or success; state is what it pays and whether that ends it."""

    def step(self, key, state, action, params=None):
        reward, ended = state
        return jnp.zeros(1), state, reward, ended, jnp.bool_(False), {}


class Dungeon(Payer):
    """What it calls a level has nothing to do with a mixture of levels."""

    def step(self, key, state, action, params=None):
        return *super().step(key, state, action, params)[:5], {"level": jnp.int32(3)}


def one_step(key=0, reward=1.0, ended=True, greedy=False, env=None):
    inputs = Inputs(jnp.zeros(1), jnp.bool_(False), jnp.int32(0), jnp.float32(0))
    actor = ActorState((jnp.float32(reward), jnp.bool_(ended)), inputs, (), jnp.float32(-0.5), jnp.int32(6))
    fixed: Any = Fixed()
    return rollout.act(fixed, env or Payer(), {}, (), jax.random.key(key), actor, greedy=greedy)


def test_without_success_in_its_info_an_environment_is_judged_by_its_return():
    for reward, success in ((1.0, True), (0.25, False)):  # on top of -0.5
        _, step = one_step(reward=reward)
        assert bool(step.end.success) is success
        assert (int(step.end.level), int(step.end.length)) == (0, 7)
    actor, step = one_step(ended=False)
    assert not any(step.end)
    assert (float(actor.episode_return), int(actor.episode_length)) == (0.5, 7)


def test_without_a_mixture_there_is_one_level():
    """A number beyond it would be counted nowhere, and the episode be lost."""
    assert int(one_step(env=Dungeon())[1].end.level) == 0


def test_the_agent_is_given_preprocessed_observations():
    """From the first step on, and at each after that: images are cut once, when they come."""
    actor, step = one_step()
    assert (step.inputs.observation.tolist(), actor.inputs.observation.tolist()) == ([0], [2])
    _, _, _, fresh_b = built("ballet")
    actors_b, steps = numbers("ballet")
    for inputs, batch in ((fresh_b.inputs, (B,)), (actors_b.inputs, (B,)), (steps.inputs, (TASKS["ballet"][2], B))):
        image = inputs.observation["image"]
        assert (image.shape, image.dtype) == ((*batch, 11 * 11, 3), np.int8)


def test_logits_are_those_of_the_policy_that_acted():
    """Learning from these steps with the same parameters, from the memory at their beginning, finds the same policy."""
    made, params, _, fresh_b = built("first_symbol")
    actors_b, steps = numbers("first_symbol")
    memory_b, output = learn(made, params)(fresh_b.memory, jax.tree.map(jnp.asarray, steps.inputs))
    np.testing.assert_allclose(output.logits.swapaxes(0, 1), steps.logits, atol=1e-6)
    jax.tree.map(lambda one, two: np.testing.assert_allclose(one, two, atol=1e-5), memory_b, actors_b.memory)


def test_actors_continue():
    """An episode of 8 steps, two rollouts of 5: memory, return and length carry over."""
    made, params, _, fresh_b = built("timeout")
    middle_b, one = rolled("timeout", 0)
    np.testing.assert_array_equal(middle_b.episode_length, [5] * B)
    np.testing.assert_array_equal(middle_b.episode_return, one.reward.sum(0))
    end_b, two = rolled("timeout", 1, middle_b)
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a[0], b), two.inputs, middle_b.inputs)
    assert two.truncated[2].all()
    assert not two.terminated.any()
    np.testing.assert_array_equal(two.inputs.first[1:], two.truncated[:-1])  # a time-out begins anew as well
    np.testing.assert_array_equal(two.end.length[2], [8] * B)
    paid = np.asarray(one.inputs.observation[0, :, 1])  # symbol 1 pays at every step
    np.testing.assert_array_equal(two.end.episode_return[2], 8 * paid)
    np.testing.assert_array_equal(end_b.episode_length, [2] * B)
    both = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), one.inputs, two.inputs)
    _, output = learn(made, params)(fresh_b.memory, both)
    np.testing.assert_allclose(output.logits[:, 5:].swapaxes(0, 1), two.logits, atol=1e-6)
    _, forgot = learn(made, params)(fresh_b.memory, two.inputs)
    assert np.abs(forgot.logits[:, :3].swapaxes(0, 1) - two.logits[:3]).max() > 1e-5  # the memory matters


def test_the_bootstrap_value_is_the_value_of_the_next_step():
    """After an unroll, the agent is asked about what it sees then, with the memory it has then."""
    made, params, _, fresh_b = built("timeout")
    middle_b, one = rolled("timeout", 0)
    _, two = rolled("timeout", 1, middle_b)
    both = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), one.inputs, two.inputs)
    _, output = learn(made, params)(fresh_b.memory, both)
    actors_b, found = rollout.bootstrap_value(made, params, middle_b)
    np.testing.assert_allclose(found, output.value[:, 5], atol=1e-6)
    assert (
        np.abs(found - rollout.bootstrap_value(made, params, middle_b._replace(memory=fresh_b.memory))[1]).max() > 1e-6
    )
    jax.tree.map(np.testing.assert_array_equal, rolled("timeout", 1, actors_b)[1], two)  # and it comes as if not asked


def test_greedy_takes_the_best_action():
    assert {int(one_step(key, greedy=True)[1].action) for key in range(20)} == {1}
    assert {int(one_step(key)[1].action) for key in range(20)} == {0, 1, 2}


def test_actions_are_drawn_anew_for_every_key_step_and_environment():
    _, one = numbers("first_symbol")
    _, same = rolled("first_symbol", 0)
    _, other = rolled("first_symbol", 1)
    np.testing.assert_array_equal(same.action, one.action)
    assert (other.action != one.action).mean() > 0.5
    counts = np.bincount(one.action.ravel(), minlength=SYMBOLS)
    assert counts.min() > 0.1 * one.action.size  # nearly uniform, as the policy is
    assert (one.action[:, 0] != one.action[:, 1]).mean() > 0.5
    assert (one.action[1:] != one.action[:-1]).mean() > 0.5


def test_frames_are_kept_byte_by_byte_however_they_are_moved():
    """Patches that fill words of four are written as such; what is learned from is what was seen, as it was kept."""
    env = envs.make("ballet", tile=1)
    config = AgentConfig(
        encoder=EncoderConfig(vision="cnn", channels=(2,), kernel_sizes=(11,), strides=(11,), language=4, word=4),
        memory=LSTM(width=8, layers=1),
        heads=HeadsConfig(hidden=8),
    )
    made = agent.make(config, env)
    params, env_params, actors_b = reset(made, env, env.params("1_delay0"))
    later_b, transitions_tb = run(made, env, params, env_params, jax.random.key(0), actors_b, 5)
    _, more_tb = run(made, env, params, env_params, jax.random.key(1), later_b, 2)
    for now_b, then_tb in ((actors_b, transitions_tb), (later_b, more_tb)):
        kept, seen = now_b.inputs.observation["image"], then_tb.inputs.observation["image"][0]
        assert kept.shape == (B, 1, 368)
        assert kept.dtype == seen.dtype == jnp.int8
        np.testing.assert_array_equal(kept, seen)
    assert not np.array_equal(transitions_tb.inputs.observation["image"][0], more_tb.inputs.observation["image"][0])


def test_minibatches_are_parts_of_the_batch():
    """Transitions [N, T, B/N] are those of [T, B], environment after environment."""
    made, params, env_params, _ = built("timeout")
    env = TASKS["timeout"][0]
    keys_b = jax.random.split(jax.random.key(2), 4)
    actors_b = jax.vmap(lambda key: rollout.reset_actor(made, env, key, env_params))(keys_b)

    @partial(jax.jit, static_argnums=0)
    def split(minibatches):
        key = jax.random.key(3)
        return rollout.rollout(made, env, params, env_params, key, actors_b, 5, minibatches=minibatches)[1]

    whole, parts = jax.device_get((split(1), split(2)))
    assert parts.action.shape == (2, 5, 2)
    assert whole.inputs.observation.std() > 0
    jax.tree.map(lambda one, two: np.testing.assert_array_equal(one[0], np.concatenate(two, axis=1)), whole, parts)


# Labels ---------------------------------------------------------------------------------------------------------------


def test_labels_are_those_of_the_states_acted_in():
    """Of first_symbol: the symbol that the episode began with where it shows the cue, and none at all other steps."""
    made, params, env_params, actors_b = built("first_symbol")
    env, _, steps = TASKS["first_symbol"]
    key = jax.random.key(0)
    run_labelled = jax.jit(partial(rollout.rollout, made, env, steps=steps, labelled=True))
    _, transitions_ntb = run_labelled(params, env_params, key, actors_b)
    found = jax.device_get(jax.tree.map(lambda leaf: leaf[0], transitions_ntb))
    _, plain = numbers("first_symbol")
    np.testing.assert_array_equal(found.action, plain.action)  # nothing else has changed
    assert plain.label is None
    assert found.label.dtype == np.int32
    cue = found.inputs.observation[..., SYMBOLS] == 1
    np.testing.assert_array_equal(found.label >= 0, cue)
    for t, b, _, length in by_hand(found):
        assert found.label[t, b] == found.inputs.observation[t - length + 1, b].argmax()


def test_labels_are_not_computed_unless_they_are_needed():
    """An environment without an expert trains on rewards all the same."""
    actor, step = one_step()
    assert step.label is None
    fixed: Any = Fixed()
    with pytest.raises(ValueError, match="Payer has no scripted expert"):
        rollout.act(fixed, Payer(), {}, (), jax.random.key(0), actor, labelled=True)
