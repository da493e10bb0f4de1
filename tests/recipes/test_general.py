"""Settings for any task: they fit its episodes and its observations, whichever memory it is."""

from dataclasses import dataclass

import jax
import pytest

from hcam.config import TaskConfig
from hcam.envs import make
from hcam.envs.probes import PROBES, Echo, FirstSymbol
from hcam.memory import EPN, HCAM, LSTM, MEMORIES, Local, TrXL
from hcam.recipes.general import CHUNK, MAX_SLOTS, general
from hcam.training import make_learner


@dataclass(frozen=True)
class Endless(Echo):
    """Does not say how long an episode may take."""

    def max_steps_in_episode(self, level):
        return None


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("task", [*PROBES, "ballet"])
def test_every_task_can_be_trained_with_every_memory(task, memory):
    """Nothing is refused, and an update could be compiled."""
    chosen = TaskConfig(task=task, options={"tile": 1} if task == "ballet" else {})
    config = general(chosen, chosen.make(), memory)
    assert config.task == chosen
    assert type(config.agent.memory) is MEMORIES[memory]
    learner = make_learner(config)
    if (task, memory) in (("ballet", "hcam"), ("echo", "lstm")):  # all others are alike, and tracing takes seconds
        state = jax.eval_shape(learner.init, jax.random.key(0))
        jax.eval_shape(learner.update, state)


@pytest.mark.parametrize(
    ("env", "levels", "slots"),
    [
        (FirstSymbol(), ("blanks8",), 4),  # no fewer
        (FirstSymbol(), ("blanks78",), 5),  # 80 steps
        (FirstSymbol(), ("blanks79",), 6),  # 81 steps
        (FirstSymbol(), ("blanks8", "blanks158"), 10),  # the longest counts
        (FirstSymbol(), ("blanks9999",), MAX_SLOTS),  # no more
        (Endless(), (), MAX_SLOTS // 2),
    ],
)
def test_there_are_as_many_chunks_as_the_longest_episode_fills(env, levels, slots):
    memory = general(TaskConfig(task="x", levels=levels), env, "hcam").agent.memory
    assert (memory.chunk, memory.slots) == (CHUNK, slots)
    assert memory.top_k <= memory.slots


def test_memories_have_the_same_sizes():
    found = {name: general(TaskConfig(task="echo"), make("echo"), name).agent.memory for name in MEMORIES}
    assert {memory.width for memory in found.values()} == {64}
    assert {memory.layers for name, memory in found.items() if name != "epn"} == {2}
    assert found["epn"] == EPN(width=64, heads=4, mlp=2, items=64)
    assert found["lstm"] == LSTM(width=64, layers=2)
    assert found["trxl"] == TrXL(width=64, layers=2, heads=4, mlp=2, window=64)
    assert found["none"] == Local(width=64, layers=2, heads=4, mlp=2, window=16)
    assert isinstance(found["hcam"], HCAM)
    assert (found["hcam"].heads, found["hcam"].mlp) == (4, 2)
