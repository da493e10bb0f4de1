"""Settings to start from: `quickstart` (two CPU cores), `fast` (one GPU), `paper` (the published table)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hcam.agent import AgentConfig, MemoryConfig
from hcam.agent.encoder import EncoderConfig
from hcam.agent.heads import HeadsConfig
from hcam.config import Config, RunConfig, TaskConfig
from hcam.learning.learner import LearnerConfig
from hcam.learning.loss import LossConfig
from hcam.learning.optimiser import OptimiserConfig
from hcam.memory import checks

MEMORIES = ("hcam", "trxl", "lstm", "none")

# Appendix A.2, "Hyperparameters used in main experiments". Pairs are (HCAM, TrXL); None: not applicable. What stands in
# one column for all tasks is the default of the configurations: width 512, 4 layers, 8 heads, batch 32, Adam, ReLU.
PAPER: dict[str, dict[str, Any]] = {
    "ballet": {
        "chunk": 32, "overlap": 0, "top_k": 8, "extra": 256, "vision": "cnn", "filters": (9, 3, 3),
        "strides": (9, 1, 1), "language": 256, "reconstruction": (1.0, 1.0), "policy": (0.1, 0.3),
        "baseline": (1.0, 1.0), "entropy": 1e-3, "unroll": 64, "learning_rate": 2e-4,
    },
    "objects": {
        "chunk": 16, "overlap": 0, "top_k": 8, "extra": 512, "vision": "resnet", "filters": (3, 3, 3),
        "strides": (2, 2, 2), "language": 256, "reconstruction": (1.0, 1.0), "policy": (0.1, 0.1),
        "baseline": (1.0, 0.3), "entropy": 1e-4, "unroll": 128, "learning_rate": 2e-4,
    },
    "words": {
        "chunk": 16, "overlap": 0, "top_k": 16, "extra": 256, "vision": "resnet", "filters": (3, 3, 3),
        "strides": (2, 2, 2), "language": 256, "reconstruction": (0.3, 1.0), "policy": (0.3, 0.1),
        "baseline": (0.3, 1.0), "entropy": 1e-4, "unroll": 128, "learning_rate": 2e-4,
    },
    "image": {
        "chunk": 16, "overlap": 0, "top_k": 16, "extra": None, "vision": "resnet", "filters": (3, 3, 3),
        "strides": (2, 2, 2), "language": None, "reconstruction": (1.0, None), "policy": (0.1, None),
        "baseline": (1.0, None), "entropy": 1e-4, "unroll": 128, "learning_rate": 2e-4,
    },
    "streets": {
        "chunk": 4, "overlap": 1, "top_k": 32, "extra": 200, "vision": "resnet", "filters": (3, 3, 3),
        "strides": (2, 2, 2), "language": None, "reconstruction": (0.3, 1.0), "policy": (1.0, 1.0),
        "baseline": (0.3, 1.0), "entropy": 1e-4, "unroll": 64, "learning_rate": 4e-4,
    },
    "associative": {
        "chunk": 2, "overlap": 0, "top_k": 32, "extra": None, "vision": "resnet", "filters": (3, 3, 3),
        "strides": (2, 2, 2), "language": None, "reconstruction": (None, None), "policy": (None, None),
        "baseline": (None, None), "entropy": None, "unroll": None, "learning_rate": 1e-4,
    },
}  # fmt: skip


def paper(task: str, memory: str) -> Config:
    """The paper's settings of a task, with its own column for TrXL and HCAM's for all others."""
    column = PAPER.get(task, PAPER["ballet"])
    own = 1 if memory == "trxl" else 0
    if None in (column["policy"][own], column["unroll"]):
        raise ValueError(f"the paper trained no {memory} agent on {task} by reinforcement: it has no settings for it.")
    weights = {name: column[name][own] for name in ("policy", "baseline", "reconstruction")}
    slots = 1 + -(-1024 // column["chunk"])  # "always greater than max episode length // chunk size"
    return Config(
        task=TaskConfig(task=task),
        agent=AgentConfig(
            encoder=EncoderConfig(vision=column["vision"], filters=column["filters"], strides=column["strides"]),
            memory=MemoryConfig(
                memory=memory,  # type: ignore[arg-type]
                chunk=column["chunk"],
                overlap=column["overlap"],
                top_k=min(column["top_k"], slots),
                slots=slots,
                window=column["extra"] + column["unroll"] if memory == "trxl" else None,
            ),
        ),
        learner=LearnerConfig(unroll=column["unroll"]),
        loss=LossConfig(**weights, entropy=column["entropy"]),
        optimiser=OptimiserConfig(learning_rate=column["learning_rate"]),
    )


def fast(task: str, memory: str) -> Config:
    """The paper's task and agent, half as wide, with a recipe for one GPU: many environments, many minibatches.

    18 chunks of 32 steps hold 576: Ballet's longest dances take 504, and only who dawdles after them forgets the first.
    In Ballet the reward is a few steps away from the choice: a horizon of as many suffices, and credits less chance to
    what was done while watching. Its levels are chosen by how uncertain their outcome is (both: docs/training.md).
    How many environments, minibatches and steps reconstructed there are is a matter of speed (docs/performance.md).
    """
    base, ballet = paper(task, memory), task == "ballet"
    slots = 576 // base.agent.memory.chunk if ballet else base.agent.memory.slots
    sizes = replace(base.agent.memory, width=256, slots=slots)
    discount = 0.7 if ballet else 0.9
    return replace(
        base,
        agent=replace(base.agent, memory=sizes, heads=HeadsConfig(hidden=256)),
        learner=LearnerConfig(environments=2048, unroll=64, minibatches=16, curriculum=ballet),
        loss=LossConfig(
            discount=discount, policy=1.0, baseline=0.5, entropy=0.01, reconstruction=1.0, reconstruct_every=4
        ),
        optimiser=OptimiserConfig(learning_rate=3e-4, schedule="linear", clip=0.3),
        run=RunConfig(steps=400_000_000, save_every=300.0),
    )


def quickstart(task: str, memory: str) -> Config:
    """A small Ballet and a small agent, for two CPU cores: two dancers, the four straight dances, a pixel a tile.

    Local attention reaches 2 layers x (3 - 1) = 4 frames back, and the last dance ends 5 frames before the question:
    what was danced can only be known through the memory.
    """
    return Config(
        task=TaskConfig(task="ballet", levels=("2_delay5_of4",), tile=1) if task == "ballet" else TaskConfig(task=task),
        agent=AgentConfig(
            encoder=EncoderConfig(channels=(8,), filters=(1,), strides=(1,), blocks=(1,), language=32, word=16),
            memory=MemoryConfig(
                memory=memory,  # type: ignore[arg-type]
                width=64,
                layers=2,
                heads=4,
                chunk=16,
                slots=8,
                top_k=2,
                window=64 if memory == "trxl" else 3,
                mlp=2,
            ),
            heads=HeadsConfig(hidden=64),
        ),
        learner=LearnerConfig(environments=64, unroll=32, minibatches=4),
        loss=LossConfig(discount=0.95, policy=1.0, baseline=0.5, entropy=0.01, reconstruction=1.0),
        optimiser=OptimiserConfig(learning_rate=1e-3, schedule="linear"),
        run=RunConfig(steps=5_000_000, log_every=5.0, save_every=60.0),
    )


PRESETS: dict[str, Callable[[str, str], Config]] = {"quickstart": quickstart, "fast": fast, "paper": paper}


def preset(name: str, task: str = "ballet", memory: str = "hcam") -> Config:
    checks.choice(tuple(PRESETS), preset=name)
    checks.choice(MEMORIES, memory=memory)
    return PRESETS[name](task, memory)
