"""What `hcam train ballet` starts from: appendix A.2 of the paper, settings for one GPU, and a small version."""

from dataclasses import replace

from hcam.agent import AgentConfig
from hcam.agent.encoder import EncoderConfig
from hcam.agent.heads import HeadsConfig
from hcam.config import Config, RunConfig, TaskConfig
from hcam.learning.learner import LearnerConfig
from hcam.learning.objectives import ObjectiveConfig
from hcam.learning.optimiser import OptimiserConfig
from hcam.recipes.recipe import memory_of

TASK = "ballet"
CHUNK, UNROLL, EXTRA = 32, 64, 256  # "HCAM chunk size", "training unroll length", "TrXL extra length", appendix A.2
LONGEST = 1024


def paper(memory: str) -> Config:
    """Appendix A.2, "Hyperparameters used in main experiments": TrXL has its own column, all others have HCAM's.

    What stands in one column for all tasks is the default of the configurations.
    """
    slots = 1 + -(-LONGEST // CHUNK)  # "always greater than max episode length // chunk size"
    own = {
        "hcam": {"chunk": CHUNK, "overlap": 0, "top_k": 8, "slots": slots},
        "trxl": {"window": EXTRA + UNROLL},
        "none": {"window": CHUNK},
    }
    return Config(
        task=TaskConfig(task=TASK),
        agent=AgentConfig(
            encoder=EncoderConfig(vision="cnn", kernel_sizes=(9, 3, 3), strides=(9, 1, 1)),
            memory=memory_of(memory, {}, own),
        ),
        learner=LearnerConfig(unroll=UNROLL),
        objective=ObjectiveConfig(
            policy=0.3 if memory == "trxl" else 0.1, baseline=1.0, reconstruction=1.0, entropy=1e-3
        ),
        optimiser=OptimiserConfig(learning_rate=2e-4),
    )


def fast(memory: str) -> Config:
    """The paper's task and agent, half as wide, with settings for one GPU: many environments, many minibatches.

    18 chunks of 32 steps hold 576: the longest dances take 504, and only an agent that dawdles after them forgets the
    first. The reward is a few steps away from the choice: a horizon of as many suffices, and credits less noise to the
    actions while watching. Levels are sampled by the variance of their outcome (both: docs/training.md). The numbers of
    environments, minibatches and reconstructed steps are a matter of speed (docs/performance.md).
    """
    base = paper(memory)
    own = {"hcam": {"slots": 576 // CHUNK}}
    return replace(
        base,
        agent=replace(
            base.agent,
            memory=replace(base.agent.memory, width=256, **own.get(memory, {})),
            heads=HeadsConfig(hidden=256),
        ),
        learner=LearnerConfig(environments=2048, unroll=UNROLL, minibatches=16, curriculum=True),
        objective=ObjectiveConfig(
            discount=0.7, policy=1.0, baseline=0.5, entropy=0.01, reconstruction=1.0, reconstruct_every=4
        ),
        optimiser=OptimiserConfig(learning_rate=3e-4, schedule="linear", clip=0.3),
        run=RunConfig(steps=400_000_000, save_every=300.0),
    )


def quickstart(memory: str) -> Config:
    """A small Ballet and a small agent, for two CPU cores: two dancers, the four straight dances, a pixel a tile.

    Local attention reaches 2 layers x (3 - 1) = 4 frames back, and the last dance ends 5 frames before the question:
    only the memory can know what was danced.
    """
    own = {
        "hcam": {"chunk": 16, "slots": 8, "top_k": 2, "window": 3},
        "trxl": {"window": 64},
        "none": {"window": 3},
    }
    base = Config(
        task=TaskConfig(task=TASK, levels=("2_delay5_of4",), options={"tile": 1}),
        agent=AgentConfig(
            encoder=EncoderConfig(
                vision="cnn", channels=(8,), kernel_sizes=(1,), strides=(1,), blocks=(1,), language=32, word=16
            ),
            memory=memory_of(memory, {"width": 64, "layers": 2, "heads": 4, "mlp": 2}, own),
            heads=HeadsConfig(hidden=64),
        ),
        learner=LearnerConfig(environments=64, unroll=32, minibatches=4),
        objective=ObjectiveConfig(discount=0.95, policy=1.0, baseline=0.5, entropy=0.01, reconstruction=1.0),
        optimiser=OptimiserConfig(learning_rate=1e-3, schedule="linear"),
        run=RunConfig(steps=5_000_000, log_every=5.0, save_every=60.0),
    )
    return patient(base) if memory == "lstm" else base


def patient(base: Config) -> Config:
    """For an LSTM, which is at chance for 30,000 gradient steps (docs/log/2026-11-19-lstm-from-rewards.md).

    So there are more of them, and an unroll holds an episode, since gradients reach no further back. A larger weight of
    the entropy keeps the choice open until something is recalled.
    """
    return replace(
        base,
        learner=replace(base.learner, unroll=64, minibatches=16),
        objective=replace(base.objective, discount=0.8, entropy=0.1, reconstruct_every=8),
        run=replace(base.run, steps=20_000_000),
    )
