"""Acting for half of the environments, where a program cannot step them: `rollout`, cut open where the environment is.

The programs of an unroll are `begin` (the first actions), `act` (what the last step came to, and the next actions) and
`finish` (what the last step came to, and the value of what follows); `join` makes minibatches of both halves. They use
the keys and the functions of `rollout`, so that the same environments give the same transitions.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from hcam.agent import Agent
from hcam.envs.environment import Environment
from hcam.learning import layout
from hcam.learning.rollout import Outcome, bootstrap_value, choose, settle
from hcam.types import ActorState, Array, Minibatch, Observation, Params, Transition


class Received(NamedTuple):
    """What the environments of a half have returned."""

    observation_b: Observation
    outcome_b: Outcome
    cut_b: Array  # whether the episode ended because its process did


class Decided(NamedTuple):
    """The actions that the environments of a half are taking."""

    action_b: Array
    logits_ba: Array


class Acting(NamedTuple):
    """A half in the middle of an unroll, while it waits for its environments."""

    actors_b: ActorState
    transitions_tb: Transition  # so far; zeros from there on
    memory_b: Any  # at the unroll's first step


class Unroll(NamedTuple):
    """All that was seen in an unroll of a half."""

    memory_b: Any
    transitions_tb: Transition
    bootstrap_value_b: Array


class Programs(NamedTuple):
    """What is decided before compilation. Everything is for one seed; `environments` are those of both halves."""

    agent: Agent
    env: Environment
    environments: int
    halves: int
    unroll: int

    def begin(self, params: Params, key: Array, half: Array, actors_b: ActorState) -> tuple[Decided, Acting]:
        """The first actions of an unroll."""
        memory_b = actors_b.memory
        actors_b, decided = self._decide(params, key, jnp.int32(0), half, actors_b)
        return decided, Acting(actors_b, self._no_transitions(actors_b, decided), memory_b)

    def act(
        self, params: Params, key: Array, t: Array, half: Array, decided: Decided, acting: Acting, received: Received
    ) -> tuple[Decided, Acting]:
        """What step t - 1 came to, and the actions of step t."""
        actors_b, transitions_tb = self._settle(decided, acting, received, t - 1)
        actors_b, decided = self._decide(params, key, t, half, actors_b)
        return decided, Acting(actors_b, transitions_tb, acting.memory_b)

    def finish(self, params: Params, decided: Decided, acting: Acting, received: Received) -> tuple[ActorState, Unroll]:
        """What the last step came to: the actors before the next unroll, and this one."""
        actors_b, transitions_tb = self._settle(decided, acting, received, jnp.int32(self.unroll - 1))
        actors_b, value_b = bootstrap_value(self.agent, params, actors_b)
        return actors_b, Unroll(acting.memory_b, transitions_tb, value_b)

    def _decide(
        self, params: Params, key: Array, t: Array, half: Array, actors_b: ActorState
    ) -> tuple[ActorState, Decided]:
        key_b = jax.random.split(jax.random.fold_in(key, t), self.environments)
        mine_b = key_b.reshape(self.halves, -1)[half]

        def one(key: Array, actor: ActorState) -> tuple[ActorState, Decided]:
            memory, output = self.agent.step(params, actor.memory, actor.inputs)
            action = choose(jax.random.split(key)[0], output.logits)
            return actor._replace(memory=memory), Decided(action, output.logits)

        decided: tuple[ActorState, Decided] = jax.vmap(one)(mine_b, actors_b)
        return decided

    def _settle(self, decided: Decided, acting: Acting, received: Received, t: Array) -> tuple[ActorState, Transition]:
        actors_b, transition_b = jax.vmap(self._one)(acting.actors_b, decided, received)
        put = partial(jax.lax.dynamic_update_index_in_dim, index=t, axis=0)
        return actors_b, jax.tree.map(put, acting.transitions_tb, transition_b)

    def _one(self, actor: ActorState, decided: Decided, received: Received) -> tuple[ActorState, Transition]:
        """Of one environment; those on the host have no levels and no labels."""
        observation, outcome, cut = received
        level, info = jnp.int32(0), {"cut": cut}
        return settle(self.agent, self.env, actor, *decided, None, observation, outcome, info, level)

    def _no_transitions(self, actors_b: ActorState, decided: Decided) -> Transition:
        batch, space = len(decided.action_b), self.env.observation_space
        seen = jax.tree.map(lambda part: jnp.zeros((batch, *part.shape), part.dtype), space)
        flag, number = jnp.zeros(batch, bool), jnp.zeros(batch, jnp.float32)
        received = Received(seen, Outcome(number, flag, flag), flag)
        kinds = jax.eval_shape(lambda: jax.vmap(self._one)(actors_b, decided, received)[1])
        found: Transition = jax.tree.map(lambda kind: jnp.zeros((self.unroll, *kind.shape), kind.dtype), kinds)
        return found


def join(unrolls: Sequence[Unroll], minibatches: int) -> Minibatch:
    """Minibatches to learn from, their axis N in front, as acting in one program makes them."""

    def together(axis: int, *leaves: Array) -> Array:
        return jnp.concatenate(leaves, axis)

    memory_b, value_b = jax.tree.map(partial(together, 0), *[(one.memory_b, one.bootstrap_value_b) for one in unrolls])
    transitions_tb = jax.tree.map(partial(together, 1), *[one.transitions_tb for one in unrolls])
    memory_nb, value_nb = layout.split_minibatches((memory_b, value_b), minibatches)

    def split(leaf_tb: Array) -> Array:
        return leaf_tb.reshape(leaf_tb.shape[0], minibatches, -1, *leaf_tb.shape[2:]).swapaxes(0, 1)

    return Minibatch(memory_nb, jax.tree.map(split, transitions_tb), value_nb)
