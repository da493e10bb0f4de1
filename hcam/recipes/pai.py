"""Paired associative inference: appendix B of the paper, "The PAI task"; the task is of Banino et al. (2020).

hcam train pai                         # quickstart: few and short items, minutes on two CPU cores
hcam train pai --preset fast           # the published task on one GPU
hcam train pai --preset paper          # the published settings
hcam train pai --memory ut             # another model: hcam (the default), ut or memo
hcam reproduce pai hcam-length4        # one of the experiments below
"""

from dataclasses import replace

from hcam.agent import AgentConfig
from hcam.agent.readers import READERS
from hcam.config import Config, RunConfig, TaskConfig
from hcam.envs.tasks.pai.levels import PAPER_LEVELS, test_levels
from hcam.learning.learner import LearnerConfig
from hcam.learning.objectives import ObjectiveConfig
from hcam.learning.optimiser import OptimiserConfig
from hcam.recipes.recipe import Experiment, Recipe, Reported, Section, memory_of

TASK = "pai"
BATCH = 32  # "batch size", appendix A.2
LABELS = ObjectiveConfig(objective="cross_entropy", reconstruction=0.0)  # appendix B: no RL, no reconstruction


def model(memory: str) -> str:
    """`hcam` is here what the paper made of it for this task: the same read, over a memory that is given."""
    return "hcam_reader" if memory == "hcam" else memory


def paper(memory: str) -> Config:
    """Appendix A.2, "Hyperparameters used in main experiments", column "Associative", as far as it has a say.

    An update draws 64 batches of 32 and makes a gradient step on each: as if there were one of 32, with fewer programs
    to start. The paper does not say how long it trained.
    """
    common = {"width": 512, "heads": 8, "layers": 4}
    return Config(
        task=TaskConfig(task=TASK, options={"longest": 3}),
        agent=AgentConfig(memory=memory_of(model(memory), common, {"hcam_reader": {"top_k": 32}})),
        learner=LearnerConfig(environments=64 * BATCH, unroll=1, minibatches=64),
        objective=LABELS,
        optimiser=OptimiserConfig(learning_rate=1e-4),
        run=RunConfig(steps=10_000_000, eval_episodes=2000),
    )


def fast(memory: str) -> Config:
    """The published task and the paper's model, with larger batches and a schedule."""
    base = paper(memory)
    return replace(
        base,
        learner=LearnerConfig(environments=4096, unroll=1, minibatches=32),
        optimiser=OptimiserConfig(learning_rate=3e-4, schedule="linear"),
        run=replace(base.run, steps=10_000_000),
    )


def quickstart(memory: str) -> Config:
    """Four chains of items with 32 numbers instead of 16 with 1000, and a small model, for two CPU cores."""
    common = {"width": 64, "heads": 4, "layers": 2, "mlp": 2, "hops": 4}
    return Config(
        task=TaskConfig(task=TASK, options={"sequences": 4, "longest": 3, "features": 32}),
        agent=AgentConfig(memory=memory_of(model(memory), common, {})),
        learner=LearnerConfig(environments=512, unroll=1, minibatches=8),
        objective=LABELS,
        optimiser=OptimiserConfig(learning_rate=1e-3, schedule="linear"),
        run=RunConfig(steps=2_000_000, log_every=5.0, save_every=60.0),
    )


EXPERIMENTS = (Experiment("hcam", "HCAM"),)
RECIPE = Recipe(task=TASK, order=5, presets={"quickstart": quickstart, "fast": fast, "paper": paper}, experiments=EXPERIMENTS, try_levels=test_levels(3))
